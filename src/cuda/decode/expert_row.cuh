/* The row of the experts' kernels for few rows, if the output projection has left router sums
 * (decode_out.cu): the first warp computes the logits and selects the experts, all other warps
 * normalize the row. */
#ifndef CUDA_DECODE_EXPERT_ROW_CUH
#define CUDA_DECODE_EXPERT_ROW_CUH

#include "cuda/decode/router.cuh"

enum { EXPERT_WARPS = 12, EXPERT_THREADS = EXPERT_WARPS * WARP_LANES };

/* The threads that load a row: all warps but the first. */
enum {
    ROW_THREADS = EXPERT_THREADS - WARP_LANES,
    ROW_PIECES = (DECODE_WIDTH_MAX / 4 + ROW_THREADS - 1) / ROW_THREADS
};

static __device__ __forceinline__ int row_thread(void)
{
    return (int)threadIdx.x - WARP_LANES;
}

/* A thread's values that do not depend on the row: the norm's weights, or, in the first warp, the
 * router's biases. */
struct row_info {
    float4 weights[ROW_PIECES];
    float biases[LOGITS_PER_LANE];
    float inverse_n;
};

/* Weights i to i + 3, zeros past the end. */
static __device__ __forceinline__ float4 weights_at(const struct decode_vector &v, int i, int n)
{
    float4 w = make_float4(0, 0, 0, 0);

    if (i < n && v.kind == VECTOR_F32) {
        w = *(const float4 *)((const float *)v.data + i);
    } else if (i < n) {
        const uint2 bits = *(const uint2 *)((const uint16_t *)v.data + i);

        w = make_float4(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xFFFF0000u),
                        __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xFFFF0000u));
    }
    return w;
}

static __device__ __forceinline__ void init_row_info(struct row_info *info,
                                                     const struct decode_experts &p)
{
    *info = {};
    info->inverse_n = 1.0f / (float)p.n_columns;
    if (threadIdx.x < WARP_LANES)
        router_biases(info->biases, p.topk_input.bias, p.n_experts);
    else
#pragma unroll
        for (int i = 0; i < ROW_PIECES; i++)
            info->weights[i] =
                weights_at(p.topk_input.norm, (row_thread() + i * ROW_THREADS) * 4, p.n_columns);
#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++)
        materialize(info->weights[i]);
#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        materialize(info->biases[i]);
    materialize(info->inverse_n);
}

/* Normalizes a row of inputs, stores it as fragments and, unless y is NULL, in y; all warps but the
 * first. */
static __device__ __forceinline__ void norm_row(char *fragments, const float *x,
                                                const uint64_t *sums, float *y,
                                                const struct decode_experts &p,
                                                const struct row_info &info, int n)
{
    const int n_left = n / 4 - row_thread();
    const int n_put_left = p.up.n_units * (UNIT_COLUMNS / 4) - row_thread();
    const float4 *from = (const float4 *)x + row_thread();
    uint2 *to = (uint2 *)fragments + row_thread();
    float4 regs[ROW_PIECES];
    float factor;

#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++)
        regs[i] =
            i * ROW_THREADS < n_left ? __ldcg(from + i * ROW_THREADS) : make_float4(0, 0, 0, 0);
    factor = router_factor(sums, info.inverse_n, p.topk_input.eps);
#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++) {
        const float4 w = info.weights[i];

        regs[i] = make_float4(normed(regs[i].x, factor, w.x), normed(regs[i].y, factor, w.y),
                              normed(regs[i].z, factor, w.z), normed(regs[i].w, factor, w.w));
        if (i * ROW_THREADS < n_put_left)
            to[i * ROW_THREADS] =
                make_uint2(pair_f16(regs[i].x, regs[i].y), pair_f16(regs[i].z, regs[i].w));
    }
    if (y == NULL)
        return;
#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++)
        if (i * ROW_THREADS < n_left)
            ((float4 *)y)[row_thread() + i * ROW_THREADS] = regs[i];
}

/* Executed by one warp. */
static __device__ __forceinline__ struct by_lane topk_of_sums(int *ids, const uint64_t *sums,
                                                              const struct decode_experts &p,
                                                              const struct row_info &info,
                                                              int n_experts)
{
    const struct router_sums regs = router_load(sums);
    const float factor = router_factor(sums, info.inverse_n, p.topk_input.eps);

    return block_topk(ids, router_candidates(regs, factor, info.biases, n_experts), p.n_ranks);
}

#endif
