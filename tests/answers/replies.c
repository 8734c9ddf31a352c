/* What a client gets of an answer: a request's events, and both forms of the JSON that is made
 * of them. */
#include <jansson.h>
#include <string.h>

#include "answers.h"
#include "serve/reply/reply.h"

enum { ASSISTANT = 173781, LOOK_TOKENS_MAX = 6 /* between two looks at the events */ };

/* ---- what the replies say ---- */

static void append_json(struct buf *out, const json_t *string)
{
    buf_append(out, json_string_value(string), json_string_length(string));
}

static enum osp_finish finish_named(const struct answer *a, const json_t *v)
{
    static const enum osp_finish all[] = {OSP_FINISH_STOP, OSP_FINISH_LENGTH,
                                          OSP_FINISH_TOOL_CALLS};

    for (size_t i = 0; i < COUNT(all); i++)
        if (json_is_string(v) && strcmp(json_string_value(v), osp_finish_text(all[i])) == 0)
            return all[i];
    answer_die(a, "no finish_reason");
    return OSP_FINISH_CANCELED;
}

/* A message, or the delta of one. */
static void take_texts(struct answer *a, struct says *t, const json_t *message)
{
    const json_t *reasoning = json_object_get(message, "reasoning");

    append_json(&t->reasoning, reasoning);
    append_json(&t->content, json_object_get(message, "content"));
    CHECK(a, json_equal(reasoning, json_object_get(message, "reasoning_content")) ||
                 reasoning == NULL);
}

static json_t *parse(struct answer *a, const char *text, size_t n)
{
    json_error_t error;
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);

    if (v == NULL)
        answer_die(a, "not JSON: %s: %.*s", error.text, (int)n, text);
    return v;
}

static const json_t *only_choice(struct answer *a, const json_t *reply)
{
    const json_t *choices = json_object_get(reply, "choices");

    CHECK(a, json_array_size(choices) == 1);
    return json_array_get(choices, 0);
}

static struct harmony_text text_of(const json_t *string)
{
    return (struct harmony_text){json_string_value(string), json_string_length(string)};
}

/* The client sends the message back unmodified. */
static void send_back(struct answer *a, const json_t *message)
{
    json_t *call;
    size_t i;

    CHECK(a, chat_add_assistant_text(a->chat, text_of(json_object_get(message, "reasoning")),
                                     text_of(json_object_get(message, "content"))) == OSP_OK);
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        const json_t *f = json_object_get(call, "function");

        CHECK(a, chat_add_call_text(a->chat, json_string_value(json_object_get(call, "id")),
                                    json_string_value(json_object_get(f, "name")),
                                    text_of(json_object_get(f, "arguments"))) == OSP_OK);
    }
}

static void read_whole(struct answer *a, const struct buf *json)
{
    json_t *reply = parse(a, buf_text(json), json->size_bytes), *call;
    const json_t *choice = only_choice(a, reply);
    const json_t *message = json_object_get(choice, "message");
    size_t i;

    says_clear(&a->whole);
    take_texts(a, &a->whole, message);
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        const json_t *f = json_object_get(call, "function");

        CHECK(a, json_string_length(json_object_get(call, "id")) > 0);
        says_add_call(&a->whole, json_string_value(json_object_get(f, "name")));
        append_json(&a->whole.calls, json_object_get(f, "arguments"));
    }
    a->whole.finish = finish_named(a, json_object_get(choice, "finish_reason"));
    if (a->chat != NULL)
        send_back(a, message);
    json_decref(reply);
}

/* A call's name and id come first and once, then its arguments, piece by piece. */
static void take_call_delta(struct answer *a, const json_t *call, int *n_calls)
{
    const json_t *f = json_object_get(call, "function"), *name = json_object_get(f, "name");
    json_int_t index = json_integer_value(json_object_get(call, "index"));

    CHECK(a, (name != NULL) == (json_object_get(call, "id") != NULL));
    if (name != NULL) {
        CHECK(a, index == (*n_calls)++);
        says_add_call(&a->streamed, json_string_value(name));
    }
    CHECK(a, index == *n_calls - 1);
    append_json(&a->streamed.calls, json_object_get(f, "arguments"));
}

static void take_chunk(struct answer *a, const json_t *chunk, int n_before, int *n_calls,
                       bool *is_finished)
{
    const json_t *choice = only_choice(a, chunk), *delta = json_object_get(choice, "delta");
    const json_t *calls = json_object_get(delta, "tool_calls");
    const json_t *finish = json_object_get(choice, "finish_reason");

    CHECK(a, !*is_finished);
    CHECK(a, (json_object_get(delta, "role") != NULL) == (n_before == 0));
    take_texts(a, &a->streamed, delta);
    if (calls != NULL)
        take_call_delta(a, json_array_get(calls, 0), n_calls);
    *is_finished = !json_is_null(finish);
    if (*is_finished)
        a->streamed.finish = finish_named(a, finish);
}

