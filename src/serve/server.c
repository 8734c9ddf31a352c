#include "serve/core/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/anthropic/call_texts.h"
#include "serve/job/job.h"
#include "serve/http/origin.h"
#include "serve/job/conversation.h"
#include "serve/fields/json_budget.h"
#include "serve/responses/response_background.h"
#include "serve/stored/response_conversations.h"
#include "serve/stored/response_events.h"
#include "serve/stored/response_store.h"
#include "serve/core/routes.h"

bool server_has_model(const struct server *s, const char *name)
{
    for (int i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0)
            return true;
    return false;
}

bool server_has_model_like(const struct server *s, const char *name, const char *prefix)
{
    return server_has_model(s, name) || (prefix && strncmp(name, prefix, strlen(prefix)) == 0);
}

/* ---- callbacks of the HTTP side ---- */

static bool on_head(void *ctx, struct http_exchange *x)
{
    return routes_admit(ctx, x);
}

static void on_request(void *ctx, struct http_exchange *x)
{
    routes_dispatch(ctx, x);
}

static void on_wake(void *ctx)
{
    token_jobs_poll(ctx);
    jobs_poll(ctx);
}

static void on_tick(void *ctx)
{
    struct server *s = ctx;

    service_tick(s);
    if (!s->engine)
        return;
    response_store_tick(s->responses, clock_ns());
    conversations_tick(s->conversations, clock_ns());
    jobs_tick(s);
    response_background_tick(s);
    status_line_tick(s);
}

/* Loading cannot be interrupted, and no client waits for an answer yet: during loading the first
 * signal stops the server at once, as a second signal does otherwise. */
static void on_stop(void *ctx, enum http_stop level)
{
    struct server *s = ctx;

    service_tick(s);
    if (level == HTTP_STOP_ABORT) {
        s->is_aborted = true;
        token_jobs_cancel(s);
        jobs_cancel(s);
    } else if (s->is_loading) {
        http_stop(s->http);
    }
}

/* A client cannot connect to a wildcard address, so the printed URL names 127.0.0.1. */
static const char *reachable_host(const char *host)
{
    bool is_wildcard = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;

    return is_wildcard || strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
}

static void print_url(const struct server *s, void (*print)(void *ctx, const char *url))
{
    const char *host = reachable_host(s->opt.host);
    bool bracket = strchr(host, ':') != NULL;
    char *url = mem_printf("%s://%s%s%s:%d", s->opt.ssl_certfile ? "https" : "http",
                           bracket ? "[" : "", host, bracket ? "]" : "", http_port(s->http));

    if (print)
        print(s->opt.ctx, url);
    free(url);
}

static void warn_if_open(const struct server *s)
{
    const bool bracket = strchr(s->opt.host, ':') != NULL;

    if (s->keys.n == 0 && !http_is_loopback(s->http))
        log_warn("listening on %s%s%s:%d without an API key: anyone who can reach this address can "
                 "use the model; set --api-key or --api-key-file",
                 bracket ? "[" : "", s->opt.host, bracket ? "]" : "", http_port(s->http));
}

/* Called on the engine's thread after a step. */
static void on_engine_step(void *ctx)
{
    http_wake(ctx);
}

/* ---- loading ---- */

static enum osp_status open_all(struct server *s)
{
    struct loading *l = &s->loading;
    struct osp_engine_options opt = {.queue_requests_max = s->opt.queue_requests_max,
                                     .no_async_scheduling = s->opt.no_async_scheduling,
                                     .target_itl_ms = s->opt.target_itl_ms,
                                     .speculative = s->opt.speculative,
                                     .client_slot_share = s->keys.n > 1 ? CLIENT_SHARE : 0,
                                     .notify = on_engine_step,
                                     .notify_ctx = s->http};
    enum osp_status st;

    TRY(s->opt.load(s->opt.ctx, &l->result));
    TRY(osp_engine_open(&l->engine, l->result.model, &opt));
out:
    return st;
}

/* Runs on a thread of its own. */
static void load(void *ctx)
{
    struct server *s = ctx;
    struct loading *l = &s->loading;

    l->status = open_all(s);
    if (l->status != OSP_OK)
        snprintf(l->message, sizeof l->message, "%s", osp_error());
}

static void loaded(void *ctx)
{
    struct server *s = ctx;
    struct osp_sampling *sampling = &s->opt.defaults.sampling;

    s->engine = s->loading.engine;
    s->is_loading = false;
    if (http_draining(s->http))
        return;
    if (s->loading.status != OSP_OK) {
        s->loading_failed = true;
        http_stop(s->http);
        return;
    }
    osp_model_get_info(s->loading.result.model, &s->info);
    if (s->n_names == 0)
        s->names[s->n_names++] = mem_strdup(s->info.name);
    sampling->has_temperature = sampling->has_temperature || s->loading.result.is_greedy;
    s->start_unix_s = clock_unix_s();
    print_url(s, s->opt.on_ready);
    service_tick(s);
}

static void on_listening(void *ctx)
{
    struct server *s = ctx;

    s->is_loading = true;
    warn_if_open(s);
    print_url(s, s->opt.on_listening);
    service_tick(s);
    http_work(s->http, load, loaded, s);
}

