/* The error with status 503 of a server that shuts down or whose engine has failed, with the
 * time after which a client should retry. */
#include <math.h>

#include "serve/core/server.h"

/* Rounded up to whole seconds, at least 1. */
static int seconds_up(double seconds)
{
    return seconds > 1 ? (int)ceil(seconds) : 1;
}

/* A retry is answered by the next server process, which starts when this one has ended: at the
 * latest when --shutdown-timeout has passed. */
void unavailable_closing(const struct server *s, struct api_error *out)
{
    api_error_set(out, 503, "shutting_down", "the server is shutting down");
    out->retry_after_s = seconds_up((double)http_drain_left_ms(s->http) * 1e-3);
}

/* A restarting engine is expected to take as long as the first load. A dead engine needs the
 * operator, so clients get no Retry-After. */
static void engine_failed(const struct server *s, const struct osp_engine_health *health,
                          struct api_error *out)
{
    if (health->state == OSP_ENGINE_DEAD) {
        api_error_set(out, 503, "engine_dead",
                      "the engine has failed (%s); the server must be restarted by its operator",
                      health->reason);
        out->retry_after_s = -1;
        return;
    }
    api_error_set(out, 503, "engine_restarting", "the engine is %s: %s; try again",
                  osp_engine_state_text(health->state), health->reason);
    out->retry_after_s = seconds_up(s->info.load_seconds);
}

bool is_unavailable(const struct server *s, struct api_error *out)
{
    struct osp_engine_health health;

    osp_engine_get_health(s->engine, &health);
    if (http_draining(s->http))
        unavailable_closing(s, out);
    else if (health.state == OSP_ENGINE_DEAD || health.state == OSP_ENGINE_RESTARTING)
        engine_failed(s, &health, out);
    else
        return false;
    return true;
}
