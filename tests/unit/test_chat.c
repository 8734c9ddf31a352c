/* osp_chat built call by call: what each kind of message becomes in the prompt. */
#include "unit.h"

#include "engine/chat/chat.h"
#include "harmony_case.h"

#define SYSTEM_TEXT(effort)                                                                        \
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"       \
    "Knowledge cutoff: 2024-06\nCurrent date: 2026-01-31\n\nReasoning: " effort "\n\n"             \
    "# Valid channels: analysis, commentary, final. Channel must be included for every message."
#define SYSTEM SYSTEM_TEXT("medium") "<|end|>"
#define OPEN   "<|start|>assistant"

#define OK(call) assert_int_equal(call, OSP_OK)

static struct osp_chat *new_chat(void)
{
    struct osp_chat *chat = osp_chat_new();

    OK(osp_chat_set_date(chat, "2026-01-31"));
    return chat;
}

/* Renders, compares and frees the chat. */
static void check_prompt(struct osp_chat *chat, const char *want)
{
    struct tokenizer *t = open_o200k();
    struct ids ids = {0};
    char *text;

    OK(osp_chat_render(chat, (const struct osp_tokenizer *)t, &ids.data, &ids.n));
    text = decode(t, &ids);
    assert_string_equal(text, want);
    free(text);
    osp_free(ids.data);
    osp_chat_free(chat);
    tokenizer_close(t);
}

