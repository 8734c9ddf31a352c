/* A fake engine, so that the HTTP side can be tested fast and without a model. Included by the
 * tests of src/serve. A word in the request body selects the behaviour:
 *
 *     SLOW    one token every few milliseconds until the request is canceled
 *     FLOOD   more text than the client reads
 *     TOOL    a function call
 *     FAIL    an error event during the answer
 *     BUSY    submitting returns OSP_EBUSY
 *     FULL    the same while there are two requests
 *     LONG    submitting returns OSP_ELIMIT
 *     STUCK   submitting does not return until fake_let_go is set
 *     else    reasoning "thinking", then "Hello", " world" */
#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "engine/chat/chat_json.h"
#include "osprey.h"

enum { FAKE_TICK_NS = 2000000, FAKE_FLOOD_BYTES = 32 << 10, FAKE_REQUESTS_MAX = 64 };

struct osp_model {
    int unused;
};

struct osp_chat {
    char *json;
};

struct osp_request {
    struct osp_engine *engine;
    char *json;
    int n_ready, n_taken;
    bool canceled, over;
    char flood[FAKE_FLOOD_BYTES + 1];
};

struct osp_engine {
    pthread_t thread;
    pthread_mutex_t mutex;
    struct osp_engine_options opt;
    struct osp_request *requests[FAKE_REQUESTS_MAX];
    int n_done;
    bool closing;
};

static atomic_bool fake_engine_dead, fake_engine_restarts;
static atomic_bool fake_let_go;
static atomic_int fake_n_stuck, fake_n_submits; /* calls: that are STUCK now; all so far */
static atomic_int fake_seen_temperature_milli;  /* of the last request; -1 = the default */

const char *osp_version(void)
{
    return OSP_VERSION;
}

const char *osp_error(void)
{
    return fail_message();
}

int osp_status_http(enum osp_status status)
{
    return status_http(status);
}

void osp_model_get_info(const struct osp_model *model, struct osp_model_info *out)
{
    (void)model;
    *out = (struct osp_model_info){
        .name = "fake", .path = "/fake", .context_tokens_max = 4096, .load_seconds = 7.5};
}

const struct osp_tokenizer *osp_model_tokenizer(const struct osp_model *model)
{
    return (const struct osp_tokenizer *)(const void *)model;
}

enum osp_status osp_token_bytes(const struct osp_tokenizer *t, int32_t id,
                                char scratch[OSP_TOKEN_SCRATCH_BYTES], const char **bytes,
                                size_t *n_bytes)
{
    (void)t;
    *n_bytes = (size_t)snprintf(scratch, OSP_TOKEN_SCRATCH_BYTES, "t%d", (int)id);
    *bytes = scratch;
    return OSP_OK;
}

enum osp_status osp_tokenize(const struct osp_tokenizer *t, const char *text, size_t n_bytes,
                             bool with_specials, int32_t **ids, size_t *n)
{
    (void)t, (void)with_specials;
    *ids = mem_new((n_bytes + 1) * sizeof **ids);
    for (size_t i = 0; i < n_bytes; i++)
        (*ids)[i] = (unsigned char)text[i];
    *n = n_bytes;
    return OSP_OK;
}

enum osp_status osp_detokenize(const struct osp_tokenizer *t, const int32_t *ids, size_t n,
                               char **text, size_t *n_bytes)
{
    (void)t;
    *text = mem_new(n + 1);
    for (size_t i = 0; i < n; i++)
        (*text)[i] = (char)ids[i];
    *n_bytes = n;
    return OSP_OK;
}

enum osp_status osp_chat_render(const struct osp_chat *chat, const struct osp_tokenizer *t,
                                int32_t **ids, size_t *n)
{
    (void)chat;
    return osp_tokenize(t, "abc", 3, false, ids, n);
}

void osp_free(void *memory)
{
    free(memory);
}

void osp_request_prompt(const struct osp_request *request, const int32_t **ids, size_t *n)
{
    static const int32_t prompt[] = {11, 12};

    (void)request;
    *ids = prompt;
    *n = 2;
}

bool osp_request_prompt_logprob(const struct osp_request *request, size_t i,
                                struct osp_logprob *out)
{
    (void)request, (void)i, (void)out;
    return false; /* nobody asks for them here */
}

