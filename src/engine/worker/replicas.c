#include "engine/worker/replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/core/engine.h"
#include "engine/worker/replica_share.h"

enum { LOST_MAX = 1 /* a request that ends every worker must not end all of them */ };

struct replicas {
    int n, n_seqs_max; /* the latter of each */
    struct worker_client *client[OSP_REPLICAS_MAX];
    struct replica_share share[OSP_REPLICAS_MAX];
    struct osp_engine_options engine_options;
    pthread_mutex_t submit_lock; /* held from a choice to its submission; before a client's lock */
    pthread_mutex_t lock;        /* of the router; after a client's lock */
    struct router *router;
    _Atomic int64_t n_refused;
};

int replicas_wanted(const struct osp_model_options *opt)
{
    return opt->data_parallel_size > 1 ? opt->data_parallel_size : 1;
}

int replicas_count(const struct replicas *all)
{
    return all->n;
}

struct worker_client *replicas_get(struct replicas *all, int i)
{
    return all->client[i];
}

int64_t replicas_n_refused(struct replicas *all)
{
    return atomic_load(&all->n_refused);
}

/* ---- options ---- */

static enum osp_status check_gpus(const struct osp_model_options *opt)
{
    const int n_each = ranks_wanted(opt);
    const int n_wanted = replicas_wanted(opt) * n_each, n_gpus = visible_gpus();
    const struct backend_ops *ops = backend_find(opt->device);
    char most[48] = "";

    if (ops == NULL || strcmp(ops->name, "cpu") == 0 || n_gpus < 0 || n_wanted <= n_gpus)
        return OSP_OK;
    if (n_gpus >= n_each)
        snprintf(most, sizeof most, ": at most %d replicas fit", n_gpus / n_each);
    return fail(OSP_EINVAL,
                "data parallel size %d needs %d GPUs (%d for each replica), this process has %d%s",
                opt->data_parallel_size, n_wanted, n_each, n_gpus, most);
}

enum osp_status replicas_check(const struct osp_model_options *opt)
{
    if (opt->data_parallel_size < 0 || opt->data_parallel_size > OSP_REPLICAS_MAX)
        return fail(OSP_EINVAL, "data parallel size is %d, must be in 0 (default: 1) to %d",
                    opt->data_parallel_size, OSP_REPLICAS_MAX);
    if (replicas_wanted(opt) == 1)
        return OSP_OK;
    if (opt->rank_hosts != NULL)
        return fail(OSP_EUNSUPPORTED,
                    "data parallel size %d and hosts \"%s\" cannot be combined: replicas are on "
                    "this host; start a server on each host and put a router in front of them",
                    opt->data_parallel_size, opt->rank_hosts);
    if (opt->rank_address != NULL)
        return fail(OSP_EUNSUPPORTED,
                    "data parallel size %d cannot be combined with ranks that another launcher has "
                    "started: start a server for each replica",
                    opt->data_parallel_size);
    return check_gpus(opt);
}

/* ---- what the clients call ---- */

static void canceled(void *ctx)
{
    struct replicas *all = ctx;

    for (int i = 0; i < all->n; i++)
        worker_client_find_canceled(all->client[i]);
}

/* Whether the request reads the prefix cache and adds to it. */
static bool uses_cache(const struct replicas *all, const struct osp_request *request)
{
    const struct seq *q = &request->seq;

    return !q->is_uncached && !q->has_prompt_logprobs && !all->engine_options.no_prefix_cache;
}

/* Its answer is in the cache, too: the next turn of the conversation begins with it. */
static void ended(void *ctx, int index, const struct osp_request *request)
{
    struct replicas *all = ctx;
    const struct seq *q = &request->seq;
    struct route_prefix p;

    if (!uses_cache(all, request) ||
        route_prefix_init(&p, request->salt, q->tokens, q->n_tokens) != OSP_OK)
        return;
    pthread_mutex_lock(&all->lock);
    router_add(all->router, index, &p);
    pthread_mutex_unlock(&all->lock);
    route_prefix_release(&p);
}

/* ---- routing ---- */

/* n_waiting: in all replicas together. */
static void read_loads(struct replicas *all, struct replica_load loads[OSP_REPLICAS_MAX],
                       int *n_waiting)
{
    *n_waiting = 0;
    for (int i = 0; i < all->n; i++) {
        worker_client_get_load(all->client[i], &loads[i]);
        *n_waiting += loads[i].n_waiting;
    }
}

/* -1: all are down. */
static int choose(struct replicas *all, const struct replica_load *loads,
                  const struct osp_request *request, const struct route_prefix *p, int *n_cached)
{
    int chosen;

    pthread_mutex_lock(&all->lock);
    chosen = router_choose(all->router, p, !uses_cache(all, request), loads, n_cached);
    pthread_mutex_unlock(&all->lock);
    return chosen;
}

