/* The periodic status line of the log, every 10 s while requests are in progress, and a line for
 * every change of the engine's health. */
#include "serve/core/server.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

enum { LINE_SECONDS = 10 };

static void log_health(struct server *s)
{
    struct osp_engine_health health;
    struct log_fields f = {0};

    osp_engine_get_health(s->engine, &health);
    if (health.state == s->status_line.state)
        return;
    s->status_line.state = health.state;
    log_put_text(&f, "state", osp_engine_state_text(health.state));
    if (health.state != OSP_ENGINE_OK)
        log_put_text(&f, "reason", health.reason);
    log_event(health.state == OSP_ENGINE_OK ? LOG_INFO : LOG_ERROR, "engine", &f);
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
    struct log_fields f = {0};
    struct http_counts http;
    char pages[32], hits[16];

    http_get_counts(s->http, &http);
    snprintf(pages, sizeof pages, "%d/%d", now->pages_used, now->pages_total);
    snprintf(hits, sizeof hits, "%.0f%%",
             n_cached > 0 ? 100 * n_cached / (n_prompt + n_cached) : 0);
    log_put_int(&f, "running", now->n_running);
    log_put_int(&f, "waiting", now->n_waiting);
    log_put_text(&f, "pages", pages);
    log_put_decimal(&f, "prompt_tok_s", n_prompt / seconds);
    log_put_decimal(&f, "generated_tok_s",
                    (double)(now->n_generated_tokens - before->n_generated_tokens) / seconds);
    log_put_text(&f, "cache_hit", hits);
    log_put_decimal(&f, "steps_s", (double)(now->n_steps - before->n_steps) / seconds);
    log_put_int(&f, "connections", http.n_open);
    log_put_int(&f, "refused", s->n_refused);
    log_event(LOG_INFO, "status", &f);
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
