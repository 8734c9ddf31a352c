/* The parser: openai/harmony's own cases, malformed headers, and UTF-8 split over tokens. A message
 * is written as one line, see harmony_case.h. */
#include "unit.h"

#include "harmony_case.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Halves of characters: " " F0 9F, and the two tokens of U+1F496. */
enum { SPACE_F0_9F = 9552, HEART_1 = 31446, HEART_2 = 244, LETTER_Y = 56 };

static const char *const tools[] = {"get_weather", "search"};

/* The parser's messages for the ids; to free(). */
static char *read_ids(const struct tokenizer *t, const struct ids *ids, bool role_preset)
{
    struct recorder rec;
    struct harmony_parser *r;
    char *lines;

    recorder_init(&rec, t);
    r = recorder_reader(&rec, role_preset);
    harmony_parser_set_tools(r, tools, COUNT(tools));
    for (size_t i = 0; i < ids->n; i++)
        harmony_parser_push(r, ids->data[i]);
    harmony_parser_finish(r);
    assert_int_equal(rec.n_open, 0);
    assert_false(harmony_parser_in_content(r));
    harmony_parser_free(r);
    buf_puts(&rec.lines, "");
    lines = buf_take(&rec.lines);
    recorder_release(&rec);
    return lines;
}

static void check_ids(const struct tokenizer *t, const struct ids *ids, bool role_preset,
                      const char *what, const char *want)
{
    char *lines = read_ids(t, ids, role_preset);

    if (strcmp(lines, want) != 0)
        fail_msg("%s\nis read as\n%swanted\n%s", what, lines, want);
    free(lines);
}

struct read_case {
    const char *input, *want;
};

static void check_text(const struct tokenizer *t, bool role_preset, const char *input,
                       const char *want)
{
    struct ids ids;

    encode(t, input, &ids);
    check_ids(t, &ids, role_preset, input, want);
    ids_release(&ids);
}

static void check_all(const struct read_case *cases, size_t n, bool role_preset)
{
    struct tokenizer *t = open_o200k();

    for (size_t i = 0; i < n; i++)
        check_text(t, role_preset, cases[i].input, cases[i].want);
    tokenizer_close(t);
}

/* A completion is parsed to the same messages with the role preset and with <|start|>assistant in
 * front. */
static void check_completions(const struct read_case *cases, size_t n)
{
    struct tokenizer *t = open_o200k();
    char input[2048];

    for (size_t i = 0; i < n; i++) {
        check_text(t, true, cases[i].input, cases[i].want);
        snprintf(input, sizeof input, "<|start|>assistant%s", cases[i].input);
        check_text(t, false, input, cases[i].want);
    }
    tokenizer_close(t);
}

/* ---- openai/harmony's own cases ---- */

static void read_id_list(const char *file, struct ids *out)
{
    char *text = golden_text(file), *at = text;

    ids_init(out, CASE_BYTES_MAX);
    while (*at != '\0') {
        assert_true(ids_push(out, (int32_t)strtol(at, &at, 10)));
        at += strspn(at, " \n");
    }
    free(text);
}

#define TOKYO_ANALYSIS                                                                             \
    "R assistant|analysis|||User asks: \"What is the weather in Tokyo?\" We need to use "          \
    "lookup_weather tool.|"
#define TOKYO_CALL "R assistant|analysis|lookup_weather|code|{\"location\": \"Tokyo\"}|-\n"

static void test_golden_id_lists(void **state)
{
    struct tokenizer *t = open_o200k();
    struct ids ids;

    (void)state;
    read_id_list("test_simple_reasoning_response.txt", &ids);
    check_ids(t, &ids, true, "reasoning response",
              "R assistant|analysis|||User asks: \"What is 2 + 2?\" Simple arithmetic. Provide "
              "answer.|<|return|>\n"
              "C assistant|final|||2 + 2 = 4.|-\n");
    ids_release(&ids);
    read_id_list("test_simple_tool_call.txt", &ids);
    check_ids(t, &ids, true, "tool call", TOKYO_ANALYSIS "<|return|>\n" TOKYO_CALL);
    ids_release(&ids);
    tokenizer_close(t);
}

