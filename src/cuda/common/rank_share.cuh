/* Device functions of rows that ranks share out (rank_share.h). */
#ifndef CUDA_COMMON_RANK_SHARE_CUH
#define CUDA_COMMON_RANK_SHARE_CUH

#include "cuda/common/rank_share.h"
#include "cuda/common/rank_vector.cuh"

/* All threads of all blocks, n_blocks, call it behind their stores to other ranks' windows. The
 * last block writes the exchange's number to the others, and returns when it has theirs. No rank
 * writes a later number before: for the next such exchange it needs parts of rows from all ranks,
 * which they push behind this kernel. So every rank must own a row (RANK_SHARE_ROWS_MIN). */
static __device__ __forceinline__ void
announce(const struct rank_peers &p, const struct rank_gather &g, int index, unsigned n_blocks)
{
    __shared__ bool is_last;
    char *const mine = p.windows[p.rank];
    unsigned *const n_done = (unsigned *)(mine + g.n_done_at);
    const uint32_t number = *(volatile uint32_t *)p.n_before + (uint32_t)index + 1;
    const int r = (int)threadIdx.x;
    struct rank_wait wait = {0, false};
    uint32_t found;

    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = atomicAdd(n_done, 1u) + 1 == n_blocks;
    __syncthreads();
    if (!is_last)
        return;
    if (threadIdx.x == 0)
        *n_done = 0;
    if (r >= p.n_ranks || r == p.rank)
        return;
    __threadfence_system();
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p.windows[r] + g.flags_at +
                                                             p.rank * RANK_FLAG_BYTES),
                 "r"(number)
                 : "memory");
    for (int polls = 1;; polls++) {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                     : "=r"(found)
                     : "l"(mine + g.flags_at + r * RANK_FLAG_BYTES)
                     : "memory");
        if (found == number || is_over(p, r, polls, &wait))
            break;
    }
}

#endif
