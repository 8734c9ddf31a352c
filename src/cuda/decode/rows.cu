/* Stages that process a row per block: embedding, residual add with RMSNorm, RoPE and the KV page
 * write. Memory bound with a few kilobytes per row; in decode steps bound by launch latency. */
#include <cuda_fp8.h>

#include "cuda/decode/decode.h"
#include "cuda/common/live_rows.cuh"
#include "cuda/common/mma.cuh"
#include "cuda/common/mxfp8.cuh"
#include "cuda/decode/partial_norm.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/rope_cache.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP_LANES };

static __device__ __forceinline__ void round_to(uint16_t *out, int64_t at, float y)
{
    if (out != NULL)
        out[at] = __half_as_ushort(__float2half_rn(clamp_f16(y)));
}

/* Stores x and y of a row of n: regs holds the start of x, y = x / sqrt(mean of squares + eps)
 * weight. The rest of a longer row is read from x. With IS_MXFP8, y is also stored as row `row` of
 * mxfp8. `rounded`, unless NULL, receives y as FP16, zero-filled to whole units of columns. With
 * `factor_at` the norm is computed from partials, and its factor is stored there. */
template <bool IS_MXFP8>
static __device__ void norm_row(float *y, float *x, const struct norm_regs *regs,
                                const struct norm_regs &weights, const struct tensor *weight,
                                int64_t n, float eps, const struct mxfp8_rows &mxfp8, int64_t row,
                                uint16_t *rounded, float *factor_at)
{
    __shared__ float smem[NORM_THREADS / WARP_LANES];
    __shared__ struct squares squares_scratch[NORM_SPLITS];
    const float factor = factor_at != NULL ? factor_of_partials(*regs, n, eps, squares_scratch)
                                           : norm_factor(regs, x, n, eps, smem);

    if (factor_at != NULL && threadIdx.x == 0)
        *factor_at = factor;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int64_t at = threadIdx.x + i * NORM_THREADS;

        if (at < n) {
            const float value = normed(regs->at[i], factor, weights.at[i]);

            x[at] = regs->at[i];
            y[at] = value;
            round_to(rounded, at, value);
            if (IS_MXFP8)
                mxfp8_store(mxfp8, row, at, value);
        }
    }
    for (int64_t at = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; at < n; at += NORM_THREADS) {
        y[at] = normed(x[at], factor, weight_at(weight, 0, 0, at));
        round_to(rounded, at, y[at]);
        if (IS_MXFP8)
            mxfp8_store(mxfp8, row, at, y[at]);
    }
    if (threadIdx.x < units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS - n)
        round_to(rounded, n + threadIdx.x, 0.0f);
}

static __global__ void __launch_bounds__(NORM_THREADS)
    embed_rmsnorm(const __grid_constant__ struct embed_rmsnorm_args a, const int32_t *tokens,
                  const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int64_t n = a.x.dim[1];
    float *x = (float *)a.x.data + blockIdx.x * n;
    const int32_t token = tokens[blockIdx.x];
    const struct norm_regs regs = weights_load(&a.table, token, n);
    const struct norm_regs weights = weights_load(&a.norm, 0, n);

    pdl_launch_dependents();
    pdl_wait();
    for (int64_t i = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; i < n; i += NORM_THREADS)
        x[i] = weight_at(&a.table, 0, token, i);
    norm_row<false>((float *)a.y.data + blockIdx.x * n, x, &regs, weights, &a.norm, n, a.eps, {}, 0,
                    NULL, NULL);
}

void launch_embed_rmsnorm(struct launch_list *list, const struct embed_rmsnorm_args *a,
                          const int32_t *tokens, int n_rows, const int32_t *n_live)
{
    add_dependent<embed_rmsnorm>(list, (unsigned)n_rows, NORM_THREADS, 0, *a, tokens, n_live);
}

/* h NULL: x already holds the sum. Rows from first_row on are also stored as MXFP8, if mxfp8 has
 * rows. Rows before n_rounded are also stored as FP16. */