/* The same call with the recipient in the channel part of the header. */
static void test_recipient_in_channel_part(void **state)
{
    int32_t data[] = {200005, 35644, 200008, 1844,   31064,  25,     392,   4827,   382,   290,
                      11122,  306,   40510,  16842,  1416,   1309,   316,   1199,   37342, 170154,
                      4584,   13,    200007, 200006, 173781, 200005, 35644, 316,    28,    29712,
                      170154, 3490,  200008, 10848,  7693,   1243,   392,   173844, 18583};
    const struct ids ids = {.data = data, .n = COUNT(data)};
    struct tokenizer *t = open_o200k();

    (void)state;
    check_ids(t, &ids, true, "R form", TOKYO_ANALYSIS "<|end|>\n" TOKYO_CALL);
    tokenizer_close(t);
}

static void check_golden_text(const char *file, bool role_preset, const char *want)
{
    struct tokenizer *t = open_o200k();
    char *text = golden_text(file);

    check_text(t, role_preset, text, want);
    free(text);
    tokenizer_close(t);
}

static void test_golden_texts(void **state)
{
    (void)state;
    check_golden_text("test_tool_response_parsing.txt", false,
                      "C browser.search|commentary|assistant||{\"result\": "
                      "\"https://openai.com/\"}|-\n");
    check_golden_text(
        "test_streamable_parser.txt", true,
        "R assistant|analysis|||User asks \"Who is the current US president?\" It's 2025, "
        "presumably current president is Joe Biden? Actually as of 2025-07-28, there was a 2024 "
        "election. In 2024, President is probably President Biden still? But w\n"
        "e need up to date info. Let's browse to confirm.|<|end|>\n"
        "C assistant|commentary|browser.search|code|{\"query\": \"current US president July "
        "2025\", \"topn\": 10, \"source\": \"news\"}|<|call|>\n"
        "C browser.search|commentary|assistant||{\"result\": \"https://openai.com/\"}|<|end|>\n");
}

#define WEATHER_CALL(type)                                                                         \
    "T assistant|commentary|functions.get_weather|" type "|{\"location\": \"Tokyo\"}|<|call|>\n"

static void test_library_cases(void **state)
{
    static const struct read_case cases[] = {
        {"<|start|>assistant to=functions.get_weather<|channel|>commentary "
         "<|constrain|>json<|message|>{\"location\": \"Tokyo\"}<|call|>",
         WEATHER_CALL("<|constrain|>json")},
        {"<|start|>assistant to=functions.get_weather<|channel|>commentary"
         "<|constrain|>json<|message|>{\"location\": \"Tokyo\"}<|call|>",
         WEATHER_CALL("<|constrain|>json")},
        {"<|start|>assistant to=functions.get_weather<|channel|>commentary"
         "<|constrain|>json<|message|>{}<|end|>",
         "T assistant|commentary|functions.get_weather|<|constrain|>json|{}|<|end|>\n"},
        {"<|start|>assistant<|channel|>commentary "
         "to=functions.get_weather<|constrain|>json<|message|>{\"latitude\":48.8566,\"longitude\":"
         "2.3522}<|call|>",
         "T assistant|commentary|functions.get_weather|<|constrain|>json|{\"latitude\":48.8566,"
         "\"longitude\":2.3522}|<|call|>\n"},
        {"<|start|>system<|message|>s<|end|><|start|>developer<|message|>d<|end|><|start|>user"
         "<|message|>u<|end|><|start|>user:ann<|message|>v<|end|><|start|>assistant",
         "C system||||s|<|end|>\nC developer||||d|<|end|>\nC user||||u|<|end|>\n"
         "C user||||v|<|end|>\n"},
    };

    (void)state;
    check_all(cases, COUNT(cases), false);
}

