/* Compares a device's stages with those of the oracle, the CPU's ISA "ref", on this machine. A
 * small model with generated weights runs on both; after every stage both continue from the
 * oracle's outputs. */
#ifndef MODEL_SELFCHECK_H
#define MODEL_SELFCHECK_H

#include "model/forward.h"

/* The largest error of a stage over all its calls. */
struct stage_check {
    const char *stage;
    int n_calls;
    double error; /* RMS of the errors / RMS of the values; for ids, the share that differs */
    double limit;
};

enum { STAGE_CHECKS_MAX = 16 };

/* `opt` selects the device, its kernels and the dtype of its KV cache; its checkpoint is not used.
 * Sets *n to the number of stages. */
CHECKED enum osp_status selfcheck_run(struct stage_check out[STAGE_CHECKS_MAX], int *n,
                                      const struct model_options *opt);

#endif