static void check_error(enum osp_status st, enum osp_status want, const char *words)
{
    assert_int_equal(st, want);
    if (strstr(osp_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", osp_error(), words);
}

static void test_simple(void **state)
{
    struct osp_chat *chat = new_chat();

    (void)state;
    OK(osp_chat_add(chat, "user", "Hello"));
    check_prompt(chat, SYSTEM "<|start|>user<|message|>Hello<|end|>" OPEN);
}

static void test_instructions_are_gathered(void **state)
{
    struct osp_chat *chat = new_chat();

    (void)state;
    OK(osp_chat_add(chat, "system", "Be brief."));
    OK(osp_chat_add(chat, "user", "Hello"));
    OK(osp_chat_add(chat, "developer", ""));
    OK(osp_chat_add(chat, "assistant", "Hi"));
    OK(osp_chat_add(chat, "developer", "Speak as a pirate."));
    OK(osp_chat_add(chat, "user", "And now?"));
    check_prompt(chat, SYSTEM
                 "<|start|>developer<|message|># Instructions\n\nBe brief.\n\nSpeak as a pirate."
                 "<|end|><|start|>user<|message|>Hello<|end|>"
                 "<|start|>assistant<|channel|>final<|message|>Hi<|end|>"
                 "<|start|>user<|message|>And now?<|end|>" OPEN);
}

static void test_only_instructions(void **state)
{
    struct osp_chat *chat = new_chat();

    (void)state;
    OK(osp_chat_add(chat, "system", "Tell a story."));
    check_prompt(chat,
                 SYSTEM "<|start|>developer<|message|># Instructions\n\nTell a story.<|end|>" OPEN);
}

#define ASK "<|start|>user<|message|>Weather?<|end|>"
#define CALL                                                                                       \
    "<|start|>assistant to=functions.get_weather<|channel|>commentary "                            \
    "<|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>"
#define RESULT                                                                                     \
    "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>20 °C<|end|>"

static struct osp_chat *tool_loop(const char *content)
{
    struct osp_chat *chat = new_chat();

    OK(osp_chat_add(chat, "user", "Weather?"));
    OK(osp_chat_add_assistant(chat, "I must look.", content));
    OK(osp_chat_add_tool_call(chat, "call_1", "get_weather", "{\"city\":\"Rome\"}"));
    OK(osp_chat_add_tool_result(chat, "call_1", "20 °C"));
    return chat;
}

static void test_tool_loop_keeps_reasoning(void **state)
{
    (void)state;
    check_prompt(
        tool_loop(NULL), SYSTEM ASK
        "<|start|>assistant<|channel|>analysis<|message|>I must look.<|end|>" CALL RESULT OPEN);
    check_prompt(
        tool_loop(""), SYSTEM ASK
        "<|start|>assistant<|channel|>analysis<|message|>I must look.<|end|>" CALL RESULT OPEN);
}

/* Text beside a call is a preamble on commentary, not a final answer. */
static void test_text_before_a_call(void **state)
{
    (void)state;
    check_prompt(
        tool_loop("One moment."), SYSTEM ASK
        "<|start|>assistant<|channel|>analysis<|message|>I must look.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>" CALL RESULT OPEN);
}

static void test_completed_turn_drops_reasoning(void **state)
{
    struct osp_chat *chat = tool_loop("One moment.");

    (void)state;
    OK(osp_chat_add_assistant(chat, "I know now.", "It is 20 °C."));
    OK(osp_chat_add(chat, "user", "Thanks"));
    check_prompt(chat, SYSTEM ASK
                 "<|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>" CALL RESULT
                 "<|start|>assistant<|channel|>final<|message|>It is 20 °C.<|end|>"
                 "<|start|>user<|message|>Thanks<|end|>" OPEN);
}

/* A final answer that a later call does not belong to stays final. */
static void test_call_in_a_message_of_its_own(void **state)
{
    struct osp_chat *chat = new_chat();

    (void)state;
    OK(osp_chat_add(chat, "user", "Weather?"));
    OK(osp_chat_add_assistant(chat, NULL, "Let me see."));
    OK(osp_chat_add_assistant(chat, NULL, NULL));
    OK(osp_chat_add_tool_call(chat, "c", "get_weather", "{\"city\":\"Rome\"}"));
    check_prompt(chat, SYSTEM ASK
                 "<|start|>assistant<|channel|>final<|message|>Let me see.<|end|>" CALL OPEN);
}

/* An answer at the end is history: the model begins a new message after it. */
static void test_assistant_last(void **state)
{
    struct osp_chat *chat = new_chat();

    (void)state;
    OK(osp_chat_add(chat, "user", "Weather?"));
    OK(osp_chat_add(chat, "assistant", "Fine"));
    check_prompt(chat, SYSTEM ASK "<|start|>assistant<|channel|>final<|message|>Fine<|end|>" OPEN);
}

static void test_call_ids(void **state)
{
    struct osp_chat *chat = new_chat();
    char id[CHAT_CALL_ID_BYTES_MAX + 2];

    (void)state;
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    check_error(osp_chat_add_tool_result(chat, "nobody", "x"), OSP_EINVAL, "\"nobody\"");
    check_error(osp_chat_add_tool_call(chat, "", "f", "{}"), OSP_EINVAL, "0 bytes");
    check_error(osp_chat_add_tool_call(chat, id, "f", "{}"), OSP_EINVAL, "257 bytes");
    check_error(osp_chat_add_tool_call(chat, "1", "a b", "{}"), OSP_EINVAL, "\"a b\"");
    OK(osp_chat_add_tool_call(chat, "1", "first", "{}"));
    OK(osp_chat_add_tool_call(chat, "1", "second", "{}"));
    OK(osp_chat_add_tool_result(chat, "1", "of the second"));
    check_prompt(chat,
                 SYSTEM "<|start|>assistant to=functions.first<|channel|>commentary "
                        "<|constrain|>json<|message|>{}<|call|>"
                        "<|start|>assistant to=functions.second<|channel|>commentary "
                        "<|constrain|>json<|message|>{}<|call|>"
                        "<|start|>functions.second to=assistant<|channel|>commentary<|message|>of "
                        "the second<|end|>" OPEN);
}

static void test_functions(void **state)
{
    struct osp_chat *chat = new_chat();
    const char *const *names;
    size_t n;

    (void)state;
    OK(osp_chat_add(chat, "user", "Weather?"));
    OK(osp_chat_add_function(chat, "get_time", NULL, NULL));
    OK(osp_chat_add_function(chat, "get_weather", "Weather of a city.",
                             "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
                             "\"required\":[\"city\"]}"));
    names = chat_function_names(chat, &n);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "get_time");
    assert_string_equal(names[1], "get_weather");
    check_prompt(chat,
                 SYSTEM_TEXT("medium") "\nCalls to these tools must go to the commentary channel: "
                                       "'functions'.<|end|>"
                                       "<|start|>developer<|message|># Tools\n\n## functions\n\n"
                                       "namespace functions {\n\n"
                                       "type get_time = () => any;\n\n"
                                       "// Weather of a city.\n"
                                       "type get_weather = (_: {\ncity: string,\n}) => any;\n\n"
                                       "} // namespace functions<|end|>" ASK OPEN);
}

static void test_bad_functions(void **state)
{
    static const char too_long[] =
        "x23456789-123456789-123456789-123456789-123456789-123456789-12345";
    static const char *const bad_names[] = {"",        "a b", "a\"b",  "ümlaut",
                                            "<|end|>", "a/b", too_long};
    struct osp_chat *chat = new_chat();

    (void)state;
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++)
        check_error(osp_chat_add_function(chat, bad_names[i], NULL, NULL), OSP_EINVAL,
                    bad_names[i]);
    check_error(osp_chat_add_function(chat, NULL, NULL, NULL), OSP_EINVAL, "needs a name");
    check_error(osp_chat_add_function(chat, "f", NULL, "[1]"), OSP_EINVAL, "functions.f");
    check_error(osp_chat_add_function(chat, "f", NULL, "{"), OSP_EINVAL, "functions.f");
    OK(osp_chat_add_function(chat, "f", NULL, NULL));
    check_error(osp_chat_add_function(chat, "f", NULL, NULL), OSP_EINVAL, "twice");
    osp_chat_free(chat);
}

