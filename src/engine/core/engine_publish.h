/* What a step brings those whose requests they are: figures, tokens, ends, masks. Inside of the
 * engine; its thread's. */
#ifndef ENGINE_CORE_ENGINE_PUBLISH_H
#define ENGINE_CORE_ENGINE_PUBLISH_H

#include "engine/core/engine.h"

static inline struct osp_request *request_of(const struct seq *q)
{
    return q->owner;
}

/* Takes q out and tells its client so, for OSP_OK without a message; if it has rows under way,
 * when they are committed. */
void publish_leave(struct osp_engine *e, struct seq *q, enum seq_end end, enum osp_status status,
                   const char *message);
/* r, which the scheduler has not taken, ends with the last failure. */
void publish_refusal(struct osp_engine *e, struct osp_request *r, enum osp_status status);
/* As publish_leave() for all there are; no step is under way. */
void publish_end_all(struct osp_engine *e, enum seq_end end, enum osp_status status,
                     const char *message);
/* What became of the step of that plan, which was committed at now_ns. */
void publish_step(struct osp_engine *e, const struct step_plan *plan, uint64_t now_ns);
/* Calls `notify` if there is something new to hear. */
void publish_notify(struct osp_engine *e);

/* Makes the masks for the next draws of requests that are held to a form, or gives them to the
 * mask thread if they take long; begins none later than deadline_ns. */
void masks_make(struct osp_engine *e, uint64_t deadline_ns);
/* All of them, when what is before them was told, those from deadline_ns on by the mask thread:
 * who cannot have one ends. */
void masks_make_all(struct osp_engine *e, uint64_t deadline_ns);

#endif
