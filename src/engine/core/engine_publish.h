/* Publishes a step's results to requests: metrics, tokens, ends; and makes masks. Private to the
 * engine's thread. */
#ifndef ENGINE_CORE_ENGINE_PUBLISH_H
#define ENGINE_CORE_ENGINE_PUBLISH_H

#include "engine/core/engine.h"

static inline struct osp_request *request_of(const struct seq *q)
{
    return q->owner;
}

/* Removes q and publishes its end; OSP_OK has no message. If q has rows in flight, both happen when
 * that step is committed. */
void publish_leave(struct osp_engine *e, struct seq *q, enum seq_end end, enum osp_status status,
                   const char *message);
/* Ends r, which the scheduler has refused, with the last failure. */
void publish_refusal(struct osp_engine *e, struct osp_request *r, enum osp_status status);
/* publish_leave() for all requests; no step is in flight. */
void publish_end_all(struct osp_engine *e, enum seq_end end, enum osp_status status,
                     const char *message);
/* Publishes the results of the step of that plan, which was committed at now_ns. */
void publish_step(struct osp_engine *e, const struct step_plan *plan, uint64_t now_ns);
/* Calls `notify` if anything was published since the last call. */
void publish_notify(struct osp_engine *e);

/* Makes the masks for the next samples of constrained requests, or passes those that take long to
 * the mask thread. Begins no mask after deadline_ns. */
void masks_make(struct osp_engine *e, uint64_t deadline_ns);
/* Makes all missing masks, after publishing what comes before them; from deadline_ns on the mask
 * thread makes them. A request whose mask cannot be made ends. */
void masks_make_all(struct osp_engine *e, uint64_t deadline_ns);

#endif