static void test_effort(void **state)
{
    static const char *const rows[][2] = {
        {"low", "low"},  {"medium", "medium"}, {"high", "high"}, {"minimal", "low"},
        {"none", "low"}, {"xhigh", "high"},    {"max", "high"}};
    char want[512];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct osp_chat *chat = new_chat();

        OK(osp_chat_set_effort(chat, rows[i][0]));
        OK(osp_chat_add(chat, "user", "Weather?"));
        snprintf(want, sizeof want, SYSTEM_TEXT("%s") "<|end|>" ASK OPEN, rows[i][1]);
        check_prompt(chat, want);
    }
}

static void test_dates(void **state)
{
    static const char *const bad[] = {"",           "2026",       "2026-1-1",    "2026-13-01",
                                      "2026-00-01", "2026-01-32", "2026/01/01",  "2026-01-01 ",
                                      "x026-01-01", "2026-01-0x", "0000-00-0000"};
    struct osp_chat *chat = osp_chat_new();
    struct tokenizer *t = open_o200k();
    struct ids ids = {0};
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_error(osp_chat_set_date(chat, bad[i]), OSP_EINVAL, "date");
    OK(osp_chat_add(chat, "user", "Weather?"));
    OK(osp_chat_render(chat, (const struct osp_tokenizer *)t, &ids.data, &ids.n));
    text = decode(t, &ids);
    assert_non_null(strstr(text, "\nCurrent date: 20")); /* today */
    free(text);
    osp_free(ids.data);
    tokenizer_close(t);
    OK(osp_chat_set_date(chat, NULL));
    check_prompt(chat, "<|start|>system<|message|>You are ChatGPT, a large language model trained "
                       "by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n# Valid "
                       "channels: analysis, commentary, final. Channel must be included for every "
                       "message.<|end|>" ASK OPEN);
}

