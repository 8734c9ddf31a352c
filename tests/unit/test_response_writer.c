/* The events of /v1/responses: one stream word for word, then a checker of the rules that every
 * stream must keep, on 6,000 token streams of well-formed and malformed Harmony, read by the
 * engine's own reader. The whole response says the same as the stream. */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "engine/chat/event_stream.h"
#include "harmony_case.h"
#include "serve/responses/response_writer.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum { STREAMS = 6000, STREAM_TOKENS_MAX = 60, SEED = 77, OUT_BYTES = 8 << 20 };

/* ---- what every stream keeps to ---- */

struct check {
    json_t *items;     /* that are done */
    json_t *ids;       /* that were seen */
    json_t *open;      /* as it was added */
    json_t *last;      /* the response of the last event */
    bool has_part;     /* its content part is open */
    struct buf text;   /* of its deltas */
    struct buf all[4]; /* of all deltas of a kind of item; of preambles at ITEM_NONE */
    size_t n_incomplete;
    json_int_t n_events;
    bool is_over;
};

static const char *string(const json_t *of, const char *name)
{
    const char *s = json_string_value(json_object_get(of, name));

    if (!s)
        fail_msg("no string %s in %s", name, json_dumps(of, 0));
    return s;
}

static json_int_t number(const json_t *of, const char *name)
{
    if (!json_is_integer(json_object_get(of, name)))
        fail_msg("no number %s in %s", name, json_dumps(of, 0));
    return json_integer_value(json_object_get(of, name));
}

static void require_string(const json_t *of, const char *name, const char *wanted)
{
    if (strcmp(string(of, name), wanted) != 0)
        fail_msg("%s is not %s in %s", name, wanted, json_dumps(of, 0));
}

static enum response_item_kind kind_of(const json_t *item)
{
    const char *type = string(item, "type");

    if (strcmp(type, "reasoning") == 0)
        return ITEM_REASONING;
    if (strcmp(type, "message") == 0)
        return ITEM_MESSAGE;
    assert_string_equal(type, "function_call");
    return ITEM_CALL;
}

static bool is_preamble(const json_t *item)
{
    const char *phase = string(item, "phase");

    assert_true(strcmp(phase, "commentary") == 0 || strcmp(phase, "final_answer") == 0);
    return phase[0] == 'c';
}

/* The text of an item that is done. */
static const char *text_of(const json_t *item)
{
    const json_t *content = json_object_get(item, "content");

    if (kind_of(item) == ITEM_CALL)
        return string(item, "arguments");
    assert_int_equal(json_array_size(content), 1);
    return string(json_array_get(content, 0), "text");
}

static void check_response(struct check *c, const json_t *event, const char *status)
{
    json_t *response = json_object_get(event, "response");

    require_string(response, "object", "response");
    require_string(response, "status", status);
    if (c->last)
        require_string(response, "id", string(c->last, "id"));
    json_decref(c->last);
    c->last = json_incref(response);
}

/* One message after another has another phase. */
static void check_phase(const struct check *c, const json_t *item)
{
    const size_t n = json_array_size(c->items);
    const json_t *before = n > 0 ? json_array_get(c->items, n - 1) : NULL;

    if (kind_of(item) != ITEM_MESSAGE)
        return;
    assert_true(!before || kind_of(before) != ITEM_MESSAGE ||
                is_preamble(before) != is_preamble(item));
}

static void check_added(struct check *c, const json_t *event)
{
    json_t *item = json_object_get(event, "item");

    assert_null(c->open);
    assert_int_equal(number(event, "output_index"), json_array_size(c->items));
    require_string(item, "status", "in_progress");
    assert_null(json_object_get(c->ids, string(item, "id")));
    json_object_set_new(c->ids, string(item, "id"), json_true());
    if (kind_of(item) == ITEM_CALL)
        assert_string_equal(string(item, "arguments"), "");
    else
        assert_int_equal(json_array_size(json_object_get(item, "content")), 0);
    check_phase(c, item);
    c->open = json_incref(item);
    c->has_part = false;
    buf_clear(&c->text);
}

