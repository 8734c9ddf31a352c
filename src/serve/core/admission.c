/* Admission control: whether a generation request may enter the queue, and after how many
 * seconds a refused client should retry. */
#include "serve/core/server.h"

#include <math.h>

enum { RETRY_AFTER_S_MAX = 600 };

/* The time for the queued work at the recent token rate; 1 s until a rate has been measured. */
static int retry_after_s(const struct server *s)
{
    struct osp_engine_metrics metrics;
    double seconds;

    osp_engine_get_metrics(s->engine, &metrics);
    seconds = ceil(metrics.backlog_seconds);
    if (seconds < 1)
        return 1;
    return seconds < RETRY_AFTER_S_MAX ? (int)seconds : RETRY_AFTER_S_MAX;
}

void admission_refused(struct server *s, struct api_error *e)
{
    e->retry_after_s = retry_after_s(s);
    s->n_refused++;
}

void admission_count(struct server *s, int key_index, int n)
{
    if (key_index >= 0)
        s->n_unanswered[key_index] += n;
}

/* Free slots: of the queue, and of the running batch. *n_waiting: requests that wait or are
 * still being read. */
static int queue_slots_left(const struct server *s, int *n_waiting)
{
    struct osp_engine_stats stats;
    int n_free;

    osp_engine_get_stats(s->engine, &stats);
    n_free = stats.n_running < stats.n_seqs_max ? stats.n_seqs_max - stats.n_running : 0;
    *n_waiting = stats.n_waiting + s->n_submitting;
    if (stats.n_waiting >= s->opt.queue_requests_max)
        return 0;
    return s->opt.queue_requests_max + n_free - *n_waiting;
}

static bool is_over_share(const struct server *s, int key_index, int n_unanswered, int n_left)
{
    return s->keys.n > 1 && key_index >= 0 && n_unanswered >= (int64_t)CLIENT_SHARE * n_left;
}

static void set_share_error(const struct server *s, int n_unanswered, struct api_error *out)
{
    api_error_set(
        out, 429, "rate_limit_exceeded",
        "%d requests of this API key are waiting, which is its share of the %d queue slots "
        "(--max-queue); the other slots are reserved for other keys; try again later",
        n_unanswered, s->opt.queue_requests_max);
}

bool admission_refuses(struct server *s, int key_index, struct api_error *out)
{
    int n_left, n_waiting;

    if (s->opt.queue_requests_max == 0) /* the engine applies its default limit */
        return false;
    n_left = queue_slots_left(s, &n_waiting);
    if (n_left <= 0)
        api_error_set(out, 429, "rate_limit_exceeded",
                      "%d requests are waiting, the limit is %d (--max-queue); try again later",
                      n_waiting, s->opt.queue_requests_max);
    else if (key_index >= 0 && is_over_share(s, key_index, s->n_unanswered[key_index], n_left))
        set_share_error(s, s->n_unanswered[key_index], out);
    else
        return false;
    admission_refused(s, out);
    return true;
}

/* The last of the n requests is treated as the one that asks for admission. */
bool admission_exceeded(const struct server *s, int key_index, int n, struct api_error *out)
{
    int n_left, n_waiting, n_before;

    if (s->opt.queue_requests_max == 0 || key_index < 0 || n < 2)
        return false;
    n_left = queue_slots_left(s, &n_waiting) + 1;
    n_before = s->n_unanswered[key_index] - 1;
    if (!is_over_share(s, key_index, n_before, n_left))
        return false;
    set_share_error(s, n_before - n + 1, out);
    return true;
}
