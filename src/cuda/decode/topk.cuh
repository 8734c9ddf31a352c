/* Top-k routing of a token by one warp, in registers: the largest of its router logits, descending,
 * ties to the lower id, and the softmax over those. The result is that of router_topk.cu. */
#ifndef CUDA_DECODE_TOPK_CUH
#define CUDA_DECODE_TOPK_CUH

#include "cuda/decode/decode.h"
#include "cuda/common/sums.cuh"

/* Passes of a block over its code. The warm-up pass runs without inputs before they are available,
 * to load the instruction cache: code that did not run in this layer is fetched from memory line by
 * line. */
enum { WARMUP_PASS, FINAL_PASS, N_PASSES };

enum { LOGITS_PER_LANE = DECODE_EXPERTS_MAX / WARP_LANES };

/* The experts of a token, and exp(logit - largest logit) of each; rank 0 is the best. */
struct topk {
    int ids[DECODE_ACTIVE_MAX];
    float weights[DECODE_ACTIVE_MAX];
};

/* Sort key of a float: increases with the number; NaN is lowest, and 0 marks a removed entry. */
static __device__ __forceinline__ uint32_t order_of(float x)
{
    const uint32_t bits = __float_as_uint(x + 0.0f);

    return isnan(x) ? 1 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float number_of(uint32_t order)
{
    return __uint_as_float(order & 0x80000000u ? order & 0x7FFFFFFFu : ~order);
}

/* A lane's part of a token's logits, as sort keys. */
struct candidates {
    uint32_t orders[LOGITS_PER_LANE];
};

static __device__ __forceinline__ struct candidates candidates_of(const float *router_logits,
                                                                  int n_experts)
{
    const float *from = router_logits + threadIdx.x % WARP_LANES;
    const int n_left = n_experts - (int)(threadIdx.x % WARP_LANES);
    float regs[LOGITS_PER_LANE];
    struct candidates c;

#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        regs[i] = i * WARP_LANES < n_left ? __ldcg(from + i * WARP_LANES) : 0.0f;
#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        c.orders[i] = i * WARP_LANES < n_left ? order_of(regs[i]) : 0;
    return c;
}

/* Removes the best entry, of equal ones the lowest id. Returns its id; *best receives its key. */
static __device__ __forceinline__ int pop_best(struct candidates *c, uint32_t *best)
{
    const int lane = threadIdx.x % WARP_LANES;
    uint32_t id = DECODE_EXPERTS_MAX;

    *best = 0;
#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        *best = max(*best, c->orders[i]);
    *best = __reduce_max_sync(ALL_LANES, *best);
#pragma unroll
    for (int i = LOGITS_PER_LANE - 1; i >= 0; i--)
        id = c->orders[i] == *best ? (uint32_t)(i * WARP_LANES + lane) : id;
    id = __reduce_min_sync(ALL_LANES, id);
#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        c->orders[i] = (uint32_t)(i * WARP_LANES + lane) == id ? 0 : c->orders[i];
    return (int)id;
}

/* The first n_ranks of them; each warp computes its own copy. */
static __device__ __forceinline__ void select_topk(struct topk *out, struct candidates c,
                                                   int n_ranks)
{
    float largest = 0.0f;

#pragma unroll
    for (int rank = 0; rank < DECODE_ACTIVE_MAX; rank++) {
        uint32_t best;

        if (rank >= n_ranks)
            break;
        out->ids[rank] = pop_best(&c, &best);
        largest = rank == 0 ? number_of(best) : largest;
        out->weights[rank] = expf(number_of(best) - largest);
    }
}

static __device__ __forceinline__ float gate_of(const struct topk &c, int rank, int n_ranks)
{
    float sum = 0.0f, weight = 0.0f;

#pragma unroll
    for (int i = 0; i < DECODE_ACTIVE_MAX; i++) {
        sum += i < n_ranks ? c.weights[i] : 0.0f;
        weight = i == rank ? c.weights[i] : weight;
    }
    return weight / sum;
}

/* The expert at rank `lane`, in lane `lane`. */
struct by_lane {
    int id;
    float weight; /* exp(logit - largest logit) */
};

/* The first n_ranks experts of a token, one per lane; each warp computes its own copy. */
static __device__ __forceinline__ struct by_lane topk_by_lane(struct candidates c, int n_ranks)
{
    struct by_lane mine = {0, 0.0f};
    float largest = 0.0f;

#pragma unroll 1 /* smaller code, because it is fetched from memory line by line */
    for (int rank = 0; rank < n_ranks; rank++) {
        uint32_t best;
        const int id = pop_best(&c, &best);
        const float score = number_of(best);

        largest = rank == 0 ? score : largest;
        if (rank == (int)threadIdx.x % WARP_LANES)
            mine = by_lane{id, score};
    }
    mine.weight = expf(mine.weight - largest);
    return mine;
}

/* gate_of() for the rank of each lane; all lanes call it. */
static __device__ __forceinline__ float gate_of_lane(const struct by_lane &mine, int n_ranks)
{
    float sum = 0.0f;

#pragma unroll 1
    for (int rank = 0; rank < n_ranks; rank++)
        sum += __shfl_sync(ALL_LANES, mine.weight, rank);
    return mine.weight / sum;
}

/* The gates of the token's experts, by one warp. */
static __device__ __forceinline__ void store_gates(float *gates, const struct by_lane &mine,
                                                   int lane, int n_ranks)
{
    const float gate = gate_of_lane(mine, n_ranks);

    if (lane < n_ranks)
        gates[lane] = gate;
}

/* Top-k by one warp for its block, without the gates; a barrier must follow. */
static __device__ __forceinline__ struct by_lane block_topk(int *ids, const struct candidates &c,
                                                            int n_ranks)
{
    const int lane = threadIdx.x % WARP_LANES;
    const struct by_lane mine = topk_by_lane(c, n_ranks);

    if (lane < n_ranks)
        ids[lane] = mine.id;
    return mine;
}

/* c.ids[rank]: registers cannot be indexed. */
static __device__ __forceinline__ int id_of(const struct topk &c, int rank)
{
    int id = 0;

#pragma unroll
    for (int i = 0; i < DECODE_ACTIVE_MAX; i++)
        id = i == rank ? c.ids[i] : id;
    return id;
}

#endif
