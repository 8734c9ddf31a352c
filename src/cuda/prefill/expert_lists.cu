/* Permutation of tokens by expert for the MoE prefill GEMM, and the sum of each token's expert
 * outputs. One block counts the entries of each expert (an entry is a token at one of its experts),
 * computes offsets by a prefix sum, and scatters the entries. The order of an expert's entries is
 * not deterministic; no sum depends on it. Bound by latency and by shared-memory atomics. */
#include "cuda/prefill/gemm.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/sums.cuh"

enum { LIST_THREADS = 1024, LIST_WARPS = LIST_THREADS / WARP_LANES, SUM_THREADS = 256 };

/* Totals over the experts before this one. */
struct before {
    int n_rows, n_active, n_tiles;
};

/* Writes the list entry of this thread's expert, which has `count` entries; *first_row receives its
 * first row. `all` carries the totals from one block of LIST_THREADS experts to the next. */
static __device__ void list_expert(const struct expert_lists &l, int expert, int count,
                                   int n_tile_tokens, int *first_row, struct before *all)
{
    __shared__ int smem[LIST_WARPS];
    const int n_rows = (int)units_of(count, OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS;
    const int n_tiles = (count + n_tile_tokens - 1) / n_tile_tokens;
    int n_rows_local, n_active_local, n_tiles_local;
    const int row = all->n_rows + sum_before(n_rows, smem, LIST_WARPS, &n_rows_local);
    const int at = all->n_active + sum_before(count > 0 ? 1 : 0, smem, LIST_WARPS, &n_active_local);
    const int tile = all->n_tiles + sum_before(n_tiles, smem, LIST_WARPS, &n_tiles_local);

    *first_row = row;
    if (count > 0)
        l.experts[at] = (struct expert_rows){expert, row, count, tile};
    all->n_rows += n_rows_local;
    all->n_active += n_active_local;
    all->n_tiles += n_tiles_local;
}

static __global__ void __launch_bounds__(LIST_THREADS)
    list_experts(const __grid_constant__ struct expert_lists l, const int32_t *__restrict__ ids,
                 const float *__restrict__ gates, int n_entries, int n_experts, int n_tile_tokens)
{
    extern __shared__ int next[]; /* counts, then the next free row of each expert */
    struct before all = {0, 0, 0};

    for (int e = threadIdx.x; e < n_experts; e += LIST_THREADS)
        next[e] = 0;
    __syncthreads();
#pragma unroll 8
    for (int i = threadIdx.x; i < n_entries; i += LIST_THREADS)
        atomicAdd(&next[ids[i]], 1);
    __syncthreads();
    for (int e0 = 0; e0 < n_experts; e0 += LIST_THREADS) {
        const int e = e0 + threadIdx.x;
        int first_row;

        list_expert(l, e, e < n_experts ? next[e] : 0, n_tile_tokens, &first_row, &all);
        if (e < n_experts)
            next[e] = first_row;
    }
    if (threadIdx.x == 0) {
        l.experts[all.n_active] = (struct expert_rows){0, all.n_rows, 0, all.n_tiles};
        *l.n_active = all.n_active;
        *l.n_read += (uint64_t)all.n_active;
    }
    __syncthreads();
#pragma unroll 8
    for (int i = threadIdx.x; i < n_entries; i += LIST_THREADS) {
        const int row = atomicAdd(&next[ids[i]], 1);

        l.place[i] = row;
        l.uses[row] = (struct row_use){i, gates[i]};
    }
}

void launch_expert_lists(struct launch_list *list, const struct expert_lists *out,
                         const int32_t *ids, const float *gates, int n_entries, int n_experts,
                         int n_tile_tokens)
{
    add_kernel<list_experts>(list, 1, LIST_THREADS, (size_t)n_experts * sizeof(int), *out, ids,
                             gates, n_entries, n_experts, n_tile_tokens);
}

/* float4 if the row alignment allows it, otherwise float. */
template <typename T> static __device__ T sum_of(const T *from, int n_ranks, int64_t stride);

template <>
__device__ __forceinline__ float sum_of<float>(const float *from, int n_ranks, int64_t stride)
{
    float sum = from[0];

#pragma unroll 3
    for (int rank = 1; rank < n_ranks; rank++)
        sum += from[rank * stride];
    return sum;
}

template <>
__device__ __forceinline__ float4 sum_of<float4>(const float4 *from, int n_ranks, int64_t stride)
{
    float4 sum = from[0];

#pragma unroll 3
    for (int rank = 1; rank < n_ranks; rank++) {
        const float4 v = from[rank * stride];

        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
    }
    return sum;
}

/* n: row width in elements of type T. */
template <typename T>
static __global__ void __launch_bounds__(SUM_THREADS)
    sum_partials(T *h, const T *parts, int n_ranks, int64_t n)
{
    const T *from = parts + (int64_t)blockIdx.x * n_ranks * n;

    for (int64_t i = threadIdx.x; i < n; i += SUM_THREADS)
        h[blockIdx.x * n + i] = sum_of<T>(from + i, n_ranks, n);
}

void launch_sum_partials(struct launch_list *list, const struct partials *p)
{
    if (p->n % 4 == 0)
        add_kernel<sum_partials<float4>>(list, p->n_rows, SUM_THREADS, 0, (float4 *)p->h,
                                         (const float4 *)p->parts, p->n_ranks, p->n / 4);
    else
        add_kernel<sum_partials<float>>(list, p->n_rows, SUM_THREADS, 0, p->h, p->parts, p->n_ranks,
                                        p->n);
}
