/* cp.async with an L2 evict-first policy, for data that a step reads once: weights, keys and
 * values. Such lines are evicted first, so that kernel code and other reused data stay in L2.
 *
 * Used on Hopper only, the one architecture where it has run. ptxas of CUDA 13.0 generates an
 * illegal instruction for such a copy if it knows the address as the sum of a register and a
 * uniform register ("[R + UR0], desc[UR1]" in SASS, LDGSTS.UR in tools/check_sass).
 * opaque_address() hides from ptxas how a shared-memory address was computed. */
#ifndef CUDA_COMMON_EVICT_FIRST_CUH
#define CUDA_COMMON_EVICT_FIRST_CUH

#include <stdint.h>

/* For inline assembly: the instruction's name, and the operand after its size. `policy_` names the
 * operand that holds EVICT_FIRST_POLICY. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define CP_ASYNC_EVICT_FIRST      "cp.async.cg.shared.global.L2::cache_hint"
#define EVICT_FIRST_HINT(policy_) ", " policy_
#else
#define CP_ASYNC_EVICT_FIRST      "cp.async.cg.shared.global"
#define EVICT_FIRST_HINT(policy_) ""
#endif

/* The encoding that createpolicy returns for evict_first on all addresses. */
static const uint64_t EVICT_FIRST_POLICY = 0x12F0000000000000u;
/* The same for evict_normal: no policy, for instructions that have one. */
static const uint64_t EVICT_NORMAL_POLICY = 0x1000000000000000u;

/* Returns its argument, which is never 0, in a form that ptxas cannot analyse. */
static __device__ __forceinline__ uint32_t opaque_address(uint32_t shared)
{
    return max(shared, 1u);
}

/* Starts a copy of 16 bytes. */
static __device__ __forceinline__ void copy_evict_first(uint32_t to, const void *from)
{
    asm volatile(CP_ASYNC_EVICT_FIRST " [%0], [%1], 16" EVICT_FIRST_HINT("%2") ";" ::"r"(to),
                 "l"(from), "l"(EVICT_FIRST_POLICY)
                 : "memory");
}

#endif