/* ---- life ---- */

static enum osp_status set_names(struct server *s)
{
    const char *list = s->opt.names;

    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (s->n_names == SERVER_NAMES_MAX)
            return fail(OSP_ELIMIT,
                        "--served-model-name: at most %d names, separated by commas, can be given",
                        SERVER_NAMES_MAX);
        if (n > 0)
            s->names[s->n_names++] = mem_strndup(list, n);
        list += n + (list[n] == ',');
    }
    return OSP_OK;
}

/* --max-body-total below --max-body would refuse the largest bodies even on an idle server. */
static enum osp_status memory_limits(struct serve_options *opt)
{
    const size_t usual = SERVE_BODIES_LARGEST * opt->body_bytes_max;

    if (opt->bodies_bytes_max == 0)
        opt->bodies_bytes_max = usual > SERVE_BODIES_BYTES_MIN ? usual : SERVE_BODIES_BYTES_MIN;
    if (opt->answers_bytes_max == 0)
        opt->answers_bytes_max = SERVE_ANSWERS_BYTES_DEFAULT;
    if (opt->bodies_bytes_max < opt->body_bytes_max)
        return fail(
            OSP_EINVAL,
            "--max-body-total is %zu bytes; it must be at least --max-body, which is %zu bytes",
            opt->bodies_bytes_max, opt->body_bytes_max);
    return OSP_OK;
}

enum osp_status serve_open(struct server **out, const struct serve_options *opt)
{
    struct server *s = mem_new(sizeof *s);
    enum osp_status st;

    json_budget_install();
    service_open(s);
    s->opt = *opt;
    if (!s->opt.host)
        s->opt.host = "127.0.0.1";
    TRY(memory_limits(&s->opt));
    TRY(origins_check(opt->allowed_origins));
    if (opt->ssl_keyfile && !opt->ssl_certfile)
        TRY(fail(OSP_EINVAL, "--ssl-keyfile %s needs --ssl-certfile with the key's certificate",
                 opt->ssl_keyfile));
    s->responses =
        response_store_new(&(struct response_limits){.n_max = opt->stored_responses_max,
                                                     .bytes_max = opt->stored_bytes_max,
                                                     .age_s_max = opt->stored_age_s_max});
    s->calls = call_texts_new(CALL_TEXTS_BYTES_MAX);
    s->conversations =
        conversations_new(&(struct response_limits){.n_max = opt->stored_responses_max,
                                                    .bytes_max = opt->stored_bytes_max,
                                                    .age_s_max = opt->stored_age_s_max});
    s->backgrounds = backgrounds_new();
    TRY(set_names(s));
    TRY(conversation_defaults(s));
    if (opt->api_key)
        TRY(keys_add_list(&s->keys, opt->api_key));
    if (opt->api_key_file)
        TRY(keys_add_file(&s->keys, opt->api_key_file));
    s->n_unanswered = mem_new((size_t)(s->keys.n + 1) * sizeof *s->n_unanswered);
    if (s->keys.n > 1 && !opt->share_prefix_cache)
        keys_make_salts(&s->keys);
    TRY(http_open(&s->http, &(struct http_options){
                                .host = s->opt.host,
                                .port = opt->port,
                                .ssl_certfile = opt->ssl_certfile,
                                .ssl_keyfile = opt->ssl_keyfile,
                                .body_bytes_max = opt->body_bytes_max,
                                .bodies_bytes_max = s->opt.bodies_bytes_max,
                                .queue_bytes_max = s->opt.answers_bytes_max,
                                .request_timeout_ms = opt->request_timeout_ms,
                                .idle_timeout_ms = opt->idle_timeout_ms,
                                .stall_timeout_ms = opt->stall_timeout_ms,
                                .shutdown_timeout_ms = opt->shutdown_timeout_ms,
                                .ctx = s,
                                .on_head = on_head,
                                .on_request = on_request,
                                .on_wake = on_wake,
                                .on_tick = on_tick,
                                .on_stop = on_stop,
                            }));
    *out = s;
out:
    if (st != OSP_OK)
        serve_close(s);
    return st;
}

static void close_engine(struct server *s)
{
    jobs_close(s);
    if (s->engine)
        osp_engine_close(s->engine);
    s->engine = NULL;
}

/* The HTTP side closes first: its worker threads may still submit requests to the engine. */
void serve_close(struct server *s)
{
    if (!s)
        return;
    http_close(s->http);
    service_close(s);
    token_jobs_close(s);
    close_engine(s);
    http_free(s->http);
    backgrounds_free(s->backgrounds);
    conversations_free(s->conversations);
    response_store_free(s->responses);
    call_texts_free(s->calls);
    for (int i = 0; i < s->n_names; i++)
        free(s->names[i]);
    keys_release(&s->keys);
    free(s->n_unanswered);
    free(s);
}

enum osp_status serve_run(struct server *s, bool *forced_out)
{
    const struct loading *l = &s->loading;
    enum osp_status st;

    TRY(http_run(s->http, on_listening, forced_out));
    if (!*forced_out && l->status != OSP_OK)
        st = fail(l->status, "%s", l->message);
out:
    return st;
}
