#include "cli/status/server_status.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_limits.h"

enum { BODY_BYTES_MAX = 4 << 20, TIMEOUT_S = 5, HTTP_OK = 200 };

static const struct json_limits LIMITS = {.file_bytes = BODY_BYTES_MAX,
                                          .memory_bytes = 64 << 20,
                                          .string_bytes = BODY_BYTES_MAX,
                                          .depth = 32};

/* ---- requests ---- */

/* A JSON body to json_decref(); NULL: it is none. */
static json_t *parse(const struct buf *body)
{
    if (json_limits_check(&LIMITS, buf_text(body), body->size_bytes) != OSP_OK)
        return NULL;
    return json_loadb(buf_text(body), body->size_bytes, 0, NULL);
}

static void copy_text(char *out, size_t out_bytes, const json_t *value)
{
    if (json_is_string(value))
        snprintf(out, out_bytes, "%s", json_string_value(value));
}

/* The message of an error response, or its body. */
static void set_error(struct server_status *out, const struct client_server *s, const char *path,
                      long status, const struct buf *body)
{
    json_t *root = parse(body);
    const json_t *message = json_object_get(json_object_get(root, "error"), "message");
    const char *text = json_string_value(message);

    snprintf(out->error, sizeof out->error, "%s%s: status %ld: %s", s->root, path, status,
             text ? text : buf_text(body));
    json_decref(root);
}

/* A body with status 200. A server without the route is no error, but one that refuses the key
 * is: its operator would take the missing values for zeros. */
static bool get(struct server_status *out, const struct client_server *s, const char *path,
                struct buf *body)
{
    long status = 0;

    buf_clear(body);
    if (client_server_get(s, path, TIMEOUT_S, body, &status) != OSP_OK) {
        snprintf(out->error, sizeof out->error, "%s", fail_message());
        out->is_healthy = false;
        return false;
    }
    if (status == 401 || status == 403) {
        out->is_healthy = false;
        set_error(out, s, path, status, body);
    }
    return status == HTTP_OK;
}

/* ---- the routes ---- */

/* vLLM's /health has no body; osprey's says more. */
static void read_health(struct server_status *out, const struct client_server *s, struct buf *body)
{
    const json_t *uptime;
    long status = 0;
    json_t *root;

    if (client_server_get(s, "/health", TIMEOUT_S, body, &status) != OSP_OK) {
        out->is_reachable = status > 0; /* a redirect */
        snprintf(out->error, sizeof out->error, "%s", fail_message());
        return;
    }
    out->is_reachable = true;
    out->is_healthy = status == HTTP_OK;
    root = parse(body);
    snprintf(out->state, sizeof out->state, "%s", out->is_healthy ? "ok" : "not healthy");
    copy_text(out->state, sizeof out->state, json_object_get(root, "status"));
    copy_text(out->reason, sizeof out->reason, json_object_get(root, "reason"));
    uptime = json_object_get(root, "uptime_s");
    if (json_is_number(uptime))
        out->uptime_s = json_number_value(uptime);
    if (!out->is_healthy && root == NULL)
        set_error(out, s, "/health", status, body);
    else if (!out->is_healthy)
        snprintf(out->error, sizeof out->error, "%s/health: status %ld: %s%s%s", s->root, status,
                 out->state, out->reason[0] ? ": " : "", out->reason);
    json_decref(root);
}

static void read_version(struct server_status *out, const struct client_server *s, struct buf *body)
{
    json_t *root = NULL;

    if (get(out, s, "/version", body))
        root = parse(body);
    copy_text(out->version, sizeof out->version, json_object_get(root, "version"));
    json_decref(root);
}

static void read_models(struct server_status *out, const struct client_server *s, struct buf *body)
{
    const json_t *data, *first, *context;
    json_t *root = NULL;

    if (get(out, s, "/v1/models", body))
        root = parse(body);
    data = json_object_get(root, "data");
    first = json_array_get(data, 0);
    out->n_models = (int)json_array_size(data);
    copy_text(out->model, sizeof out->model, json_object_get(first, "id"));
    context = json_object_get(first, "max_model_len");
    if (json_is_number(context))
        out->context_tokens_max = json_number_value(context);
    json_decref(root);
}

static void read_metrics(struct server_status *out, const struct client_server *s, struct buf *body)
{
    out->time_ns = clock_ns();
    if (!get(out, s, "/metrics", body))
        return;
    prometheus_read(out->metrics, STATUS_N_METRICS, buf_text(body), body->size_bytes);
    if (out->uptime_s < 0 && out->metrics[STATUS_START_TIME].n == 1)
        out->uptime_s = (double)clock_unix_s() - out->metrics[STATUS_START_TIME].sum;
}

static void server_status_init(struct server_status *out)
{
    *out = (struct server_status){
#define STATUS_METRIC(member, metric_name) .metrics[STATUS_##member] = {.name = metric_name},
        STATUS_METRIC_LIST(STATUS_METRIC)
#undef STATUS_METRIC
            .context_tokens_max = -1,
        .uptime_s = -1};
}

void server_status_read_health(struct server_status *out, const struct client_server *s)
{
    struct buf body;

    server_status_init(out);
    buf_init(&body, BODY_BYTES_MAX);
    read_health(out, s, &body);
    buf_release(&body);
}

void server_status_read(struct server_status *out, const struct client_server *s)
{
    struct buf body;

    server_status_init(out);
    buf_init(&body, BODY_BYTES_MAX);
    read_health(out, s, &body);
    if (out->is_reachable) {
        read_version(out, s, &body);
        read_metrics(out, s, &body);
        read_models(out, s, &body);
    }
    buf_release(&body);
}

/* ---- values ---- */

double status_value(const struct server_status *now, enum status_metric id)
{
    return now->metrics[id].n > 0 ? now->metrics[id].sum : -1;
}

double status_rate(const struct server_status *now, const struct server_status *before,
                   enum status_metric id)
{
    const double new_value = status_value(now, id);
    double old_value, seconds;

    if (before == NULL || new_value < 0 || status_value(before, id) < 0)
        return -1;
    seconds = (double)(now->time_ns - before->time_ns) * 1e-9;
    old_value = status_value(before, id) <= new_value ? status_value(before, id) : 0;
    return seconds > 0 ? (new_value - old_value) / seconds : -1;
}

double status_kv_usage(const struct server_status *now)
{
    const struct metric *m = &now->metrics[STATUS_KV_USAGE];

    return m->n > 0 ? m->sum / m->n : -1;
}

double status_hit_rate(const struct server_status *now)
{
    const double queries = status_value(now, STATUS_CACHE_QUERIES);
    const double hits = status_value(now, STATUS_CACHE_HITS);

    return queries > 0 && hits >= 0 ? hits / queries : -1;
}

double status_requests_done(const struct server_status *now)
{
    const double done = status_value(now, STATUS_DONE);

    return done >= 0 ? done : status_value(now, STATUS_FINISHED);
}