static const struct osp_usage fake_usage = {
    .n_prompt_tokens = 7, .n_generated_tokens = 5, .n_reasoning_tokens = 2, .n_cached_tokens = 1};

void osp_request_usage(const struct osp_request *request, struct osp_usage *out)
{
    (void)request;
    *out = fake_usage;
}

const char *osp_finish_text(enum osp_finish finish)
{
    static const char *const texts[] = {
#define FAKE_FINISH(member, text) text,
        OSP_FINISH_LIST(FAKE_FINISH)
#undef FAKE_FINISH
    };

    return texts[finish];
}

/* ---- chat ---- */

struct osp_chat *osp_chat_new(void)
{
    return mem_new(sizeof(struct osp_chat));
}

enum osp_status chat_read_document(struct osp_chat *chat, const json_t *body)
{
    if (!json_object_get(body, "messages"))
        return fail(OSP_EFORMAT, "messages: missing");
    chat->json = json_dumps(body, JSON_COMPACT);
    return OSP_OK;
}

enum osp_status osp_chat_set_effort(struct osp_chat *chat, const char *effort)
{
    (void)chat;
    assert(strcmp(effort, "medium") == 0);
    return OSP_OK;
}

const char *osp_chat_effort(const struct osp_chat *chat)
{
    (void)chat;
    return "medium";
}

enum osp_status osp_chat_set_date(struct osp_chat *chat, const char *date)
{
    (void)chat;
    assert(strcmp(date, "today") == 0);
    return OSP_OK;
}

void osp_chat_free(struct osp_chat *chat)
{
    if (!chat)
        return;
    free(chat->json);
    free(chat);
}

/* ---- engine ---- */

static bool fake_wants_more(const struct osp_request *r)
{
    return r && !r->over && (strstr(r->json, "SLOW") || strstr(r->json, "FLOOD") || r->n_ready < 4);
}

static void *fake_run(void *ctx)
{
    struct osp_engine *e = ctx;
    bool closing = false;

    while (!closing) {
        nanosleep(&(struct timespec){.tv_nsec = FAKE_TICK_NS}, NULL);
        pthread_mutex_lock(&e->mutex);
        for (int i = 0; i < FAKE_REQUESTS_MAX; i++)
            if (fake_wants_more(e->requests[i]))
                e->requests[i]->n_ready++;
        closing = e->closing;
        pthread_mutex_unlock(&e->mutex);
        if (e->opt.notify)
            e->opt.notify(e->opt.notify_ctx);
    }
    return NULL;
}

enum osp_status osp_engine_open(struct osp_engine **out, struct osp_model *model,
                                const struct osp_engine_options *opt)
{
    struct osp_engine *e = mem_new(sizeof *e);

    (void)model;
    fake_engine_dead = fake_engine_restarts = fake_let_go = false; /* tests may share a process */
    fake_n_stuck = fake_n_submits = 0;
    fake_seen_temperature_milli = 0;
    e->opt = *opt;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_create(&e->thread, NULL, fake_run, e);
    *out = e;
    return OSP_OK;
}

void osp_engine_close(struct osp_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    e->closing = true;
    pthread_mutex_unlock(&e->mutex);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->mutex);
    free(e);
}

void osp_engine_get_health(const struct osp_engine *engine, struct osp_engine_health *out)
{
    (void)engine;
    *out = (struct osp_engine_health){.state = OSP_ENGINE_OK};
    if (fake_engine_dead)
        *out = (struct osp_engine_health){OSP_ENGINE_DEAD, "the fake is dead", 0};
    else if (fake_engine_restarts)
        *out = (struct osp_engine_health){OSP_ENGINE_RESTARTING, "the fake rises", 1};
}

const char *osp_engine_state_text(enum osp_engine_state state)
{
    static const char *const texts[] = {
#define FAKE_STATE(member, word) word,
        OSP_ENGINE_STATE_LIST(FAKE_STATE)
#undef FAKE_STATE
    };

    return texts[state];
}

bool osp_engine_alive(const struct osp_engine *engine)
{
    (void)engine;
    return !fake_engine_dead;
}

