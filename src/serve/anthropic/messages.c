/* POST /v1/messages, the job that generates an answer, and POST /v1/messages/count_tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/anthropic/message_input.h"
#include "serve/anthropic/message_request.h"
#include "serve/anthropic/message_writer.h"
#include "serve/core/routes.h"
#include "serve/fields/json_budget.h"
#include "serve/fields/json_response_format.h"
#include "serve/job/job.h"

static const char PING[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

struct message_state {
    struct message_style style; /* the first member: request_params.own points to it */
    struct message_writer writer;
};

/* ---- on the worker thread ---- */

static enum osp_status require_max_tokens(const json_t *body)
{
    const json_t *v = json_object_get(body, "max_tokens");

    return v && !json_is_null(v)
               ? OSP_OK
               : fail(OSP_EINVAL, "max_tokens: is missing; must be the most tokens to generate");
}

/* Clients find out from this sentence that they must shorten the conversation. */
static enum osp_status explain_length(struct job *job, enum osp_status st)
{
    unsigned long n_requested = 0;
    int limit = 0;

    if (st != OSP_ELIMIT ||
        sscanf(fail_message(),
               "This model's maximum context length is %d tokens. However, you requested %lu",
               &limit, &n_requested) != 2)
        return st;
    api_error_set(&job->error, 400, "context_length_exceeded",
                  "prompt is too long: %lu tokens > %d maximum (the context length of this model, "
                  "less one token of the answer)",
                  n_requested - 1, limit - 1);
    return st;
}

static enum osp_status messages_submit(struct job *job)
{
    struct message_state *s = job->state;
    struct osp_chat *chat = NULL;
    enum osp_status st;

    json_budget_more(
        json_budget_for(job->n_body_bytes)); /* the chat needs memory beside the body */
    TRY(job_refuse(job, require_max_tokens(job->json)));
    TRY(job_refuse(job, message_chat(&chat, job->server, &job->params, &s->style, job->json)));
    s->style.effort = NULL; /* borrowed from the body, as is the schema */
    s->style.schema = NULL;
    json_decref(job->json);
    job->json = NULL;
    TRY(explain_length(
        job, message_format_explain(json_form_explain(&job->params, job_add_chat(job, chat)))));
out:
    osp_chat_free(chat);
    return st;
}

/* ---- on the loop ---- */

static enum message_thinking thinking_of(const struct message_style *s)
{
    if (s->thinking != THINKING_ENABLED)
        return THINKING_HIDDEN;
    return s->omits_thinking ? THINKING_OMITTED : THINKING_SHOWN;
}

static void begin(struct job *job, struct buf *out)
{
    struct message_state *s = job->state;
    struct message_writer *w = &s->writer;

    (void)out; /* a stream begins with the first event of the answer, when its usage is known */
    message_writer_init(w);
    w->model = job->params.model ? job->params.model : job_model(job);
    w->thinking = thinking_of(&s->style);
    w->streams = job->params.stream;
    w->budget = w->streams ? NULL : &job->budget;
    w->calls = job->server->calls;
    w->tokens_max = job->params.options.tokens_max;
    w->context_tokens_max = job->server->info.context_tokens_max;
}

static bool on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    struct message_writer *w = &((struct message_state *)job->state)->writer;
    const struct osp_usage usage = job_usage(job);
    const bool had_begun = w->has_begun;
    bool fits;

    (void)i;
    fits = message_on_event(w, event, &usage, out);
    if (w->has_begun && !had_begun) /* no event may come before message_start */
        http_stream_set_ping(job->x, PING);
    return fits;
}

static void end(struct job *job, struct buf *out)
{
    message_end(&((struct message_state *)job->state)->writer, out);
}

static void put_error(struct job *job, struct buf *out, const char *error_json)
{
    (void)job;
    message_fail(out, error_json);
}

static void release(struct job *job)
{
    message_writer_release(&((struct message_state *)job->state)->writer);
}

static const struct job_kind MESSAGES = {
    .fields = &messages_fields,
    .model_prefix = CLAUDE_PREFIX,
    .state_bytes = sizeof(struct message_state),
    .submit = messages_submit,
    .explain = message_format_explain,
    .begin = begin,
    .on_event = on_event,
    .end = end,
    .put_error = put_error,
    .release = release,
};

void route_messages(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &MESSAGES);
}

/* ---- count_tokens, on the thread for tokenization ---- */

static enum osp_status count(const struct token_job *job, struct request_params *params,
                             const json_t *body, size_t *n)
{
    struct message_style style = {0};
    struct osp_chat *chat = NULL;
    int32_t *ids = NULL;
    enum osp_status st;

    params->own = &style;
    TRY(fields_read(params, &count_tokens_fields, body));
    TRY(message_chat(&chat, job->server, params, &style, body));
    TRY(osp_chat_render(chat, osp_model_tokenizer(job->server->loading.result.model), &ids, n));
out:
    osp_free(ids);
    osp_chat_free(chat);
    return st;
}

static enum osp_status answer_count(const struct token_job *job, const json_t *body,
                                    struct buf *out)
{
    struct request_params params = {0};
    size_t n = 0;
    enum osp_status st;

    json_budget_more(json_budget_for(job->n_body_bytes));
    st = count(job, &params, body, &n);
    if (st == OSP_OK)
        buf_printf(out, "{\"input_tokens\":%zu}\n", n);
    request_params_release(&params);
    return st;
}

void route_count_tokens(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct token_kind kind = {
        .fields = &count_tokens_fields, .model_prefix = CLAUDE_PREFIX, .answer = answer_count};

    (void)name;
    token_job_start(s, x, &kind);
}
