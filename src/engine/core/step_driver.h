/* The device's side of a step: page moves, submission, results, and the counts of device time. How
 * a device runs steps (struct device_info) is decided here alone; the owner thread's loop sees the
 * pipeline depth. Used by the engine's thread. */
#ifndef ENGINE_CORE_STEP_DRIVER_H
#define ENGINE_CORE_STEP_DRIVER_H

#include "engine/core/engine.h"

struct step_driver {
    enum pipeline_depth depth;
    /* Counts the idle time before the step that has just been launched. */
    void (*count_idle)(struct osp_engine *e);
    /* Waits for the step in flight; writes e->tokens and the log-probabilities that the plan asks
     * for, e->results_ns and e->step_ns, and counts device time. */
    CHECKED enum osp_status (*collect)(struct osp_engine *e, const struct step_plan *plan);
};

const struct step_driver *step_driver_of(const struct device_info *info);

/* Where the batch of the next step is laid out: the step in flight keeps its own. */
void *step_batch_memory(const struct osp_engine *e);
/* Does the plan's page moves and launches its step, if it has rows and was not sent before. */
CHECKED enum osp_status step_launch(struct osp_engine *e, const struct step_plan *plan);
/* Queues the planned step, whose batch is b, behind the step in flight; b may take its tokens. */
CHECKED enum osp_status step_send(struct osp_engine *e, struct batch *b);

#endif
