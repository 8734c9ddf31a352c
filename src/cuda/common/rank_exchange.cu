/* Kernels of the exchange between ranks (rank_exchange.h). A thread pushes its vectors of 16 bytes
 * to the other ranks, then polls its own window for theirs. Few numbers go to every rank, which
 * adds them all: one latency of the link. Many go to the rank that owns them, which adds them and
 * pushes the sum to all: fewer bytes with more than two ranks. Bound by the latency of NVLink for
 * few rows, by its bandwidth for prefill rows. */
#include "cuda/common/rank_exchange.h"

#include "cuda/common/live_rows.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/common/rank_add.cuh"
#include "cuda/common/rank_vector.cuh"
#include "cuda/launch/launch_kernel.cuh"

enum {
    THREADS = 256,
    FEW_THREADS = 128,
    FEW_VECTORS = 1024, /* as many blocks as possible for the least latency */
    BLOCKS_PER_SM = 2
};

/* ---- sums ---- */

/* The vectors of a launch, and this rank's place in the slot. */
struct vectors {
    int64_t n, part, row; /* vectors; those that a rank owns, at most; of a row */
    int64_t slot_at;      /* in a window */
    char *mine;           /* the slot of this rank's window */
};

static __device__ __forceinline__ struct vectors vectors_of(const struct rank_sums &s)
{
    struct vectors v;

    v.row = s.n_columns / RANK_WORDS;
    v.n = live_rows(s.n_live, s.n_rows) * v.row;
    v.part = rank_part_vectors(v.n, s.peers.n_ranks);
    v.slot_at = rank_slot_at(s.peers, s.index);
    v.mine = s.peers.windows[s.peers.rank] + v.slot_at;
    return v;
}

/* The sum of all ranks' vectors in rank order; those of others are `stride` vectors apart. */
static __device__ __forceinline__ uint4 take_sum(const struct rank_sums &s, char *first,
                                                 int64_t stride, uint4 own, bool is_integer,
                                                 struct rank_wait *w)
{
    uint4 sum = make_uint4(0, 0, 0, 0);

#pragma unroll 1
    for (int r = 0; r < s.peers.n_ranks; r++) {
        const uint4 part = r == s.peers.rank
                               ? own
                               : take(first + r * stride * (int64_t)sizeof(uint4), s.peers, r, w);

        sum = r == 0 ? part : sum_of(sum, part, is_integer);
    }
    return sum;
}

/* Few numbers: everybody adds all. A slot has the numbers of each rank. */
static __device__ __forceinline__ void add_all(const struct rank_sums &s, const struct vectors &v,
                                               int64_t begin, int64_t stride)
{
    struct rank_wait wait = {0, false};

#pragma unroll 4
    for (int64_t i = begin; i < v.n; i += stride) {
        const uint4 own = load_own(s, i);

#pragma unroll
        for (int r = 0; r < RANK_PEERS_MAX; r++)
            if (r < s.peers.n_ranks && r != s.peers.rank)
                push(s.peers.windows[r] + v.slot_at +
                         (s.peers.rank * v.n + i) * (int64_t)sizeof(uint4),
                     own);
    }
    for (int64_t i = begin; i < v.n; i += stride) {
        char *first = v.mine + i * (int64_t)sizeof(uint4);

        store_sum(s, i, take_sum(s, first, v.n, load_own(s, i), is_integer_vector(s, i), &wait));
    }
}

/* Many numbers: owners add. Each thread has the same place in every rank's part. */
static __device__ __forceinline__ void add_owned(const struct rank_sums &s, const struct vectors &v,
                                                 int64_t begin, int64_t stride)
{
    const int rank = s.peers.rank, n_ranks = s.peers.n_ranks;
    const int64_t sums_at = n_ranks * v.part;
    struct rank_wait wait = {0, false};

#pragma unroll 2
    for (int64_t at = begin; at < v.part; at += stride)
#pragma unroll
        for (int r = 0; r < RANK_PEERS_MAX; r++)
            if (r < n_ranks && r != rank && r * v.part + at < v.n)
                push(s.peers.windows[r] + v.slot_at + (rank * v.part + at) * (int64_t)sizeof(uint4),
                     load_own(s, r * v.part + at));
    for (int64_t at = begin; at < v.part; at += stride) {
        const int64_t i = rank * v.part + at;

        if (i >= v.n)
            break;
        uint4 sum = take_sum(s, v.mine + at * (int64_t)sizeof(uint4), v.part, load_own(s, i),
                             is_integer_vector(s, i), &wait);

        sum = sendable_of(sum);
#pragma unroll
        for (int r = 0; r < RANK_PEERS_MAX; r++)
            if (r < n_ranks && r != rank)
                push(s.peers.windows[r] + v.slot_at + (sums_at + i) * (int64_t)sizeof(uint4), sum);
        store_sum(s, i, sum);
    }
    for (int64_t at = begin; at < v.part; at += stride)
#pragma unroll 1
        for (int r = 0; r < n_ranks; r++)
            if (r != rank && r * v.part + at < v.n) {
                const int64_t i = r * v.part + at;

                store_sum(s, i,
                          take(v.mine + (sums_at + i) * (int64_t)sizeof(uint4), s.peers, r, &wait));
            }
}

