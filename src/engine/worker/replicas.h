/* Several workers with the same model (data parallelism): each has GPUs or CPUs of its own, and
 * every request goes to one of them (route/router.h). A request whose worker fails before its first
 * token goes to another one, once; others fail as without replicas. The functions may be called
 * from any thread. */
#ifndef ENGINE_WORKER_REPLICAS_H
#define ENGINE_WORKER_REPLICAS_H

#include "engine/worker/worker_client.h"

struct replicas;

/* At least 1. */
int replicas_wanted(const struct osp_model_options *opt);

/* Refuses options that cannot be combined with several replicas, and more than the GPUs suffice
 * for. Does nothing for one. */
CHECKED enum osp_status replicas_check(const struct osp_model_options *opt);

/* Starts the first worker, and then the others with the sizes that it has chosen. Fails as
 * worker_client_open() does. */
CHECKED enum osp_status replicas_open(struct replicas **out, const struct osp_model_options *opt,
                                      const struct model_text *text, struct wire_model *made);
void replicas_close(struct replicas *all); /* accepts NULL */

int replicas_count(const struct replicas *all);
struct worker_client *replicas_get(struct replicas *all, int i);

/* Operations of an engine whose model is in several workers. */
extern const struct engine_ops replicas_engine_ops; /* replicas_engine.c */

CHECKED enum osp_status replicas_engine_open(struct replicas *all,
                                             const struct osp_engine_options *opt);
void replicas_engine_close(struct replicas *all);
CHECKED enum osp_status replicas_submit(struct replicas *all, struct osp_request *request,
                                        const struct osp_request_options *opt);
/* Requests that were refused before they were given to a replica. */
int64_t replicas_n_refused(struct replicas *all);

#endif
