/* The periodic status line of the log, every 10 s while requests are in progress, and a line for
 * every change of the engine's health. */
#include "serve/core/server.h"

#include "base/clock.h"
#include "base/log.h"

enum { LINE_SECONDS = 10 };

static void log_health(struct server *s)
{
    struct osp_engine_health health;

    osp_engine_get_health(s->engine, &health);
    if (health.state == s->status_line.state)
        return;
    s->status_line.state = health.state;
    if (health.state == OSP_ENGINE_OK)
        log_info("engine state=ok");
    else
        log_error("engine state=%s reason=\"%s\"", osp_engine_state_text(health.state),
                  health.reason);
}

static bool is_busy(const struct osp_engine_stats *now, const struct osp_engine_stats *before)
{
    return now->n_running + now->n_waiting > 0 || now->n_steps != before->n_steps;
}

static void log_stats(const struct server *s, const struct osp_engine_stats *now, double seconds)
{
    const struct osp_engine_stats *before = &s->status_line.stats;
    double n_prompt = (double)(now->n_prompt_tokens - before->n_prompt_tokens);
    double n_cached = (double)(now->n_cached_tokens - before->n_cached_tokens);
    struct http_counts http;

    http_get_counts(s->http, &http);
    log_info("status running=%d waiting=%d pages=%d/%d prompt_tok_s=%.1f generated_tok_s=%.1f "
             "cache_hit=%.0f%% steps_s=%.1f connections=%lld refused=%lld",
             now->n_running, now->n_waiting, now->pages_used, now->pages_total, n_prompt / seconds,
             (double)(now->n_generated_tokens - before->n_generated_tokens) / seconds,
             n_cached > 0 ? 100 * n_cached / (n_prompt + n_cached) : 0.0,
             (double)(now->n_steps - before->n_steps) / seconds, (long long)http.n_open,
             (long long)s->n_refused);
}

void status_line_tick(struct server *s)
{
    struct status_line *line = &s->status_line;
    uint64_t now_ns = clock_ns();
    struct osp_engine_stats stats;

    log_health(s);
    if (line->logged_ns == 0)
        line->logged_ns = now_ns;
    if (now_ns - line->logged_ns < (uint64_t)LINE_SECONDS * 1000000000)
        return;
    osp_engine_get_stats(s->engine, &stats);
    if (is_busy(&stats, &line->stats))
        log_stats(s, &stats, (double)(now_ns - line->logged_ns) * 1e-9);
    line->logged_ns = now_ns;
    line->stats = stats;
}
