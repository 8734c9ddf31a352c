/* Sizes that all kernels with a producer warpgroup and consumer warpgroups share (Hopper). */
#ifndef CUDA_COMMON_WARPGROUP_H
#define CUDA_COMMON_WARPGROUP_H

#include "cuda/common/layout.h"

enum {
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * WARP_LANES,
    K_STEPS = UNIT_COLUMNS / 16, /* MMAs of a unit of columns */
    SHARED_BYTES_MAX = 227 << 10 /* of a block */
};

#endif
