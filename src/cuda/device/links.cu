/* The latency of a push: a kernel on each of two GPUs writes the number of the round into the
 * memory of the other and waits for the answer in its own. The number is data and flag in one, as
 * in the exchange between ranks. */
#include "cuda/launch/links.h"

#include "cuda/common/clock.cuh"

enum { ROUNDS = 2000, ROUNDS_UNTIMED = 200 };
static const uint64_t WAIT_NS_MAX = 1000000000; /* the other kernel may start late */

static __device__ void store_system(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

static __device__ uint32_t load_system(const uint32_t *at)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

/* False: the other GPU was silent for too long. */
static __device__ bool wait_for(const uint32_t *at, uint32_t value)
{
    const uint64_t begin = now_ns();

    while (load_system(at) < value)
        if (now_ns() - begin > WAIT_NS_MAX)
            return false;
    return true;
}

static __global__ void exchange_pushes(uint32_t *own, uint32_t *peer, bool is_first,
                                       uint64_t *elapsed_ns)
{
    uint64_t begin = 0;

    *elapsed_ns = 0;
    for (uint32_t round = 1; round <= ROUNDS_UNTIMED + ROUNDS; round++) {
        if (round == ROUNDS_UNTIMED + 1)
            begin = now_ns();
        if (is_first)
            store_system(peer, round);
        if (!wait_for(own, round))
            return;
        if (!is_first)
            store_system(peer, round);
    }
    *elapsed_ns = now_ns() - begin;
}

int launch_pushes(cudaStream_t stream, uint32_t *own, uint32_t *peer, bool is_first,
                  uint64_t *elapsed_ns)
{
    exchange_pushes<<<1, 1, 0, stream>>>(own, peer, is_first, elapsed_ns);
    return 2 * ROUNDS;
}
