/* Skinny GEMM: out[t][r] = sum over k of W[r][k] x[t][k] + b[r], or SwiGLU of pairs of rows.
 *
 * Weights are operand A of mma.sync.m16n8k16, stored in its fragment layout (layout.h); tokens are
 * its columns, eight per MMA. MXFP4: codes become FP16 in registers, x is rounded to FP16, and the
 * scale of a row's block multiplies the result of that block (a power of two: exact). BF16: x is
 * rounded to BF16, or, for the router, split into three BF16 terms.
 *
 * A block computes one 16-row tile for up to 16 tokens at a time. Its eight warps split K: each
 * takes every eighth unit of 64 columns, and the partial sums are added in warp order; or, in
 * attn_out, a slice of adjacent units, and the sums are added as integers (out_sums.h). The
 * assignment of units to warps depends on the shape alone, so a token has the same bits in any
 * batch.
 *
 * Traffic: the weights as stored, once per 16 tokens (from L2 after the first). Memory bound for
 * few tokens. Not tuned: a warp has few loads in flight, and large batches read the weights
 * repeatedly.
 *
 * Weights in other layouts (F32) use a scalar kernel: one warp per row, in float32. */
#include "cuda/launch/launch.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/layout.h"
#include "cuda/common/mma.cuh"
#include "cuda/common/out_sums.h"
#include "cuda/common/warp_units.h"
#include "cuda/common/swiglu.cuh"

enum {
    WARPS = UNIT_WARPS,
    THREADS = WARPS * WARP_LANES,
    COLUMN_TOKENS = 8,   /* of one MMA */
    TOKEN_BLOCKS_MAX = 8 /* blocks that share the tokens of a large batch */
};

enum format { FORMAT_BF16, FORMAT_BF16_EXACT, FORMAT_MXFP4 };

/* MXFP4 codes enter the MMA as 2^-14 times their value. */
static const float CODE_UNIT = 16384.0f;

/* One tile of rows and the tokens that it is multiplied with. */
struct task {
    int job;
    int64_t row;    /* first row of the tile */
    int64_t expert; /* 0: one matrix */
    int first, n;   /* entries */
};

static __device__ bool find_task(const struct matmul &a, struct task *out)
{
    int64_t tile = blockIdx.x;
    int job = 0;

    while (job + 1 < a.n_jobs && tile >= units_of(matrix_rows(&a.w[job]), TILE_ROWS))
        tile -= units_of(matrix_rows(&a.w[job++]), TILE_ROWS);
    out->job = job;
    out->row = tile * TILE_ROWS;
    out->expert = 0;
    out->first = 0;
    out->n = a.n_tokens;
    if (a.first == NULL)
        return true;
    if ((int)blockIdx.y >= *a.n_active)
        return false;
    out->expert = a.active[blockIdx.y];
    out->first = a.first[out->expert];
    out->n = a.first[out->expert + 1] - out->first;
    return true;
}

/* Entries of the task that are no padding. Read where it is used: kept in a register, it makes
 * matmul_kernel spill. */
static __device__ __forceinline__ int live_entries(const struct matmul &a, const struct task &task)
{
    return a.n_live == NULL ? task.n : __ldcv(a.n_live);
}

static __device__ const float *row_of_x(const struct matmul &a, int entry)
{
    const int64_t row = a.gather == NULL ? entry : a.gather[(int64_t)entry * a.gather_stride];

    return a.x + row * matrix_columns(&a.w[0]);
}

/* Eight floats of a row from column k on, zeros beyond its end; x NULL: zeros. */
static __device__ __forceinline__ void load_x(float out[8], const float *x, int64_t k, int64_t n)
{
    if (x != NULL && k + 8 <= n && n % 4 == 0) {
        const float4 low = *reinterpret_cast<const float4 *>(x + k);
        const float4 high = *reinterpret_cast<const float4 *>(x + k + 4);

        out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
        out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i] = x != NULL && k + i < n ? x[k + i] : 0.0f;
}

/* What a lane holds of one unit of its tile. */
struct unit_mxfp4 {
    enum { AT_ONCE = 4 }; /* units in flight per warp: enough, over all warps, to saturate memory */
    uint4 codes;
    uint32_t scales;
};
struct unit_bf16 {
    enum { AT_ONCE = 2 };
    uint4 words[2 * UNIT_BLOCKS]; /* (block, MMA) */
};

