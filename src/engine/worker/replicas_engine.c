/* An engine that runs in several worker processes: submissions are routed, and numbers are sums
 * over the replicas. */
#include <stdio.h>
#include <string.h>

#include "engine/core/engine.h"
#include "engine/worker/replicas.h"
#include "engine/worker/worker_sums.h"

static enum osp_status open_replicas(struct osp_engine *e)
{
    return replicas_engine_open(e->model->replicas, &e->options);
}

/* They run once they are open. */
static enum osp_status start_replicas(struct osp_engine *e)
{
    (void)e;
    return OSP_OK;
}

static void close_replicas(struct osp_engine *e)
{
    replicas_engine_close(e->model->replicas);
}

/* This process holds nothing of them. */
static void release_replicas(struct osp_engine *e)
{
    (void)e;
}

static enum osp_status submit_to_replica(struct osp_engine *e, struct osp_request *r,
                                         const struct osp_request_options *opt)
{
    return replicas_submit(e->model->replicas, r, opt);
}

/* New requests go to the replicas whose state is OSP_ENGINE_OK; to all replicas if none has it. */
static void find_serving(struct replicas *all, bool is_serving[OSP_REPLICAS_MAX])
{
    const int n = replicas_count(all);
    int n_ok = 0;

    for (int i = 0; i < n; i++) {
        struct osp_engine_health health;

        worker_client_get_health(replicas_get(all, i), &health);
        is_serving[i] = health.state == OSP_ENGINE_OK;
        n_ok += is_serving[i];
    }
    for (int i = 0; i < n && n_ok == 0; i++)
        is_serving[i] = true;
}

/* n_seqs_max is that of the replicas that serve. */
static void get_stats(struct osp_engine *e, struct osp_engine_stats *out)
{
    struct replicas *all = e->model->replicas;
    bool is_serving[OSP_REPLICAS_MAX];
    struct osp_engine_stats one;

    memset(out, 0, sizeof *out);
    find_serving(all, is_serving);
    for (int i = 0; i < replicas_count(all); i++) {
        worker_client_get_stats(replicas_get(all, i), &one);
        worker_add_counts(out, &one);
        out->n_running += one.n_running;
        out->n_waiting += one.n_waiting;
        out->n_seqs_max += is_serving[i] ? one.n_seqs_max : 0;
        out->pages_used += one.pages_used;
        out->pages_cached += one.pages_cached;
        out->pages_total += one.pages_total;
        out->pages_full += one.pages_full;
    }
}

/* The backlog is the shortest one of the replicas that serve: the next request goes there. Metrics
 * of ranks are reported by replica only. */
static void get_metrics(struct osp_engine *e, struct osp_engine_metrics *out)
{
    struct replicas *all = e->model->replicas;
    bool is_serving[OSP_REPLICAS_MAX];
    struct osp_engine_metrics one;
    bool is_first = true;

    memset(out, 0, sizeof *out);
    find_serving(all, is_serving);
    for (int i = 0; i < replicas_count(all); i++) {
        worker_client_get_metrics(replicas_get(all, i), &one);
        worker_add_metrics(out, &one);
        if (!is_serving[i] || (!is_first && one.backlog_seconds >= out->backlog_seconds))
            continue;
        out->backlog_seconds = one.backlog_seconds;
        is_first = false;
    }
    out->n_refused += replicas_n_refused(all);
}

/* The reason is that of the first replica in the worst state. All in the same state: that state. */
static void get_health(struct osp_engine *e, struct osp_engine_health *out)
{
    struct replicas *all = e->model->replicas;
    const int n = replicas_count(all);
    struct osp_engine_health one, worst;
    enum osp_engine_state best = OSP_ENGINE_DEAD;
    int n_restarts = 0, at = 0;

    memset(&worst, 0, sizeof worst);
    for (int i = 0; i < n; i++) {
        worker_client_get_health(replicas_get(all, i), &one);
        n_restarts += one.n_restarts;
        if (one.state < best)
            best = one.state;
        if (one.state > worst.state) {
            worst = one;
            at = i;
        }
    }
    *out = (struct osp_engine_health){.state = best, .n_restarts = n_restarts};
    if (worst.state == OSP_ENGINE_OK)
        return;
    if (best == OSP_ENGINE_OK)
        out->state = OSP_ENGINE_DEGRADED;
    snprintf(out->reason, sizeof out->reason, "replica %d of %d is %s: %.200s", at, n,
             osp_engine_state_text(worst.state), worst.reason);
}

static int n_replicas(struct osp_engine *e)
{
    return replicas_count(e->model->replicas);
}

static void get_one_stats(struct osp_engine *e, int i, struct osp_engine_stats *out)
{
    worker_client_get_stats(replicas_get(e->model->replicas, i), out);
}

static void get_one_metrics(struct osp_engine *e, int i, struct osp_engine_metrics *out)
{
    worker_client_get_metrics(replicas_get(e->model->replicas, i), out);
}

static void get_one_health(struct osp_engine *e, int i, struct osp_engine_health *out)
{
    worker_client_get_health(replicas_get(e->model->replicas, i), out);
}

const struct engine_ops replicas_engine_ops = {
    .open = open_replicas,
    .start = start_replicas,
    .close = close_replicas,
    .release = release_replicas,
    .submit = submit_to_replica,
    .get_stats = get_stats,
    .get_metrics = get_metrics,
    .get_health = get_health,
    .n_replicas = n_replicas,
    .get_replica_stats = get_one_stats,
    .get_replica_metrics = get_one_metrics,
    .get_replica_health = get_one_health,
};
