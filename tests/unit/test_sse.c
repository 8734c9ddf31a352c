/* The JSON of answers, byte for byte: whole and as server-sent events. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "serve/http/errors.h"
#include "serve/reply/reply.h"

#define HEAD                                                                                       \
    "\"created\":5,\"model\":\"m\\\"1\",\"system_fingerprint\":\"osprey-" OSP_VERSION              \
    "\",\"choices\":["
#define CHUNK(delta, finish)                                                                       \
    "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\"," HEAD                      \
    "{\"index\":0,\"delta\":{" delta "},\"logprobs\":null,\"finish_reason\":" finish "}]}\n\n"
#define USAGE                                                                                      \
    "{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12,"                            \
    "\"prompt_tokens_details\":{\"cached_tokens\":3},"                                             \
    "\"completion_tokens_details\":{\"reasoning_tokens\":2,"                                       \
    "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}"

#define TIMINGS                                                                                    \
    ",\"timings\":{\"cache_n\":3,\"prompt_n\":4,\"prompt_ms\":2.000,\"prompt_per_second\":2000."   \
    "000,"                                                                                         \
    "\"predicted_n\":5,\"predicted_ms\":500.000,\"predicted_per_second\":10.000}"
/* The last of a choice. */
#define LAST_CHUNK(finish)                                                                         \
    "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\"," HEAD                      \
    "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":" finish                        \
    ",\"stop_reason\":null}]" TIMINGS "}\n\n"

static const char texts_owner[] = "a tokenizer";

static struct osp_event text_event(enum osp_event_kind kind, const char *text)
{
    return (struct osp_event){.kind = kind, .text = text, .n_bytes = strlen(text)};
}

static const struct osp_usage usage = {.n_prompt_tokens = 7,
                                       .n_generated_tokens = 5,
                                       .n_reasoning_tokens = 2,
                                       .n_cached_tokens = 3,
                                       .prompt_seconds = 0.002,
                                       .generation_seconds = 0.5};

static struct osp_event done_event(enum osp_finish finish)
{
    return (struct osp_event){.kind = OSP_EVENT_DONE, .finish = finish, .usage = usage};
}

static void begin(struct reply *r, struct buf *out, bool streams, bool include_usage)
{
    reply_init(r, "m\"1", streams);
    r->extras.include_usage = include_usage;
    strcpy(r->head.id, "chatcmpl-x");
    r->head.created_unix_s = 5;
    buf_init(out, 1 << 20);
}

static void test_stream(void **state)
{
    const struct osp_event events[] = {
        text_event(OSP_EVENT_REASONING, "hm"),
        text_event(OSP_EVENT_TEXT, "a\n\"é\""),
        {.kind = OSP_EVENT_TOOL_CALL, .name = "f", .call_id = "call_1"},
        text_event(OSP_EVENT_TOOL_ARGS, "{\"x\":"),
        text_event(OSP_EVENT_TOOL_ARGS, "1}"),
        {.kind = OSP_EVENT_TOOL_CALL, .name = "g", .call_id = "call_2"},
        text_event(OSP_EVENT_TOOL_ARGS, "{}"),
        done_event(OSP_FINISH_TOOL_CALLS)};
    struct reply r;
    struct buf out;

    (void)state;
    begin(&r, &out, true, false);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        reply_stream(&r, &events[i], &out);
    reply_stream_end(&r.head, &r.extras, &usage, &out);
    assert_string_equal(
        buf_text(&out),
        CHUNK("\"role\":\"assistant\",\"content\":null,\"reasoning\":\"hm\",\"reasoning_content\":"
              "\"hm\"",
              "null") CHUNK("\"content\":\"a\\n\\\"é\\\"\"", "null")
            CHUNK(
                "\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":"
                "{\"name\":\"f\",\"arguments\":\"\"}}]",
                "null")
                CHUNK("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}]",
                      "null")
                    CHUNK("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]",
                          "null") CHUNK("\"tool_calls\":[{\"index\":1,\"id\":\"call_2\",\"type\":"
                                        "\"function\",\"function\":"
                                        "{\"name\":\"g\",\"arguments\":\"\"}}]",
                                        "null")
                        CHUNK("\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{}\"}}]",
                              "null") LAST_CHUNK("\"tool_calls\"") "data: [DONE]\n\n");
    buf_release(&out);
    reply_release(&r);
}

