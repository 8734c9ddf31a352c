/* Compares a device's stages with those of the CPU's ISA "ref", on this machine: a small model with
 * generated weights runs on both, and after every stage both continue from the oracle's numbers. */
#ifndef MODEL_SELFCHECK_H
#define MODEL_SELFCHECK_H

#include "model/forward.h"

/* The largest error of a stage over all its calls. */
struct stage_check {
    const char *stage;
    int n_calls;
    double error; /* root mean square of errors over that of the values; of ids, the share that
                   * differs */
    double limit;
};

enum { STAGE_CHECKS_MAX = 16 };

/* The device, its kernels and the type of its KV cache are those of `opt`, whose model is not
 * looked at. Gives the number of stages. */
CHECKED enum osp_status selfcheck_run(struct stage_check out[STAGE_CHECKS_MAX], int *n,
                                      const struct model_options *opt);

#endif