/* Events about the open item's content. */
static void check_about(const struct check *c, const json_t *event)
{
    assert_non_null(c->open);
    assert_int_equal(number(event, "output_index"), json_array_size(c->items));
    require_string(event, "item_id", string(c->open, "id"));
    if (kind_of(c->open) != ITEM_CALL)
        assert_int_equal(number(event, "content_index"), 0);
}

static void check_part(struct check *c, const json_t *event, bool begins)
{
    const json_t *part = json_object_get(event, "part");

    check_about(c, event);
    assert_true(c->has_part != begins);
    c->has_part = begins;
    assert_true(kind_of(c->open) != ITEM_CALL);
    require_string(part, "type",
                   kind_of(c->open) == ITEM_MESSAGE ? "output_text" : "reasoning_text");
    require_string(part, "text", begins ? "" : buf_text(&c->text));
}

static void check_delta(struct check *c, const json_t *event, enum response_item_kind kind)
{
    const json_t *delta = json_object_get(event, "delta");

    check_about(c, event);
    assert_int_equal(kind_of(c->open), kind);
    assert_true(kind == ITEM_CALL || c->has_part);
    assert_true(json_string_length(delta) > 0);
    buf_append(&c->text, json_string_value(delta), json_string_length(delta));
    if (kind == ITEM_MESSAGE && is_preamble(c->open))
        kind = ITEM_NONE;
    buf_append(&c->all[kind], json_string_value(delta), json_string_length(delta));
}

static void check_text_done(struct check *c, const json_t *event, enum response_item_kind kind)
{
    check_about(c, event);
    assert_int_equal(kind_of(c->open), kind);
    require_string(event, kind == ITEM_CALL ? "arguments" : "text", buf_text(&c->text));
}

static void check_item_done(struct check *c, const json_t *event)
{
    json_t *item = json_object_get(event, "item");

    assert_non_null(c->open);
    assert_false(c->has_part);
    assert_int_equal(number(event, "output_index"), json_array_size(c->items));
    require_string(item, "id", string(c->open, "id"));
    assert_int_equal(kind_of(item), kind_of(c->open));
    if (kind_of(item) == ITEM_MESSAGE)
        require_string(item, "phase", string(c->open, "phase"));
    assert_int_equal(c->n_incomplete, 0); /* only the last may be so */
    c->n_incomplete += strcmp(string(item, "status"), "incomplete") == 0;
    if (c->n_incomplete == 0)
        require_string(item, "status", "completed");
    assert_string_equal(text_of(item), buf_text(&c->text));
    if (kind_of(item) == ITEM_CALL) {
        require_string(item, "name", string(c->open, "name"));
        require_string(item, "call_id", string(c->open, "call_id"));
    }
    json_array_append(c->items, item);
    json_decref(c->open);
    c->open = NULL;
}

static void check_end(struct check *c, const json_t *event, const char *status)
{
    assert_null(c->open);
    check_response(c, event, status);
    assert_true(c->n_incomplete == 0 || strcmp(status, "completed") != 0);
    if (strcmp(status, "incomplete") == 0)
        require_string(json_object_get(c->last, "incomplete_details"), "reason",
                       "max_output_tokens");
    else
        assert_true(json_is_null(json_object_get(c->last, "incomplete_details")));
    if (strcmp(status, "failed") == 0)
        require_string(json_object_get(c->last, "error"), "message", "it broke");
    else
        assert_true(json_is_null(json_object_get(c->last, "error")));
    if (!json_equal(json_object_get(c->last, "output"), c->items))
        fail_msg("the last event has other items: %s", json_dumps(event, 0));
    c->is_over = true;
}