static void test_bad_calls(void **state)
{
    struct osp_chat *chat = new_chat();
    struct tokenizer *t = open_o200k();
    int32_t *ids;
    size_t n;

    (void)state;
    check_error(osp_chat_add(chat, "wizard", "x"), OSP_EINVAL, "\"wizard\"");
    check_error(osp_chat_add(chat, "tool", "x"), OSP_EINVAL, "\"tool\"");
    check_error(osp_chat_add(chat, NULL, "x"), OSP_EINVAL, "role");
    check_error(osp_chat_add(chat, "user", NULL), OSP_EINVAL, "content");
    check_error(osp_chat_add_tool_call(chat, NULL, "f", "{}"), OSP_EINVAL, "id");
    check_error(osp_chat_add_tool_result(chat, "1", NULL), OSP_EINVAL, "content");
    check_error(osp_chat_set_effort(chat, "extreme"), OSP_EINVAL, "\"extreme\"");
    check_error(osp_chat_set_effort(chat, "all"), OSP_EINVAL, "low, medium, high");
    check_error(osp_chat_set_effort(chat, NULL), OSP_EINVAL, "effort");
    check_error(osp_chat_render(chat, (const struct osp_tokenizer *)t, &ids, &n), OSP_EINVAL,
                "no message");
    assert_null(ids);
    osp_chat_free(chat);
    osp_chat_free(NULL);
    tokenizer_close(t);
}

static void test_limits(void **state)
{
    struct osp_chat *chat = new_chat();
    size_t n = CHAT_BYTES_MAX / 2;
    char *half = malloc(n + 1);
    char name[32];

    (void)state;
    assert_non_null(half);
    memset(half, 'a', n);
    half[n] = '\0';
    OK(osp_chat_add(chat, "user", half));
    check_error(osp_chat_add(chat, "user", half), OSP_ELIMIT, "bytes");
    OK(osp_chat_add(chat, "system", half));
    check_error(osp_chat_add(chat, "system", half), OSP_ELIMIT, "bytes");
    free(half);
    for (int i = 1; i < CHAT_MESSAGES_MAX; i++)
        OK(osp_chat_add(chat, "user", "x"));
    check_error(osp_chat_add(chat, "user", "x"), OSP_ELIMIT, "16384 messages");
    for (int i = 0; i < CHAT_FUNCTIONS_MAX; i++) {
        snprintf(name, sizeof name, "f%d", i);
        OK(osp_chat_add_function(chat, name, NULL, NULL));
    }
    check_error(osp_chat_add_function(chat, "g", NULL, NULL), OSP_ELIMIT, "512 functions");
    osp_chat_free(chat);
}

/* The bundled model's own vocabulary renders and reads the same text. */
static void test_bundled_tokenizer(void **state)
{
    static const char want[] = SYSTEM ASK
        "<|start|>assistant<|channel|>analysis<|message|>I must look.<|end|>" CALL RESULT OPEN;
    struct osp_chat *chat = tool_loop(NULL);
    struct tokenizer *t;
    struct ids ids = {0};
    char *text;

    (void)state;
    OK(tokenizer_open(&t, "models/osprey-nano/tokenizer.json"));
    OK(osp_chat_render(chat, (const struct osp_tokenizer *)t, &ids.data, &ids.n));
    text = decode(t, &ids);
    assert_string_equal(text, want);
    assert_int_equal(ids.data[0], tokenizer_specials(t)->start);
    free(text);
    osp_free(ids.data);
    osp_chat_free(chat);
    tokenizer_close(t);
}

UNIT_MAIN(cmocka_unit_test(test_simple), cmocka_unit_test(test_instructions_are_gathered),
          cmocka_unit_test(test_only_instructions),
          cmocka_unit_test(test_tool_loop_keeps_reasoning),
          cmocka_unit_test(test_text_before_a_call),
          cmocka_unit_test(test_completed_turn_drops_reasoning),
          cmocka_unit_test(test_call_in_a_message_of_its_own),
          cmocka_unit_test(test_assistant_last), cmocka_unit_test(test_call_ids),
          cmocka_unit_test(test_functions), cmocka_unit_test(test_bad_functions),
          cmocka_unit_test(test_effort), cmocka_unit_test(test_dates),
          cmocka_unit_test(test_bad_calls), cmocka_unit_test(test_limits),
          cmocka_unit_test(test_bundled_tokenizer))