static void add_prefix(struct replicas *all, int i, const struct osp_request *request,
                       const struct route_prefix *p)
{
    if (!uses_cache(all, request))
        return;
    pthread_mutex_lock(&all->lock);
    router_add(all->router, i, p);
    pthread_mutex_unlock(&all->lock);
}

static enum osp_status check_queue_limit(struct replicas *all, int n_waiting)
{
    const int limit = all->engine_options.queue_requests_max;

    if (n_waiting < limit)
        return OSP_OK;
    atomic_fetch_add(&all->n_refused, 1);
    return fail(OSP_EBUSY, "%d requests are waiting, limit is %d", n_waiting, limit);
}

static enum osp_status unavailable(struct replicas *all)
{
    struct osp_engine_health health;

    worker_client_get_health(all->client[0], &health);
    return fail(OSP_EUNAVAILABLE, "all %d replicas are down; replica 0: %s", all->n, health.reason);
}

/* Takes the frame, unless it fails. A replica that fails between the choice and the submission is
 * left out of the next choice. Under the submit_lock. */
static enum osp_status place(struct replicas *all, struct orphan *o, struct replica_load *loads,
                             const struct route_prefix *p)
{
    int n_cached, i;
    enum osp_status st;

    while ((i = choose(all, loads, o->request, p, &n_cached)) >= 0) {
        st = worker_client_adopt(all->client[i], o, n_cached);
        if (st == OSP_OK)
            add_prefix(all, i, o->request, p);
        if (st != OSP_EUNAVAILABLE)
            return st;
        loads[i].state = REPLICA_DOWN;
    }
    return unavailable(all);
}

static enum osp_status submit_to_one(struct replicas *all, struct orphan *o,
                                     const struct route_prefix *p)
{
    struct replica_load loads[OSP_REPLICAS_MAX];
    int n_waiting;
    enum osp_status st;

    read_loads(all, loads, &n_waiting);
    TRY(check_queue_limit(all, n_waiting));
    st = place(all, o, loads, p);
out:
    return st;
}

enum osp_status replicas_submit(struct replicas *all, struct osp_request *request,
                                const struct osp_request_options *opt)
{
    const struct seq *q = &request->seq;
    struct orphan o = {.frame = NULL};
    struct route_prefix p;
    enum osp_status st;

    TRY(route_prefix_init(&p, request->salt, q->tokens, q->n_tokens));
    st = worker_client_keep(&o, request, opt);
    if (st == OSP_OK) {
        request->on_cancel_ctx = all;
        request->on_cancel = canceled;
        pthread_mutex_lock(&all->submit_lock);
        st = submit_to_one(all, &o, &p);
        pthread_mutex_unlock(&all->submit_lock);
    }
    if (st != OSP_OK)
        free(o.frame);
    route_prefix_release(&p);
out:
    return st;
}

/* ---- a lost replica ---- */

static enum osp_status place_orphan(struct replicas *all, struct orphan *o, int lost)
{
    const struct seq *q = &o->request->seq;
    struct replica_load loads[OSP_REPLICAS_MAX];
    struct route_prefix p;
    int n_waiting;
    enum osp_status st;

    if (o->n_lost++ >= LOST_MAX)
        return fail(OSP_EDEVICE, "it was sent again already");
    TRY(route_prefix_init(&p, o->request->salt, q->tokens, q->n_tokens));
    pthread_mutex_lock(&all->submit_lock);
    read_loads(all, loads, &n_waiting);
    loads[lost].state = REPLICA_DOWN;
    st = place(all, o, loads, &p);
    pthread_mutex_unlock(&all->submit_lock);
    route_prefix_release(&p);
out:
    return st;
}

static void fail_orphan(struct orphan *o, const char *reason)
{
    char message[FAIL_MESSAGE_BYTES_MAX];

    snprintf(message, sizeof message, LOST_MESSAGE, reason);
    o->request->seq.state = SEQ_ENDED;
    o->request->seq.end = SEQ_END_FAILED;
    request_publish_failure(o->request, OSP_EDEVICE, message);
    free(o->frame);
}

/* The orphans' n_failed is counted by the client that has lost them. */
static void lost(void *ctx, int index, struct orphan *orphans, size_t n, const char *reason)
{
    struct replicas *all = ctx;
    size_t n_placed = 0;

    pthread_mutex_lock(&all->submit_lock); /* until a submission to it is in the table */
    pthread_mutex_lock(&all->lock);
    if (all->router != NULL) /* the first replica can fail before there is one */
        router_clear(all->router, index);
    pthread_mutex_unlock(&all->lock);
    pthread_mutex_unlock(&all->submit_lock);
    for (size_t i = 0; i < n; i++) {
        if (place_orphan(all, &orphans[i], index) == OSP_OK)
            n_placed++;
        else
            fail_orphan(&orphans[i], reason);
        request_drop(orphans[i].request);
    }
    worker_client_count_failed(all->client[index], (int)(n - n_placed));
    if (n_placed > 0)
        log_warn("replica %d was lost: %zu of its requests, without a token so far, are sent to "
                 "others",
                 index, n_placed);
}

