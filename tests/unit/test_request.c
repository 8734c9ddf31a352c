/* The client's side of a request: stop strings, and tokens to events. */
#include "engine_fixture.h"

#include "engine/chat/event_stream.h"
#include "engine/core/model_api.h"

/* ---- stop strings ---- */

/* Feeds `text` in pieces of n bytes; gives what came out, and whether a stop string was found. */
static bool stopped_text(char out[64], const char *const *stops, int n_stops, const char *text,
                         size_t n)
{
    struct stop_text s;
    struct buf b;
    bool found;

    buf_init(&b, 1000);
    assert_int_equal(stop_text_init(&s, stops, n_stops), OSP_OK);
    for (size_t i = 0; i < strlen(text); i += n)
        stop_text_push(&s, text + i, strlen(text + i) < n ? strlen(text + i) : n, &b);
    stop_text_finish(&s, &b);
    found = s.found != NULL;
    snprintf(out, 64, "%s", buf_text(&b));
    stop_text_release(&s);
    buf_release(&b);
    return found;
}

static void test_stop_text_cuts_whatever_the_pieces(void **state)
{
    static const char *const stops[] = {"END", "\n\n", "aab"};
    static const struct {
        const char *text, *out;
        bool found;
    } cases[] = {
        {"hello ENDED", "hello ", true},
        {"a\n\nb END", "a", true},
        {"aaab", "a", true},
        {"EN", "EN", false},
        {"EENENDx", "EEN", true},
        {"", "", false},
        {"END", "", true},
        {"\n \n", "\n \n", false},
        {"aaEaab", "aaE", true},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t n = 1; n < 9; n++) {
            assert_int_equal(stopped_text(out, stops, 3, cases[i].text, n), cases[i].found);
            assert_string_equal(out, cases[i].out);
        }
}

/* The one that is complete first counts, and of those the longest, also when a token brings
 * both. */
static void test_stop_text_takes_what_is_complete_first(void **state)
{
    static const char *const stops[] = {"abcd", "b", "yz", "xyz"};
    char out[64];

    (void)state;
    for (size_t n = 1; n < 9; n++) {
        assert_true(stopped_text(out, stops, 4, "-abcd", n));
        assert_string_equal(out, "-a");
        assert_true(stopped_text(out, stops, 4, "-wxyz", n));
        assert_string_equal(out, "-w");
    }
}

static void test_stop_text_holds_back_only_what_may_begin_one(void **state)
{
    static const char *const stops[] = {"STOP"};
    struct stop_text s;
    struct buf b;

    (void)state;
    buf_init(&b, 1000);
    assert_int_equal(stop_text_init(&s, stops, 1), OSP_OK);
    stop_text_push(&s, "ab ST", 5, &b);
    assert_string_equal(buf_text(&b), "ab ");
    stop_text_push(&s, "A", 1, &b);
    assert_string_equal(buf_text(&b), "ab STA");
    stop_text_push(&s, "STOPx", 5, &b);
    stop_text_push(&s, "y", 1, &b);
    assert_string_equal(buf_text(&b), "ab STA");
    stop_text_release(&s);
    buf_release(&b);
}

static void test_stop_text_refuses(void **state)
{
    static const char *const empty[] = {"ok", ""}, *const broken[] = {"\xff"};
    static const char *many[OSP_STOP_STRINGS_MAX + 1];
    struct stop_text s;

    (void)state;
    assert_int_equal(stop_text_init(&s, empty, 2), OSP_EINVAL);
    assert_int_equal(stop_text_init(&s, broken, 1), OSP_EINVAL);
    assert_int_equal(stop_text_init(&s, many, OSP_STOP_STRINGS_MAX + 1), OSP_EINVAL);
}

/* ---- tokens to events ---- */

