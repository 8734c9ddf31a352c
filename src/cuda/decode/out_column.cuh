/* A column of one row of the output projection, as decode_out.cu and the kernel of a whole layer
 * (layer/attn_layer.cu) finish it: the sum of its slices, the sum of the experts that the row
 * lacks, and what it adds to the router's sums. */
#ifndef CUDA_DECODE_OUT_COLUMN_CUH
#define CUDA_DECODE_OUT_COLUMN_CUH

#include "cuda/decode/router.cuh"

/* Without a result, so that nothing waits for it; atomicAdd() had one in some kernels. */
static __device__ __forceinline__ void add_to(uint64_t *sum, long long part)
{
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(sum), "l"(part) : "memory");
}

/* The sum of a row's slices in column lane % 16, for one row: lanes l and l + 16 have half of the
 * slices each. All lanes call it. */
template <bool IS_MXFP4>
static __device__ __forceinline__ struct out_sum out_sum_by_half(const float *sums)
{
    enum { HALF = RING_WARPS / 2 };
    const int lane = threadIdx.x % WARP_LANES;
    struct out_sum sum = {};

#pragma unroll
    for (int i = 0; i < HALF; i++)
        out_sum_add(&sum, sums[(lane / TILE_ROWS * HALF + i) * TILE_ROWS + lane % TILE_ROWS],
                    slice_unit<IS_MXFP4>());
    sum.high += __shfl_xor_sync(ALL_LANES, sum.high, TILE_ROWS);
    sum.low += __shfl_xor_sync(ALL_LANES, sum.low, TILE_ROWS);
    sum.overflow |= __shfl_xor_sync(ALL_LANES, sum.overflow, TILE_ROWS);
    return sum;
}

/* A column's sum of the experts. A poisoned row becomes NaN in its first column. */
struct expert_part {
    int sum, poison;
};

static __device__ __forceinline__ void load_expert_part(struct expert_part *part,
                                                        const struct expert_sums &from, int token,
                                                        int column, int n_columns)
{
    if (from.unit == NULL)
        return;
    part->sum = __ldcg(from.sums + token * n_columns + column);
    if (column == 0)
        part->poison = __ldcg(from.poison + token);
}

static __device__ __forceinline__ float with_expert_part(float x, const struct expert_part &part,
                                                         float unit)
{
    return x + value_of_partials(part.sum, unit) + poison_term(part.poison);
}

static __device__ __forceinline__ void clear_expert_sum(const struct expert_sums &of, int token,
                                                        int column, int n_columns)
{
    of.sums[token * n_columns + column] = 0;
    if (column == 0)
        of.poison[token] = 0;
}

#endif
