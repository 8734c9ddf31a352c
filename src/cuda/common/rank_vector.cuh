/* Slots of the windows of ranks, and vectors of 16 bytes in them (rank_exchange.h): to be pushed,
 * polled and taken. */
#ifndef CUDA_COMMON_RANK_VECTOR_CUH
#define CUDA_COMMON_RANK_VECTOR_CUH

#include "cuda/common/rank_wait.cuh"

/* The slot of an exchange in every window. The upload sets the number, so it may be read early. */
static __device__ __forceinline__ int64_t rank_slot_at(const struct rank_peers &p, int index)
{
    return (*(volatile uint32_t *)p.n_before + (uint32_t)index) % 2 * p.slot_bytes;
}

static __device__ __forceinline__ void push(void *to, uint4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

static __device__ __forceinline__ uint4 poll(const void *from)
{
    uint4 v;

    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}

static __device__ __forceinline__ bool has_arrived(uint4 v)
{
    return v.x != RANK_EMPTY && v.y != RANK_EMPTY && v.z != RANK_EMPTY && v.w != RANK_EMPTY;
}

/* Waits for a vector, and empties its place. */
static __device__ __forceinline__ uint4 take(char *from, const struct rank_peers &p, int rank,
                                             struct rank_wait *w)
{
    uint4 v = poll(from);

    for (int polls = 1; !has_arrived(v); polls++) {
        if (is_over(p, rank, polls, w))
            return make_uint4(RANK_LOST, RANK_LOST, RANK_LOST, RANK_LOST);
        v = poll(from);
    }
    push(from, make_uint4(RANK_EMPTY, RANK_EMPTY, RANK_EMPTY, RANK_EMPTY));
    return v;
}

#endif