void osp_engine_get_stats(const struct osp_engine *engine, struct osp_engine_stats *out)
{
    struct osp_engine *e = (struct osp_engine *)engine;

    *out = (struct osp_engine_stats){.pages_total = 10};
    pthread_mutex_lock(&e->mutex);
    for (int i = 0; i < FAKE_REQUESTS_MAX; i++)
        out->n_running += e->requests[i] && !e->requests[i]->over;
    out->n_requests_done = e->n_done;
    pthread_mutex_unlock(&e->mutex);
}

int osp_engine_n_replicas(const struct osp_engine *engine)
{
    (void)engine;
    return 1;
}

void osp_engine_get_replica_stats(const struct osp_engine *engine, int replica,
                                  struct osp_engine_stats *out)
{
    (void)replica;
    osp_engine_get_stats(engine, out);
}

void osp_engine_get_replica_health(const struct osp_engine *engine, int replica,
                                   struct osp_engine_health *out)
{
    (void)replica;
    osp_engine_get_health(engine, out);
}

void osp_engine_get_replica_metrics(const struct osp_engine *engine, int replica,
                                    struct osp_engine_metrics *out)
{
    (void)replica;
    osp_engine_get_metrics(engine, out);
}

/* A backlog of twelve and a half seconds; a TTFT of 0.02 s, one above all bounds. */
void osp_engine_get_metrics(const struct osp_engine *engine, struct osp_engine_metrics *out)
{
    (void)engine;
    *out = (struct osp_engine_metrics){.n_length = 3, .backlog_seconds = 12.5};
    out->histograms[OSP_HISTOGRAM_FIRST_TOKEN].counts[1] = 1;
    out->histograms[OSP_HISTOGRAM_FIRST_TOKEN].counts[3] = 1;
    out->histograms[OSP_HISTOGRAM_FIRST_TOKEN].sum = 100.25;
}

void osp_engine_get_replay(const struct osp_engine *engine, struct osp_replay_stats *out)
{
    (void)engine;
    *out = (struct osp_replay_stats){.n_hits = 7, .n_bytes = 4096};
}

const struct osp_histogram_info *osp_histogram_info(enum osp_histogram_id id)
{
    static const double bounds[] = {0.01, 0.02, 0.04};
    static const struct osp_histogram_info infos[] = {
#define FAKE_INFO(member, scale, name, text) {name, text, bounds, 3},
        OSP_HISTOGRAM_LIST(FAKE_INFO)
#undef FAKE_INFO
    };

    return &infos[id];
}

static int fake_requests(struct osp_engine *e)
{
    int n = 0;

    pthread_mutex_lock(&e->mutex);
    for (int i = 0; i < FAKE_REQUESTS_MAX; i++)
        n += e->requests[i] != NULL;
    pthread_mutex_unlock(&e->mutex);
    return n;
}

static enum osp_status fake_refusal(struct osp_engine *e, const char *json)
{
    if (strstr(json, "FULL") && fake_requests(e) >= 2)
        return fail(OSP_EBUSY, "2 requests are there");
    if (strstr(json, "BUSY"))
        return fail(OSP_EBUSY, "256 requests are waiting");
    if (strstr(json, "LONG"))
        return fail(OSP_ELIMIT, "the prompt has 5000 tokens, the context 4096");
    return OSP_OK;
}

static void fake_wait(const char *json)
{
    fake_n_submits++;
    if (!strstr(json, "STUCK"))
        return;
    fake_n_stuck++;
    while (!fake_let_go)
        nanosleep(&(struct timespec){.tv_nsec = FAKE_TICK_NS}, NULL);
    fake_n_stuck--;
}

static enum osp_status fake_submit(struct osp_request **out, struct osp_engine *e, const char *json,
                                   const struct osp_request_options *opt)
{
    enum osp_status st = fake_refusal(e, json);
    struct osp_request *r;

    *out = NULL;
    fake_wait(json);
    if (st != OSP_OK)
        return st;
    fake_seen_temperature_milli =
        opt->sampling.has_temperature ? (int)(opt->sampling.temperature * 1000) : -1;
    r = mem_new(sizeof *r);
    r->engine = e;
    r->json = mem_strdup(json);
    memset(r->flood, 'x', FAKE_FLOOD_BYTES);
    pthread_mutex_lock(&e->mutex);
    for (int i = 0; i < FAKE_REQUESTS_MAX && !*out; i++)
        if (!e->requests[i])
            *out = e->requests[i] = r;
    pthread_mutex_unlock(&e->mutex);
    return OSP_OK;
}

