/* POST /v1/responses: the job that generates a response, and the job that counts its input. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/openai/openapi.h"
#include "serve/responses/response_background.h"
#include "serve/stored/response_conversations.h"
#include "serve/stored/response_events.h"
#include "serve/responses/response_fields.h"
#include "serve/responses/response_request.h"
#include "serve/core/routes.h"

enum { STORED_BYTES_MAX = 256 << 20 /* of a response, before the store checks its own limit */ };

static void response_open(struct job *job)
{
    struct response_state *s = job->state;

    s->owner = mem_strdup(response_owner(job->server, http_exchange_request(job->x)));
}

static void begin(struct job *job, struct buf *out)
{
    struct response_state *s = job->state;
    struct response_writer *w = &s->writer;

    response_writer_init(w);
    w->model = job_model(job);
    w->echo = s->echo;
    w->tools = &s->tools;
    w->budget = &job->budget;
    (void)!answer_budget_reserve(w->budget,
                                 strlen(s->echo)); /* if it does not fit, the budget is exhausted */
    w->streams = job->params.stream;
    w->include_encrypted = s->include_encrypted;
    w->include_summary = s->include_summary;
    w->is_background = s->is_background;
    if (job->params.options.logprobs)
        w->tokenizer = osp_model_tokenizer(job->server->loading.result.model);
    if (w->streams)
        response_begin(w, out);
}

static bool on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    (void)i;
    return response_on_event(&((struct response_state *)job->state)->writer, event, out);
}

/* The input items, then the output items. */
static bool concat_items(const struct response_state *s, struct buf *text,
                         struct response_item **items)
{
    const struct response_input *in = &s->input;
    const struct response_writer *w = &s->writer;
    size_t n = in->n_items + w->n_items;

    if (mem_try_array(items, n, sizeof **items, "the items of a response") != OSP_OK)
        return false;
    buf_append(text, buf_text(&in->text), in->text.size_bytes);
    buf_append(text, buf_text(&w->output), w->output.size_bytes);
    for (size_t i = 0; i < n; i++) {
        (*items)[i] = i < in->n_items ? in->items[i] : w->items[i - in->n_items];
        (*items)[i].begin += i < in->n_items ? 0 : in->text.size_bytes;
    }
    return !text->overflow;
}

static bool put_entry(struct job *job, const struct buf *json, const struct buf *text,
                      const struct response_item *items)
{
    const struct response_state *s = job->state;
    size_t n = s->input.n_items + s->writer.n_items;

    return n <= RESPONSE_ITEMS_MAX &&
           response_store_put(job->server->responses,
                              &(struct response_entry){.id = s->writer.id,
                                                       .owner = s->owner,
                                                       .json = buf_text(json),
                                                       .n_json_bytes = json->size_bytes,
                                                       .text = buf_text(text),
                                                       .n_text_bytes = text->size_bytes,
                                                       .items = items,
                                                       .n_items = (int)n,
                                                       .previous = s->previous},
                              clock_ns());
}

void response_keep(struct job *job)
{
    struct response_state *s = job->state;
    struct response_item *items = NULL;
    struct buf json, text;

    buf_init(&json, STORED_BYTES_MAX);
    buf_init(&text, STORED_BYTES_MAX);
    response_put(&s->writer, &json);
    buf_putc(&json, '\n');
    if (json.overflow || !concat_items(s, &text, &items) || !put_entry(job, &json, &text, items))
        log_warn("responses id=%s is not stored: it exceeds the limit of the store, or memory is "
                 "exhausted",
                 s->writer.id);
    free(items);
    buf_release(&json);
    buf_release(&text);
}

/* Adds the items of the request and of the answer to its conversation. */
static void extend_conversation(struct job *job)
{
    struct response_state *s = job->state;
    struct response_item *items = NULL;
    enum conversation_result result = CONVERSATION_NO_MEMORY;
    struct buf text;

    buf_init(&text, STORED_BYTES_MAX);
    if (concat_items(s, &text, &items))
        result =
            conversations_add(job->server->conversations, s->owner, s->conversation, items,
                              s->input.n_items + s->writer.n_items, buf_text(&text), clock_ns());
    if (result != CONVERSATION_OK)
        log_warn("responses id=%s is not added to its conversation, which %s", s->writer.id,
                 result == CONVERSATION_FULL      ? "is full"
                 : result == CONVERSATION_UNKNOWN ? "was deleted"
                                                  : "needs more memory than there is");
    free(items);
    buf_release(&text);
}

/* A request without input gets a response without items. */
static void finish_empty(struct response_writer *w, struct buf *out)
{
    const struct osp_event done = {.kind = OSP_EVENT_DONE, .finish = OSP_FINISH_STOP};

    if (!response_on_event(w, &done, out))
        out->overflow = true;
}

static void end(struct job *job, struct buf *out)
{
    struct response_state *s = job->state;

    if (job->n_choices == 0)
        finish_empty(&s->writer, out);
    if (s->is_stored)
        response_keep(job);
    if (s->conversation)
        extend_conversation(job);
    response_end(&s->writer, out);
}

static void put_error(struct job *job, struct buf *out, const char *error_json)
{
    struct response_state *s = job->state;

    (void)error_json;
    response_fail(&s->writer, job->error.message, out);
    if (s->is_background)
        response_keep(job);
}

static void release(struct job *job)
{
    struct response_state *s = job->state;

    if (s->background)
        background_remove(s->background);
    if (s->is_reserved)
        backgrounds_unreserve(job->server->backgrounds);
    response_writer_release(&s->writer);
    response_input_release(&s->input);
    response_tools_release(&s->tools);
    response_store_drop(job->server->responses, s->previous);
    free(s->conversation);
    free(s->owner);
    free(s->echo);
}

const struct field_set responses_fields = {
    .endpoint = FOR_RESPONSES, .own = RESPONSE_FIELDS, .n_own = N_RESPONSE_FIELDS};

static const struct job_kind RESPONSES = {
    .fields = &responses_fields,
    .state_bytes = sizeof(struct response_state),
    .open = response_open,
    .submit = response_submit,
    .explain = response_format_explain,
    .begin = begin,
    .detach = response_detach,
    .detached = response_detached,
    .on_event = on_event,
    .end = end,
    .put_error = put_error,
    .release = release,
};

/* ---- POST /v1/responses/input_tokens ---- */

static void begin_count(struct job *job, struct buf *out)
{
    (void)job, (void)out;
}

static void put_count(struct job *job, struct buf *out)
{
    const struct response_state *s = job->state;

    buf_printf(out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}\n",
               s->n_input_tokens);
}

/* Nothing is generated. */
static const struct job_kind INPUT_TOKENS = {
    .fields = &responses_fields,
    .state_bytes = sizeof(struct response_state),
    .open = response_open,
    .submit = response_count,
    .explain = response_format_explain,
    .begin = begin_count,
    .on_event = on_event,
    .end = put_count,
    .put_error = put_error,
    .release = release,
};

/* ---- routes ---- */

void route_response_input_tokens(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &INPUT_TOKENS);
}

void route_responses(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &RESPONSES);
}