static __device__ __forceinline__ void load_unit(struct unit_mxfp4 *out, const unsigned char *unit,
                                                 int tile)
{
    const int lane = threadIdx.x % WARP_LANES;

    out->codes = reinterpret_cast<const uint4 *>(unit + tile * MXFP4_TILE_BYTES)[lane];
    out->scales = *reinterpret_cast<const uint32_t *>(
        unit + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES + tile * UNIT_BLOCKS * 2);
}

static __device__ __forceinline__ void load_unit(struct unit_bf16 *out, const unsigned char *unit,
                                                 int tile)
{
    const uint4 *at =
        reinterpret_cast<const uint4 *>(unit + tile * BF16_TILE_BYTES) + threadIdx.x % WARP_LANES;

#pragma unroll
    for (int i = 0; i < 2 * UNIT_BLOCKS; i++)
        out->words[i] = at[i * WARP_LANES];
}

/* pair_f16(), element by element: with the packed conversion the kernel of two columns is one
 * register short. */
static __device__ __forceinline__ uint32_t split_pair(float x, float y)
{
    const __half2 pair = __floats2half2_rn(clamp_f16(x), clamp_f16(y));

    return *reinterpret_cast<const uint32_t *>(&pair);
}

/* acc += the unit's columns, which start at k0, times the tokens. */
template <int COLS, int TERMS>
static __device__ __forceinline__ void add_unit(float acc[COLS][4], const struct unit_mxfp4 &unit,
                                                const float *const x[COLS], int64_t k0, int64_t n)
{
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        const int64_t k = k0 + block * MXFP4_BLOCK + threadIdx.x % 4 * 8;
        const float low_scale = scale_of(unit.scales >> block * 16 & 255);
        const float high_scale = scale_of(unit.scales >> (block * 16 + 8) & 255);
        uint32_t low[4], high[4];

        halves_of_word(low, block == 0 ? unit.codes.x : unit.codes.z);
        halves_of_word(high, block == 0 ? unit.codes.y : unit.codes.w);
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const uint32_t a0[4] = {low[0], high[0], low[1], high[1]};
            const uint32_t a1[4] = {low[2], high[2], low[3], high[3]};
            float v[8], d[4] = {0, 0, 0, 0};

            load_x(v, x[c], k, n);
            mma_f16(d, a0, split_pair(v[0], v[1]), split_pair(v[2], v[3]));
            mma_f16(d, a1, split_pair(v[4], v[5]), split_pair(v[6], v[7]));
            acc[c][0] = __fmaf_rn(d[0], low_scale, acc[c][0]);
            acc[c][1] = __fmaf_rn(d[1], low_scale, acc[c][1]);
            acc[c][2] = __fmaf_rn(d[2], high_scale, acc[c][2]);
            acc[c][3] = __fmaf_rn(d[3], high_scale, acc[c][3]);
        }
    }
}

/* x is split into TERMS BF16 terms, each with its own accumulator. */
template <int COLS, int TERMS>
static __device__ __forceinline__ void add_unit(float acc[COLS * TERMS][4],
                                                const struct unit_bf16 &unit,
                                                const float *const x[COLS], int64_t k0, int64_t n)
{
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        const int64_t k = k0 + block * MXFP4_BLOCK + threadIdx.x % 4 * 8;
        const uint4 w0 = unit.words[block * 2], w1 = unit.words[block * 2 + 1];
        const uint32_t a0[4] = {w0.x, w0.y, w0.z, w0.w}, a1[4] = {w1.x, w1.y, w1.z, w1.w};

#pragma unroll
        for (int c = 0; c < COLS; c++) {
            float v[8];

            load_x(v, x[c], k, n);
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                uint32_t b[4];

#pragma unroll
                for (int i = 0; i < 4; i++)
                    b[i] =
                        TERMS == 1 ? pair_bf16(v[2 * i], v[2 * i + 1]) : round_to_bf16(v + 2 * i);
                mma_bf16(acc[c * TERMS + term], a0, b[0], b[1]);
                mma_bf16(acc[c * TERMS + term], a1, b[2], b[3]);
            }
        }
    }
}

/* acc += this warp's units of the tile's rows, in order. AT_ONCE units are loaded before the first
 * of them is used. */
template <typename UNIT, int COLS, int TERMS, bool IS_SLICED>
static __device__ __forceinline__ void
add_units(float acc[COLS * TERMS][4], const unsigned char *units, int tile, int size_bytes,
          const float *const x[COLS], int64_t n, int slice_units)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
    /* a full count needs more registers than there are for 16 tokens, which also need less memory
     * bandwidth */
    enum { AT_ONCE = COLS == 1 ? (int)UNIT::AT_ONCE : UNIT::AT_ONCE / 2 };
