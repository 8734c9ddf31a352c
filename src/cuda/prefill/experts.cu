/* MoE permutation for the experts stage, and the sum of a token's expert outputs. One block orders
 * the entries (a token at one of its experts) by expert, then by token. The outputs of a token's
 * experts are added in rank order. Everything stays on the device: the host needs no counts. */
#include "cuda/common/live_rows.cuh"
#include "cuda/launch/launch.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/sums.cuh"

enum { GROUP_THREADS = 1024, GROUP_WARPS = GROUP_THREADS / WARP_LANES, COMBINE_THREADS = 256 };

/* Each expert's first entry from the counts, and the list of experts that have entries. */
static __device__ void list_experts(const struct grouping &g, const int *counts, int n_experts)
{
    __shared__ int smem[GROUP_WARPS];
    int n = 0, n_active = 0;

    for (int e0 = 0; e0 < n_experts; e0 += GROUP_THREADS) {
        const int e = e0 + threadIdx.x, count = e < n_experts ? counts[e] : 0;
        int n_local, n_active_local;
        const int first = n + sum_before(count, smem, GROUP_WARPS, &n_local);
        const int at = n_active + sum_before(count > 0 ? 1 : 0, smem, GROUP_WARPS, &n_active_local);

        if (e < n_experts)
            g.first[e] = first;
        if (count > 0)
            g.active[at] = e;
        n += n_local;
        n_active += n_active_local;
    }
    if (threadIdx.x == 0) {
        g.first[n_experts] = n;
        *g.n_active = n_active;
        *g.n_read += (uint64_t)n_active;
    }
}

/* One warp finds the entries of one expert, in order. */
static __device__ void place_expert(const struct grouping &g, const int32_t *ids, int n_entries,
                                    int n_ranks, int expert)
{
    const int lane = threadIdx.x % WARP_LANES;
    int next = g.first[expert];

    for (int i0 = 0; i0 < n_entries; i0 += WARP_LANES) {
        const int i = i0 + lane;
        const bool is_here = i < n_entries && ids[i] == expert;
        const unsigned lanes = __ballot_sync(ALL_LANES, is_here);

        if (is_here) {
            const int at = next + __popc(lanes & ((1u << lane) - 1));

            g.tokens[at] = i / n_ranks;
            g.entry[i] = at;
        }
        next += __popc(lanes);
    }
}

static __global__ void __launch_bounds__(GROUP_THREADS)
    group(const __grid_constant__ struct grouping g, const int32_t *ids, int n_entries, int n_ranks,
          int n_experts)
{
    extern __shared__ int counts[];

    n_entries = live_rows(g.n_live, n_entries / n_ranks) * n_ranks;
    for (int e = threadIdx.x; e < n_experts; e += GROUP_THREADS)
        counts[e] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n_entries; i += GROUP_THREADS)
        atomicAdd(&counts[ids[i]], 1);
    __syncthreads();
    list_experts(g, counts, n_experts);
    __syncthreads();
    for (int e = threadIdx.x / WARP_LANES; e < n_experts; e += GROUP_WARPS)
        if (counts[e] > 0)
            place_expert(g, ids, n_entries, n_ranks, e);
}

void launch_group(struct launch_list *list, const struct grouping *g, const int32_t *ids,
                  int n_entries, int n_ranks, int n_experts)
{
    add_kernel<group>(list, 1, GROUP_THREADS, (size_t)n_experts * sizeof(int), *g, ids, n_entries,
                      n_ranks, n_experts);
}

static __global__ void combine(const __grid_constant__ struct experts_args a, const int32_t *entry,
                               const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int64_t n = a.h.dim[1], n_ranks = a.ids.dim[1], row = blockIdx.x;
    const float *gates = (const float *)a.gates.data + row * n_ranks;

    for (int64_t i = threadIdx.x; i < n; i += COMBINE_THREADS) {
        float sum = 0.0f;

        for (int64_t rank = 0; rank < n_ranks; rank++)
            sum =
                __fmaf_rn(gates[rank],
                          ((const float *)a.parts.data)[entry[row * n_ranks + rank] * n + i], sum);
        ((float *)a.h.data)[row * n + i] = sum;
    }
}

void launch_combine(struct launch_list *list, const struct experts_args *a,
                    const struct grouping *g, int n_rows)
{
    add_kernel<combine>(list, n_rows, COMBINE_THREADS, 0, *a, (const int32_t *)g->entry, g->n_live);
}