/* The tokens that came with log-probabilities are those of the text; only the last may be cut. */
static void expect_scores_of_the_text(struct heard *h, const struct tokenizer *t)
{
    const size_t n = h->scored.size_bytes / (sizeof(int32_t) + sizeof(float));
    struct buf bytes;
    size_t n_before = 0;

    buf_init(&bytes, 1 << 16);
    for (size_t i = 0; i < n; i++) {
        int32_t id;

        memcpy(&id, h->scored.data + i * (sizeof(int32_t) + sizeof(float)), sizeof id);
        n_before = bytes.size_bytes;
        assert_int_equal(tokenizer_decode(t, &id, 1, &bytes), OSP_OK);
    }
    assert_true(bytes.size_bytes >= h->text.size_bytes);
    assert_true(n == 0 || n_before < h->text.size_bytes);
    assert_memory_equal(buf_text(&bytes), buf_text(&h->text), h->text.size_bytes);
    buf_release(&bytes);
}

/* Reads the answer `text` (with control tokens) to `prompt` as the client would hear it. */
static void read_answer(struct heard *h, struct event_stream *s, struct event_stream_options opt,
                        const char *prompt, const char *text)
{
    struct tokenizer *t;
    struct ids before, ids;
    struct osp_logprob score = {0};
    struct osp_event e;

    assert_int_equal(tokenizer_open(&t, TINY_TOKENIZER), OSP_OK);
    ids_init(&before, 1000);
    ids_init(&ids, 1000);
    assert_int_equal(tokenizer_encode_with_specials(t, prompt, strlen(prompt), &before), OSP_OK);
    assert_int_equal(tokenizer_encode_with_specials(t, text, strlen(text), &ids), OSP_OK);
    opt.tokenizer = t;
    opt.prompt = before.data;
    opt.n_prompt = before.n;
    assert_int_equal(event_stream_init(s, &opt), OSP_OK);
    heard_init(h);
    for (size_t i = 0; i <= ids.n; i++) {
        if (i < ids.n) {
            score.token = ids.data[i];
            event_stream_push(s, ids.data[i], &score);
        } else {
            event_stream_finish(s);
        }
        while (event_stream_next(s, &e))
            hear_event(h, &e);
    }
    if (!opt.no_control_text && !opt.stop_in_text) /* scores are of text that is hidden, too */
        expect_scores_of_the_text(h, t);
    ids_release(&before);
    ids_release(&ids);
    h->last.call_index = s->n_reasoning_tokens; /* out of the way of the release */
    h->last.stop_token = event_stream_stopped(s);
    event_stream_release(s);
    tokenizer_close(t);
}

static const char open_prompt[] = "<|start|>user<|message|>hi<|end|><|start|>assistant";

static void test_reasoning_and_answer(void **state)
{
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(
        &h, &s, (struct event_stream_options){.raw = false}, open_prompt,
        "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>final"
        "<|message|>Hello there \xc3\xa9<|return|>");
    assert_string_equal(buf_text(&h.reasoning), "Let me think.");
    assert_string_equal(buf_text(&h.text), "Hello there \xc3\xa9");
    assert_int_equal(h.n_calls, 0);
    assert_in_range(h.last.call_index, 1, 13); /* tokens of the analysis: between words and bytes */
    heard_release(&h);
}

static void test_tool_call(void **state)
{
    static const char *const names[] = {"get_weather"};
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(
        &h, &s, (struct event_stream_options){.functions = names, .n_functions = 1}, open_prompt,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.get_weather"
        "<|channel|>commentary <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>");
    assert_int_equal(h.n_calls, 1);
    assert_string_equal(h.name, "get_weather");
    assert_int_equal(strlen(h.call_id), strlen("call_") + 24);
    assert_memory_equal(h.call_id, "call_", 5);
    assert_string_equal(buf_text(&h.args), "{\"city\":\"Rome\"}");
    assert_string_equal(buf_text(&h.text), "");
    heard_release(&h);
}

/* However often the model says it: the reader's rule for recipients is the client's name. */
static void test_a_doubled_prefix_is_no_part_of_the_name(void **state)
{
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(&h, &s, (struct event_stream_options){.raw = false}, open_prompt,
                "<|channel|>commentary to=functions.functions.get_weather<|message|>{}<|call|>");
    assert_int_equal(h.n_calls, 1);
    assert_string_equal(h.name, "get_weather");
    heard_release(&h);
}

