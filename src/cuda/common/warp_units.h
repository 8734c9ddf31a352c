/* How the eight warps of a block share the units of 64 columns of a row of weights. */
#ifndef CUDA_COMMON_WARP_UNITS_H
#define CUDA_COMMON_WARP_UNITS_H

#include "backend/tensor.h"

enum { UNIT_WARPS = 8 };

/* Units first, first + step, ..., n of them. */
struct warp_units {
    int first, step, n;
};

/* Eighth `warp` of n_units: units warp, warp + 8, ...; or, with slice_units > 0, slice `warp`: so
 * many adjacent units, of which the last slice may have fewer (out_sums.h). */
static inline HOST_DEVICE struct warp_units warp_units_of(int n_units, int slice_units, int warp)
{
    struct warp_units u = {warp, UNIT_WARPS, (n_units - warp + UNIT_WARPS - 1) / UNIT_WARPS};

    if (slice_units > 0) {
        const int n_left = n_units - warp * slice_units;

        u.first = warp * slice_units;
        u.step = 1;
        u.n = n_left < 0 ? 0 : n_left < slice_units ? n_left : slice_units;
    }
    return u;
}

#endif
