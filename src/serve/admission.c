/* Saying no early: whether one more request may come in, and when it is worth asking again. */
#include "serve/server.h"

#include <math.h>

enum {
    RETRY_AFTER_S_MAX = 600,
    /* Of several keys one may hold so many times as many places of the queue as are left: alone four fifths of it,
     * and however many do so, one that has none yet finds one. */
    QUEUE_SHARE = 4
};

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

static bool is_over_share(const struct server *s, int key_index, int n_left)
{
    return s->keys.n > 1 && key_index >= 0 &&
           s->n_unanswered[key_index] >= (int64_t)QUEUE_SHARE * n_left;
}

bool admission_refuses(struct server *s, int key_index, struct api_error *out)
{
    const int n_max = s->opt.queue_requests_max;
    struct osp_engine_stats stats;
    int n_free, n_come = s->n_submitting, n_left;

    if (n_max == 0) /* the engine's own limit */
        return false;
    osp_engine_get_stats(s->engine, &stats);
    n_free = stats.n_running < stats.n_seqs_max ? stats.n_seqs_max - stats.n_running : 0;
    n_left = n_max + n_free - stats.n_waiting - n_come;
    if (stats.n_waiting >= n_max || n_left <= 0)
        api_error_set(out, 429, "rate_limit_exceeded", "%d requests are waiting, limit is %d",
                      stats.n_waiting + n_come, n_max);
    else if (is_over_share(s, key_index, n_left))
        api_error_set(out, 429, "rate_limit_exceeded",
                      "%d requests of this API key are waiting; the %d places that are left of "
                      "--max-queue %d are for other keys",
                      s->n_unanswered[key_index], n_left, n_max);
    else
        return false;
    admission_refused(s, out);
    return true;
}
