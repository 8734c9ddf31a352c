/* The server as a systemd service of Type=notify: READY=1 when requests are answered, STOPPING=1
 * when it drains, WATCHDOG=1 while the engine makes progress, and STATUS= for `systemctl status`.
 * A datagram that could not be sent is sent at the next tick. */
#include "serve/core/server.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum {
    STATUS_MS = 1000,                               /* between two status texts */
    SERVICE_TEXT_BYTES = SERVICE_STATUS_BYTES - 64, /* of a reason or a name; the rest is cut */
    /* The manager waits so much longer than the drain takes, before it kills the process. */
    STOP_MARGIN_MS = 5000
};

void service_open(struct server *s)
{
    sd_notify_open(&s->service.notify);
}

void service_close(struct server *s)
{
    sd_notify_close(&s->service.notify);
}

/* The manager's own time-out may be shorter than --shutdown-timeout, so STOPPING extends it. */
static void send_phase(struct server *s)
{
    struct service *v = &s->service;
    char stopping[64];

    if (http_draining(s->http) && v->sent < SERVICE_STOPPING) {
        snprintf(stopping, sizeof stopping, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld",
                 1000LL * (s->opt.shutdown_timeout_ms + HTTP_ABORT_MS + STOP_MARGIN_MS));
        if (sd_notify_send(&v->notify, stopping))
            v->sent = SERVICE_STOPPING;
    } else if (s->engine && v->sent < SERVICE_READY) {
        if (sd_notify_send(&v->notify, "READY=1"))
            v->sent = SERVICE_READY;
    }
}

/* A worker process that is being restarted counts as progress: its supervisor gives up after
 * --worker-restarts. A wedged or dead engine does not; the manager then restarts the server. */
static void send_watchdog(struct server *s, const struct osp_engine_health *health, uint64_t now_ns)
{
    struct service *v = &s->service;
    bool is_alive = health->state == OSP_ENGINE_OK || health->state == OSP_ENGINE_DEGRADED ||
                    health->state == OSP_ENGINE_RESTARTING;

    if (v->notify.watchdog_us == 0 || !s->engine || !is_alive ||
        now_ns - v->watched_ns < v->notify.watchdog_us * 1000 / 2)
        return;
    if (sd_notify_send(&v->notify, "WATCHDOG=1"))
        v->watched_ns = now_ns;
}

static void write_status(const struct server *s, const struct osp_engine_health *health,
                         char out[SERVICE_STATUS_BYTES])
{
    const char *draining = http_draining(s->http) ? "draining, " : "";
    struct osp_engine_stats stats;

    if (!s->engine && s->loading_failed) {
        snprintf(out, SERVICE_STATUS_BYTES, "STATUS=failed: %.*s", SERVICE_TEXT_BYTES,
                 s->loading.message);
    } else if (!s->engine) {
        snprintf(out, SERVICE_STATUS_BYTES, "STATUS=loading the model");
    } else if (health->state != OSP_ENGINE_OK) {
        snprintf(out, SERVICE_STATUS_BYTES, "STATUS=%s%s: %.*s", draining,
                 osp_engine_state_text(health->state), SERVICE_TEXT_BYTES, health->reason);
    } else {
        osp_engine_get_stats(s->engine, &stats);
        snprintf(out, SERVICE_STATUS_BYTES, "STATUS=%s%.*s: %d running, %d waiting", draining,
                 SERVICE_TEXT_BYTES, s->n_names > 0 ? s->names[0] : "model", stats.n_running,
                 stats.n_waiting);
    }
}

/* A line break would begin another assignment. */
static void flatten(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

static void send_status(struct server *s, const struct osp_engine_health *health, uint64_t now_ns)
{
    struct service *v = &s->service;
    char text[SERVICE_STATUS_BYTES];

    write_status(s, health, text);
    flatten(text);
    if (strcmp(text, v->status) == 0 || !sd_notify_send(&v->notify, text))
        return;
    memcpy(v->status, text, sizeof text);
    v->status_sent_ns = now_ns;
}

void service_tick(struct server *s)
{
    struct osp_engine_health health = {.state = OSP_ENGINE_OK};
    const enum service_phase before = s->service.sent;
    uint64_t now_ns = clock_ns();

    if (!sd_notify_is_open(&s->service.notify))
        return;
    if (s->engine)
        osp_engine_get_health(s->engine, &health);
    send_phase(s);
    send_watchdog(s, &health, now_ns);
    if (s->service.sent != before ||
        now_ns - s->service.status_sent_ns >= (uint64_t)STATUS_MS * 1000000)
        send_status(s, &health, now_ns);
}
