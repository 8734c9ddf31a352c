/* /v1/chat/completions: the next message of a conversation, as chunks or as one answer. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/job/conversation.h"
#include "serve/job/job.h"
#include "serve/openai/openapi.h"
#include "serve/reply/reply.h"
#include "serve/core/routes.h"

/* thinking_budget_tokens below these mean low and medium effort. */
enum { LOW_BUDGET = 1024, MEDIUM_BUDGET = 4096 };

struct chat_state {
    struct reply *replies; /* (n_replies) one per choice; owned */
    int n_replies;
    struct custom_names custom; /* names of custom tools */
};

/* ---- on the worker thread ---- */

/* Collects the names of custom tools. Invalid tools are reported by conversation_read(). */
static void note_custom(struct job *job)
{
    const json_t *tools = json_object_get(job->json, "tools");

    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        const char *name =
            json_string_value(json_object_get(json_object_get(tool, "custom"), "name"));

        if (type != NULL && name != NULL && strcmp(type, "custom") == 0)
            custom_names_add(&((struct chat_state *)job->state)->custom, name);
    }
}

/* llama.cpp's web page has no other way to choose the effort. The model knows efforts, not numbers
 * of tokens. Any other field for the effort takes precedence. */
static void apply_thinking_budget(struct job *job)
{
    static const char *const OTHERS[] = {"reasoning_effort", "reasoning", "think"};
    const json_t *v = json_object_get(job->json, "thinking_budget_tokens");
    const json_t *kwargs = json_object_get(job->json, "chat_template_kwargs");
    const double n_tokens = json_number_value(v);
    bool is_set = json_object_get(kwargs, "reasoning_effort") != NULL ||
                  json_is_false(json_object_get(kwargs, "enable_thinking"));

    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        is_set = is_set || json_object_get(job->json, OTHERS[i]) != NULL;
    if (!json_is_number(v) || n_tokens < 0 || is_set)
        return;
    json_object_set_new(job->json, "reasoning_effort",
                        json_string(n_tokens < LOW_BUDGET
                                        ? "low"
                                        : (n_tokens < MEDIUM_BUDGET ? "medium" : "high")));
}

static enum osp_status chat_submit(struct job *job)
{
    struct osp_chat *chat = NULL;
    enum osp_status st;

    note_custom(job);
    apply_thinking_budget(job);
    TRY(job_refuse(job, conversation_read(&chat, job->server, job->json)));
    /* the chat has copies; freed before rendering, which needs memory too */
    json_decref(job->json);
    job->json = NULL;
    TRY(job_add_chat(job, chat));
out:
    osp_chat_free(chat);
    return st;
}

/* ---- on the loop ---- */

static void begin_choice(struct job *job, struct reply *all, int i)
{
    struct reply *r = &all[i];

    reply_init(r, job_model(job), job->params.stream);
    r->extras = job->params.extras;
    r->head = all[0].head; /* all choices share the head of the first one */
    r->index = i;
    r->options = &job->params.options;
    r->budget = job->params.stream ? NULL : &job->budget;
    r->custom = &((struct chat_state *)job->state)->custom;
    r->tokens = osp_model_tokenizer(job->server->loading.result.model);
    if (job->params.wants_prompt_logprobs && i == 0)
        r->prompt_request = job->choices[0].request;
    r->n_prompt_logprobs = job->params.n_prompt_logprobs;
    if (job->params.options.logprobs)
        r->tokenizer = r->tokens;
    r->return_ids = job->params.return_token_ids;
    r->hides_reasoning = job->params.hides_reasoning;
    osp_request_prompt(job->choices[0].request, &r->prompt, &r->n_prompt);
    if (i == 0 && r->return_ids)
        reply_reserve_prompt(r->budget, "", 0, r->n_prompt);
}

static void chat_begin(struct job *job, struct buf *out)
{
    struct chat_state *s = job->state;

    (void)out; /* a stream begins with the first event of the answer */
    s->n_replies = job->n_choices;
    s->replies = mem_new((size_t)s->n_replies * sizeof *s->replies);
    for (int i = 0; i < s->n_replies; i++)
        begin_choice(job, s->replies, i);
}

/* All choices begin together and in order. Clients number the choices by the order of their
 * first chunks. OpenAI's client also adds the logprobs of a choice's first chunk twice, unless
 * that chunk is the first of the stream. */
static void begin_choices(const struct job *job, struct buf *out)
{
    const struct chat_state *s = job->state;

    for (int i = 0; i < s->n_replies; i++) {
        s->replies[i].extras.usage = job_usage(job);
        reply_stream_role(&s->replies[i], out);
    }
}

static bool chat_on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    struct reply *r = &((struct chat_state *)job->state)->replies[i];

    if (!job->params.stream)
        return reply_append(r, event);
    r->extras.usage = job_usage(job);
    if (job->n_choices > 1 && !r->began && event->kind != OSP_EVENT_NONE &&
        event->kind != OSP_EVENT_ERROR)
        begin_choices(job, out);
    reply_stream(r, event, out);
    return true;
}

static void chat_end(struct job *job, struct buf *out)
{
    const struct chat_state *s = job->state;
    const struct osp_usage usage = job_usage(job);

    if (job->params.stream)
        reply_stream_end(&s->replies->head, &s->replies->extras, &usage, out);
    else
        reply_full(s->replies, s->n_replies, &usage, out);
}

static void chat_put_error(struct job *job, struct buf *out, const char *error_json)
{
    (void)job;
    reply_stream_error(out, error_json);
}

static void chat_release(struct job *job)
{
    struct chat_state *s = job->state;

    for (int i = 0; i < s->n_replies; i++)
        reply_release(&s->replies[i]);
    free(s->replies);
    custom_names_release(&s->custom);
}

const struct field_set chat_fields = {.endpoint = FOR_CHAT};

static const struct job_kind CHAT = {
    .fields = &chat_fields,
    .state_bytes = sizeof(struct chat_state),
    .submit = chat_submit,
    .begin = chat_begin,
    .on_event = chat_on_event,
    .end = chat_end,
    .put_error = chat_put_error,
    .release = chat_release,
};

void route_chat(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &CHAT);
}
