#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/chat.h"
#include "serve/json_budget.h"
#include "serve/routes.h"

bool server_has_model(const struct server *s, const char *name)
{
    for (int i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0)
            return true;
    return false;
}

/* ---- what the HTTP side calls ---- */

static void on_request(void *ctx, struct http_exchange *x)
{
    routes_dispatch(ctx, x);
}

static void on_wake(void *ctx)
{
    chat_jobs_hear(ctx);
}

static void on_stop(void *ctx, enum http_stop level)
{
    if (level == HTTP_STOP_ABORT)
        chat_jobs_cancel(ctx);
}

/* A wildcard address is none that a client can use. */
static const char *reachable_host(const char *host)
{
    bool is_wildcard = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;

    return is_wildcard || strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
}

static void on_ready(void *ctx)
{
    struct server *s = ctx;
    const char *host = reachable_host(s->opt.host);
    bool bracket = strchr(host, ':') != NULL;
    char *url = mem_printf("http://%s%s%s:%d", bracket ? "[" : "", host, bracket ? "]" : "",
                           http_port(s->http));

    if (s->opt.on_ready)
        s->opt.on_ready(s->opt.ready_ctx, url);
    free(url);
}

/* The engine's thread calls it after a step. */
static void on_engine_step(void *ctx)
{
    http_wake(ctx);
}

/* ---- life ---- */

static enum osp_status take_names(struct server *s)
{
    const char *list = s->opt.names;

    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (s->n_names == SERVER_NAMES_MAX)
            return fail(OSP_ELIMIT, "--served-model-name: more than %d names", SERVER_NAMES_MAX);
        if (n > 0)
            s->names[s->n_names++] = mem_strndup(list, n);
        list += n + (list[n] == ',');
    }
    return OSP_OK;
}

enum osp_status serve_open(struct server **out, const struct serve_options *opt)
{
    struct server *s = mem_new(sizeof *s);
    enum osp_status st;

    json_budget_install();
    s->opt = *opt;
    if (!s->opt.host)
        s->opt.host = "127.0.0.1";
    TRY(take_names(s));
    TRY(http_open(&s->http, &(struct http_options){
                                .host = s->opt.host,
                                .port = opt->port,
                                .body_bytes_max = opt->body_bytes_max,
                                .request_timeout_ms = opt->request_timeout_ms,
                                .idle_timeout_ms = opt->idle_timeout_ms,
                                .stall_timeout_ms = opt->stall_timeout_ms,
                                .shutdown_timeout_ms = opt->shutdown_timeout_ms,
                                .ctx = s,
                                .on_request = on_request,
                                .on_wake = on_wake,
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
    chat_jobs_close(s);
    if (s->engine)
        osp_engine_close(s->engine);
    s->engine = NULL;
}

/* The HTTP side goes first: its worker threads may still be submitting. */
void serve_close(struct server *s)
{
    if (!s)
        return;
    http_close(s->http);
    close_engine(s);
    http_free(s->http);
    for (int i = 0; i < s->n_names; i++)
        free(s->names[i]);
    free(s);
}

void serve_default_temperature(struct server *s, float temperature)
{
    if (s->opt.has_temperature)
        return;
    s->opt.has_temperature = true;
    s->opt.temperature = temperature;
}

void serve_stop(struct server *s)
{
    http_stop(s->http);
}

enum osp_status serve_run(struct server *s, struct osp_model *model, bool *forced_out)
{
    struct osp_engine_options opt = {.queue_requests_max = s->opt.queue_requests_max,
                                     .notify = on_engine_step,
                                     .notify_ctx = s->http};
    enum osp_status st;

    s->model = model;
    osp_model_get_info(model, &s->info);
    if (s->n_names == 0)
        s->names[s->n_names++] = mem_strdup(s->info.name);
    s->start_unix_s = clock_unix_s();
    TRY(osp_engine_open(&s->engine, model, &opt));
    TRY(http_run(s->http, on_ready, forced_out));
out:
    return st;
}