/* A tokenizer of these tests knows ids 0 and 1. */
enum osp_status osp_token_bytes(const struct osp_tokenizer *t, int32_t id,
                                char scratch[OSP_TOKEN_SCRATCH_BYTES], const char **bytes,
                                size_t *n_bytes)
{
    static const char *const texts[] = {"a\"", "\xc3"};

    assert_ptr_equal(t, (const void *)texts_owner);
    (void)scratch;
    if (id < 0 || id > 1)
        return OSP_EINVAL;
    *bytes = texts[id];
    *n_bytes = strlen(texts[id]);
    return OSP_OK;
}

#define SCORES                                                                                     \
    "\"logprobs\":{\"content\":[{\"token\":\"a\\\"\",\"logprob\":-0.5,\"bytes\":[97,34],"          \
    "\"top_logprobs\":[{\"token\":\"a\\\"\",\"logprob\":-0.5,\"bytes\":[97,34]},"                  \
    "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-9999,\"bytes\":[195]}]},"                            \
    "{\"token\":\"\",\"logprob\":-2,\"bytes\":[],\"top_logprobs\":[]}],\"refusal\":null}"

/* Log-probabilities with the text that they are of, ids with every chunk, the prompt's with the
 * first. */
static void test_logprobs_and_ids(void **state)
{
    const int32_t tops[] = {0, 1}, ids[] = {0, 9, 5}, prompt[] = {3, 4};
    const float top_logprobs[] = {-0.5f, -INFINITY};
    const struct osp_logprob scores[] = {{.token = 0,
                                          .logprob = -0.5f,
                                          .n_top = 2,
                                          .top_tokens = tops,
                                          .top_logprobs = top_logprobs},
                                         {.token = 9, .logprob = -2}};
    struct osp_event text = text_event(OSP_EVENT_TEXT, "x"), done = done_event(OSP_FINISH_STOP);
    struct reply r;
    struct buf out;

    (void)state;
    text.logprobs = scores;
    text.n_logprobs = 2;
    text.tokens = ids;
    text.n_tokens = 2;
    done.tokens = ids + 2;
    done.n_tokens = 1;
    for (int streams = 0; streams < 2; streams++) {
        begin(&r, &out, streams, false);
        r.tokenizer = (const void *)texts_owner;
        r.return_ids = true;
        r.prompt = prompt;
        r.n_prompt = 2;
        if (streams) {
            reply_stream(&r, &text, &out);
            reply_stream(&r, &done, &out);
            reply_stream_end(&r.head, &r.extras, &usage, &out);
            assert_string_equal(
                buf_text(&out),
                "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\"," HEAD
                "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"x\"}," SCORES
                ",\"finish_reason\":null,\"token_ids\":[0,9]}],\"prompt_token_ids\":[3,4]}\n\n"
                "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\"," HEAD
                "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_"
                "reason\":null,"
                "\"token_ids\":[5]}]" TIMINGS "}\n\ndata: [DONE]\n\n");
        } else {
            assert_true(reply_append(&r, &text));
            assert_true(reply_append(&r, &done));
            reply_full(&r, 1, &usage, &out);
            assert_string_equal(
                buf_text(&out),
                "{\"id\":\"chatcmpl-x\",\"object\":\"chat.completion\"," HEAD
                "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                "\"x\",\"refusal\":null}," SCORES
                ",\"finish_reason\":\"stop\",\"stop_reason\":null,"
                "\"token_ids\":[0,9,5]}],\"prompt_token_ids\":[3,4],\"usage\":" USAGE TIMINGS
                "}\n");
        }
        buf_release(&out);
        reply_release(&r);
    }
}

/* Two choices share head and usage. */
static void test_two_choices(void **state)
{
    struct osp_event a = text_event(OSP_EVENT_TEXT, "a"), b = text_event(OSP_EVENT_TEXT, "b");
    struct osp_event done = done_event(OSP_FINISH_STOP), cut = done_event(OSP_FINISH_LENGTH);
    struct reply r[2];
    struct buf out, unused;

    (void)state;
    begin(&r[0], &out, false, false);
    begin(&r[1], &unused, false, false);
    r[1].index = 1;
    assert_true(reply_append(&r[0], &a) && reply_append(&r[1], &b));
    assert_true(reply_append(&r[1], &cut) && reply_append(&r[0], &done));
    reply_full(r, 2, &usage, &out);
    assert_string_equal(
        buf_text(&out),
        "{\"id\":\"chatcmpl-x\",\"object\":\"chat.completion\"," HEAD
        "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null},"
        "\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null},"
        "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"b\",\"refusal\":null},"
        "\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],\"usage\":" USAGE
            TIMINGS "}\n");
    for (int i = 0; i < 2; i++)
        reply_release(&r[i]);
    buf_release(&out);
    buf_release(&unused);
}