static void check_event(struct check *c, const char *type, const json_t *event)
{
    static const struct {
        const char *type;
        enum response_item_kind kind;
        bool is_done;
    } texts[] = {
        {"response.reasoning_text.delta", ITEM_REASONING, false},
        {"response.output_text.delta", ITEM_MESSAGE, false},
        {"response.function_call_arguments.delta", ITEM_CALL, false},
        {"response.reasoning_text.done", ITEM_REASONING, true},
        {"response.output_text.done", ITEM_MESSAGE, true},
        {"response.function_call_arguments.done", ITEM_CALL, true},
    };

    require_string(event, "type", type);
    assert_int_equal(number(event, "sequence_number"), c->n_events++);
    assert_false(c->is_over);
    for (size_t i = 0; i < COUNT(texts); i++)
        if (strcmp(type, texts[i].type) == 0) {
            (texts[i].is_done ? check_text_done : check_delta)(c, event, texts[i].kind);
            return;
        }
    assert_true((c->n_events == 1) == (strcmp(type, "response.created") == 0));
    assert_true((c->n_events == 2) == (strcmp(type, "response.in_progress") == 0));
    if (c->n_events <= 2)
        check_response(c, event, "in_progress");
    else if (strcmp(type, "response.output_item.added") == 0)
        check_added(c, event);
    else if (strcmp(type, "response.content_part.added") == 0)
        check_part(c, event, true);
    else if (strcmp(type, "response.content_part.done") == 0)
        check_part(c, event, false);
    else if (strcmp(type, "response.output_item.done") == 0)
        check_item_done(c, event);
    else if (strcmp(type, "response.completed") == 0)
        check_end(c, event, "completed");
    else if (strcmp(type, "response.incomplete") == 0)
        check_end(c, event, "incomplete");
    else if (strcmp(type, "response.failed") == 0)
        check_end(c, event, "failed");
    else
        fail_msg("unknown event %s", type);
}

/* "event: T\ndata: {...}\n\n", over and over. */
static void check_stream(struct check *c, const char *text)
{
    *c = (struct check){.items = json_array(), .ids = json_object()};
    buf_init(&c->text, OUT_BYTES);
    for (size_t i = 0; i < COUNT(c->all); i++)
        buf_init(&c->all[i], OUT_BYTES);
    while (*text) {
        char type[64] = "";
        int n = 0;
        const char *end = strstr(text, "\n\n");
        json_t *event;

        assert_non_null(end);
        assert_int_equal(sscanf(text, "event: %63[a-z_.]\ndata: %n", type, &n), 1);
        assert_true(n > 0);
        event =
            json_loadb(text + n, (size_t)(end - text) - (size_t)n, JSON_REJECT_DUPLICATES, NULL);
        if (!event)
            fail_msg("no JSON: %.*s", (int)(end - text), text);
        check_event(c, type, event);
        json_decref(event);
        text = end + 2;
    }
    assert_true(c->is_over);
}

static void check_release(struct check *c)
{
    json_decref(c->items);
    json_decref(c->ids);
    json_decref(c->open);
    json_decref(c->last);
    buf_release(&c->text);
    for (size_t i = 0; i < COUNT(c->all); i++)
        buf_release(&c->all[i]);
}

/* ---- token streams ---- */

static const char *const fragments[] = {
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|return|>",
    "<|call|>",
    "assistant",
    "analysis",
    "commentary",
    "final",
    " to=functions.get_weather",
    " json",
    "{\"a\": 1}",
    "Hello \"there\"\n",
    "\xf0\x9f\x92\x96",
    "<|start|>assistant<|channel|>analysis<|message|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "<|channel|>commentary to=functions.get_weather json<|message|>",
    "<|end|><|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>",
};

static void random_stream(uint64_t number_, const struct ids *stock, struct ids *out)
{
    uint32_t draw = 0;
    size_t n = (size_t)(rng_bits(SEED, number_, draw++) % STREAM_TOKENS_MAX);

    ids_clear(out);
    while (out->n < n) {
        const struct ids *f = &stock[rng_bits(SEED, number_, draw++) % COUNT(fragments)];

        ids_append(out, f->data, f->n);
        if (rng_bits(SEED, number_, draw++) % 4 == 0)
            ids_push(out, (int32_t)(rng_bits(SEED, number_, draw++) % 201088));
    }
}

