/* Sums of the experts that ranks exchange within the kernel that normalizes the rows, as pairs
 * (rank_wait.cuh). Each block pushes its share of this rank's sums and waits for all sums of the
 * others. All blocks must be active at once: a block waits for blocks of the other ranks, which may
 * wait for those of this rank that have not started. */
#ifndef CUDA_DECODE_PEER_ROWS_CUH
#define CUDA_DECODE_PEER_ROWS_CUH

#include "cuda/common/rank_wait.cuh"
#include "cuda/decode/decode_rows.cuh"

/* The other ranks, for add_expert_sums(). AT_ONCE: a thread's loads in flight. */
template <int AT_ONCE> struct peer_rows {
    static_assert(NORM_PER_THREAD % AT_ONCE == 0, "equal numbers of loads");

    const struct rank_peers *peers; /* NULL: the rows lack no sums */
    struct pair_slot slot;
    int32_t *totals; /* (T, n): the sums of all ranks, which block 0 stores */
    int32_t *poison; /* (T): set for rows that another rank has poisoned */
};

/* The place among n_words words that other ranks see; n is the number of columns. */
static __device__ __forceinline__ int pair_words(int n)
{
    return RANK_PAIR_ROWS * n;
}

/* Pushes this block's share of the sums. A poisoned row is marked in its first column. */
template <int AT_ONCE>
static __device__ __forceinline__ void push_expert_sums(const struct peer_rows<AT_ONCE> &to,
                                                        const struct expert_sums &from,
                                                        int n_tokens, int n)
{
    const int n_words = n_tokens * n, share = (n_words + (int)gridDim.x - 1) / (int)gridDim.x;
    const int begin = (int)blockIdx.x * share, end = min(begin + share, n_words);

#pragma unroll 1
    for (int at = begin + (int)threadIdx.x; at < end; at += RING_THREADS) {
        const int token = n_tokens == 1 ? 0 : at / n;
        const int sum = __ldcg(from.sums + at), poison = __ldcg(from.poison + token);
        const bool is_poisoned = at == token * n && poison != 0;

        push_pair(*to.peers, to.slot, pair_words(n), at,
                  is_poisoned ? (uint32_t)EXPERT_SUM_POISONED : (uint32_t)sum);
    }
}

/* Waits for N of the thread's words of a row from a rank; n_left: numbers of the row that remain
 * from the first one on. */
template <int N>
static __device__ __forceinline__ void wait_words(uint32_t words[N], const char *place,
                                                  const struct rank_peers &p, uint32_t number,
                                                  int from, int n_left, struct rank_wait *wait)
{
    bool has_all = false;

    for (int polls = 1; !has_all; polls++) {
        uint64_t pairs[N];

#pragma unroll
        for (int i = 0; i < N; i++)
            pairs[i] = i * NORM_THREADS < n_left
                           ? load_pair(place + i * NORM_THREADS * RANK_PAIR_BYTES)
                           : (uint64_t)number << 32;
        has_all = true;
#pragma unroll
        for (int i = 0; i < N; i++) {
            has_all = has_all && number_of_pair(pairs[i]) == number;
            words[i] = (uint32_t)pairs[i];
        }
        if (!has_all && is_over(p, from, polls, wait))
            return;
    }
}

/* As for no_peers. */
template <int AT_ONCE>
static __device__ __forceinline__ int
add_peer_sums(int sums[NORM_PER_THREAD], const struct peer_rows<AT_ONCE> &ranks,
              const struct rows_ready &ready, int token, int n)
{
    const struct rank_peers &p = *ranks.peers;
    int32_t *const totals = ranks.totals + token * n + threadIdx.x;
    struct rank_wait wait = {0, false};
    int poison = 0;

#pragma unroll 1
    for (int k = 1; k < p.n_ranks; k++) {
        const int from = rank_behind(p.rank, k, p.n_ranks);
        const char *place = p.windows[p.rank] + pair_offset(ranks.slot, from, pair_words(n),
                                                            token * n + (int)threadIdx.x);

#pragma unroll
        for (int first = 0; first < NORM_PER_THREAD; first += AT_ONCE) {
            uint32_t words[AT_ONCE];

            wait_words<AT_ONCE>(words, place + first * NORM_THREADS * RANK_PAIR_BYTES, p,
                                ranks.slot.number, from, ready.n_left - first * NORM_THREADS,
                                &wait);
            if (first == 0 && words[0] == EXPERT_SUM_POISONED)
                poison = 1;
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                sums[first + i] = (int)((uint32_t)sums[first + i] + words[i]);
        }
    }
    if (blockIdx.x != 0)
        return poison;
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        if (i * NORM_THREADS < ready.n_left)
            totals[i * NORM_THREADS] = sums[i];
    if (poison != 0)
        ranks.poison[token] = 1;
    return poison;
}

#endif