static void test_usage_chunk(void **state)
{
    struct osp_event done = done_event(OSP_FINISH_LENGTH);
    struct reply r;
    struct buf out;

    (void)state;
    begin(&r, &out, true, true);
    reply_stream(&r, &done, &out);
    reply_stream_end(&r.head, &r.extras, &usage, &out);
    assert_string_equal(
        buf_text(&out),
        "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\"," HEAD
        "{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"logprobs\":null,\"finish_reason\":"
        "\"length\",\"stop_reason\":null}],\"usage\":null" TIMINGS "}\n\n"
        "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\"," HEAD
        "],\"usage\":" USAGE TIMINGS "}\n\n"
        "data: [DONE]\n\n");
    buf_release(&out);
    reply_release(&r);
}

static void test_whole(void **state)
{
    const struct osp_event events[] = {
        text_event(OSP_EVENT_REASONING, "h"),
        text_event(OSP_EVENT_REASONING, "m"),
        {.kind = OSP_EVENT_TOOL_CALL, .name = "f", .call_id = "call_1"},
        text_event(OSP_EVENT_TOOL_ARGS, "{\"x\":"),
        text_event(OSP_EVENT_TOOL_ARGS, "1}")};
    struct osp_event done = done_event(OSP_FINISH_TOOL_CALLS);
    struct reply r;
    struct buf out;

    (void)state;
    begin(&r, &out, false, false);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        assert_true(reply_append(&r, &events[i]));
    assert_true(reply_append(&r, &done));
    reply_full(&r, 1, &usage, &out);
    assert_string_equal(
        buf_text(&out),
        "{\"id\":\"chatcmpl-x\",\"object\":\"chat.completion\"," HEAD
        "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,\"refusal\":null,"
        "\"reasoning\":\"hm\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"call_1\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},"
        "\"logprobs\":null,\"finish_reason\":\"tool_calls\",\"stop_reason\":null}],\"usage\":" USAGE
            TIMINGS "}\n");
    buf_release(&out);
    reply_release(&r);
}

/* A model may write any number of calls. */
static void test_many_calls_in_a_whole_answer(void **state)
{
    enum { MANY = 1000 };
    struct osp_event call = {.kind = OSP_EVENT_TOOL_CALL, .name = "f", .call_id = "c"};
    struct osp_event args = text_event(OSP_EVENT_TOOL_ARGS, "x"), done;
    struct reply r;
    struct buf out;

    (void)state;
    begin(&r, &out, false, false);
    done = done_event(OSP_FINISH_LENGTH);
    assert_false(reply_append(&r, &args)); /* of no call */
    for (int i = 0; i < MANY; i++)
        assert_true(reply_append(&r, &call) && reply_append(&r, &args));
    assert_true(reply_append(&r, &done));
    assert_int_equal(r.n_calls, MANY);
    reply_full(&r, 1, &done.usage, &out);
    assert_false(out.overflow);
    assert_non_null(strstr(buf_text(&out), "\"arguments\":\"x\"}}]}"));
    buf_release(&out);
    reply_release(&r);
}

/* Two choices share a room: what does not fit is not there by half, and the end always is. */
static void test_choices_stay_within_their_room(void **state)
{
    const struct osp_event events[] = {
        text_event(OSP_EVENT_REASONING, "\"\n"),
        text_event(OSP_EVENT_TEXT, "\x01 \xC3\xA9"),
        {.kind = OSP_EVENT_TOOL_CALL, .name = "f\"", .call_id = "c"},
        text_event(OSP_EVENT_TOOL_ARGS, "{\"x\":1}"),
    };
    enum {
        ROOM_MAX = 4000,
        ROOM_STEP = 41,
        REST = 1024,
        N_EVENTS = sizeof events / sizeof *events
    };
    static const int32_t ids[] = {7, 1234};

    (void)state;
    for (size_t room_bytes = 0; room_bytes < ROOM_MAX; room_bytes += ROOM_STEP) {
        struct answer_budget budget = {.free_bytes = room_bytes};
        struct osp_event done = done_event(OSP_FINISH_STOP);
        struct buf out, unused;
        struct reply r[2];
        bool fits = true;

        begin(&r[0], &out, false, false);
        begin(&r[1], &unused, false, false);
        r[0].budget = r[1].budget = &budget;
        r[0].return_ids = r[1].return_ids = true;
        for (size_t i = 0; fits; i++) {
            struct osp_event event = events[i / 2 % N_EVENTS];

            event.tokens = ids;
            event.n_tokens = 2;
            fits = reply_append(&r[i % 2], &event);
        }
        assert_true(budget.is_exhausted);
        done.tokens = ids;
        done.n_tokens = 2;
        budget.free_bytes = 0;
        assert_true(reply_append(&r[0], &done) && reply_append(&r[1], &done));
        assert_int_equal(r[0].finish, OSP_FINISH_LENGTH);
        assert_int_equal(r[0].ids.size_bytes % 7, r[0].ids.size_bytes > 0 ? 6 : 0); /* "7,1234," */
        reply_full(r, 2, &usage, &out);
        assert_true(out.size_bytes <= room_bytes + REST);
        buf_release(&out);
        reply_release(&r[0]);
        reply_release(&r[1]);
    }
}

