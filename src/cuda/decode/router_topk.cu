/* Top-k routing: the A largest logits of a row, descending, ties to the lower id, and the softmax
 * over those A. One warp per row; the E logits are read A times, from L1. */
#include "cuda/common/live_rows.cuh"
#include "cuda/common/rank_share.cuh"
#include "cuda/launch/launch.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/sums.cuh"

enum { WARPS = 4 };

struct candidate {
    float score;
    int id; /* -1: no candidate */
};

/* True if b is better than a. A NaN is better only than no candidate. */
static __device__ bool is_better(const struct candidate &b, const struct candidate &a)
{
    if (b.id < 0)
        return false;
    return a.id < 0 || b.score > a.score || (b.score == a.score && b.id < a.id);
}

static __device__ bool is_selected(const int32_t *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* The best of the remaining candidates; the same in all lanes. */
static __device__ struct candidate best_remaining(const float *router_logits, int n_experts,
                                                  const int32_t *ids, int n_selected)
{
    struct candidate best = {0.0f, -1};

    for (int e = threadIdx.x % WARP_LANES; e < n_experts; e += WARP_LANES) {
        const struct candidate next = {router_logits[e], e};

        if (!is_selected(ids, n_selected, e) && is_better(next, best))
            best = next;
    }
    for (int step = WARP_LANES / 2; step > 0; step /= 2) {
        const struct candidate other = {__shfl_xor_sync(ALL_LANES, best.score, step),
                                        __shfl_xor_sync(ALL_LANES, best.id, step)};

        if (is_better(other, best))
            best = other;
    }
    best.id = __shfl_sync(ALL_LANES, best.id, 0); /* with NaN, lanes may differ */
    best.score = __shfl_sync(ALL_LANES, best.score, 0);
    return best;
}

/* By one warp. */
static __device__ __forceinline__ void select_experts(const struct router_args &a, int row)
{
    const int n_active = (int)a.ids.dim[1], n_experts = (int)a.router_logits.dim[1];
    int32_t *ids = (int32_t *)a.ids.data + (int64_t)row * n_active;
    float *gates = (float *)a.gates.data + (int64_t)row * n_active;
    float largest = 0.0f, sum = 0.0f;

    for (int i = 0; i < n_active; i++) {
        const struct candidate best = best_remaining(
            (const float *)a.router_logits.data + (int64_t)row * n_experts, n_experts, ids, i);

        largest = i == 0 ? best.score : largest;
        sum += expf(best.score - largest);
        if (threadIdx.x % WARP_LANES == 0) {
            ids[i] = best.id;
            gates[i] = expf(best.score - largest);
        }
        __syncwarp();
    }
    for (int i = threadIdx.x % WARP_LANES; i < n_active; i += WARP_LANES)
        gates[i] /= sum;
}

static __global__ void topk_kernel(const __grid_constant__ struct router_args a, int n_rows,
                                   const int32_t *n_live)
{
    const int row = blockIdx.x * WARPS + threadIdx.x / WARP_LANES;

    if (row < live_rows(n_live, n_rows))
        select_experts(a, row);
}

void launch_topk(struct launch_list *list, const struct router_args *a, int n_rows,
                 const int32_t *n_live)
{
    add_kernel<topk_kernel>(list, (unsigned)((n_rows + WARPS - 1) / WARPS), WARPS * WARP_LANES, 0,
                            *a, n_rows, n_live);
}

static_assert((int)RANK_SHARE_ACTIVE_MAX == WARP_LANES, "an expert for each lane");

/* Lane i sends the id and the gate of expert i. */
static __device__ __forceinline__ void push_experts(const struct shared_topk &t, int row)
{
    const int n_active = (int)t.a.ids.dim[1], lane = (int)threadIdx.x % WARP_LANES;
    const int64_t at = (int64_t)row * n_active + lane;

    if (lane >= n_active)
        return;
    const int32_t id = ((const int32_t *)t.a.ids.data)[at];
    const float gate = ((const float *)t.a.gates.data)[at];

#pragma unroll
    for (int r = 0; r < RANK_PEERS_MAX; r++)
        if (r < t.peers.n_ranks && r != t.peers.rank) {
            ((int32_t *)(t.peers.windows[r] + t.gather.ids_at))[at] = id;
            ((float *)(t.peers.windows[r] + t.gather.gates_at))[at] = gate;
        }
    t.ids[at] = id;
    ((float *)((char *)t.ids + (t.gather.gates_at - t.gather.ids_at)))[at] = gate;
}

static __global__ void shared_topk_kernel(const __grid_constant__ struct shared_topk t)
{
    const int rank = t.peers.rank, i = blockIdx.x * WARPS + threadIdx.x / WARP_LANES;
    const int row = rank_share_first(t.share, rank) + i;

    if (i < rank_share_rows(t.share, rank)) {
        select_experts(t.a, row);
        __syncwarp();
        push_experts(t, row);
    }
    announce(t.peers, t.gather, t.index, gridDim.x);
}

void launch_shared_topk(struct launch_list *list, const struct shared_topk *t)
{
    const int n = rank_share_rows(t->share, t->peers.rank);

    add_kernel<shared_topk_kernel>(list, (unsigned)((n + WARPS - 1) / WARPS), WARPS * WARP_LANES, 0,
                                   *t);
}
