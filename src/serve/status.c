/* /health: a truth that a load balancer can act on, and figures that tests can wait for. */
#include "serve/routes.h"

#include "base/clock.h"

enum { HEALTH_BYTES_MAX = 1024 };

static const char *state_of(const struct server *s)
{
    if (!s->engine)
        return "loading";
    if (!osp_engine_alive(s->engine))
        return "dead";
    return http_draining(s->http) ? "draining" : "ok";
}

void route_health(struct server *s, struct http_exchange *x, const char *name)
{
    const char *state = state_of(s);
    struct osp_engine_stats stats = {0};
    struct buf body;

    (void)name;
    if (s->engine)
        osp_engine_get_stats(s->engine, &stats);
    buf_init(&body, HEALTH_BYTES_MAX);
    buf_printf(&body, "{\"status\":\"%s\",\"running\":%d,\"waiting\":%d", state, stats.n_running,
               stats.n_waiting);
    buf_printf(&body, ",\"pages_used\":%d,\"pages_total\":%d", stats.pages_used, stats.pages_total);
    buf_printf(&body, ",\"requests_done\":%lld,\"prompt_tokens\":%lld,\"generated_tokens\":%lld",
               (long long)stats.n_requests_done, (long long)stats.n_prompt_tokens,
               (long long)stats.n_generated_tokens);
    buf_printf(&body, ",\"uptime_s\":%lld}\n",
               (long long)(s->engine ? clock_unix_s() - s->start_unix_s : 0));
    http_respond(x, state[0] == 'o' ? 200 : 503, "application/json", buf_text(&body),
                 body.size_bytes);
    buf_release(&body);
}