static void read_streamed(struct answer *a)
{
    static const char begin[] = "data: ", end[] = "\n\n", done[] = "[DONE]";
    const char *at = buf_text(&a->out);
    int n_chunks = 0, n_calls = 0;
    bool is_finished = false;

    says_clear(&a->streamed);
    for (;;) {
        const char *stop = strstr(at, end);
        json_t *chunk;

        CHECK(a, stop != NULL && strncmp(at, begin, strlen(begin)) == 0);
        at += strlen(begin);
        if (strncmp(at, done, strlen(done)) == 0)
            break;
        chunk = parse(a, at, (size_t)(stop - at));
        take_chunk(a, chunk, n_chunks++, &n_calls, &is_finished);
        json_decref(chunk);
        at = stop + strlen(end);
    }
    CHECK(a, is_finished && strcmp(at, "[DONE]\n\n") == 0);
}

/* ---- the way of a request ---- */

static void begin_request(struct answer *a, struct osp_request **r)
{
    static const struct sched_limits limits = {
        .n_seqs_max = 1, .n_batch_tokens_max = 64, .window_tokens = 128};
    const int32_t prompt[] = {tokenizer_specials(a->t)->start, ASSISTANT};
    struct event_stream_options opt = {.tokenizer = a->t,
                                       .functions = answer_functions,
                                       .n_functions = N_FUNCTIONS,
                                       .stop = a->stops,
                                       .n_stop = a->n_stops,
                                       .prompt = prompt,
                                       .n_prompt = COUNT(prompt)};

    CHECK(a, request_new(r, &limits, &opt, (int)(COUNT(prompt) + a->ids.n)) == OSP_OK);
    (*r)->completion_cache = a->store;
    (*r)->prompt_key = a->prompt_hash;
}

/* What the engine's thread does with a sampled token. */
static void draw(struct answer *a, struct osp_request *r, int32_t token)
{
    struct seq *q = &r->seq;

    q->tokens[q->n_tokens++] = token;
    if (!a->ignores_stop_tokens && ends_answer(a, token))
        q->end = SEQ_END_STOP;
    else if (q->n_tokens == q->n_tokens_max)
        q->end = SEQ_END_LENGTH;
    q->state = q->end != SEQ_END_NONE ? SEQ_ENDED : SEQ_RUNNING;
}

/* Looks at all there is; true: the last event has come. */
static bool on_event(struct answer *a, struct osp_request *r, struct reply *whole,
                     struct reply *chunks, struct osp_usage *usage)
{
    struct osp_event e;

    while (osp_next_event(r, 0, &e) == OSP_OK) {
        CHECK(a, e.kind != OSP_EVENT_ERROR && e.text[e.n_bytes] == '\0');
        CHECK(a, a->n_published + (size_t)e.n_tokens <= a->ids.n &&
                     memcmp(e.tokens, a->ids.data + a->n_published,
                            (size_t)e.n_tokens * sizeof *e.tokens) == 0);
        a->n_published += (size_t)e.n_tokens;
        CHECK(a, reply_append(whole, &e));
        reply_stream(chunks, &e, &a->out);
        if (e.kind != OSP_EVENT_DONE)
            continue;
        CHECK(a, a->n_published == a->ids.n || a->is_cut);
        CHECK(a, e.usage.n_generated_tokens == (int)a->n_published);
        *usage = e.usage;
        return true;
    }
    return false;
}

void answer_reply(struct answer *a)
{
    struct osp_request *r;
    struct reply whole, chunks;
    struct osp_usage usage = {0};
    bool is_finished = false;

    begin_request(a, &r);
    reply_init(&whole, "model", false);
    reply_init(&chunks, "model", true);
    buf_clear(&a->out);
    a->n_published = 0;
    for (size_t i = 0; i < a->ids.n && !is_finished;) {
        for (size_t n = 1 + roll(&a->dice, LOOK_TOKENS_MAX); i < a->ids.n && n > 0; n--)
            draw(a, r, a->ids.data[i++]);
        request_publish(r);
        is_finished = on_event(a, r, &whole, &chunks, &usage);
    }
    CHECK(a, is_finished);
    reply_stream_end(&chunks.head, &chunks.extras, &usage, &a->out);
    CHECK(a, !a->out.overflow);
    read_streamed(a);
    buf_clear(&a->out);
    reply_full(&whole, 1, &usage, &a->out);
    CHECK(a, !a->out.overflow);
    read_whole(a, &a->out);
    osp_request_close(r);
    reply_release(&whole);
    reply_release(&chunks);
}
