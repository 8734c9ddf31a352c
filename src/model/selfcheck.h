/* Holds a device's stages against the CPU's level "ref", on this machine: a small model with
 * generated weights runs on both, and behind every stage both go on from the oracle's numbers. */
#ifndef MODEL_SELFCHECK_H
#define MODEL_SELFCHECK_H

#include "model/forward.h"

/* The worst of a stage over all of its calls. */
struct stage_check {
    const char *stage;
    int n_calls;
    double
        error; /* root of the mean square of errors over that of the values; of ids, share that differ */
    double limit;
};

enum { STAGE_CHECKS_MAX = 16 };

/* The device, its kernels and the type of its KV cache are those of `opt`, whose model is not
 * looked at. Gives the number of stages. */
CHECKED enum osp_status selfcheck_run(struct stage_check out[STAGE_CHECKS_MAX], int *n,
                                      const struct model_options *opt);

#endif
