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

static __device__ __forceinline__ uint32_t wait_pair(const struct rank_peers &p,
                                                     const struct pair_slot &slot, int from, int n,
                                                     int at, struct rank_wait *w)
{
    const char *place = p.windows[p.rank] + pair_offset(slot, from, n, at);

    for (int polls = 1;; polls++) {
        const uint64_t pair = load_pair(place);

        if (number_of_pair(pair) == slot.number)
            return (uint32_t)pair;
        if (is_over(p, from, polls, w))
            return RANK_LOST;
    }
}

/* The sum over all ranks of two words (out_sums.h), which are pairs `at` of n and of the next n. */
static __device__ __forceinline__ struct out_words sum_of_pairs(const struct rank_peers &p,
                                                                const struct pair_slot &slot, int n,
                                                                int at, struct out_words mine,
                                                                bool pushes)
{
    struct rank_wait wait = {0, false};
    struct out_words sum = mine;

    if (pushes) {
        push_pair(p, slot, 2 * n, at, (uint32_t)mine.high);
        push_pair(p, slot, 2 * n, n + at, (uint32_t)mine.low);
    }
    for (int r = 0; r < p.n_ranks; r++)
        if (r != p.rank) {
            const uint32_t high = wait_pair(p, slot, r, 2 * n, at, &wait);
            const uint32_t low = wait_pair(p, slot, r, 2 * n, n + at, &wait);

            sum = out_words_sum(sum, {(int32_t)high, (int32_t)low});
        }
    return sum;
}

#endif