template <bool IS_OWNED>
static __global__ void __launch_bounds__(THREADS)
    rank_sums_kernel(const __grid_constant__ struct rank_sums s)
{
    const int64_t begin = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;

    const struct vectors v = vectors_of(s); /* of the upload, as the batch */

    pdl_wait();
    pdl_launch_dependents();
    if (IS_OWNED)
        add_owned(s, v, begin, stride);
    else
        add_all(s, v, begin, stride);
}

void launch_rank_sums(struct launch_list *list, const struct rank_sums *s)
{
    const int64_t n = (int64_t)s->n_rows * (s->n_columns / RANK_WORDS);
    const bool is_owned = rank_is_owned(n, s->peers.n_ranks);
    const int64_t n_each = is_owned ? rank_part_vectors(n, s->peers.n_ranks) : n;
    const unsigned threads = n_each <= FEW_VECTORS ? FEW_THREADS : THREADS;
    const int64_t n_wanted = (n_each + threads - 1) / threads;
    const int64_t n_most = (int64_t)list->gpu->n_sms * BLOCKS_PER_SM;
    const unsigned n_blocks = (unsigned)(n_wanted < n_most ? n_wanted : n_most);

    if (is_owned)
        add_dependent<rank_sums_kernel<true>>(list, n_blocks, threads, 0, *s);
    else
        add_dependent<rank_sums_kernel<false>>(list, n_blocks, threads, 0, *s);
}

/* ---- attn_out ---- */

static __global__ void __launch_bounds__(THREADS)
    rank_out_kernel(const __grid_constant__ struct rank_out o)
{
    const struct rank_peers &p = o.peers;
    const int64_t begin = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t stride = (int64_t)gridDim.x * blockDim.x, row = o.n_columns / RANK_WORDS;
    const int64_t n = live_rows(o.n_live, o.n_rows) * row;
    const int64_t slot_at = rank_slot_at(p, o.index);
    struct rank_wait wait = {0, false};

    pdl_wait();
    pdl_launch_dependents();
#pragma unroll 2
    for (int64_t i = begin; i < n; i += stride) {
        const uint4 high = __ldcg((const uint4 *)o.h + i), low = __ldcg((const uint4 *)o.low + i);

#pragma unroll
        for (int r = 0; r < RANK_PEERS_MAX; r++)
            if (r < p.n_ranks && r != p.rank) {
                char *to = p.windows[r] + slot_at + (p.rank * 2 * n + i) * (int64_t)sizeof(uint4);

                push(to, high);
                push(to + n * (int64_t)sizeof(uint4), low);
            }
    }
    for (int64_t i = begin; i < n; i += stride) {
        uint4 high = __ldcg((const uint4 *)o.h + i), low = __ldcg((const uint4 *)o.low + i);

#pragma unroll 1
        for (int r = 0; r < p.n_ranks; r++) {
            char *from = p.windows[p.rank] + slot_at + (r * 2 * n + i) * (int64_t)sizeof(uint4);

            if (r == p.rank)
                continue;
            high = sum_of(high, take(from, p, r, &wait), true);
            const uint4 part = take(from + n * (int64_t)sizeof(uint4), p, r, &wait);

            low = make_uint4(low.x + part.x, low.y + part.y, low.z + part.z, low.w + part.w);
        }
        store_out(o, i, high, low);
    }
}

void launch_rank_out(struct launch_list *list, const struct rank_out *o)
{
    const int64_t n = (int64_t)o->n_rows * (o->n_columns / RANK_WORDS);
    const int64_t n_most = (int64_t)list->gpu->n_sms * BLOCKS_PER_SM;
    const unsigned threads = n <= FEW_VECTORS ? FEW_THREADS : THREADS;
    const int64_t n_wanted = (n + threads - 1) / threads;

    add_dependent<rank_out_kernel>(list, (unsigned)(n_wanted < n_most ? n_wanted : n_most), threads,
                                   0, *o);
}

/* ---- integers of a few rows ---- */

static __global__ void __launch_bounds__(THREADS)
    rank_integers_kernel(const __grid_constant__ struct rank_integers s)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), row = s.n_columns / RANK_WORDS;
    const int n = s.n_rows * row;
    const struct rank_peers &p = s.peers;
    const uint32_t bad = EXPERT_SUM_POISONED;
    const int64_t slot_at = rank_slot_at(p, s.index);
    struct rank_wait wait = {0, false};

    pdl_wait();
    pdl_launch_dependents();
    if (i >= n)
        return;
    int32_t *const poison = s.poison + i / row;
    const bool is_poisoned = __ldcg(poison) != 0;
    uint4 sum = __ldcg((const uint4 *)s.sums + i);

    if (is_poisoned)
        sum = make_uint4(bad, bad, bad, bad);