static void test_library_tolerant_cases(void **state)
{
    static const struct read_case cases[] = {
        {"<|channel|>commentary Hello<|end|>", "C assistant|commentary|||Hello|<|end|>\n"},
        {"I must refuse<|end|><|start|>assistant<|channel|>analysis<|message|>We must refuse<|end|>"
         "<|start|>assistant<|channel|>final<|message|>I'm sorry, but I can't help with that."
         "<|return|>",
         "C assistant||||I must refuse|<|end|>\n"
         "R assistant|analysis|||We must refuse|<|end|>\n"
         "C assistant|final|||I'm sorry, but I can't help with that.|<|return|>\n"},
        {"<|channel|>analysis I must refuse<|end|><|start|>assistant<|channel|>analysis<|message|>"
         "We must refuse<|end|><|start|>assistant<|channel|>final<|message|>I'm sorry.<|return|>",
         "R assistant|analysis|||I must refuse|<|end|>\n"
         "R assistant|analysis|||We must refuse|<|end|>\n"
         "C assistant|final|||I'm sorry.|<|return|>\n"},
        {"... Let's use the tool.<|end|><|start|>assistant to=functions.get_weather<|channel|>"
         "commentary json<|message|>{\"location\": \"Tokyo\"}<|call|>",
         "C assistant||||... Let's use the tool.|<|end|>\n" WEATHER_CALL("json")},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

/* ---- malformed headers and their messages; docs/harmony.md lists the resulting replies ---- */

#define FINAL_HI "C assistant|final|||Hi|<|return|>\n"
#define CALL_EMPTY(channel, recipient, type)                                                       \
    "T assistant|" channel "|" recipient "|" type "|{}|<|call|>\n"

static void test_malformed_recipients(void **state)
{
    static const struct read_case cases[] = {
        /* recipient in the role part, in the channel part, in both */
        {" to=functions.search<|channel|>commentary json<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "json")},
        {"<|channel|>commentary to=functions.search json<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "json")},
        {" to=functions.search<|channel|>commentary to=functions.search<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "")},
        /* on the analysis channel, with type code; without a channel; on final */
        {" to=functions.search<|channel|>analysis code<|message|>{}<|call|>",
         CALL_EMPTY("analysis", "functions.search", "code")},
        {" to=functions.search<|message|>{}<|call|>", CALL_EMPTY("", "functions.search", "")},
        {" to=functions.search<|channel|>final<|message|>{}<|call|>",
         CALL_EMPTY("final", "functions.search", "")},
        /* without a space to its neighbours */
        {"to=functions.search<|channel|>commentary<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "")},
        {"<|channel|>commentaryto=functions.search<|constrain|>json<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "<|constrain|>json")},
        {"<|channel|>to=functions.search<|message|>{}<|call|>",
         CALL_EMPTY("", "functions.search", "")},
        {" to=functions.search<foo<|channel|>commentary<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "")},
        /* bare tool names */
        {" to=get_weather<|channel|>commentary json<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "get_weather", "json")},
        {"<|channel|>commentary get_weather<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "get_weather", "")},
        {"<|channel|>commentary functions.search json<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "json")},
        /* invented names: a call with the prefix, text without */
        {" to=functions.nonsense<|channel|>commentary<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.nonsense", "")},
        {" to=nonsense<|channel|>commentary<|message|>{}<|call|>",
         "C assistant|commentary|nonsense||{}|<|call|>\n"},
        {" to=functions.<|channel|>commentary<|message|>{}<|call|>",
         "C assistant|commentary|functions.||{}|<|call|>\n"},
        {" to=all<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        /* two recipients: the last counts */
        {"<|channel|>commentary to=assistant<|channel|>commentary to=functions.search"
         "<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "")},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_malformed_content_types(void **state)
{
    static const struct read_case cases[] = {
        {"<|channel|>final <|constrain|>json<|message|>{}<|return|>",
         "C assistant|final||<|constrain|>json|{}|<|return|>\n"},
        {"<|channel|>final json<|message|>{}<|return|>", "C assistant|final||json|{}|<|return|>\n"},
        {"<|channel|>analysis code<|message|>x<|end|>", "R assistant|analysis||code|x|<|end|>\n"},
        {"<|channel|>commentary to=functions.search <|constrain|><|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "<|constrain|>")},
        {"<|channel|>commentary to=functions.search <|constrain|> json<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "<|constrain|>json")},
        {"<|channel|>commentary <|constrain|>json to=functions.search<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "<|constrain|>json")},
        {"<|channel|>commentary <|constrain|>to=functions.search<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "<|constrain|>")},
        {"<|constrain|>json<|message|>{}<|return|>",
         "C assistant|||<|constrain|>json|{}|<|return|>\n"},
        {"<|channel|><|constrain|>response<|message|>Hi<|return|>",
         "C assistant|||<|constrain|>response|Hi|<|return|>\n"},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_malformed_channels(void **state)
{
    static const struct read_case cases[] = {
        {"<|channel|> final<|message|>Hi<|return|>", FINAL_HI},
        {" final<|message|>Hi<|return|>", FINAL_HI},
        {"final<|message|>Hi<|return|>", FINAL_HI},
        {"<|message|>Hi<|return|>", "C assistant||||Hi|<|return|>\n"},
        {"<|channel|><|message|>Hi<|return|>", "C assistant||||Hi|<|return|>\n"},
        {"assistant<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        {"assistantassistant<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        {"<|channel|>final<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        {"<|channel|>analysis<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        {"<|channel|>thoughts<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        {"<|channel|>final<|channel|>thoughts<|message|>Hi<|return|>", FINAL_HI},
        {"<|channel|>commentary?commentary?<|message|>Hi<|end|>",
         "C assistant|commentary|||Hi|<|end|>\n"},
        {"<|channel|>––commentary<|message|>Hi<|end|>", "C assistant|commentary|||Hi|<|end|>\n"},
        {"<|channel|>?\?<|message|>Hi<|end|>", "C assistant|?\?|||Hi|<|end|>\n"},
        {"<|channel|>thoughts<|message|>Hi<|end|>", "C assistant|thoughts|||Hi|<|end|>\n"},
        {"<|channel|>final<|channel|><|channel|><|channel|><|channel|><|channel|><|channel|>"
         "<|channel|><|channel|><|channel|><|channel|><|message|>Hi<|return|>",
         FINAL_HI},
        {"<|reserved_200013|><|channel|>fin<|reserved_200014|>al<|message|>Hi<|return|>", FINAL_HI},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_missing_message_marker(void **state)
{
    static const struct read_case cases[] = {
        {"Hi<|return|>", "C assistant||||Hi|<|return|>\n"},
        {" Hi\n there <|return|>", "C assistant||||Hi\n there |<|return|>\n"},
        {"Hi", "C assistant||||Hi|-\n"},
        {"<|channel|>final Hi there<|return|>", "C assistant|final|||Hi there|<|return|>\n"},
        {"<|channel|>finalHi there<|return|>", "C assistant|final|||Hi there|<|return|>\n"},
        {"<|channel|>final<|return|>", "C assistant|final||||<|return|>\n"},
        {"<|channel|>Hi there<|return|>", "C assistant||||Hi there|<|return|>\n"},
        {"<|channel|>commentary to=functions.search <|constrain|>json{\"a\":1}<|call|>",
         "T assistant|commentary|functions.search|<|constrain|>json|{\"a\":1}|<|call|>\n"},
        {"<|channel|>commentary to=functions.search json {\"a\": 1}<|call|>",
         "T assistant|commentary|functions.search|json|{\"a\": 1}|<|call|>\n"},
        {" to=functions.search{\"a\":1}<|call|>",
         "T assistant||functions.search||{\"a\":1}|<|call|>\n"},
        {" to=functions.search<|channel|>commentary<|call|>",
         "T assistant|commentary|functions.search|||<|call|>\n"},
        {"<|channel|>analysis We think<|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||We think|<|channel|>\n" FINAL_HI},
        {" I think<|channel|>final<|message|>Hi<|return|>",
         "C assistant||||I think|<|channel|>\n" FINAL_HI},
        {"We think<|channel|>final Hi<|return|>",
         "C assistant||||We think|<|channel|>\nC assistant|final|||Hi|<|return|>\n"},
        {"<|channel|>analysis We think<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||We think|<|start|>\n" FINAL_HI},
        {"We say <|constrain|> here<|return|>",
         "C assistant||||We say <|constrain|> here|<|return|>\n"},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_end_of_stream(void **state)
{
    static const struct read_case cases[] = {
        {"", ""},
        {"<|channel|>", ""},
        {"<|channel|>comment", ""},
        {"<|channel|>commentary", ""},
        {"<|channel|>commentary to", ""},
        {"<|channel|>commentary to=", ""},
        {"<|channel|>commentary to=functions.get_wea", ""},
        {"<|channel|>commentary to=functions.search <|constrain|>json", ""},
        {"<|channel|>final<|message|>", "C assistant|final||||-\n"},
        {"<|channel|>final<|message|>H", "C assistant|final|||H|-\n"},
        {" to=functions.search<|channel|>commentary<|message|>{\"a\"",
         "T assistant|commentary|functions.search||{\"a\"|-\n"},
        {"<|channel|>final<|message|>Hi<|return|><|start|>", FINAL_HI},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_control_tokens_in_content(void **state)
{
    static const struct read_case cases[] = {
        {"<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|start|>\n" FINAL_HI},
        {"<|channel|>analysis<|message|>a<|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|channel|>\n" FINAL_HI},
        {"<|channel|>final<|message|>a<|channel|> b<|return|>",
         "C assistant|final|||a|<|channel|>\nC assistant||||b|<|return|>\n"},
        {"<|channel|>final<|message|>a<|message|>b<|constrain|>c<|reserved_200013|>d"
         "<|startoftext|>e<|return|>",
         "C assistant|final|||a<|message|>b<|constrain|>c<|reserved_200013|>d<|startoftext|>e|"
         "<|return|>\n"},
        {"<|channel|>final<|message|>Hi<|endoftext|>", "C assistant|final|||Hi|<|endoftext|>\n"},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_stray_tokens(void **state)
{
    static const struct read_case cases[] = {
        /* in place of <|start|> */
        {"<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|end|>\n" FINAL_HI},
        {"<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|end|>\n" FINAL_HI},
        {"<|channel|>analysis<|message|>a<|end|><|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|end|>\nC assistant||||Hi|<|return|>\n"},
        {"<|channel|>analysis<|message|>a<|end|>commentary "
         "to=functions.search<|message|>{}<|call|>",
         "R assistant|analysis|||a|<|end|>\n" CALL_EMPTY("commentary", "functions.search", "")},
        {"<|channel|>analysis<|message|>a<|end|>.assistant<|channel|>final<|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|end|>\nC assistant|final|.assistant||Hi|<|return|>\n"},
        /* between messages */
        {"<|channel|>analysis<|message|>a<|end|>comment<|start|>assistant<|channel|>final<|message|"
         ">"
         "Hi<|return|>",
         "R assistant|analysis|||a|<|end|>\n" FINAL_HI},
        {"<|channel|>analysis<|message|>a<|end|> \n<|start|>assistant<|channel|>final<|message|>Hi"
         "<|return|>",
         "R assistant|analysis|||a|<|end|>\n" FINAL_HI},
        {"<|channel|>analysis<|message|>a<|end|>So: yes.<|start|>assistant<|channel|>final"
         "<|message|>Hi<|return|>",
         "R assistant|analysis|||a|<|end|>\nC assistant||||So: yes.|<|start|>\n" FINAL_HI},
        {"<|channel|>final<|message|>Hi<|return|><|return|><|end|><|reserved_200013|>", FINAL_HI},
        {"<|start|><|start|>assistant<|channel|>final<|message|>Hi<|return|>", FINAL_HI},
    };

    (void)state;
    check_completions(cases, COUNT(cases));
}

static void test_roles(void **state)
{
    static const struct read_case cases[] = {
        {"<|start|><|channel|>final<|message|>Hi<|return|>", FINAL_HI},
        {"<|start|>final<|message|>Hi<|return|>", FINAL_HI},
        {"<|start|> to=functions.search<|channel|>commentary<|message|>{}<|call|>",
         CALL_EMPTY("commentary", "functions.search", "")},
        {"<|start|>functions.search to=assistant<|channel|>commentary<|message|>{}<|end|>",
         "C functions.search|commentary|assistant||{}|<|end|>\n"},
        {"<|start|>functions.search to=functions.search<|channel|>commentary<|message|>{}<|end|>",
         "C functions.search|commentary|functions.search||{}|<|end|>\n"},
        {"<|start|>wizard<|message|>Hi<|end|>", "C wizard||||Hi|<|end|>\n"},
        {"<|start|>user Hi<|end|>", "C user||||Hi|<|end|>\n"},
        {"<|start|>assistantI think<|end|>", "C assistant||||I think|<|end|>\n"},
        {"<|start|>Hi there<|end|>", "C assistant||||Hi there|<|end|>\n"},
        {"Hi there", "C assistant||||Hi there|-\n"},
    };

    (void)state;
    check_all(cases, COUNT(cases), false);
}

/* ---- headers that grow too long ---- */

static void test_long_text_without_markup(void **state)
{
    struct tokenizer *t = open_o200k();
    struct buf input, want;

    (void)state;
    buf_init(&input, CASE_BYTES_MAX);
    buf_init(&want, CASE_BYTES_MAX);
    buf_puts(&want, "C assistant||||");
    for (int i = 0; i < 200; i++) {
        buf_printf(&input, "word%d, ", i);
        buf_printf(&want, "word%d, ", i);
    }
    buf_puts(&input, "<|channel|>final<|message|>Hi<|return|>");
    buf_puts(&want, "|<|channel|>\n" FINAL_HI);
    check_text(t, true, buf_text(&input), buf_text(&want));
    buf_release(&input);
    buf_release(&want);
    tokenizer_close(t);
}

/* Fields are truncated between characters. */
static void test_long_fields(void **state)
{
    struct tokenizer *t = open_o200k();
    char input[512], want[512], name[201];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(input, sizeof input, " to=functions.%s<|channel|>final<|message|>Hi<|end|>", name);
    snprintf(want, sizeof want, "T assistant|final|functions.%.117s||Hi|<|end|>\n", name);
    check_text(t, true, input, want);
    check_text(t, true, "<|channel|>éééééééééééééééééééé<|message|>Hi<|end|>",
               "C assistant|ééééééééééééééé|||Hi|<|end|>\n");
    tokenizer_close(t);
}

/* ---- UTF-8 over tokens ---- */

/* <|start|>assistant<|message|> followed by the text. */
static void push_message_start(const struct tokenizer *t, struct ids *ids)
{
    encode(t, "<|start|>assistant<|message|>", ids);
}

static void append_encoded(const struct tokenizer *t, const char *text, struct ids *ids)
{
    assert_int_equal(tokenizer_encode_with_specials(t, text, strlen(text), ids), OSP_OK);
}

static void check_utf8(const struct tokenizer *t, const int32_t *first, size_t n, const char *rest,
                       const char *want)
{
    struct ids ids;

    push_message_start(t, &ids);
    assert_true(ids_append(&ids, first, n));
    append_encoded(t, rest, &ids);
    check_ids(t, &ids, false, rest, want);
    ids_release(&ids);
}

#define BAD "\xef\xbf\xbd"

static void test_broken_utf8(void **state)
{
    static const int32_t twice[] = {SPACE_F0_9F, SPACE_F0_9F};
    static const int32_t heart[] = {HEART_1, HEART_2};
    static const int32_t invalid[] = {-1, INT32_MAX, 201088};
    struct tokenizer *t = open_o200k();

    (void)state;
    check_utf8(t, twice, 2, "worked<|end|>", "C assistant|||| " BAD " " BAD "worked|<|end|>\n");
    check_utf8(t, twice, 1, "XY<|end|>", "C assistant|||| " BAD "XY|<|end|>\n");
    check_utf8(t, twice, 1, " interesting<|end|>", "C assistant|||| " BAD " interesting|<|end|>\n");
    check_utf8(t, twice, 1, "Hi", "C assistant|||| " BAD "Hi|-\n");
    check_utf8(t, twice, 1, "", "C assistant|||| " BAD "|-\n");
    check_utf8(t, twice, 2, "<|end|><|start|>assistant<|message|>Hi<|end|>",
               "C assistant|||| " BAD " " BAD "|<|end|>\nC assistant||||Hi|<|end|>\n");
    check_utf8(t, twice, 1, "<|constrain|>x<|end|>",
               "C assistant|||| " BAD "<|constrain|>x|<|end|>\n");
    check_utf8(t, heart, 2, "<|end|>", "C assistant||||\xf0\x9f\x92\x96|<|end|>\n");
    check_utf8(t, invalid, 3, "", "C assistant||||" BAD BAD BAD "|-\n");
    tokenizer_close(t);
}

/* A half character before an invalid token, and in a header. */
static void test_broken_utf8_elsewhere(void **state)
{
    static const int32_t mixed[] = {SPACE_F0_9F, -1};
    int32_t header[] = {200006, 173781, 200005, SPACE_F0_9F, 200008, SPACE_F0_9F, 200007};
    const struct ids ids = {.data = header, .n = COUNT(header)};
    struct tokenizer *t = open_o200k();

    (void)state;
    check_utf8(t, mixed, 2, "", "C assistant|||| " BAD BAD "|-\n");
    check_ids(t, &ids, false, "half a character in a header",
              "C assistant|" BAD "||| " BAD "|<|end|>\n");
    tokenizer_close(t);
}

/* Deltas are delivered as soon as characters are complete, and not before. */
static void test_delta_by_delta(void **state)
{
    struct tokenizer *t = open_o200k();
    struct recorder rec;
    struct harmony_parser *r;
    struct ids ids;

    (void)state;
    recorder_init(&rec, t);
    r = recorder_reader(&rec, false);
    push_message_start(t, &ids);
    for (size_t i = 0; i < ids.n; i++) {
        assert_false(harmony_parser_in_content(r));
        harmony_parser_push(r, ids.data[i]);
    }
    assert_true(harmony_parser_in_content(r));
    assert_int_equal(rec.n_messages, 1);
    harmony_parser_push(r, HEART_1);
    assert_int_equal(rec.n_deltas, 0);
    harmony_parser_push(r, HEART_2);
    assert_int_equal(rec.n_deltas, 1);
    assert_string_equal(buf_text(&rec.content), "\xf0\x9f\x92\x96");
    harmony_parser_push(r, SPACE_F0_9F);
    assert_string_equal(buf_text(&rec.content), "\xf0\x9f\x92\x96 ");
    harmony_parser_push(r, LETTER_Y);
    assert_string_equal(buf_text(&rec.content), "\xf0\x9f\x92\x96 " BAD "Y");
    harmony_parser_push(r, LETTER_Y);
    assert_string_equal(buf_text(&rec.content), "\xf0\x9f\x92\x96 " BAD "YY");
    harmony_parser_free(r); /* also frees an open message */
    ids_release(&ids);
    recorder_release(&rec);
    tokenizer_close(t);
}

/* Composed and decomposed accents, several scripts, emoji of many code points. */
static void test_scripts(void **state)
{
    static const char text[] =
        "Zażółć gęślą jaźń; e\xcc\x81 é; 日本語テキスト; 한국어; العربية; हिन्दी; עברית; Ελληνικά; "
        "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇵🇱; ﬁ ﷺ "
        "\xe2\x80\x8b|\xef\xbb\xbf";
    struct tokenizer *t = open_o200k();
    struct buf input, want;

    (void)state;
    buf_init(&input, CASE_BYTES_MAX);
    buf_init(&want, CASE_BYTES_MAX);
    buf_printf(&input, "<|channel|>final<|message|>%s<|return|>", text);
    buf_printf(&want, "C assistant|final|||%s|<|return|>\n", text);
    check_text(t, true, buf_text(&input), buf_text(&want));
    buf_release(&input);
    buf_release(&want);
    tokenizer_close(t);
}

static void test_call_name(void **state)
{
    (void)state;
    assert_string_equal(harmony_call_name("functions.get_weather"), "get_weather");
    assert_string_equal(harmony_call_name("functions.functions.x"), "x");
    assert_string_equal(harmony_call_name("get_weather"), "get_weather");
    assert_string_equal(harmony_call_name("functions."), "");
}

UNIT_MAIN(cmocka_unit_test(test_golden_id_lists), cmocka_unit_test(test_recipient_in_channel_part),
          cmocka_unit_test(test_golden_texts), cmocka_unit_test(test_library_cases),
          cmocka_unit_test(test_library_tolerant_cases),
          cmocka_unit_test(test_malformed_recipients),
          cmocka_unit_test(test_malformed_content_types), cmocka_unit_test(test_malformed_channels),
          cmocka_unit_test(test_missing_message_marker), cmocka_unit_test(test_end_of_stream),
          cmocka_unit_test(test_control_tokens_in_content), cmocka_unit_test(test_stray_tokens),
          cmocka_unit_test(test_roles), cmocka_unit_test(test_long_text_without_markup),
          cmocka_unit_test(test_long_fields), cmocka_unit_test(test_broken_utf8),
          cmocka_unit_test(test_broken_utf8_elsewhere), cmocka_unit_test(test_delta_by_delta),
          cmocka_unit_test(test_scripts), cmocka_unit_test(test_call_name))
