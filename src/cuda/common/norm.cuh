/* RMSNorm of a row by a block of NORM_THREADS threads, wherever a kernel has the row: alone, or
 * before a product. One order of sums for all of them, so that a row has the same bits whichever
 * kernel took it. */
#ifndef CUDA_COMMON_NORM_CUH
#define CUDA_COMMON_NORM_CUH

#include "cuda/common/sums.cuh"

enum {
    NORM_THREADS = 256,
    NORM_PER_THREAD =
        12 /* elements that a thread keeps in registers: rows of 3,072; it reads others again */
};

/* Elements threadIdx.x + i NORM_THREADS of a vector, zeros beyond its end. */
struct norm_regs {
    float at[NORM_PER_THREAD];
};

/* Past the first-level cache: another kernel may have just written it. */
static __device__ __forceinline__ struct norm_regs norm_load(const float *x, int64_t n)
{
    struct norm_regs regs;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int64_t at = threadIdx.x + i * NORM_THREADS;

        regs.at[i] = at < n ? __ldcg(x + at) : 0.0f;
    }
    return regs;
}

/* The same of row `row` of a weight, which no kernel writes. All loads are under way at once:
 * what kind of weight it is is asked before them, not between. */
static __device__ __forceinline__ struct norm_regs weights_load(const struct tensor *w, int64_t row,
                                                                int64_t n)
{
    const bool is_bf16 = w->dtype == DTYPE_BF16, is_packed = w->layout == LAYOUT_PACKED;
    uint32_t bits[NORM_PER_THREAD];
    struct norm_regs regs;

    if (is_bf16 && !is_packed) {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int64_t at = threadIdx.x + i * NORM_THREADS;

            bits[i] = at < n ? (uint32_t)((const uint16_t *)w->data)[row * n + at] << 16 : 0;
        }
    } else if (is_bf16) {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int64_t at = threadIdx.x + i * NORM_THREADS;
            const struct packed_place p = place_of(w, row, at < n ? at : 0);
            const unsigned char *unit = (const unsigned char *)w->data + p.unit * BF16_UNIT_BYTES;

            bits[i] = at < n ? (uint32_t) * (const uint16_t *)(unit + bf16_offset(&p)) << 16 : 0;
        }
    } else if (w->dtype == DTYPE_F32) {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int64_t at = threadIdx.x + i * NORM_THREADS;

            bits[i] = at < n ? ((const uint32_t *)w->data)[row * n + at] : 0;
        }
    } else {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int64_t at = threadIdx.x + i * NORM_THREADS;

            bits[i] = at < n ? __float_as_uint(weight_at(w, 0, row, at)) : 0;
        }
    }
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] = __uint_as_float(bits[i]);
    return regs;
}

/* Of this thread's elements that are held. */
static __device__ __forceinline__ float squares_of_regs(const struct norm_regs *regs)
{
    float squares = 0.0f;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        squares = __fmaf_rn(regs->at[i], regs->at[i], squares);
    return squares;
}

/* 1 / sqrt(mean of squares + eps) of their sum, one multiplication and one instruction: what
 * norms waits for it. */
static __device__ __forceinline__ float factor_of(float squares, float inverse_n, float eps)
{
    return rsqrtf(__fmaf_rn(squares, inverse_n, eps));
}

/* `room` as of block_sum(). */
static __device__ __forceinline__ float norm_factor(const struct norm_regs *regs, const float *x,
                                                    int64_t n, float eps, float *smem)
{
    float squares = squares_of_regs(regs);

    for (int64_t i = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; i < n; i += NORM_THREADS)
        squares = __fmaf_rn(x[i], x[i], squares);
    return factor_of(block_sum(squares, smem), 1.0f / (float)n, eps);
}

static __device__ __forceinline__ float normed(float x, float factor, float weight)
{
    return x * factor * weight;
}

#endif