#pragma unroll
    for (int r = 0; r < RANK_PEERS_MAX; r++)
        if (r < p.n_ranks && r != p.rank)
            push(p.windows[r] + slot_at + (p.rank * n + i) * (int64_t)sizeof(uint4), sum);
#pragma unroll 1
    for (int r = 0; r < p.n_ranks; r++)
        if (r != p.rank)
            sum = sum_of(sum,
                         take(p.windows[p.rank] + slot_at + (r * n + i) * (int64_t)sizeof(uint4), p,
                              r, &wait),
                         true);
    if (sum.x == bad)
        *poison = 1;
    ((uint4 *)s.sums)[i] = sum.x == bad ? make_uint4(0, 0, 0, 0) : sum;
}

void launch_rank_integers(struct launch_list *list, const struct rank_integers *s)
{
    const int n = s->n_rows * (s->n_columns / RANK_WORDS);

    add_dependent<rank_integers_kernel>(list, (unsigned)((n + FEW_THREADS - 1) / FEW_THREADS),
                                        FEW_THREADS, 0, *s);
}

/* ---- logits ---- */

/* Every thread waits until its stores have arrived. */
static __global__ void __launch_bounds__(THREADS)
    push_logits_kernel(const __grid_constant__ struct rank_logits l)
{
    const int64_t n_row = l.n / RANK_WORDS, n = live_rows(l.n_live, l.n_rows) * n_row;

    pdl_wait();
    pdl_launch_dependents();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t at = (i / n_row * l.width + l.first) / RANK_WORDS + i % n_row;

        push((uint4 *)l.peers.logits + at, __ldcg((const uint4 *)l.logits + at));
    }
    __threadfence_system();
}

/* The ranks tell rank 0 that their logits are there. One thread for each. */
static __global__ void __launch_bounds__(RANK_PEERS_MAX)
    signal_logits_kernel(const __grid_constant__ struct rank_logits l)
{
    const int r = (int)threadIdx.x, rank = l.peers.rank;
    struct rank_wait wait = {0, false};

    pdl_wait();
    pdl_launch_dependents();
    if (rank == 0 && r > 0 && r < l.peers.n_ranks)
        (void)take(l.peers.windows[0] + l.signals_at + r * (int64_t)sizeof(uint4), l.peers, r,
                   &wait);
    if (rank > 0 && r == 0)
        push(l.peers.windows[0] + l.signals_at + rank * (int64_t)sizeof(uint4),
             make_uint4(1, 1, 1, 1));
    __threadfence_system();
}

void launch_rank_logits(struct launch_list *list, const struct rank_logits *l)
{
    if (l->peers.rank > 0)
        add_dependent<push_logits_kernel>(list, (unsigned)(list->gpu->n_sms * BLOCKS_PER_SM),
                                          THREADS, 0, *l);
    add_dependent<signal_logits_kernel>(list, 1, RANK_PEERS_MAX, 0, *l);
}

/* ---- tokens ---- */

static __device__ __forceinline__ uint32_t take_word(char *from, const struct rank_peers &p)
{
    struct rank_wait wait = {0, false};
    uint32_t word = *(volatile uint32_t *)from;

    for (int polls = 1; word == RANK_EMPTY; polls++) {
        if (is_over(p, 0, polls, &wait))
            return 0;
        word = *(volatile uint32_t *)from;
    }
    *(volatile uint32_t *)from = RANK_EMPTY;
    return word;
}

static __global__ void __launch_bounds__(THREADS)
    tokens_kernel(const __grid_constant__ struct rank_tokens t)
{
    const struct rank_peers &p = t.peers;
    const int n = live_rows(t.n_live, t.n);

    pdl_wait();
    pdl_launch_dependents();
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        const int64_t at = rank_tokens_at(p.slot_bytes) + i * (int64_t)sizeof(int32_t);

        if (p.rank > 0)
            t.tokens[i] = (int32_t)take_word(p.windows[p.rank] + at, p);
        for (int r = 1; p.rank == 0 && r < p.n_ranks; r++)
            *(volatile int32_t *)(p.windows[r] + at) = __ldcg(t.tokens + i);
        if (t.logprobs != NULL)
            t.logprobs[i] = 0.0f;
    }
    for (int i = (int)threadIdx.x; t.top_tokens != NULL && i < n * t.n_top; i += THREADS) {
        t.top_tokens[i] = 0;
        t.top_logprobs[i] = 0.0f;
    }
}

void launch_rank_tokens(struct launch_list *list, const struct rank_tokens *t)
{
    add_dependent<tokens_kernel>(list, 1, THREADS, 0, *t);
}

/* ---- windows ---- */

static __global__ void __launch_bounds__(THREADS) empty_kernel(uint4 *window, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        window[i] = make_uint4(RANK_EMPTY, RANK_EMPTY, RANK_EMPTY, RANK_EMPTY);
}

void launch_rank_window(void *stream, void *window, int64_t n_bytes)
{
    empty_kernel<<<1024, THREADS, 0, (cudaStream_t)stream>>>((uint4 *)window,
                                                             n_bytes / (int64_t)sizeof(uint4));
}
