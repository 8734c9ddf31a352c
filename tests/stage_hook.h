/* Lets a test see, or change, what every stage of a model's steps leaves: the steps run stage by
 * stage (model/stage_steps.h), with the same bits. For one model on the CPU at a time. */
#ifndef STAGE_HOOK_H
#define STAGE_HOOK_H

#include "model/stage_steps.h"

/* Called after every stage, with the arguments and the batch of the step. */
typedef void stage_hook_fn(enum stage stage, const union stage_args *args, const struct batch *b);

static struct {
    struct model *model;
    const struct backend_ops *real; /* the model's own */
    struct backend_ops ops;
    stage_hook_fn *after;
} stage_hook;

static inline enum osp_status stage_hook_run(struct backend *be, struct compiled *c,
                                             const struct batch *b, uint64_t *ticket)
{
    struct model *m = stage_hook.model;
    union stage_args args;
    enum osp_status st = OSP_OK;

    if (c != m->compiled) /* a stage of its own */
        return stage_hook.real->run(be, c, b, ticket);
    for (int i = 0; i < stage_count(m); i++) {
        TRY(stage_step_run(m, i, b));
        program_args(&m->program, i, &args);
        stage_hook.after(m->program.ops[i].stage, &args, b);
    }
    *ticket = 0; /* stage_step_run() has waited */
out:
    return st;
}

static inline void stage_hook_set(struct model *m, stage_hook_fn *after)
{
    stage_hook.model = m;
    stage_hook.after = after;
    stage_hook.real = m->ops;
    stage_hook.ops = *m->ops;
    stage_hook.ops.run = stage_hook_run;
    m->ops = &stage_hook.ops;
}

#endif