#else
    enum { AT_ONCE = UNIT::AT_ONCE };
#endif
    const struct warp_units u = warp_units_of(
        (int)units_of(n, UNIT_COLUMNS), IS_SLICED ? slice_units : 0, threadIdx.x / WARP_LANES);

    for (int k = 0; k < u.n; k += AT_ONCE) {
        UNIT held[AT_ONCE];

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (k + i < u.n)
                load_unit(&held[i], units + (int64_t)(u.first + (k + i) * u.step) * size_bytes,
                          tile);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (k + i < u.n)
                add_unit<COLS, TERMS>(acc, held[i], x,
                                      (int64_t)(u.first + (k + i) * u.step) * UNIT_COLUMNS, n);
    }
}

static __device__ float bias_at(const struct tensor *bias, int64_t expert, int64_t row)
{
    if (bias->data == NULL)
        return 0.0f;
    return bias->n_dims == 1 ? weight_at(bias, 0, 0, row) : weight_at(bias, 0, expert, row);
}

/* Stores the results of rows `row` and row + 1 of one entry; either row may be past the end. */
static __device__ void finish(const struct matmul &a, const struct task &task, int64_t row,
                              int entry, float even, float odd)
{
    const int64_t n_rows = matrix_rows(&a.w[task.job]);
    float *out = a.out[task.job] + (int64_t)entry * a.out_width[task.job];

    if (row >= n_rows)
        return;
    even += bias_at(&a.bias[task.job], task.expert, row);
    if (row + 1 < n_rows)
        odd += bias_at(&a.bias[task.job], task.expert, row + 1);
    if (a.is_swiglu) {
        out[row / 2] = swiglu(even, odd, a.limit, a.alpha);
        return;
    }
    out[row] = even;
    if (row + 1 < n_rows)
        out[row + 1] = odd;
}

/* Adds up an element of the partial sums (warp, COLS, lane, 4), which is in multiples of `unit`. */
static __device__ __forceinline__ float sum_of_warps(const float *sums, int n_columns, float unit,
                                                     bool is_sliced)
{
    const int stride = n_columns * WARP_LANES * 4;
    struct out_sum of_slices = {};
    float sum = 0.0f;

    for (int k = 0; k < WARPS && is_sliced; k++)
        out_sum_add(&of_slices, sums[k * stride], unit * OUT_SUM_UNITS);
    for (int k = 0; k < WARPS && !is_sliced; k++)
        sum += sums[k * stride];
    return is_sliced ? out_sum_value(of_slices, WARPS) : sum * unit;
}

template <int FORMAT, int COLS, bool IS_SLICED>
static __global__ void __launch_bounds__(THREADS)
    matmul_kernel(const __grid_constant__ struct matmul a)
{
    enum { TOKENS = COLS * COLUMN_TOKENS, TERMS = FORMAT == FORMAT_BF16_EXACT ? 3 : 1 };
    __shared__ float sums[WARPS][COLS][WARP_LANES][4];
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    struct task task;

    if (!find_task(a, &task))
        return;
    const struct tensor *w = &a.w[task.job];
    const int64_t n = matrix_columns(w), n_units = units_of(n, UNIT_COLUMNS);
    const int size_bytes = unit_bytes(w->dtype), tile = (int)(task.row % UNIT_ROWS / TILE_ROWS);
    const unsigned char *units = (const unsigned char *)w->data + task.expert * matrix_bytes(w) +
                                 task.row / UNIT_ROWS * n_units * size_bytes;

    for (int t0 = blockIdx.z * TOKENS; t0 < task.n; t0 += gridDim.z * TOKENS) {
        const float *x[COLS];
        float acc[COLS * TERMS][4] = {};

#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const int token = t0 + c * COLUMN_TOKENS + lane / 4;

            x[c] = token < live_entries(a, task) ? row_of_x(a, task.first + token) : NULL;
        }
        if (FORMAT == FORMAT_MXFP4)
            add_units<unit_mxfp4, COLS, 1, IS_SLICED>(acc, units, tile, size_bytes, x, n,
                                                      a.slice_units);
        else
            add_units<unit_bf16, COLS, TERMS, IS_SLICED>(acc, units, tile, size_bytes, x, n,
                                                         a.slice_units);
#pragma unroll
        for (int c = 0; c < COLS; c++)
            for (int i = 0; i < 4; i++)
                sums[warp][c][lane][i] =
                    TERMS == 1 ? acc[c][i]
                               : __fadd_rn(__fadd_rn(acc[c * TERMS + TERMS - 1][i],
                                                     acc[c * TERMS + TERMS / 2][i]),
                                           acc[c * TERMS][i]); /* the smallest term first */
        __syncthreads();
        if (threadIdx.x < COLS * WARP_LANES * 2) {
            const int c = threadIdx.x / (WARP_LANES * 2), l = threadIdx.x / 2 % WARP_LANES;
            const int i = threadIdx.x % 2, token = t0 + c * COLUMN_TOKENS + l % 4 * 2 + i;
            const float unit = FORMAT == FORMAT_MXFP4 ? CODE_UNIT : 1.0f;
            const float even = sum_of_warps(&sums[0][c][l][i], COLS, unit, IS_SLICED);
            const float odd = sum_of_warps(&sums[0][c][l][i + 2], COLS, unit, IS_SLICED);

            if (token < live_entries(a, task))
                finish(a, task, task.row + l / 4 * 2, task.first + token, even, odd);
        }
        __syncthreads();
    }
}

