/* Pushes of prefill rows by the kernels that compute them (rank_exchange.h): the link works while
 * they compute, and launch_rank_sums() behind them only takes. */
#ifndef CUDA_COMMON_RANK_PUSH_CUH
#define CUDA_COMMON_RANK_PUSH_CUH

#include "cuda/common/rank_exchange.h"

/* The exchange's slot in every window. The upload sets the number, so it may be read early. */
static __device__ __forceinline__ int64_t push_slot_at(const struct rank_push &push)
{
    const struct rank_peers &p = *push.peers;

    return (*(volatile uint32_t *)p.n_before + (uint32_t)push.index) % 2 * p.slot_bytes;
}

/* -0 has the bits of RANK_EMPTY; the sum with 0 is +0 then, and else the number. */
static __device__ __forceinline__ float4 without_empty(float4 v)
{
    return make_float4(v.x + 0.0f, v.y + 0.0f, v.z + 0.0f, v.w + 0.0f);
}

/* Vector i of the rows: to all other ranks, or to the one that adds it. */
static __device__ __forceinline__ void push_vector(const struct rank_push &push, int64_t slot_at,
                                                   int64_t i, float4 v)
{
    const struct rank_peers &p = *push.peers;
    const int64_t part = rank_part_vectors(push.n_vectors, p.n_ranks), owner = i / part;
    const float4 sent = without_empty(v);

    for (int r = 0; r < p.n_ranks; r++) {
        const int64_t at =
            push.is_owned ? p.rank * part + i - owner * part : p.rank * push.n_vectors + i;

        if (r != p.rank && (!push.is_owned || r == owner))
            ((float4 *)(p.windows[r] + slot_at))[at] = sent;
    }
}

/* With two ranks: the rows in the other one's window, as they are in h. */
static __device__ __forceinline__ float *pushed_rows(const struct rank_push &push)
{
    const struct rank_peers &p = *push.peers;

    return (float *)(p.windows[1 - p.rank] + push_slot_at(push)) +
           p.rank * push.n_vectors * RANK_WORDS;
}

#endif
