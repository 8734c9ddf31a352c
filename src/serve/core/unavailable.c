/* The 503 of a server that ends, or whose engine has failed, and how long a client should wait:
 * as long as is known. */
#include <math.h>

#include "serve/core/server.h"

/* Whole seconds, a second at least. */
static int seconds_up(double seconds)
{
    return seconds > 1 ? (int)ceil(seconds) : 1;
}

/* Who asks again is answered by the next server, which begins when this one has ended: after its
 * limit at the latest. */
void unavailable_closing(const struct server *s, struct api_error *out)
{
    api_error_set(out, 503, "shutting_down", "the server is shutting down");
    out->retry_after_s = seconds_up((double)http_drain_left_ms(s->http) * 1e-3);
}

/* Comes back by itself when it restarts, as fast as it came the first time; a dead one is for
 * whoever runs the server. */
static void engine_failed(const struct server *s, const struct osp_engine_health *health,
                          struct api_error *out)
{
    if (health->state == OSP_ENGINE_DEAD) {
        api_error_set(out, 503, "engine_dead",
                      "the engine has failed (%s); the server must be restarted", health->reason);
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
