/* Quantizes rows of floats to MXFP8: one block per row, eight columns per thread. Reads 4 bytes per
 * column and writes one; memory bound. */
#include "cuda/common/mxfp8.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/mxfp8.cuh"

enum { THREADS = 256, LANE_COLUMNS = 8, BLOCK_LANES = MXFP4_BLOCK / LANE_COLUMNS };

static __global__ void __launch_bounds__(THREADS)
    mxfp8_rows_kernel(const __grid_constant__ struct mxfp8_rows to, const float *x)
{
    const int64_t n = to.n_columns, row = blockIdx.x;

    for (int64_t first = 0; first < n; first += THREADS * LANE_COLUMNS) {
        const int64_t column = first + threadIdx.x * LANE_COLUMNS;
        float v[LANE_COLUMNS] = {0};
        uint32_t words[2], scale;

        if (column < n) {
            const float4 *at = reinterpret_cast<const float4 *>(x + row * n + column);
            const float4 low = at[0], high = at[1];

            v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
            v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
        }
        scale = mxfp8_lane(words, v);
        if (column >= n)
            continue;
        *reinterpret_cast<uint2 *>(to.codes + row * n + column) = make_uint2(words[0], words[1]);
        if (threadIdx.x % BLOCK_LANES == 0)
            to.scales[row * mxfp8_scales_stride(n) + column / MXFP4_BLOCK] = (uint8_t)scale;
    }
}

void launch_mxfp8_rows(struct launch_list *list, const struct mxfp8_rows *to, const float *x,
                       int n_rows)
{
    if (n_rows > 0)
        add_kernel<mxfp8_rows_kernel>(list, n_rows, THREADS, 0, *to, x);
}
