/* Scales of the integer sums of the experts (common/expert_sums.h) from the weights of all experts.
 * Runs once when a program is compiled: reads w_down once, memory bound. */
#include "cuda/common/expert_sums.h"
#include "cuda/common/sums.cuh"
#include "cuda/launch/launch.h"

enum {
    GRID_WARPS = UNIT_TILES, /* a warp has a tile of a row of units */
    COLUMN_THREADS = 128
};

/* Of the units of a row of units: the sums of a lane's magnitudes of two rows of a tile, and the
 * largest codes of the rows' scales. */
struct lane_rows {
    float sums[2];
    int codes[2];
};

static __device__ __forceinline__ void add_block(struct lane_rows *rows, int i, uint32_t word,
                                                 int code)
{
    rows->sums[i] += 0.5f * (float)expert_word_magnitude(word) * scale_of(code);
    rows->codes[i] = max(rows->codes[i], code);
}

static __device__ __forceinline__ struct lane_rows lane_rows_of(const unsigned char *units,
                                                                int n_units)
{
    const int tile = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const unsigned char *at = units + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES;
    const unsigned char *scales =
        units + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES + tile * UNIT_BLOCKS * 2;
    struct lane_rows rows = {};

    for (int unit = 0; unit < n_units; unit++) {
        const uint4 words = *(const uint4 *)at;
        const uchar4 codes = *(const uchar4 *)scales; /* (block, row) */

        add_block(&rows, 0, words.x, codes.x);
        add_block(&rows, 1, words.y, codes.y);
        add_block(&rows, 0, words.z, codes.z);
        add_block(&rows, 1, words.w, codes.w);
        at += MXFP4_UNIT_BYTES;
        scales += MXFP4_UNIT_BYTES;
    }
    return rows;
}

/* What the grid holds before it is a grid, in the places of scales and units: bits of floats that
 * are not negative, of which NaN is above all numbers, and codes. */
struct largest {
    unsigned *sums, *codes; /* (n) */
};

/* The largest sum over k of |w[e][c][k]| of an expert e, and the largest code of a scale, for each
 * column c. Grid: rows of units, experts. */
static __global__ void __launch_bounds__(GRID_WARPS *WARP_LANES)
    largest_rows(struct largest largest, const __grid_constant__ struct tensor w)
{
    const int n_units = (int)units_of(matrix_columns(&w), UNIT_COLUMNS);
    const int tile = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int first = (int)blockIdx.x * UNIT_ROWS + tile * TILE_ROWS + lane / 4 * 2;
    struct lane_rows rows =
        lane_rows_of((const unsigned char *)w.data + blockIdx.y * matrix_bytes(&w) +
                         (int64_t)blockIdx.x * n_units * MXFP4_UNIT_BYTES,
                     n_units);

#pragma unroll
    for (int i = 0; i < 2; i++) {
        for (int step = 1; step < 4; step *= 2) /* four lanes have a row */
            rows.sums[i] += __shfl_xor_sync(ALL_LANES, rows.sums[i], step);
        if (lane % 4 == 0 && first + i < matrix_rows(&w)) {
            (void)atomicMax(&largest.sums[first + i], __float_as_uint(rows.sums[i]));
            (void)atomicMax(&largest.codes[first + i], (unsigned)rows.codes[i]);
        }
    }
}

/* The largest |bias[e][c]|; NaN counts as the largest. */
static __device__ float largest_bias(const struct tensor &bias, int64_t n_experts, int c)
{
    unsigned largest = 0;

    for (int64_t e = 0; e < n_experts && bias.data != NULL; e++)
        largest = max(largest, __float_as_uint(fabsf(weight_at(&bias, 0, e, c))));
    return __uint_as_float(largest);
}

/* Scales and units from what largest_rows() left. */
static __global__ void __launch_bounds__(COLUMN_THREADS)
    scale_columns(float *grid, int n, const __grid_constant__ struct tensor bias, int64_t n_experts,
                  float limit, float alpha)
{
    const int c = (int)(blockIdx.x * COLUMN_THREADS + threadIdx.x);

    if (c >= n)
        return;
    const struct expert_column column = {grid[c], largest_bias(bias, n_experts, c),
                                         __float_as_int(grid[n + c])};
    const float scale = expert_scale(&column, limit, alpha);

    grid[c] = scale;
    grid[n + c] = 1.0f / scale;
}

/* The shifts of a row of units; one warp. */
static __global__ void __launch_bounds__(WARP_LANES) list_shifts(float *grid, int n)
{
    uint32_t *shifts = (uint32_t *)expert_shifts(grid, n);

    shifts[blockIdx.x * WARP_LANES + threadIdx.x] =
        expert_lane_shifts(grid, n, (int64_t)blockIdx.x * UNIT_ROWS, (int)threadIdx.x);
}

void launch_expert_grid(cudaStream_t stream, float *grid, const struct experts_args *a)
{
    const int64_t n = matrix_rows(&a->w_down), n_experts = a->w_down.dim[0];
    const unsigned n_rows = (unsigned)units_of(n, UNIT_ROWS);
    const struct largest largest = {(unsigned *)grid, (unsigned *)(grid + n)};

    largest_rows<<<dim3(n_rows, (unsigned)n_experts), GRID_WARPS * WARP_LANES, 0, stream>>>(
        largest, a->w_down);
    scale_columns<<<(unsigned)units_of(n, COLUMN_THREADS), COLUMN_THREADS, 0, stream>>>(
        grid, (int)n, a->b_down, n_experts, a->limit, a->alpha);
    list_shifts<<<n_rows, WARP_LANES, 0, stream>>>(grid, (int)n);
}
