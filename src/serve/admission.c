/* Saying no early: whether one more request may come in, and when it is worth asking again. */
#include "serve/server.h"

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

bool admission_refuses(struct server *s, struct api_error *out)
{
    struct osp_engine_stats stats;
    int n_free, n_come = s->n_submitting;

    if (s->opt.queue_requests_max == 0) /* the engine's own limit */
        return false;
    osp_engine_get_stats(s->engine, &stats);
    n_free = stats.n_running < stats.n_seqs_max ? stats.n_seqs_max - stats.n_running : 0;
    if (stats.n_waiting < s->opt.queue_requests_max &&
        stats.n_waiting + n_come < s->opt.queue_requests_max + n_free)
        return false;
    api_error_set(out, 429, "rate_limit_exceeded", "%d requests are waiting, limit is %d",
                  stats.n_waiting + n_come, s->opt.queue_requests_max);
    admission_refused(s, out);
    return true;
}
