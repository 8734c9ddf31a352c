/* A step taken apart: its stages by number, one after the other, for tools that look at what
 * each of them leaves. The page of forward.c is what serves. */
#ifndef MODEL_STAGE_RUN_H
#define MODEL_STAGE_RUN_H

#include "model/model.h"

enum { LAYER_STAGES = 7, STAGE_OUTPUTS_MAX = 2 };

/* What a stage leaves for those that follow. */
struct stage_outputs {
    const char *name; /* "attn_qkv" */
    bool is_router;   /* of a layer's choice of experts: the first output is ids */
    struct tensor out[STAGE_OUTPUTS_MAX];
    int n;
};

static inline int stage_count(const struct model *m)
{
    return m->n_layers * LAYER_STAGES + 3;
}

/* Runs stage number i of the step in progress, 0 to stage_count() - 1. */
CHECKED enum osp_status stage_run(struct model *m, int i);
struct stage_outputs stage_outputs(const struct model *m, int i);

#endif
