/* Scales of the integer sums of the experts (common/expert_sums.h) from the weights of all experts.
 * Runs once when a program is compiled: reads w_down once, memory bound. */
#include "cuda/common/expert_sums.h"
#include "cuda/common/sums.cuh"
#include "cuda/launch/launch.h"

enum {
    GRID_WARPS = UNIT_TILES, /* a warp has a tile of a row of units */
    COLUMN_THREADS = 128
};

/* The sum of a lane's magnitudes of two rows of a tile, in all units of a row of units. */
static __device__ __forceinline__ float2 lane_sums(const unsigned char *units, int n_units)
{
    const int tile = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const unsigned char *at = units + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES;
    const unsigned char *scales =
        units + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES + tile * UNIT_BLOCKS * 2;
    float2 sum = make_float2(0.0f, 0.0f);

    for (int unit = 0; unit < n_units; unit++) {
        const uint4 words = *(const uint4 *)at;
        const uchar4 codes = *(const uchar4 *)scales; /* (block, row) */

        sum.x += 0.5f * (float)expert_word_magnitude(words.x) * scale_of(codes.x);
        sum.y += 0.5f * (float)expert_word_magnitude(words.y) * scale_of(codes.y);
        sum.x += 0.5f * (float)expert_word_magnitude(words.z) * scale_of(codes.z);
        sum.y += 0.5f * (float)expert_word_magnitude(words.w) * scale_of(codes.w);
        at += MXFP4_UNIT_BYTES;
        scales += MXFP4_UNIT_BYTES;
    }
    return sum;
}

/* Raises *largest, the bits of a float that is not negative; NaN is above all numbers. */
static __device__ __forceinline__ void raise(float *largest, float value)
{
    (void)atomicMax((unsigned *)largest, __float_as_uint(value));
}

/* largest[c] = the largest sum of |w[e][c][k]| over k of an expert. Grid: rows of units, experts. */
static __global__ void __launch_bounds__(GRID_WARPS *WARP_LANES)
    largest_rows(float *largest, const __grid_constant__ struct tensor w)
{
    const int n_units = (int)units_of(matrix_columns(&w), UNIT_COLUMNS);
    const int tile = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int row = (int)blockIdx.x * UNIT_ROWS + tile * TILE_ROWS + lane / 4 * 2;
    float2 sum = lane_sums((const unsigned char *)w.data + blockIdx.y * matrix_bytes(&w) +
                               (int64_t)blockIdx.x * n_units * MXFP4_UNIT_BYTES,
                           n_units);

    for (int step = 1; step < 4; step *= 2) { /* four lanes have a row */
        sum.x += __shfl_xor_sync(ALL_LANES, sum.x, step);
        sum.y += __shfl_xor_sync(ALL_LANES, sum.y, step);
    }
    if (lane % 4 == 0 && row < matrix_rows(&w))
        raise(&largest[row], sum.x);
    if (lane % 4 == 0 && row + 1 < matrix_rows(&w))
        raise(&largest[row + 1], sum.y);
}

/* The largest |bias[e][c]|; NaN counts as the largest. */
static __device__ float largest_bias(const struct tensor &bias, int64_t n_experts, int c)
{
    unsigned largest = 0;

    for (int64_t e = 0; e < n_experts && bias.data != NULL; e++)
        largest = max(largest, __float_as_uint(fabsf(weight_at(&bias, 0, e, c))));
    return __uint_as_float(largest);
}

/* grid = (scales, units), each (n); the scales are the largest rows before. */
static __global__ void __launch_bounds__(COLUMN_THREADS)
    scale_columns(float *grid, int n, const __grid_constant__ struct tensor bias, int64_t n_experts,
                  float limit, float alpha)
{
    const int c = (int)(blockIdx.x * COLUMN_THREADS + threadIdx.x);

    if (c >= n)
        return;
    grid[c] = expert_scale(grid[c], largest_bias(bias, n_experts, c), limit, alpha);
    grid[n + c] = 1.0f / grid[c];
}

void launch_expert_grid(cudaStream_t stream, float *grid, const struct experts_args *a)
{
    const int64_t n = matrix_rows(&a->w_down), n_experts = a->w_down.dim[0];
    const dim3 rows((unsigned)units_of(n, UNIT_ROWS), (unsigned)n_experts);

    largest_rows<<<rows, GRID_WARPS * WARP_LANES, 0, stream>>>(grid, a->w_down);
    scale_columns<<<(unsigned)units_of(n, COLUMN_THREADS), COLUMN_THREADS, 0, stream>>>(
        grid, (int)n, a->b_down, n_experts, a->limit, a->alpha);
}
