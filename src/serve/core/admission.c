/* Saying no early: whether one more request may come in, and when it is worth asking again. */
#include "serve/core/server.h"

#include <math.h>

enum { RETRY_AFTER_S_MAX = 600 };

/* Until what waits now is done, at the speed of late; a second while nothing has been measured. */
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

/* Of the queue, with those that can run at once; *n_waiting: that wait, or are still being read. */
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
    api_error_set(out, 429, "rate_limit_exceeded",
                  "%d requests of this API key are waiting, and its share of the %d places "
                  "(--max-queue) is used up; the others are for other keys",
                  n_unanswered, s->opt.queue_requests_max);
}

bool admission_refuses(struct server *s, int key_index, struct api_error *out)
{
    int n_left, n_waiting;

    if (s->opt.queue_requests_max == 0) /* the engine's own limit */
        return false;
    n_left = queue_slots_left(s, &n_waiting);
    if (n_left <= 0)
        api_error_set(out, 429, "rate_limit_exceeded", "%d requests are waiting, limit is %d",
                      n_waiting, s->opt.queue_requests_max);
    else if (key_index >= 0 && is_over_share(s, key_index, s->n_unanswered[key_index], n_left))
        set_share_error(s, s->n_unanswered[key_index], out);
    else
        return false;
    admission_refused(s, out);
    return true;
}

/* As if the last of them were the one that asks. */
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
