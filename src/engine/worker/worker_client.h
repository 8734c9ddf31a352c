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
#include "engine/worker/wire.h"

struct worker_client;

/* True if these options ask for a worker ("on", or "auto" and a device that runs in one). */
CHECKED enum osp_status worker_is_wanted(bool *out, const struct osp_model_options *opt);

/* Starts the worker and waits until it has opened the model. Fails as osp_model_open() does, or
 * when the worker ends meanwhile: the first start is not retried. */
CHECKED enum osp_status worker_client_open(struct worker_client **out,
                                           const struct osp_model_options *opt,
                                           const struct model_text *text, struct wire_model *made);
void worker_client_close(struct worker_client *r); /* ends the worker; accepts NULL */

/* One engine at a time, as for a model. */
CHECKED enum osp_status worker_client_engine_open(struct worker_client *r,
                                                  const struct osp_engine_options *opt);
void worker_client_engine_close(struct worker_client *r); /* running requests are canceled */

/* engine_submit() for a worker; `request` was made with these options. */
CHECKED enum osp_status worker_client_submit(struct worker_client *r, struct osp_request *request,
                                             const struct osp_request_options *opt);

/* Operations of an engine whose model is in a worker. */
extern const struct engine_ops worker_engine_ops; /* worker_engine.c */

void worker_client_get_stats(struct worker_client *r, struct osp_engine_stats *out);
void worker_client_get_metrics(struct worker_client *r, struct osp_engine_metrics *out);
void worker_client_get_health(struct worker_client *r, struct osp_engine_health *out);

#endif
