/* Copies of what a step uses once, weights and keys above all: it leaves the second-level cache
 * first, and what kernels use again, their code among it, stays there.
 *
 * Said on Hopper alone, where it has run. ptxas of CUDA 13.0 makes an illegal instruction of
 * such a copy to an address that it knows as the sum of a register and a uniform one ("[R +
 * UR0], desc[UR1]" in its text, LDGSTS.UR in tools/check_sass): of a place in shared memory it
 * must not see how it came to be. */
#ifndef CUDA_COMMON_EVICT_FIRST_CUH
#define CUDA_COMMON_EVICT_FIRST_CUH

#include <stdint.h>

/* For assembly: behind the instruction's name, and behind its size, `policy_` naming
 * EVICT_FIRST_POLICY. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define CP_ASYNC_EVICT_FIRST      "cp.async.cg.shared.global.L2::cache_hint"
#define EVICT_FIRST_HINT(policy_) ", " policy_
#else
#define CP_ASYNC_EVICT_FIRST      "cp.async.cg.shared.global"
#define EVICT_FIRST_HINT(policy_) ""
#endif

/* What createpolicy makes of evict_first, for all addresses. */
static const uint64_t EVICT_FIRST_POLICY = 0x12F0000000000000u;

/* The same address in shared memory, which is not 0, of which ptxas does not see how it came to
 * be. */
static __device__ __forceinline__ uint32_t opaque_address(uint32_t shared)
{
    return max(shared, 1u);
}

/* Asks for sixteen bytes. */
static __device__ __forceinline__ void copy_evict_first(uint32_t to, const void *from)
{
    asm volatile(CP_ASYNC_EVICT_FIRST " [%0], [%1], 16" EVICT_FIRST_HINT("%2") ";" ::"r"(to),
                 "l"(from), "l"(EVICT_FIRST_POLICY)
                 : "memory");
}

#endif
