/* A step taken apart: every stage of the model's program as a program of its own, for self-check,
 * routing and tests, which look at what each stage leaves. Serving runs the whole program. */
#ifndef MODEL_STAGE_STEPS_H
#define MODEL_STAGE_STEPS_H

#include "model/model.h"

enum { STAGE_OUTPUTS_MAX = 2 };

/* What a stage leaves for later ones, without the KV cache. */
struct stage_outputs {
    enum stage stage;
    struct tensor out[STAGE_OUTPUTS_MAX];
    int n;
};

static inline int stage_count(const struct model *m)
{
    return m->program.n_ops;
}

/* Runs stage i of the model's program, 0 to stage_count() - 1, as a step over *b, and waits for
 * it. A step of the model is all of them in order. Each is compiled when it is first run. */
CHECKED enum osp_status stage_step_run(struct model *m, int i, const struct batch *b);
struct stage_outputs stage_outputs(const struct model *m, int i);
/* For model_close(). */
void stage_steps_release(struct model *m);

#endif