static void test_bytes_of_strings(void **state)
{
    static const char *const strings[] = {"", "plain", "\"\\\n\x01", "\xC3\xA9 \xF0\x9F",
                                          "\xFF\xFE"};

    (void)state;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        struct buf out;

        buf_init(&out, 100);
        buf_json_string(&out, strings[i], strlen(strings[i]));
        assert_int_equal(buf_json_bytes(strings[i], strlen(strings[i])) + 2, out.size_bytes);
        buf_release(&out);
    }
}

static void test_errors(void **state)
{
    static const struct {
        enum osp_status status;
        const char *message;
        int http_status;
        const char *json;
    } cases[] = {
        {OSP_EINVAL, "messages[2].content: must be text", 400,
         "{\"error\":{\"message\":\"messages[2].content: must be text\",\"type\":"
         "\"invalid_request_error\",\"param\":\"messages[2].content\",\"code\":\"invalid_value\"}"
         "}"},
        {OSP_EBUSY, "256 requests are waiting", 429,
         "{\"error\":{\"message\":\"256 requests are waiting\",\"type\":\"rate_limit_error\","
         "\"param\":null,\"code\":\"rate_limit_exceeded\"}}"},
        {OSP_EDEVICE, "gone", 503,
         "{\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,\"code\":null}"
         "}"},
    };
    struct api_error e;
    struct buf out;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        api_error_from_status(&e, cases[i].status, cases[i].message);
        assert_int_equal(e.http_status, cases[i].http_status);
        buf_init(&out, 4096);
        api_error_json(&out, &e, API_ERROR_OPENAI, "");
        assert_string_equal(buf_text(&out), cases[i].json);
        buf_release(&out);
    }
}

/* Each API has its own form of errors, by the path, also where no handler is reached. */
static void test_forms_of_errors(void **state)
{
    static const struct {
        const char *path;
        int http_status;
        const char *json;
    } cases[] = {
        {NULL, 400,
         "{\"error\":{\"message\":\"a "
         "\\\"b\\\"\",\"type\":\"invalid_request_error\",\"param\":null,"
         "\"code\":null}}"},
        {"/v1/messages/count_tokens", 400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"a "
         "\\\"b\\\"\"},\"request_id\":\"req-1\"}"},
        {"/v1/messages", 429,
         "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"a "
         "\\\"b\\\"\"},\"request_id\":\"req-1\"}"},
        {"/messages", 500,
         "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"a "
         "\\\"b\\\"\"},\"request_id\":\"req-1\"}"},
        {"/api/chat", 404, "{\"error\":\"a \\\"b\\\"\"}"},
        {"/v1/messagesx", 404,
         "{\"error\":{\"message\":\"a "
         "\\\"b\\\"\",\"type\":\"invalid_request_error\",\"param\":null,"
         "\"code\":null}}"},
        {"/apix", 404,
         "{\"error\":{\"message\":\"a "
         "\\\"b\\\"\",\"type\":\"invalid_request_error\",\"param\":null,"
         "\"code\":null}}"},
    };
    struct api_error e;
    struct buf out;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        api_error_set(&e, cases[i].http_status, NULL, "a \"b\"");
        buf_init(&out, 4096);
        api_error_json(&out, &e, api_error_format_of(cases[i].path), "req-1");
        assert_string_equal(buf_text(&out), cases[i].json);
        buf_release(&out);
    }
}

UNIT_MAIN(cmocka_unit_test(test_two_choices), cmocka_unit_test(test_logprobs_and_ids),
          cmocka_unit_test(test_stream), cmocka_unit_test(test_usage_chunk),
          cmocka_unit_test(test_whole), cmocka_unit_test(test_many_calls_in_a_whole_answer),
          cmocka_unit_test(test_choices_stay_within_their_room),
          cmocka_unit_test(test_bytes_of_strings), cmocka_unit_test(test_errors),
          cmocka_unit_test(test_forms_of_errors))