static __device__ float simt_dot(const struct tensor *w, const struct task &task, int64_t row,
                                 const float *x)
{
    float sum = 0.0f;

    for (int64_t k = threadIdx.x % WARP_LANES; k < matrix_columns(w); k += WARP_LANES)
        sum = __fmaf_rn(weight_at(w, task.expert, row, k), x[k], sum);
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    return sum;
}

/* Each warp computes one pair of rows of the tile for one token after another. */
static __global__ void __launch_bounds__(THREADS)
    plain_kernel(const __grid_constant__ struct matmul a)
{
    struct task task;

    if (!find_task(a, &task))
        return;
    const struct tensor *w = &a.w[task.job];
    const int64_t row = task.row + threadIdx.x / WARP_LANES * 2;

    if (row >= matrix_rows(w))
        return;
    for (int token = blockIdx.z; token < live_entries(a, task); token += gridDim.z) {
        const float *x = row_of_x(a, task.first + token);
        const float even = simt_dot(w, task, row, x);
        const float odd = row + 1 < matrix_rows(w) ? simt_dot(w, task, row + 1, x) : 0.0f;

        if (threadIdx.x % WARP_LANES == 0)
            finish(a, task, row, task.first + token, even, odd);
    }
}

template <int FORMAT, bool IS_SLICED>
static void launch_units(struct launch_list *list, dim3 grid, const struct matmul *m)
{
    if (m->n_tokens <= COLUMN_TOKENS)
        add_kernel<matmul_kernel<FORMAT, 1, IS_SLICED>>(list, grid, THREADS, 0, *m);
    else
        add_kernel<matmul_kernel<FORMAT, 2, IS_SLICED>>(list, grid, THREADS, 0, *m);
}

template <int FORMAT>
static void launch_format(struct launch_list *list, dim3 grid, const struct matmul *m)
{
    if (FORMAT != FORMAT_BF16_EXACT && m->slice_units > 0)
        launch_units<FORMAT, FORMAT != FORMAT_BF16_EXACT>(list, grid, m);
    else
        launch_units<FORMAT, false>(list, grid, m);
}

static dim3 grid_of(const struct matmul *m)
{
    const int64_t n_token_blocks = units_of(m->n_tokens, 2 * COLUMN_TOKENS);
    int64_t n_tiles = 0;
    dim3 grid;

    for (int i = 0; i < m->n_jobs; i++)
        n_tiles += units_of(matrix_rows(&m->w[i]), TILE_ROWS);
    grid.x = (unsigned)n_tiles;
    grid.y = m->first == NULL ? 1 : (unsigned)m->n_active_max;
    if (m->first == NULL)
        grid.z = n_token_blocks < TOKEN_BLOCKS_MAX ? (unsigned)n_token_blocks
                                                   : (unsigned)TOKEN_BLOCKS_MAX;
    return grid;
}

void launch_matmul_simt(struct launch_list *list, const struct matmul *m)
{
    add_kernel<plain_kernel>(list, grid_of(m), THREADS, 0, *m);
}

void launch_matmul(struct launch_list *list, const struct matmul *m)
{
    const dim3 grid = grid_of(m);

    if (m->w[0].dtype == DTYPE_MXFP4)
        launch_format<FORMAT_MXFP4>(list, grid, m);
    else if (m->is_exact)
        launch_format<FORMAT_BF16_EXACT>(list, grid, m);
    else
        launch_format<FORMAT_BF16>(list, grid, m);
}
