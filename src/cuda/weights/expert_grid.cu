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

/* Of the columns of a row of units, and the slices of one expert: sums over k of |w[e][c][k]|, and
 * the largest codes of scales. Grid: rows of units, experts. */
static __global__ void __launch_bounds__(GRID_WARPS *WARP_LANES)
    bound_slices(const __grid_constant__ struct expert_bounds bounds,
                 const __grid_constant__ struct tensor w, int width, int rank, int n_ranks)
{
    const int n_units = (int)units_of(matrix_columns(&w), UNIT_COLUMNS);
    const int tile = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int first = (int)blockIdx.x * UNIT_ROWS + tile * TILE_ROWS + lane / 4 * 2;
    const int64_t n = matrix_rows(&w);
    const unsigned char *units = (const unsigned char *)w.data + blockIdx.y * matrix_bytes(&w) +
                                 (int64_t)blockIdx.x * n_units * MXFP4_UNIT_BYTES;
    unsigned *codes = (unsigned *)bounds.columns + (2 * rank + 1) * n;

    for (int s = 0; s * width < n_units; s++) {
        const int slice = rank + s * n_ranks; /* of all ranks */
        struct lane_rows rows = lane_rows_of(units + (int64_t)s * width * MXFP4_UNIT_BYTES,
                                             expert_slice_units(n_units, width, s));

#pragma unroll
        for (int i = 0; i < 2; i++) {
            for (int step = 1; step < 4; step *= 2) /* four lanes have a row */
                rows.sums[i] += __shfl_xor_sync(ALL_LANES, rows.sums[i], step);
            if (lane % 4 == 0 && first + i < n) {
                bounds.slices[(blockIdx.y * EXPERT_SLICES + slice) * n + first + i] = rows.sums[i];
                (void)atomicMax(&codes[first + i], (unsigned)rows.codes[i]);
            }
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

/* This rank's largest biases. */
static __global__ void __launch_bounds__(COLUMN_THREADS)
    bound_biases(float *out, int n, const __grid_constant__ struct tensor bias, int64_t n_experts)
{
    const int c = (int)(blockIdx.x * COLUMN_THREADS + threadIdx.x);

    if (c < n)
        out[c] = largest_bias(bias, n_experts, c);
}

/* The larger one; NaN counts as the largest. Neither is negative. */
static __device__ __forceinline__ float larger(float a, float b)
{
    return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}

/* The bounds of a column over all experts and ranks. Slices are added in their order, so that the
 * sum does not depend on the number of ranks. */
static __device__ struct expert_column column_of(const struct expert_bounds &bounds,
                                                 int64_t n_experts, int n_ranks, int n, int c)
{
    struct expert_column column = {0.0f, 0.0f, 0};

    for (int64_t e = 0; e < n_experts; e++) {
        float sum = 0.0f;

        for (int s = 0; s < EXPERT_SLICES; s++)
            sum += bounds.slices[(e * EXPERT_SLICES + s) * n + c];
        column.weights = larger(column.weights, sum);
    }
    for (int r = 0; r < n_ranks; r++) {
        column.bias = larger(column.bias, bounds.columns[2 * r * n + c]);
        column.code = max(column.code, __float_as_int(bounds.columns[(2 * r + 1) * n + c]));
    }
    return column;
}

/* Scales and units. */
static __global__ void __launch_bounds__(COLUMN_THREADS)
    scale_columns(float *grid, int n, const __grid_constant__ struct expert_bounds bounds,
                  int64_t n_experts, int n_ranks, float limit, float alpha)
{
    const int c = (int)(blockIdx.x * COLUMN_THREADS + threadIdx.x);

    if (c >= n)
        return;
    const struct expert_column column = column_of(bounds, n_experts, n_ranks, n, c);
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

void launch_expert_bounds(cudaStream_t stream, const struct expert_bounds *bounds,
                          const struct experts_args *a, int rank, int n_ranks)
{
    const int64_t n = matrix_rows(&a->w_down), n_experts = a->w_down.dim[0];

    bound_slices<<<dim3((unsigned)units_of(n, UNIT_ROWS), (unsigned)n_experts),
                   GRID_WARPS * WARP_LANES, 0, stream>>>(*bounds, a->w_down, a->slice_units, rank,
                                                         n_ranks);
    bound_biases<<<(unsigned)units_of(n, COLUMN_THREADS), COLUMN_THREADS, 0, stream>>>(
        bounds->columns + 2 * rank * n, (int)n, a->b_down, n_experts);
}

void launch_expert_grid(cudaStream_t stream, float *grid, const struct expert_bounds *bounds,
                        const struct experts_args *a, int n_ranks)
{
    const int64_t n = matrix_rows(&a->w_down);

    scale_columns<<<(unsigned)units_of(n, COLUMN_THREADS), COLUMN_THREADS, 0, stream>>>(
        grid, (int)n, *bounds, a->w_down.dim[0], n_ranks, a->limit, a->alpha);
    list_shifts<<<(unsigned)units_of(n, UNIT_ROWS), WARP_LANES, 0, stream>>>(grid, (int)n);
}
