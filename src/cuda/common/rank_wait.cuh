/* Waits for other ranks, within kernels (rank_exchange.h). */
#ifndef CUDA_COMMON_RANK_WAIT_CUH
#define CUDA_COMMON_RANK_WAIT_CUH

#include "backend/exchange.h"
#include "cuda/common/clock.cuh"
#include "cuda/common/out_sums.h"
#include "cuda/common/rank_exchange.h"

enum {
    POLLS_PER_LOOK = 32, /* polls between two looks at the clock and at what has ended */
    /* The state is host memory: many threads that read it at once delay each other, and what they
     * wait for. */
    WAIT_NS_BEFORE_LOOKS = 5000000
};

/* In place of a number that did not arrive: NaN. */
#define RANK_LOST 0x7FC00000u

static const uint64_t WAIT_NS_MAX = EXCHANGE_WAIT_MS * 1000000ull;

/* Whether a wait for the rank, which began at begin_ns, ends without its numbers. The first one of
 * a step that does so tells all others of the step, in this kernel and in those that follow, by a
 * word of device memory. */
static __device__ __forceinline__ bool gives_up(int32_t *state, int32_t *ended, int from,
                                                uint64_t begin_ns)
{
    const uint64_t waited_ns = now_ns() - begin_ns;

    if (*(volatile int32_t *)ended != 0)
        return true;
    if (waited_ns < WAIT_NS_BEFORE_LOOKS)
        return false;
    if (*(volatile int32_t *)state == 0) {
        if (waited_ns < WAIT_NS_MAX)
            return false;
        *(volatile int32_t *)state = 1 + from;
        __threadfence_system();
    }
    *(volatile int32_t *)ended = 1;
    return true;
}

/* The waits of a thread in a kernel, in registers. */
struct rank_wait {
    uint64_t begin_ns; /* of this wait; 0: it has not looked at the clock */
    bool has_ended;    /* an earlier wait ended without its numbers: none begins any more */
};

/* After `polls` polls: whether the wait is over. */
static __device__ __forceinline__ bool is_over(const struct rank_peers &p, int from, int polls,
                                               struct rank_wait *w)
{
    if (w->has_ended)
        return true;
    if (polls == 1)
        w->begin_ns = 0;
    if (polls % POLLS_PER_LOOK != 0)
        return false;
    if (w->begin_ns == 0)
        w->begin_ns = now_ns();
    w->has_ended = gives_up(p.state, p.ended, from, w->begin_ns);
    return w->has_ended;
}

/* ---- pairs ---- */

/* An exchange of pairs: its number, and where its slot is in a window. */
struct pair_slot {
    uint32_t number;
    int64_t at;
};

/* The upload sets the number, so it may be read before pdl_wait(). */
static __device__ __forceinline__ struct pair_slot pair_slot_of(const struct rank_peers &p,
                                                                int index)
{
    const uint32_t number = *(volatile uint32_t *)p.n_before + (uint32_t)index + 1;

    return {number, p.pairs_at + number % 2 * p.pairs_bytes};
}

/* `at`: the number's place among those of a rank, of n. */
static __device__ __forceinline__ int64_t pair_offset(const struct pair_slot &slot, int rank, int n,
                                                      int at)
{
    return slot.at + ((int64_t)rank * n + at) * RANK_PAIR_BYTES;
}

static __device__ __forceinline__ void
push_pair(const struct rank_peers &p, const struct pair_slot &slot, int n, int at, uint32_t word)
{
    const uint64_t pair = (uint64_t)slot.number << 32 | word;

    for (int r = 0; r < p.n_ranks; r++)
        if (r != p.rank)
            asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(
                             p.windows[r] + pair_offset(slot, p.rank, n, at)),
                         "l"(pair)
                         : "memory");
}

static __device__ __forceinline__ uint64_t load_pair(const char *place)
{
    uint64_t pair;

    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(pair) : "l"(place) : "memory");
    return pair;
}

static __device__ __forceinline__ uint32_t number_of_pair(uint64_t pair)
{
    return (uint32_t)(pair >> 32);
}

/* ---- sums of two words (out_sums.h), whose pairs are adjacent ---- */

enum { PEERS_AT_ONCE = 3 }; /* other ranks whose pairs are read at once: all of four */

/* The rank that is k < n_ranks behind a rank. */
static __device__ __forceinline__ int rank_behind(int rank, int k, int n_ranks)
{
    return rank + k < n_ranks ? rank + k : rank + k - n_ranks;
}

/* The words number `at` of a rank, of n. */
static __device__ __forceinline__ int64_t words_offset(const struct pair_slot &slot, int rank,
                                                       int n, int at)
{
    return slot.at + ((int64_t)rank * n + at) * 2 * RANK_PAIR_BYTES;
}

static __device__ __forceinline__ void push_words(const struct rank_peers &p,
                                                  const struct pair_slot &slot, int n, int at,
                                                  struct out_words words)
{
    const uint64_t number = (uint64_t)slot.number << 32;
    const uint64_t high = number | (uint32_t)words.high, low = number | (uint32_t)words.low;

    for (int r = 0; r < p.n_ranks; r++)
        if (r != p.rank)
            asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(
                             p.windows[r] + words_offset(slot, p.rank, n, at)),
                         "l"(high), "l"(low)
                         : "memory");
}

/* The sum over all ranks of words number `at` of n. */
static __device__ __forceinline__ struct out_words sum_of_pairs(const struct rank_peers &p,
                                                                const struct pair_slot &slot, int n,
                                                                int at, struct out_words mine,
                                                                bool pushes)
{
    const char *window = p.windows[p.rank];
    const int n_ranks = p.n_ranks, rank = p.rank;
    struct rank_wait wait = {0, false};
    struct out_words sum = mine;

    if (pushes)
        push_words(p, slot, n, at, mine);
#pragma unroll 1
    for (int first = 1; first < n_ranks; first += PEERS_AT_ONCE) {
        uint64_t high[PEERS_AT_ONCE], low[PEERS_AT_ONCE];
        int missing = 0;

        for (int polls = 1; missing >= 0; polls++) {
#pragma unroll
            for (int i = 0; i < PEERS_AT_ONCE; i++) {
                const int from = rank_behind(rank, first + i, n_ranks);

                high[i] = low[i] = (uint64_t)slot.number << 32; /* zeros: no rank */
                if (first + i < n_ranks)
                    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                                 : "=l"(high[i]), "=l"(low[i])
                                 : "l"(window + words_offset(slot, from, n, at))
                                 : "memory");
            }
            missing = -1;
#pragma unroll
            for (int i = PEERS_AT_ONCE - 1; i >= 0; i--)
                if (number_of_pair(high[i]) != slot.number || number_of_pair(low[i]) != slot.number)
                    missing = i;
            if (missing >= 0 &&
                is_over(p, rank_behind(rank, first + missing, n_ranks), polls, &wait))
                return sum;
        }
#pragma unroll
        for (int i = 0; i < PEERS_AT_ONCE; i++)
            sum = out_words_sum(sum, {(int32_t)high[i], (int32_t)low[i]});
    }
    return sum;
}

#endif
