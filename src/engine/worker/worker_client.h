/* The parent's side of a worker: a model and its engine in a process of their own, which is
 * started, watched and restarted. Tokens, options and metrics are sent (wire.h); text stays here.
 *
 * The supervisor, a thread of its own, starts the worker, reads its frames, and kills it when it is
 * silent for too long. When the worker ends, all its requests fail at once, and it is restarted: at
 * first immediately, then after growing pauses while it makes no progress, and not at all once it
 * has ended too often. The functions here may be called from any thread. */
#ifndef ENGINE_WORKER_WORKER_CLIENT_H
#define ENGINE_WORKER_WORKER_CLIENT_H

#include "engine/core/request.h"
#include "engine/route/router.h"
#include "engine/worker/wire.h"

struct worker_client;

/* Format of what a request gets that fails with its worker. */
#define LOST_MESSAGE "the engine's process has failed (%s), and this request with it: send it again"

/* A request without a token so far whose worker has failed: another replica can have it. */
struct orphan {
    struct osp_request *request; /* a reference */
    char *frame;                 /* content of FRAME_SUBMIT; owned */
    size_t n_frame_bytes;
    int n_lost; /* workers that have failed with it */
};

/* The replicas that a worker client is one of (replicas.h). A zeroed owner: it is the only one, and
 * the requests of a failed worker fail. */
struct worker_owner {
    void *ctx;
    int index;                    /* of this replica */
    const char *const *variables; /* the worker's environment, up to NULL; borrowed */
    /* Any thread: osp_cancel() was called for a request of one of the replicas. */
    void (*canceled)(void *ctx);
    /* A request has ended in the worker. Under the client's lock. */
    void (*ended)(void *ctx, int index, const struct osp_request *request);
    /* The worker has failed. Takes the orphans. Without the client's lock. */
    void (*lost)(void *ctx, int index, struct orphan *orphans, size_t n, const char *reason);
};

/* True if these options ask for a worker ("on", or "auto" and a device that runs in one). */
CHECKED enum osp_status worker_is_wanted(bool *out, const struct osp_model_options *opt);

/* Starts the worker and waits until it has opened the model. Fails as osp_model_open() does, or
 * when the worker ends meanwhile: the first start is not retried. */
CHECKED enum osp_status worker_client_open(struct worker_client **out,
                                           const struct osp_model_options *opt,
                                           const struct model_text *text, struct wire_model *made);
void worker_client_close(struct worker_client *r); /* ends the worker; accepts NULL */

/* The same in steps, for several workers side by side. The owner's ctx must outlive the client. */
CHECKED enum osp_status worker_client_start(struct worker_client **out,
                                            const struct osp_model_options *opt,
                                            const struct model_text *text,
                                            const struct worker_owner *owner);
CHECKED enum osp_status worker_client_wait(struct worker_client *r,
                                           const struct osp_model_options *opt,
                                           struct wire_model *made);
/* Ends the worker and its supervisor, so that the owner is not called any more. */
void worker_client_stop(struct worker_client *r);
void worker_client_free(struct worker_client *r); /* after that, or if it was not started */

/* One engine at a time, as for a model. */
CHECKED enum osp_status worker_client_engine_open(struct worker_client *r,
                                                  const struct osp_engine_options *opt);
void worker_client_engine_close(struct worker_client *r); /* running requests are canceled */

/* engine_submit() for a worker; `request` was made with these options. */
CHECKED enum osp_status worker_client_submit(struct worker_client *r, struct osp_request *request,
                                             const struct osp_request_options *opt);

/* A request for one of several replicas, with the frame that each of them can get. Borrows the
 * caller's reference. */
CHECKED enum osp_status worker_client_keep(struct orphan *out, struct osp_request *request,
                                           const struct osp_request_options *opt);
/* Submits it to this replica, of whose prompt n_cached tokens are expected to be cached. Takes the
 * frame, unless it fails; the caller keeps its reference. No limit of the queue: the caller has
 * checked it when the request was new. OSP_EUNAVAILABLE: the replica is down. */
CHECKED enum osp_status worker_client_adopt(struct worker_client *r, struct orphan *o,
                                            int n_cached);
/* Looks for canceled requests. From any thread. */
void worker_client_find_canceled(struct worker_client *r);
void worker_client_get_load(struct worker_client *r, struct replica_load *out);
/* Orphans of this client have failed: no replica could take them. */
void worker_client_count_failed(struct worker_client *r, int n);

/* Sets the sizes that a first worker has planned, for later ones. */
void worker_fix_sizes(struct osp_model_options *opt, const struct memory_plan *plan);

/* Operations of an engine whose model is in a worker. */
extern const struct engine_ops worker_engine_ops; /* worker_engine.c */

void worker_client_get_stats(struct worker_client *r, struct osp_engine_stats *out);
void worker_client_get_metrics(struct worker_client *r, struct osp_engine_metrics *out);
void worker_client_get_health(struct worker_client *r, struct osp_engine_health *out);

#endif
