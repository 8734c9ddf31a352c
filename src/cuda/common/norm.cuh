/* RMSNorm of a row by a block of NORM_THREADS threads, alone or fused into another kernel. All
 * kernels use the same summation order, so a row has the same bits in each of them. */
#ifndef CUDA_COMMON_NORM_CUH
#define CUDA_COMMON_NORM_CUH

#include "cuda/common/sums.cuh"

enum {
    NORM_THREADS = 256,
    NORM_PER_THREAD =
        12 /* elements that a thread keeps in registers, for rows of up to 3,072; it reloads the
            * rest */
};

/* Elements threadIdx.x + i NORM_THREADS of a vector, zeros beyond its end. */
struct norm_regs {
    float at[NORM_PER_THREAD];
};

/* Bypasses L1, because another kernel may have just written the row. */
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

/* The same for row `row` of a packed MXFP4 matrix: all words and scales are in flight before the
 * first is decoded. */
static __device__ __forceinline__ struct norm_regs mxfp4_load(const struct tensor *w, int64_t row,
                                                              int64_t n)
{
    uint32_t words[NORM_PER_THREAD], scales[NORM_PER_THREAD];
    struct norm_regs regs;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int64_t at = threadIdx.x + i * NORM_THREADS;
        const struct packed_place p = place_of(w, row, at < n ? at : 0);
        const unsigned char *unit = (const unsigned char *)w->data + p.unit * MXFP4_UNIT_BYTES;

        words[i] = *(const uint32_t *)(unit + mxfp4_word_offset(&p));
        scales[i] = unit[mxfp4_scale_offset(&p)];
    }
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int64_t at = threadIdx.x + i * NORM_THREADS;
        const uint32_t code = code_of_word(words[i], (int)(at % MXFP4_BLOCK) % 8);

        regs.at[i] = at < n ? e2m1_value(code) * scale_of(scales[i]) : 0.0f;
    }
    return regs;
}

/* The same for row `row` of a weight, which no kernel writes. The dtype is tested before the loads,
 * so that all of them are in flight at once. */
static __device__ __forceinline__ struct norm_regs weights_load(const struct tensor *w, int64_t row,
                                                                int64_t n)
{
    const bool is_bf16 = w->dtype == DTYPE_BF16, is_packed = w->layout == LAYOUT_PACKED;
    uint32_t bits[NORM_PER_THREAD];
    struct norm_regs regs;

    if (w->dtype == DTYPE_MXFP4)
        return mxfp4_load(w, row, n);
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
    } else {
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int64_t at = threadIdx.x + i * NORM_THREADS;

            bits[i] = at < n ? ((const uint32_t *)w->data)[row * n + at] : 0;
        }
    }
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] = __uint_as_float(bits[i]);
    return regs;
}

/* Sum of squares of this thread's elements in registers. */
static __device__ __forceinline__ float squares_of_regs(const struct norm_regs *regs)
{
    float squares = 0.0f;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        squares = __fmaf_rn(regs->at[i], regs->at[i], squares);
    return squares;
}

/* 1 / sqrt(mean of squares + eps) from the sum of squares: one multiplication and one instruction,
 * because it is on the critical path of every norm. */
static __device__ __forceinline__ float factor_of(float squares, float inverse_n, float eps)
{
    return rsqrtf(__fmaf_rn(squares, inverse_n, eps));
}

/* `smem` is the shared memory of block_sum(). */
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