static __global__ void __launch_bounds__(NORM_THREADS)
    residual_rmsnorm(const __grid_constant__ struct residual_rmsnorm_args a, const float *h,
                     const __grid_constant__ struct mxfp8_rows mxfp8, int first_row,
                     const int32_t *n_live, uint16_t *rounded, int n_rounded, float *factors)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int64_t n = a.x.dim[1];
    float *x = (float *)a.x.data + blockIdx.x * n;
    const struct norm_regs weights = weights_load(&a.norm, 0, n);
    struct norm_regs regs;

    pdl_launch_dependents();
    pdl_wait();
    regs = norm_load(x, n);
    if (h != NULL) {
        const struct norm_regs added = norm_load(h + blockIdx.x * n, n);

#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++)
            regs.at[i] += added.at[i];
        for (int64_t i = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; i < n; i += NORM_THREADS)
            x[i] += h[blockIdx.x * n + i];
    }
    if ((int)blockIdx.x < n_rounded)
        rounded += blockIdx.x * units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS;
    else
        rounded = NULL;
    if (factors != NULL)
        factors += blockIdx.x;
    if (mxfp8.codes != NULL && (int)blockIdx.x >= first_row)
        norm_row<true>((float *)a.y.data + blockIdx.x * n, x, &regs, weights, &a.norm, n, a.eps,
                       mxfp8, (int)blockIdx.x - first_row, rounded, factors);
    else
        norm_row<false>((float *)a.y.data + blockIdx.x * n, x, &regs, weights, &a.norm, n, a.eps,
                        {}, 0, rounded, factors);
}

void launch_rmsnorm_factors(struct launch_list *list, const struct residual_rmsnorm_args *a,
                            bool adds, int n_rows, const int32_t *n_live, uint16_t *rounded,
                            int n_rounded, float *factors)
{
    const struct mxfp8_rows none = {};

    add_dependent<residual_rmsnorm>(list, (unsigned)n_rows, NORM_THREADS, 0, *a,
                                    adds ? (const float *)a->h.data : NULL, none, 0, n_live,
                                    rounded, n_rounded, factors);
}

void launch_residual_rmsnorm(struct launch_list *list, const struct residual_rmsnorm_args *a,
                             int n_rows, uint16_t *rounded, int n_rounded)
{
    launch_rmsnorm_factors(list, a, true, n_rows, NULL, rounded, n_rounded, NULL);
}

void launch_rmsnorm_mxfp8(struct launch_list *list, const struct residual_rmsnorm_args *a,
                          int n_rows, const struct mxfp8_rows *to, int first_row, float *factors)
{
    add_dependent<residual_rmsnorm>(list, (unsigned)n_rows, NORM_THREADS, 0, *a,
                                    (const float *)a->h.data, *to, first_row, (const int32_t *)NULL,
                                    (uint16_t *)NULL, 0, factors);
}

void launch_rmsnorm(struct launch_list *list, const struct residual_rmsnorm_args *a, int n_rows)
{
    launch_rmsnorm_factors(list, a, false, n_rows, NULL, NULL, 0, NULL);
}

/* ---- RoPE ---- */

/* The angle is rounded to float32 as in the reference implementations; cos and sin are computed in
 * double. */
static __global__ void cos_sin(float *out, const __grid_constant__ struct rope rope,
                               const int32_t *positions, const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int half = rope.head_dim / 2;
    float *row = out + (int64_t)blockIdx.x * rope.head_dim;

    pdl_launch_dependents();
    pdl_wait();
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        const float angle = (float)positions[blockIdx.x] * rope.inverse_frequency[i];

        row[i] = (float)cos((double)angle) * rope.concentration;
        row[half + i] = (float)sin((double)angle) * rope.concentration;
    }
}

void launch_cos_sin(struct launch_list *list, float *out, const struct rope *rope_host,
                    const int32_t *positions, int n_rows, const int32_t *n_live)
{
    add_dependent<cos_sin>(list, (unsigned)n_rows, WARP_LANES, 0, out, *rope_host, positions,
                           n_live);
}

