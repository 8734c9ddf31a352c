/* Stages that take a row at a time: embed, join, and what attn_in does behind its products. A block a
 * row; bound by memory, a few kilobytes a row, so in decoding by the launch. */
#include <cuda_fp8.h>

#include "backend/kv_page.h"
#include "cuda/launch.h"
#include "cuda/mma.cuh"
#include "cuda/sums.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP_LANES, NORM_THREADS = 1024 };

/* y = x / sqrt(mean of squares + eps) weight, of a row of n; every thread wrote the x that it reads. */
static __device__ void norm_row(float *y, const float *x, const struct tensor *weight, int64_t n,
                                float eps)
{
    __shared__ float room[NORM_THREADS / WARP_LANES];
    float squares = 0.0f, factor;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        squares = __fmaf_rn(x[i], x[i], squares);
    squares = block_sum(squares, room);
    factor = 1.0f / sqrtf(squares / (float)n + eps);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = x[i] * factor * weight_at(weight, 0, 0, i);
}

static __global__ void embed(const __grid_constant__ struct embed_args a, const int32_t *tokens)
{
    const int64_t n = a.x.dim[1];
    float *x = (float *)a.x.data + blockIdx.x * n;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = weight_at(&a.table, 0, tokens[blockIdx.x], i);
    norm_row((float *)a.y.data + blockIdx.x * n, x, &a.norm, n, a.eps);
}

void launch_embed(cudaStream_t stream, const struct embed_args *a, const int32_t *tokens,
                  int n_rows)
{
    embed<<<n_rows, NORM_THREADS, 0, stream>>>(*a, tokens);
}

static __global__ void join(const __grid_constant__ struct join_args a)
{
    const int64_t n = a.x.dim[1];
    const float *h = (const float *)a.h.data + blockIdx.x * n;
    float *x = (float *)a.x.data + blockIdx.x * n;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        x[i] += h[i];
    norm_row((float *)a.y.data + blockIdx.x * n, x, &a.norm, n, a.eps);
}

void launch_join(cudaStream_t stream, const struct join_args *a, int n_rows)
{
    join<<<n_rows, NORM_THREADS, 0, stream>>>(*a);
}

/* ---- rotation ---- */

/* The angle is rounded to float32 as the references do; cos and sin are taken in double. */
static __global__ void rotations(float *out, const __grid_constant__ struct rope rope,
                                 const int32_t *positions)
{
    const int half = rope.head_width / 2;
    float *row = out + (int64_t)blockIdx.x * rope.head_width;

    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        const float angle = (float)positions[blockIdx.x] * rope.inverse_frequency[i];

        row[i] = (float)cos((double)angle) * rope.concentration;
        row[half + i] = (float)sin((double)angle) * rope.concentration;
    }
}

void launch_rotations(cudaStream_t stream, float *out, const struct rope *rope_host,
                      const int32_t *positions, int n_rows)
{
    rotations<<<n_rows, WARP_LANES, 0, stream>>>(out, *rope_host, positions);
}

/* One head, by a warp. */
static __device__ void rotate(float *head, const float *rotation, int head_width)
{
    const int half = head_width / 2;

    for (int i = threadIdx.x % WARP_LANES; i < half; i += WARP_LANES) {
        const float c = rotation[i], s = rotation[half + i];
        const float x1 = head[i], x2 = head[i + half];

        head[i] = x1 * c - x2 * s;
        head[i + half] = x2 * c + x1 * s;
    }
}

/* ---- keys and values into pages ---- */

/* The element of a side that is d of a slot: backend/kv_page.h. */
static __device__ int64_t element_of(const struct tensor *kv, int which, int slot, int64_t d)
{
    const int n = kv_parts(kv->dtype);

    return kv_word(n, kv->dim[4], which, slot, d) * n + (which == 0 ? d : slot) % n;
}

/* Codes times 448 / largest; a head that has a NaN or an infinity gets the scale NaN. */
static __device__ void put_f8(const struct tensor *kv, char *side, int which, int slot,
                              const float *x)
{
    const float tiny = 1e-30f, f8_largest = 448.0f; /* below tiny: zeros */
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
        ((uint8_t *)side)[element_of(kv, which, slot, d)] =
            is_number ? __nv_cvt_float_to_fp8(x[d] * inverse, __NV_SATFINITE, __NV_E4M3) : 0;
    if (threadIdx.x % WARP_LANES == 0)
        kv_scales(kv, side)[slot] = is_number ? largest / f8_largest : __uint_as_float(0x7FC00000u);
}

static __device__ void put_head(const struct tensor *kv, char *side, int which, int slot,
                                const float *x)
{
    if (kv->dtype == DTYPE_F8) {
        put_f8(kv, side, which, slot, x);
        return;
    }
    for (int64_t d = threadIdx.x % WARP_LANES; d < kv->dim[4]; d += WARP_LANES) {
        const int64_t i = element_of(kv, which, slot, d);

        if (kv->dtype == DTYPE_BF16)
            ((__nv_bfloat16 *)side)[i] = __float2bfloat16_rn(x[d]);
        else
            ((float *)side)[i] = x[d];
    }
}

/* A block a row, a warp a head: those of q, then of k, then of v. */
static __global__ void place(const __grid_constant__ struct attn_in_args a, const float *rotations,
                             const struct batch *batch)
{
    const int row = blockIdx.x, D = (int)a.kv.dim[4], n_kv = (int)a.kv.dim[2];
    const int n_q = (int)(a.q.dim[1] / D), position = BATCH_POSITIONS(batch)[row];
    const struct batch_seq *seq = &BATCH_SEQS(batch)[BATCH_ROW_SEQ(batch)[row]];
    const int32_t page =
        BATCH_PAGES(batch)[seq->table[a.group] + position / PAGE_TOKENS - seq->first_page[a.group]];
    const float *rotation = rotations + (int64_t)row * D;
    float *q = (float *)a.q.data + row * a.q.dim[1];
    float *kv = (float *)a.kv_rows.data + row * a.kv_rows.dim[1];

    for (int i = threadIdx.x / WARP_LANES; i < n_q + 2 * n_kv; i += WARPS) {
        const int of_kv = i - n_q;

        if (of_kv < n_kv)
            rotate(of_kv < 0 ? q + i * D : kv + of_kv * D, rotation, D);
        __syncwarp();
        if (of_kv >= 0)
            put_head(&a.kv, kv_side(&a.kv, page, of_kv / n_kv, of_kv % n_kv), of_kv / n_kv,
                     position % PAGE_TOKENS, kv + of_kv * D);
    }
}

void launch_place(cudaStream_t stream, const struct attn_in_args *a, const float *rotations,
                  const struct batch *batch, int n_rows)
{
    place<<<n_rows, THREADS, 0, stream>>>(*a, rotations, batch);
}
