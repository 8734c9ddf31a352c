/* Runs the stages of a model's step one by one, each as a program of its own. Self-check, routing
 * statistics and tests use it to read the outputs of each stage; serving runs the whole program. */
#ifndef MODEL_STAGE_STEPS_H
#define MODEL_STAGE_STEPS_H

#include "model/model.h"

enum { STAGE_OUTPUTS_MAX = 2 };

/* The outputs of a stage, except the KV cache. */
struct stage_outputs {
    enum stage stage;
    struct tensor out[STAGE_OUTPUTS_MAX];
    int n;
};

static inline int stage_count(const struct model *m)
{
    return m->program.n_ops;
}

/* Runs stage i of the model's program, 0 to stage_count() - 1, as a step over *b, and waits for it.
 * All stages in order are one step of the model. Each is compiled when it is first run. */
CHECKED enum osp_status stage_step_run(struct model *m, int i, const struct batch *b);
struct stage_outputs stage_outputs(const struct model *m, int i);
/* For model_close(). */
void stage_steps_release(struct model *m);

#endif