/* One head, by one warp. */
static __device__ void rotate(float *head, const float *rotation, int head_dim)
{
    const int half = head_dim / 2;

    for (int i = threadIdx.x % WARP_LANES; i < half; i += WARP_LANES)
        rotate_pair(&head[i], &head[half + i], rotation[i], rotation[half + i]);
}

/* ---- KV page write ---- */

/* Codes times 448 / largest; a head with a NaN or an infinity gets the scale NaN. */
static __device__ void store_f8(const struct tensor *kv, char *side, int which, int slot,
                                const float *x)
{
    const float tiny = 1e-30f, f8_largest = 448.0f; /* smaller heads are stored as zeros */
    const int64_t D = kv->dim[4];
    float largest = 0.0f, inverse;
    bool is_number = true;

    for (int64_t d = threadIdx.x % WARP_LANES; d < D; d += WARP_LANES) {
        largest = fmaxf(largest, fabsf(x[d]));
        is_number = is_number && fabsf(x[d]) <= 3.4e38f;
    }
    largest = warp_max(largest);
    is_number = __all_sync(ALL_LANES, is_number);
    inverse = !is_number || largest < tiny ? 0.0f : f8_largest / largest;
    for (int64_t d = threadIdx.x % WARP_LANES; d < D; d += WARP_LANES)
        ((uint8_t *)side)[kv_element(kv, which, slot, d)] =
            is_number ? __nv_cvt_float_to_fp8(x[d] * inverse, __NV_SATFINITE, __NV_E4M3) : 0;
    if (threadIdx.x % WARP_LANES == 0)
        kv_scales(kv, side)[slot] = is_number ? largest / f8_largest : __uint_as_float(0x7FC00000u);
}

static __device__ void store_head(const struct tensor *kv, char *side, int which, int slot,
                                  const float *x)
{
    if (kv->dtype == DTYPE_F8) {
        store_f8(kv, side, which, slot, x);
        return;
    }
    for (int64_t d = threadIdx.x % WARP_LANES; d < kv->dim[4]; d += WARP_LANES) {
        const int64_t i = kv_element(kv, which, slot, d);

        if (kv->dtype == DTYPE_BF16)
            ((__nv_bfloat16 *)side)[i] = __float2bfloat16_rn(x[d]);
        else
            ((float *)side)[i] = x[d];
    }
}

/* One block per row, one warp per head: those of q, then k, then v. */
static __global__ void rope_cache(const __grid_constant__ struct attn_qkv_args a,
                                  const float *cos_sin, const struct batch *batch)
{
    if ((int)blockIdx.x >= batch->n_rows)
        return;
    const int row = blockIdx.x, D = (int)a.kv.dim[4], n_kv = (int)a.kv.dim[2];
    const int n_q = (int)(a.q.dim[1] / D), position = BATCH_SLOTS(batch)[row];
    const struct batch_seq *seq = &BATCH_SEQS(batch)[BATCH_ROW_SEQ(batch)[row]];
    const int32_t page =
        BATCH_PAGES(batch)[seq->table[a.group] + position / PAGE_TOKENS - seq->first_page[a.group]];
    const float *rotation = cos_sin + (int64_t)row * D;
    float *q = (float *)a.q.data + row * a.q.dim[1];
    float *kv = (float *)a.kv_rows.data + row * a.kv_rows.dim[1];

    pdl_launch_dependents();
    pdl_wait();
    for (int i = threadIdx.x / WARP_LANES; i < n_q + 2 * n_kv; i += WARPS) {
        const int of_kv = i - n_q;

        if (of_kv < n_kv)
            rotate(of_kv < 0 ? q + i * D : kv + of_kv * D, rotation, D);
        __syncwarp();
        if (of_kv >= 0)
            store_head(&a.kv, kv_side(&a.kv, page, of_kv / n_kv, of_kv % n_kv), of_kv / n_kv,
                       position % PAGE_TOKENS, kv + of_kv * D);
    }
}

void launch_rope_cache(struct launch_list *list, const struct attn_qkv_args *a,
                       const float *cos_sin, const struct batch *batch, int n_rows)
{
    add_dependent<rope_cache>(list, (unsigned)n_rows, THREADS, 0, *a, cos_sin, batch);
}