/* ---- open and close ---- */

static enum osp_status start(struct replicas *all, int i, const struct osp_model_options *given,
                             const struct model_text *text)
{
    struct replica_share *share = &all->share[i];
    struct osp_model_options opt = *given;
    struct worker_owner owner;
    enum osp_status st;

    TRY(replica_share_init(share, given, i, all->n));
    owner = (struct worker_owner){.ctx = all,
                                  .index = i,
                                  .variables = share->variables,
                                  .canceled = canceled,
                                  .ended = ended,
                                  .lost = lost};
    opt.data_parallel_size = i == 0 ? all->n : 1;
    opt.data_parallel_rank = i;
    if (share->cpus != NULL)
        opt.cpu_affinity = share->cpus;
    if (share->n_threads > 0)
        opt.n_threads = share->n_threads;
    st = worker_client_start(&all->client[i], &opt, text, &owner);
out:
    return st;
}

static enum osp_status failed_replica(enum osp_status st, int i, int n)
{
    char why[FAIL_MESSAGE_BYTES_MAX];

    snprintf(why, sizeof why, "%s", fail_message());
    return fail(st, "replica %d of %d: %s", i, n, why);
}

/* The first one plans with its share of the memory; the others get the same sizes. */
static enum osp_status start_others(struct replicas *all, const struct osp_model_options *opt,
                                    const struct model_text *text, const struct wire_model *made)
{
    struct osp_model_options same = *opt;
    struct wire_model again;
    enum osp_status st;

    worker_fix_sizes(&same, &made->plan);
    for (int i = 1; i < all->n; i++) {
        st = start(all, i, &same, text);
        if (st != OSP_OK)
            return failed_replica(st, i, all->n);
    }
    same.progress = NULL;
    for (int i = 1; i < all->n; i++) {
        st = worker_client_wait(all->client[i], &same, &again);
        if (st != OSP_OK)
            return failed_replica(st, i, all->n);
    }
    return OSP_OK;
}

/* A supervisor may look at it meanwhile. */
static enum osp_status make_router(struct replicas *all, int n_pages)
{
    struct router *router;
    enum osp_status st = router_new(&router, all->n, n_pages);

    pthread_mutex_lock(&all->lock);
    all->router = router;
    pthread_mutex_unlock(&all->lock);
    return st;
}

enum osp_status replicas_open(struct replicas **out, const struct osp_model_options *opt,
                              const struct model_text *text, struct wire_model *made)
{
    struct replicas *all = mem_new(sizeof *all);
    enum osp_status st;

    *out = NULL;
    all->n = opt->data_parallel_size;
    pthread_mutex_init(&all->submit_lock, NULL);
    pthread_mutex_init(&all->lock, NULL);
    TRY(start(all, 0, opt, text));
    TRY(worker_client_wait(all->client[0], opt, made));
    all->n_seqs_max = made->plan.n_seqs_max;
    TRY(make_router(all, made->plan.n_pages[GROUP_FULL]));
    TRY(start_others(all, opt, text, made));
    *out = all;
out:
    if (st != OSP_OK)
        replicas_close(all);
    return st;
}

/* A supervisor may call the other clients until it has ended. */
void replicas_close(struct replicas *all)
{
    if (all == NULL)
        return;
    for (int i = 0; i < all->n; i++)
        if (all->client[i] != NULL)
            worker_client_stop(all->client[i]);
    for (int i = 0; i < all->n; i++) {
        worker_client_free(all->client[i]);
        replica_share_release(&all->share[i]);
    }
    router_free(all->router);
    pthread_mutex_destroy(&all->lock);
    pthread_mutex_destroy(&all->submit_lock);
    free(all);
}

void replicas_engine_close(struct replicas *all)
{
    for (int i = 0; i < all->n; i++)
        worker_client_engine_close(all->client[i]);
}

/* Requests beyond the queue's limit are refused here, before a worker gets them. A worker must also
 * take requests of replicas that were lost, which were accepted already. */
static int worker_queue_max(const struct replicas *all)
{
    const int n_max = all->engine_options.queue_requests_max + all->n * all->n_seqs_max;

    return n_max < QUEUE_REQUESTS_MAX ? n_max : QUEUE_REQUESTS_MAX;
}

enum osp_status replicas_engine_open(struct replicas *all, const struct osp_engine_options *opt)
{
    struct osp_engine_options each = *opt;
    int n = 0;
    enum osp_status st = OSP_OK;

    all->engine_options = *opt;
    each.queue_requests_max = worker_queue_max(all);
    for (; n < all->n; n++)
        TRY(worker_client_engine_open(all->client[n], &each));
out:
    while (st != OSP_OK && n-- > 0)
        worker_client_engine_close(all->client[n]);
    return st;
}
