/* POST /api/chat and POST /api/generate: the jobs that generate in the form of Ollama. */
#include "serve/ollama/ollama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "serve/core/routes.h"
#include "serve/fields/json_budget.h"
#include "serve/job/conversation.h"

static const char NDJSON[] = "application/x-ndjson", LATEST[] = ":latest";

/* ---- names and times ---- */

static bool is_same_model(const char *a, const char *b)
{
    const size_t n_a = strlen(a), n_b = strlen(b), n_latest = sizeof LATEST - 1;
    const size_t n = n_a < n_b ? n_a : n_b;
    const char *rest = n_a < n_b ? b + n : a + n;

    return strncmp(a, b, n) == 0 &&
           (*rest == '\0' || (n_a + n_b == 2 * n + n_latest && strcmp(rest, LATEST) == 0));
}

enum osp_status ollama_check_model(const struct server *s, const char *name)
{
    for (int i = 0; i < s->n_names; i++)
        if (name == NULL || is_same_model(name, s->names[i]))
            return OSP_OK;
    return fail(OSP_ENOTFOUND, "model '%.200s' not found", name);
}

void ollama_time(char out[OLLAMA_TIME_BYTES])
{
    struct timespec now;
    struct tm utc;
    char seconds[24];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out, OLLAMA_TIME_BYTES, "%s.%06uZ", seconds, (unsigned)(now.tv_nsec / 1000));
}

/* ---- on the loop, before the worker thread starts ---- */

static void open_stream(struct job *job)
{
    job->params.stream = true; /* the default of this API */
}

/* ---- on the worker thread ---- */

/* A request with nothing to generate. Its answer is one object, streamed or not. */
static enum osp_status begin_load(struct job *job)
{
    ((struct ollama_request *)job->state)->is_load = true;
    job->params.stream = false;
    return OSP_OK;
}

static enum osp_status submit_conversation(struct job *job, bool is_chat)
{
    struct osp_chat *chat = NULL;
    json_t *body = NULL;
    enum osp_status st;

    /* the messages need memory besides the body */
    json_budget_more(json_budget_for(job->n_body_bytes));
    TRY(job_refuse(job, ollama_chat_body(&body, job->json, is_chat)));
    json_decref(job->json);
    job->json = NULL;
    TRY(job_refuse(job, conversation_read(&chat, job->server, body)));
    json_decref(body);
    body = NULL;
    TRY(job_add_chat(job, chat));
out:
    osp_chat_free(chat);
    json_decref(body);
    return st;
}

static enum osp_status submit_raw(struct job *job)
{
    const struct ollama_request *r = job->state;
    const json_t *prompt = json_object_get(job->json, "prompt"),
                 *think = json_object_get(job->json, "think");
    int32_t *ids = NULL;
    size_t n = 0;
    enum osp_status st;

    if (r->has_template)
        return fail(OSP_EINVAL, "system: cannot be combined with \"raw\": true");
    if (think != NULL && !json_is_null(think))
        return fail(OSP_EINVAL, "think: cannot be combined with \"raw\": true");
    job->params.options.raw = true;
    job->params.options.no_control_text = true;
    TRY(osp_tokenize(osp_model_tokenizer(job->server->loading.result.model),
                     json_string_value(prompt), json_string_length(prompt), true, &ids, &n));
    TRY(job_add_tokens(job, ids, n));
out:
    osp_free(ids);
    return st;
}

static enum osp_status check_model(const struct job *job)
{
    return ollama_check_model(job->server, ((struct ollama_request *)job->state)->model);
}

static enum osp_status submit_chat(struct job *job)
{
    enum osp_status st;

    TRY(check_model(job));
    st = json_array_size(json_object_get(job->json, "messages")) == 0
             ? begin_load(job)
             : submit_conversation(job, true);
out:
    return st;
}

static enum osp_status submit_generate(struct job *job)
{
    const struct ollama_request *r = job->state;
    enum osp_status st;

    TRY(check_model(job));
    if (json_string_length(json_object_get(job->json, "prompt")) == 0)
        st = begin_load(job);
    else
        st = r->is_raw ? submit_raw(job) : submit_conversation(job, false);
out:
    return st;
}

/* ---- on the loop ---- */

static void begin(struct job *job, bool is_chat)
{
    struct ollama_request *r = job->state;

    ollama_reply_init(&r->reply, is_chat, r->model != NULL ? r->model : job->server->names[0]);
    r->reply.hides_thinking = job->params.hides_reasoning;
    r->reply.budget = job->params.stream ? NULL : &job->budget;
    if (job->params.options.logprobs)
        r->reply.tokenizer = osp_model_tokenizer(job->server->loading.result.model);
}

static void begin_chat(struct job *job, struct buf *out)
{
    (void)out; /* a stream begins with the first event of the answer */
    begin(job, true);
}

static void begin_generate(struct job *job, struct buf *out)
{
    (void)out;
    begin(job, false);
}

static bool on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    struct ollama_reply *reply = &((struct ollama_request *)job->state)->reply;

    (void)i; /* there is one choice */
    if (!ollama_reply_append(reply, event))
        return false;
    if (job->params.stream && event->kind != OSP_EVENT_DONE)
        ollama_reply_line(reply, out);
    return true;
}

static void end(struct job *job, struct buf *out)
{
    struct ollama_request *r = job->state;
    const struct osp_usage usage = job_usage(job);

    if (r->is_load)
        ollama_reply_nothing(&r->reply, r->is_unload ? "unload" : "load", out);
    else
        ollama_reply_end(&r->reply, &usage, out);
}

static void put_error(struct job *job, struct buf *out, const char *error_json)
{
    (void)job;
    buf_puts(out, error_json);
    buf_puts(out, "\n");
}

static void release(struct job *job)
{
    struct ollama_request *r = job->state;

    ollama_reply_release(&r->reply);
    free(r->model);
}

/* ---- routes ---- */

/* A line without text, since clients parse every line as JSON. */
#define PING_CHAT     "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n"
#define PING_GENERATE "{\"response\":\"\",\"done\":false}\n"

static const struct job_kind CHAT = {
    .fields = &ollama_chat_fields,
    .state_bytes = sizeof(struct ollama_request),
    .stream_type = NDJSON,
    .ping = PING_CHAT,
    .takes_any_type = true,
    .open = open_stream,
    .submit = submit_chat,
    .begin = begin_chat,
    .on_event = on_event,
    .end = end,
    .put_error = put_error,
    .release = release,
};

static const struct job_kind GENERATE = {
    .fields = &ollama_generate_fields,
    .state_bytes = sizeof(struct ollama_request),
    .stream_type = NDJSON,
    .ping = PING_GENERATE,
    .takes_any_type = true,
    .open = open_stream,
    .submit = submit_generate,
    .begin = begin_generate,
    .on_event = on_event,
    .end = end,
    .put_error = put_error,
    .release = release,
};

void route_ollama_chat(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &CHAT);
}

void route_ollama_generate(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &GENERATE);
}