static void test_stop_strings_are_for_the_answer_only(void **state)
{
    static const char *const stops[] = {"two"};
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(
        &h, &s, (struct event_stream_options){.stop = stops, .n_stop = 1}, open_prompt,
        "<|channel|>analysis<|message|>one two three<|end|><|start|>assistant<|channel|>final"
        "<|message|>one two three<|return|>");
    assert_string_equal(buf_text(&h.reasoning), "one two three");
    assert_string_equal(buf_text(&h.text), "one ");
    assert_true(h.last.stop_token == 1);
    heard_release(&h);
}

static void test_raw_gives_control_tokens_as_text(void **state)
{
    static const char text[] = "<|channel|>final<|message|>Hi \xe2\x82\xac<|return|>";
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(&h, &s, (struct event_stream_options){.raw = true}, open_prompt, text);
    assert_string_equal(buf_text(&h.text), text);
    heard_release(&h);
}

static void test_raw_without_control_tokens(void **state)
{
    struct event_stream_options opt = {.raw = true, .no_control_text = true};
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(&h, &s, opt, open_prompt, "<|channel|>final<|message|>Hi <|end|>\xe2\x82\xac");
    assert_string_equal(buf_text(&h.text), "finalHi \xe2\x82\xac");
    heard_release(&h);
}

/* Of two that begin at the same place the longer stays; what follows it in a token does not. */
static void test_a_stop_string_stays(void **state)
{
    static const char *const stops[] = {"lo", "lo w", "x"};
    struct event_stream_options opt = {.stop = stops, .n_stop = 3, .stop_in_text = true};
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(&h, &s, opt, open_prompt, "<|channel|>final<|message|>Hello x<|return|>");
    assert_string_equal(buf_text(&h.text), "Hello");
    assert_true(h.last.stop_token == 1);
    heard_release(&h);
    opt.raw = true;
    read_answer(&h, &s, opt, open_prompt, "He world xyz");
    assert_string_equal(buf_text(&h.text), "He world x");
    heard_release(&h);
}

static void test_prompt_that_ends_inside_a_message(void **state)
{
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(&h, &s, (struct event_stream_options){.raw = false},
                "<|start|>assistant<|channel|>final<|message|>Begun ", "and ended<|return|>");
    assert_string_equal(buf_text(&h.text), "and ended");
    heard_release(&h);
    read_answer(&h, &s, (struct event_stream_options){.raw = false},
                "<|start|>assistant<|channel|>analysis<|message|>so", " on");
    assert_string_equal(buf_text(&h.reasoning), " on");
    heard_release(&h);
}

/* tokens_min counts control tokens, too: behind it strings are looked for. */
static void test_no_stop_string_before_tokens_min(void **state)
{
    static const char *const stops[] = {"o"};
    struct event_stream_options opt = {.raw = true, .stop = stops, .n_stop = 1, .tokens_min = 3};
    struct event_stream s;
    struct heard h;

    (void)state;
    read_answer(&h, &s, opt, open_prompt, "<|channel|>o<|message|>xy lo<|return|>");
    assert_string_equal(buf_text(&h.text), "<|channel|>o<|message|>xy l");
    assert_true(h.last.stop_token == 1);
    heard_release(&h);
}

UNIT_MAIN(cmocka_unit_test(test_stop_text_cuts_whatever_the_pieces),
          cmocka_unit_test(test_no_stop_string_before_tokens_min),
          cmocka_unit_test(test_stop_text_takes_what_is_complete_first),
          cmocka_unit_test(test_stop_text_holds_back_only_what_may_begin_one),
          cmocka_unit_test(test_stop_text_refuses), cmocka_unit_test(test_reasoning_and_answer),
          cmocka_unit_test(test_tool_call),
          cmocka_unit_test(test_a_doubled_prefix_is_no_part_of_the_name),
          cmocka_unit_test(test_stop_strings_are_for_the_answer_only),
          cmocka_unit_test(test_raw_gives_control_tokens_as_text),
          cmocka_unit_test(test_raw_without_control_tokens),
          cmocka_unit_test(test_a_stop_string_stays),
          cmocka_unit_test(test_prompt_that_ends_inside_a_message))
