/* /health: the state of the server for load balancers (200 or 503), with counters that tests can
 * poll. */
#include "serve/core/routes.h"

#include <string.h>

#include "base/clock.h"

enum { HEALTH_BYTES_MAX = 16 << 10 };

/* A failed worker is reported even while the server drains: an operator who waits for the drain
 * must see that it cannot complete. */
static const char *state_of(const struct server *s, const struct osp_engine_health *health)
{
    if (!s->engine)
        return "loading";
    if (health->state != OSP_ENGINE_OK && health->state != OSP_ENGINE_DEGRADED)
        return osp_engine_state_text(health->state);
    return http_draining(s->http) ? "draining" : osp_engine_state_text(health->state);
}

/* A server with some replicas left answers requests. */
static bool is_serving(const char *state)
{
    return strcmp(state, "ok") == 0 ||
           strcmp(state, osp_engine_state_text(OSP_ENGINE_DEGRADED)) == 0;
}

static void put_reason(struct buf *body, const struct osp_engine_health *health)
{
    buf_puts(body, ",\"reason\":");
    if (health->reason[0] == '\0')
        buf_puts(body, "null");
    else
        buf_json_string(body, health->reason, strlen(health->reason));
    buf_printf(body, ",\"restarts\":%d", health->n_restarts);
}

/* Of each replica, where there are several. */
static void put_replicas(struct buf *body, const struct server *s)
{
    const int n = osp_engine_n_replicas(s->engine);
    struct osp_engine_stats stats;
    struct osp_engine_health health;

    if (n == 1)
        return;
    buf_puts(body, ",\"replicas\":[");
    for (int i = 0; i < n; i++) {
        osp_engine_get_replica_stats(s->engine, i, &stats);
        osp_engine_get_replica_health(s->engine, i, &health);
        buf_printf(body, "%s{\"engine\":%d,\"status\":\"%s\",\"running\":%d,\"waiting\":%d",
                   i > 0 ? "," : "", i, osp_engine_state_text(health.state), stats.n_running,
                   stats.n_waiting);
        buf_printf(body, ",\"pages_used\":%d,\"pages_total\":%d,\"requests_done\":%lld",
                   stats.pages_used, stats.pages_total, (long long)stats.n_requests_done);
        put_reason(body, &health);
        buf_puts(body, "}");
    }
    buf_puts(body, "]");
}

void route_health(struct server *s, struct http_exchange *x, const char *name)
{
    struct osp_engine_health health = {.state = OSP_ENGINE_OK};
    struct osp_engine_stats stats = {0};
    const char *state;
    struct buf body;

    (void)name;
    if (s->engine) {
        osp_engine_get_stats(s->engine, &stats);
        osp_engine_get_health(s->engine, &health);
    }
    state = state_of(s, &health);
    buf_init(&body, HEALTH_BYTES_MAX);
    buf_printf(&body, "{\"status\":\"%s\",\"running\":%d,\"waiting\":%d", state, stats.n_running,
               stats.n_waiting);
    buf_printf(&body, ",\"pages_used\":%d,\"pages_total\":%d", stats.pages_used, stats.pages_total);
    buf_printf(&body, ",\"requests_done\":%lld,\"prompt_tokens\":%lld,\"generated_tokens\":%lld",
               (long long)stats.n_requests_done, (long long)stats.n_prompt_tokens,
               (long long)stats.n_generated_tokens);
    put_reason(&body, &health);
    if (s->engine)
        put_replicas(&body, s);
    buf_printf(&body, ",\"uptime_s\":%lld}\n",
               (long long)(s->engine ? clock_unix_s() - s->start_unix_s : 0));
    http_respond(x, is_serving(state) ? 200 : 503, "application/json", buf_text(&body),
                 body.size_bytes);
    buf_release(&body);
}