/* What the engine heard, for the checker's text to be held against. */
struct heard {
    struct buf all[4];
    int n_calls;
    bool is_cut; /* in a message */
};

/* What comes behind the last token. */
enum ending { STOPS, IS_CUT, FAILS };

static void hear_all(struct event_stream *s, struct response_writer *w, struct heard *h,
                     struct buf *out)
{
    static const enum response_item_kind kinds[] = {[OSP_EVENT_REASONING] = ITEM_REASONING,
                                                    [OSP_EVENT_TEXT] = ITEM_MESSAGE,
                                                    [OSP_EVENT_TOOL_ARGS] = ITEM_CALL,
                                                    [OSP_EVENT_TOOL_CALL] = ITEM_NONE};
    struct osp_event event;

    while (event_stream_next(s, &event)) {
        assert_true(response_on_event(w, &event, out));
        h->n_calls += event.kind == OSP_EVENT_TOOL_CALL;
        if (event.kind != OSP_EVENT_TOOL_CALL)
            buf_append(&h->all[event.is_preamble ? ITEM_NONE : kinds[event.kind]], event.text,
                       event.n_bytes);
    }
}

static void finish_all(struct event_stream *s, enum ending ending, struct response_writer *w,
                       struct heard *h, struct buf *out)
{
    struct osp_event done = {.kind = OSP_EVENT_DONE,
                             .finish = ending == IS_CUT ? OSP_FINISH_LENGTH : OSP_FINISH_STOP};

    if (ending == FAILS) {
        response_fail(w, "it broke", out);
        return;
    }
    event_stream_finish(s);
    hear_all(s, w, h, out);
    done.is_cut = h->is_cut = s->is_cut;
    assert_true(response_on_event(w, &done, out));
    response_end(w, out);
}

static void write_all(const struct tokenizer *t, const struct ids *tokens, enum ending ending,
                      struct response_writer *w, struct heard *h, struct buf *out)
{
    static const char *const functions[] = {"get_weather"};
    struct event_stream s;

    *h = (struct heard){0};
    for (size_t i = 0; i < COUNT(h->all); i++)
        buf_init(&h->all[i], OUT_BYTES);
    assert_int_equal(event_stream_init(&s, &(struct event_stream_options){.tokenizer = t,
                                                                          .functions = functions,
                                                                          .n_functions = 1}),
                     OSP_OK);
    if (w->streams)
        response_begin(w, out);
    for (size_t i = 0; i < tokens->n; i++) {
        event_stream_push(&s, tokens->data[i], NULL);
        hear_all(&s, w, h, out);
    }
    finish_all(&s, ending, w, h, out);
    event_stream_release(&s);
}

static void heard_release(struct heard *h)
{
    for (size_t i = 0; i < COUNT(h->all); i++)
        buf_release(&h->all[i]);
}

/* Ids are random. */
static void drop_ids(json_t *response)
{
    size_t i;
    json_t *item;

    json_object_del(response, "id");
    json_object_del(response, "created_at");
    json_object_del(response, "completed_at");
    json_array_foreach(json_object_get(response, "output"), i, item)
    {
        json_object_del(item, "id");
        json_object_del(item, "call_id");
    }
}

/* A response that fails is told by its stream alone. */
static void check_failing(const struct tokenizer *t, const struct ids *tokens)
{
    struct response_writer w;
    struct buf events;
    struct heard h;
    struct check c;

    buf_init(&events, OUT_BYTES);
    response_writer_init(&w);
    w.streams = true;
    write_all(t, tokens, FAILS, &w, &h, &events);
    check_stream(&c, buf_text(&events));
    require_string(c.last, "status", "failed");
    for (size_t i = 0; i < COUNT(h.all); i++)
        assert_string_equal(buf_text(&c.all[i]), buf_text(&h.all[i]));
    assert_int_equal(c.n_incomplete, json_array_size(c.items) > 0);
    check_release(&c);
    heard_release(&h);
    response_writer_release(&w);
    buf_release(&events);
}