enum osp_status osp_submit_chat(struct osp_request **out, struct osp_engine *e,
                                const struct osp_chat *chat, const struct osp_request_options *opt)
{
    return fake_submit(out, e, chat->json, opt);
}

/* The behaviour is selected by the words of the text. */
enum osp_status osp_submit_tokens(struct osp_request **out, struct osp_engine *e,
                                  const int32_t *ids, size_t n,
                                  const struct osp_request_options *opt)
{
    enum osp_status st;
    size_t n_bytes;
    char *text;

    TRY(osp_detokenize(NULL, ids, n, &text, &n_bytes));
    st = fake_submit(out, e, text, opt);
    free(text);
out:
    return st;
}

/* ---- events ---- */

static struct osp_event fake_text(enum osp_event_kind kind, const char *text)
{
    return (struct osp_event){.kind = kind, .text = text, .n_bytes = strlen(text)};
}

static struct osp_event fake_done(enum osp_finish finish)
{
    return (struct osp_event){
        .kind = OSP_EVENT_DONE, .finish = finish, .stop_token = -1, .usage = fake_usage};
}

static struct osp_event fake_event(struct osp_request *r)
{
    int n = r->n_taken++;

    if (r->canceled)
        return fake_done(OSP_FINISH_CANCELED);
    if (strstr(r->json, "SLOW"))
        return fake_text(OSP_EVENT_TEXT, "tick ");
    if (strstr(r->json, "FLOOD"))
        return fake_text(OSP_EVENT_TEXT, r->flood);
    if (strstr(r->json, "FAIL") && n == 1)
        return (struct osp_event){
            .kind = OSP_EVENT_ERROR, .status = OSP_EDEVICE, .text = "the device is gone"};
    if (strstr(r->json, "TOOL") && n == 1)
        return (struct osp_event){
            .kind = OSP_EVENT_TOOL_CALL, .name = "get_weather", .call_id = "call_1"};
    if (strstr(r->json, "TOOL") && n == 2)
        return fake_text(OSP_EVENT_TOOL_ARGS, "{\"city\":\"Paris\"}");
    if (n == 3)
        return fake_done(strstr(r->json, "TOOL") ? OSP_FINISH_TOOL_CALLS : OSP_FINISH_STOP);
    return n == 0 ? fake_text(OSP_EVENT_REASONING, "thinking")
                  : fake_text(OSP_EVENT_TEXT, n == 1 ? "Hello" : " world");
}

enum osp_status osp_request_accepted(struct osp_request *r, int64_t timeout_ms)
{
    (void)r;
    (void)timeout_ms;
    return OSP_OK;
}

const char *osp_request_ignored(const struct osp_request *r)
{
    (void)r;
    return "";
}

enum osp_status osp_next_event(struct osp_request *r, int64_t timeout_ms, struct osp_event *out)
{
    struct osp_engine *e = r->engine;
    enum osp_status st = OSP_ETIMEOUT;

    (void)timeout_ms;
    pthread_mutex_lock(&e->mutex);
    if (!r->over && (r->canceled || r->n_taken < r->n_ready)) {
        *out = fake_event(r);
        r->over = out->kind == OSP_EVENT_DONE || out->kind == OSP_EVENT_ERROR;
        e->n_done += r->over;
        st = OSP_OK;
    }
    pthread_mutex_unlock(&e->mutex);
    return st;
}

void osp_cancel(struct osp_request *r)
{
    pthread_mutex_lock(&r->engine->mutex);
    r->canceled = true;
    pthread_mutex_unlock(&r->engine->mutex);
}

void osp_request_close(struct osp_request *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->engine->mutex);
    for (int i = 0; i < FAKE_REQUESTS_MAX; i++)
        if (r->engine->requests[i] == r)
            r->engine->requests[i] = NULL;
    pthread_mutex_unlock(&r->engine->mutex);
    free(r->json);
    free(r);
}
