/* Kernels that add the numbers of all ranks that NCCL has gathered (rank_gathered.h). Bound by
 * memory bandwidth. */
#include "cuda/common/rank_gathered.h"

#include "cuda/common/live_rows.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/common/rank_add.cuh"
#include "cuda/launch/launch_kernel.cuh"

enum { THREADS = 256, FEW_THREADS = 128, FEW_VECTORS = 1024, BLOCKS_PER_SM = 4 };

static int64_t vectors_of(int n_rows, int n_columns)
{
    return (int64_t)n_rows * (n_columns / RANK_WORDS);
}

/* Blocks for n vectors. */
static unsigned blocks_of(const struct launch_list *list, int64_t n, unsigned threads)
{
    const int64_t n_wanted = (n + threads - 1) / threads;
    const int64_t n_most = (int64_t)list->gpu->n_sms * BLOCKS_PER_SM;

    return (unsigned)(n_wanted < n_most ? n_wanted : n_most);
}

static unsigned threads_of(int64_t n)
{
    return n <= FEW_VECTORS ? FEW_THREADS : THREADS;
}

static __device__ __forceinline__ int64_t first_of_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t threads_of_grid(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* ---- sums ---- */

/* The sum of vector i of h over all ranks, in their order; those of others are `stride` vectors
 * apart, from vector `at` of the window. */
static __device__ __forceinline__ uint4 sum_of_ranks(const struct rank_sums &s, int64_t i,
                                                     int64_t at, int64_t stride)
{
    const uint4 *numbers = (const uint4 *)s.peers.windows[s.peers.rank] + at;
    const bool is_integer = is_integer_vector(s, i);
    uint4 sum = make_uint4(0, 0, 0, 0);

    for (int r = 0; r < s.peers.n_ranks; r++) {
        const uint4 part =
            r == s.peers.rank ? load_own(s, i) : sendable_of(__ldcg(numbers + r * stride));

        sum = r == 0 ? part : sum_of(sum, part, is_integer);
    }
    return sum;
}

static __global__ void __launch_bounds__(THREADS)
    gathered_sums_kernel(const __grid_constant__ struct rank_sums s)
{
    const int64_t row = s.n_columns / RANK_WORDS, n = live_rows(s.n_live, s.n_rows) * row;

    pdl_wait();
    pdl_launch_dependents();
    for (int64_t i = first_of_thread(); i < n; i += threads_of_grid())
        store_sum(s, i, sum_of_ranks(s, i, i, s.n_rows * row));
}

/* The part that this rank owns: sums go to the window, to be gathered. */
static __global__ void __launch_bounds__(THREADS)
    owned_sums_kernel(const __grid_constant__ struct rank_sums s)
{
    const int64_t n = (int64_t)s.n_rows * (s.n_columns / RANK_WORDS);
    const int64_t part = rank_part_vectors(n, s.peers.n_ranks), first = s.peers.rank * part;
    uint4 *sums =
        (uint4 *)(s.peers.windows[s.peers.rank] + rank_owned_sums_at(n, s.peers.n_ranks)) + first;

    pdl_wait();
    pdl_launch_dependents();
    for (int64_t at = first_of_thread(); at < part && first + at < n; at += threads_of_grid())
        sums[at] = sendable_of(sum_of_ranks(s, first + at, at, part));
}

void launch_gathered_sums(struct launch_list *list, const struct rank_sums *s)
{
    const int64_t n = vectors_of(s->n_rows, s->n_columns);
    const int64_t n_part = rank_part_vectors(n, s->peers.n_ranks);

    if (rank_is_owned(n, s->peers.n_ranks))
        add_dependent<owned_sums_kernel>(list, blocks_of(list, n_part, threads_of(n_part)),
                                         threads_of(n_part), 0, *s);
    else
        add_dependent<gathered_sums_kernel>(list, blocks_of(list, n, threads_of(n)), threads_of(n),
                                            0, *s);
}

static __global__ void __launch_bounds__(THREADS)
    gathered_parts_kernel(const __grid_constant__ struct rank_sums s)
{
    const int64_t row = s.n_columns / RANK_WORDS, n = live_rows(s.n_live, s.n_rows) * row;
    const uint4 *sums = (const uint4 *)(s.peers.windows[s.peers.rank] +
                                        rank_owned_sums_at(s.n_rows * row, s.peers.n_ranks));

    pdl_wait();
    pdl_launch_dependents();
    for (int64_t i = first_of_thread(); i < n; i += threads_of_grid())
        store_sum(s, i, __ldcg(sums + i));
}

void launch_gathered_parts(struct launch_list *list, const struct rank_sums *s)
{
    const int64_t n = vectors_of(s->n_rows, s->n_columns);

    add_dependent<gathered_parts_kernel>(list, blocks_of(list, n, threads_of(n)), threads_of(n), 0,
                                         *s);
}

/* ---- attn_out ---- */

static __global__ void __launch_bounds__(THREADS)
    gathered_out_kernel(const __grid_constant__ struct rank_out o)
{
    const struct rank_peers &p = o.peers;
    const int64_t row = o.n_columns / RANK_WORDS, n_all = o.n_rows * row;
    const int64_t n = live_rows(o.n_live, o.n_rows) * row;
    const uint4 *numbers = (const uint4 *)p.windows[p.rank];

    pdl_wait();
    pdl_launch_dependents();
    for (int64_t i = first_of_thread(); i < n; i += threads_of_grid()) {
        uint4 high = __ldcg((const uint4 *)o.h + i), low = __ldcg((const uint4 *)o.low + i);

        for (int r = 0; r < p.n_ranks; r++) {
            if (r == p.rank)
                continue;
            const uint4 part = __ldcg(numbers + (p.n_ranks + r) * n_all + i);

            high = sum_of(high, __ldcg(numbers + r * n_all + i), true);
            low = make_uint4(low.x + part.x, low.y + part.y, low.z + part.z, low.w + part.w);
        }
        store_out(o, i, high, low);
    }
}

void launch_gathered_out(struct launch_list *list, const struct rank_out *o)
{
    const int64_t n = vectors_of(o->n_rows, o->n_columns);

    add_dependent<gathered_out_kernel>(list, blocks_of(list, n, threads_of(n)), threads_of(n), 0,
                                       *o);
}

/* ---- tokens ---- */

static __global__ void __launch_bounds__(THREADS)
    gathered_tokens_kernel(const __grid_constant__ struct rank_tokens t)
{
    const int n = live_rows(t.n_live, t.n);

    pdl_wait();
    pdl_launch_dependents();
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        t.logprobs[i] = 0.0f;
    for (int i = (int)threadIdx.x; t.top_tokens != NULL && i < n * t.n_top; i += THREADS) {
        t.top_tokens[i] = 0;
        t.top_logprobs[i] = 0.0f;
    }
}

void launch_gathered_tokens(struct launch_list *list, const struct rank_tokens *t)
{
    add_dependent<gathered_tokens_kernel>(list, 1, THREADS, 0, *t);
}