static void check_one(const struct tokenizer *t, const struct ids *tokens, enum ending ending)
{
    struct response_writer streamed, whole;
    struct buf events, response;
    struct heard h, again;
    struct check c;
    json_t *object;
    int n_calls = 0;
    size_t i;
    json_t *item;

    buf_init(&events, OUT_BYTES);
    buf_init(&response, OUT_BYTES);
    response_writer_init(&streamed);
    response_writer_init(&whole);
    streamed.streams = true;
    write_all(t, tokens, ending, &streamed, &h, &events);
    write_all(t, tokens, ending, &whole, &again, &response);
    check_stream(&c, buf_text(&events));
    for (i = 0; i < COUNT(h.all); i++)
        assert_string_equal(buf_text(&c.all[i]), buf_text(&h.all[i]));
    json_array_foreach(c.items, i, item) n_calls += kind_of(item) == ITEM_CALL;
    assert_int_equal(n_calls, h.n_calls);
    if (ending != IS_CUT || json_array_size(c.items) == 0 || !h.is_cut)
        assert_int_equal(c.n_incomplete, 0);
    object = json_loads(buf_text(&response), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    drop_ids(object);
    drop_ids(c.last);
    assert_true(json_equal(object, c.last));
    json_decref(object);
    check_release(&c);
    heard_release(&h);
    heard_release(&again);
    response_writer_release(&streamed);
    response_writer_release(&whole);
    buf_release(&events);
    buf_release(&response);
}

static void test_random_streams(void **state)
{
    struct tokenizer *t = open_o200k();
    struct ids stock[COUNT(fragments)], tokens;

    (void)state;
    for (size_t i = 0; i < COUNT(fragments); i++)
        encode(t, fragments[i], &stock[i]);
    ids_init(&tokens, CASE_BYTES_MAX);
    for (uint64_t i = 0; i < STREAMS; i++) {
        random_stream(i, stock, &tokens);
        check_one(t, &tokens, i % 3 == 0 ? IS_CUT : STOPS);
        if (i % 3 == 1)
            check_failing(t, &tokens);
    }
    ids_release(&tokens);
    for (size_t i = 0; i < COUNT(fragments); i++)
        ids_release(&stock[i]);
    tokenizer_close(t);
}

/* ---- one stream, word for word ---- */

static struct osp_event text(enum osp_event_kind kind, const char *s)
{
    return (struct osp_event){.kind = kind, .text = s, .n_bytes = strlen(s)};
}

static const char texts_owner[] = "a tokenizer";

enum osp_status osp_token_bytes(const struct osp_tokenizer *t, int32_t id,
                                char scratch[OSP_TOKEN_SCRATCH_BYTES], const char **bytes,
                                size_t *n_bytes)
{
    assert_ptr_equal(t, (const void *)texts_owner);
    (void)scratch, (void)id;
    *bytes = "4";
    *n_bytes = 1;
    return OSP_OK;
}

#define OBJECT(status, completed, details, output, usage)                                          \
    "{\"id\":\"resp_x\",\"object\":\"response\",\"created_at\":5,\"completed_at\":" completed      \
    ",\"status\":\"" status                                                                        \
    "\",\"background\":false,\"error\":null,\"incomplete_details\":" details                       \
    ",\"model\":\"m\",\"echo\":1,\"output\":[" output "],\"usage\":" usage "}"
#define EVENT(type, n, rest)                                                                       \
    "event: " type "\ndata: {\"type\":\"" type "\",\"sequence_number\":" #n "," rest "}\n\n"
#define SCORES                                                                                     \
    "\"logprobs\":[{\"token\":\"4\",\"logprob\":-0.5,\"bytes\":[52],\"top_logprobs\":[]}]"
#define PART "{\"type\":\"output_text\",\"text\":\"4\",\"annotations\":[]," SCORES "}"
#define ITEM                                                                                       \
    "{\"id\":\"msg_x\",\"type\":\"message\",\"status\":\"incomplete\",\"role\":\"assistant\","     \
    "\"phase\":\"final_answer\",\"content\":[" PART "]}"
#define ABOUT "\"item_id\":\"msg_x\",\"output_index\":0,\"content_index\":0,"

static void test_word_for_word(void **state)
{
    const struct osp_logprob score = {.token = 9, .logprob = -0.5f};
    struct osp_event four = text(OSP_EVENT_TEXT, "4");
    struct osp_event done = {.kind = OSP_EVENT_DONE,
                             .finish = OSP_FINISH_LENGTH,
                             .is_cut = true,
                             .usage = {.n_prompt_tokens = 7,
                                       .n_generated_tokens = 5,
                                       .n_reasoning_tokens = 2,
                                       .n_cached_tokens = 3}};
    struct response_writer w;
    struct buf out;
    char *at;

    (void)state;
    buf_init(&out, OUT_BYTES);
    response_writer_init(&w);
    w.streams = true;
    w.model = "m";
    w.echo = ",\"echo\":1";
    w.tokenizer = (const void *)texts_owner;
    w.created_unix_s = 5;
    strcpy(w.id, "resp_x");
    response_begin(&w, &out);
    four.logprobs = &score;
    four.n_logprobs = 1;
    assert_true(response_on_event(&w, &four, &out));
    assert_true(response_on_event(&w, &done, &out));
    response_end(&w, &out);
    /* Ids of items are random. */
    while ((at = strstr(out.data, w.items[0].id)) != NULL) {
        memmove(at + 5, at + strlen(w.items[0].id), strlen(at + strlen(w.items[0].id)) + 1);
        memcpy(at, "msg_x", 5);
    }
    assert_string_equal(
        out.data,
        EVENT("response.created", 0,
              "\"response\":" OBJECT("in_progress", "null", "null", "",
                                     "null")) EVENT("response.in_progress", 1,
                                                    "\"response\":" OBJECT("in_progress", "null",
                                                                           "null", "", "null"))
            EVENT(
                "response.output_item.added", 2,
                "\"output_index\":0,\"item\":{\"id\":\"msg_x\",\"type\":\"message\",\"status\":"
                "\"in_progress\",\"role\":\"assistant\",\"phase\":\"final_answer\",\"content\":[]}")
                EVENT("response.content_part.added", 3,
                      ABOUT "\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],"
                            "\"logprobs\":[]}") EVENT("response.output_text.delta", 4,
                                                      ABOUT "\"delta\":\"4\"," SCORES)
                    EVENT("response.output_text.done", 5, ABOUT "\"text\":\"4\"," SCORES) EVENT(
                        "response.content_part.done", 6,
                        ABOUT "\"part\":" PART) EVENT("response.output_item.done", 7,
                                                      "\"output_index\":0,\"item\":" ITEM)
                        EVENT(
                            "response.incomplete", 8,
                            "\"response\":" OBJECT(
                                "incomplete", "null", "{\"reason\":\"max_output_tokens\"}", ITEM,
                                "{\"input_tokens\":7,\"input_tokens_details\":{"
                                "\"cached_tokens\":3,\"cache_write_tokens\":4},\"output_tokens\":5,"
                                "\"output_tokens_details\":{\"reasoning_tokens\":2},"
                                "\"total_tokens\":12}")));
    response_writer_release(&w);
    buf_release(&out);
}

/* With a summary and a seal, the reasoning comes in each of its forms. */
static void test_forms_of_reasoning(void **state)
{
    const struct osp_event a = text(OSP_EVENT_REASONING, "h"), b = text(OSP_EVENT_REASONING, "m");
    const struct osp_event done = {.kind = OSP_EVENT_DONE};
    struct response_writer w;
    struct buf out;

    (void)state;
    buf_init(&out, OUT_BYTES);
    response_writer_init(&w);
    w.streams = w.include_summary = w.include_encrypted = true;
    assert_true(response_on_event(&w, &a, &out) && response_on_event(&w, &b, &out));
    assert_true(response_on_event(&w, &done, &out));
    assert_non_null(strstr(out.data, "event: response.reasoning_summary_part.added\n"));
    assert_non_null(strstr(out.data, "\"summary_index\":0,\"delta\":\"m\"}"));
    assert_non_null(strstr(out.data, "\"summary_index\":0,\"text\":\"hm\"}"));
    assert_non_null(strstr(out.data, "event: response.reasoning_summary_part.done\n"));
    assert_non_null(strstr(w.output.data,
                           "\"status\":\"completed\",\"summary\":[{\"type\":\"summary_text\","
                           "\"text\":\"hm\"}],\"content\":[{\"type\":\"reasoning_text\",\"text\":"
                           "\"hm\"}],\"encrypted_content\":\"osprey1.aG0=\"}"));
    response_writer_release(&w);
    buf_release(&out);
}

/* Whatever the room, the items stay within it, and a response that is full can still be ended. */
static void test_items_stay_within_their_room(void **state)
{
    const struct osp_event events[] = {
        text(OSP_EVENT_REASONING, "a \"quoted\" thought\n"),
        text(OSP_EVENT_TEXT, "\x01\x02 and \xC3\xA9"),
        {.kind = OSP_EVENT_TOOL_CALL, .name = "function \"f\"", .call_id = "call_1"},
        text(OSP_EVENT_TOOL_ARGS, "{\"x\":\"\\n\"}"),
    };
    const struct osp_event cut = {
        .kind = OSP_EVENT_DONE, .finish = OSP_FINISH_LENGTH, .is_cut = true};
    enum { ROOM_MAX = 6000, ROOM_STEP = 37 };

    (void)state;
    for (size_t room_bytes = 0; room_bytes < ROOM_MAX; room_bytes += ROOM_STEP) {
        struct answer_budget budget = {.free_bytes = room_bytes};
        struct response_writer w;
        struct buf out;

        buf_init(&out, OUT_BYTES);
        response_writer_init(&w);
        w.streams = w.include_summary = w.include_encrypted = true;
        w.budget = &budget;
        for (size_t i = 0; response_on_event(&w, &events[i / 3 % COUNT(events)], &out); i++)
            continue;
        assert_true(budget.is_exhausted);
        assert_true(response_on_event(&w, &cut, &out));
        assert_true(w.output.size_bytes <= room_bytes && w.is_done && !w.output.overflow);
        response_writer_release(&w);
        buf_release(&out);
    }
}

static void test_a_failure(void **state)
{
    const struct osp_event a = text(OSP_EVENT_TEXT, "a"), args = text(OSP_EVENT_TOOL_ARGS, "x");
    struct response_writer w;
    struct buf out;
    const char *done, *failed;

    (void)state;
    buf_init(&out, OUT_BYTES);
    response_writer_init(&w);
    w.streams = true;
    assert_false(response_on_event(&w, &args, &out)); /* of no call */
    assert_true(response_on_event(&w, &a, &out));
    buf_clear(&out);
    response_fail(&w, "the \"device\" is gone", &out);
    done = strstr(out.data, "event: response.output_item.done\n");
    assert_true(done && strstr(done, "\"status\":\"incomplete\""));
    failed = strstr(done, "event: response.failed\ndata: {\"type\":\"response.failed\"");
    assert_non_null(failed);
    assert_non_null(strstr(failed, "\"status\":\"failed\",\"background\":false,\"error\":{\"code\":"
                                   "\"server_error\",\"message\":\"the \\\"device\\\" is gone\"}"));
    response_writer_release(&w);
    buf_release(&out);
}

UNIT_MAIN(cmocka_unit_test(test_random_streams), cmocka_unit_test(test_word_for_word),
          cmocka_unit_test(test_forms_of_reasoning),
          cmocka_unit_test(test_items_stay_within_their_room), cmocka_unit_test(test_a_failure))
