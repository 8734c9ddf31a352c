/* Prefill attention: online softmax in registers. A lane has scores s[i][j], for each i two keys (j
 * % 2) of each of two rows (j / 2). A row is spread over the four lanes of a quad. */
#ifndef CUDA_ATTENTION_ATTN_WEIGHTS_CUH
#define CUDA_ATTENTION_ATTN_WEIGHTS_CUH

#include "cuda/attention/attn_block.cuh"

/* Groups of four scores that a lane has of a page's 64 keys. */
enum { SCORES = PAGE_TOKENS / 8 };
static_assert((int)PAGE_TOKENS == (int)ATTN_HEAD_DIM, "scores and sums have the same size");

/* Scores s of one row become weights; `scale` converts to base-2 exponents. Returns the factor that
 * rescales the sums. */
static __device__ __forceinline__ float softmax_step(float s[SCORES][4], int which, float *largest,
                                                     float *weights, float scale)
{
    const float before = __fmul_rn(*largest, scale);
    float most = *largest, base, keep, sum = 0.0f;

#pragma unroll
    for (int i = 0; i < SCORES; i++)
        most = fmaxf(most, fmaxf(s[i][2 * which], s[i][2 * which + 1]));
    most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, 1));
    most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, 2));
    base = most == -INFINITY ? 0.0f : __fmul_rn(most, scale); /* no visible key yet */
    keep = power_of_two(__fadd_rn(before, -base));            /* 1 if the maximum did not change */
#pragma unroll
    for (int i = 0; i < SCORES; i++)
#pragma unroll
        for (int j = 2 * which; j < 2 * which + 2; j++) {
            s[i][j] = power_of_two(__fmaf_rn(s[i][j], scale, -base));
            sum += s[i][j];
        }
    *weights = __fmaf_rn(*weights, keep, sum);
    *largest = most;
    return keep;
}

/* Only if a maximum grew: a page that adds nothing to a row must not change the row's bits. */
static __device__ __forceinline__ void rescale_output(float out[SCORES][4], const float keep[2])
{
    if (!__any_sync(ALL_LANES, keep[0] != 1.0f || keep[1] != 1.0f))
        return;
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        out[i][0] = __fmul_rn(out[i][0], keep[0]), out[i][1] = __fmul_rn(out[i][1], keep[0]);
        out[i][2] = __fmul_rn(out[i][2], keep[1]), out[i][3] = __fmul_rn(out[i][3], keep[1]);
    }
}

/* Final factor and denominator of a row's sums, when all keys were processed. */
struct attn_end {
    float factor, total;
};

/* `weights` is the lane's part. */
static __device__ __forceinline__ struct attn_end end_of(float largest, float weights, float scale,
                                                         float sink)
{
    const float own = largest * scale, most = fmaxf(own, sink);
    struct attn_end end = {power_of_two(own - most), 0.0f};

    weights += __shfl_xor_sync(ALL_LANES, weights, 1);
    weights += __shfl_xor_sync(ALL_LANES, weights, 2);
    end.total = __fmaf_rn(weights, end.factor, power_of_two(sink - most));
    return end;
}

/* Scaled for base-2 exponentials. */
static __device__ __forceinline__ float sink_of(const struct attn_args &a, int head)
{
    return ((const float *)a.sinks.data)[head] * LOG2_E;
}

#endif
