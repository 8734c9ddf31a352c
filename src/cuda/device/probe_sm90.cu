/* Roofline kernel for Hopper: wgmma throughput, A from registers and one tile of B in shared
 * memory, as in the prefill GEMM. The operands are not constant: zeros use less power and so run
 * faster. */
#include "cuda/launch/launch.h"
#include "cuda/common/layout.h"
#include "cuda/common/wgmma.cuh"

enum {
    GROUPS = 2, /* warpgroups per block */
    THREADS = GROUPS * 4 * WARP_LANES,
    WIDTH = 128,             /* columns of an MMA */
    TILE_WORDS = WIDTH * 32, /* 64 numbers per column */
    STEPS = 4,               /* MMAs of k = 16 per tile */
    ROUNDS = 2048,
    WGMMA_FLOPS = 2 * 64 * WIDTH * 16
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* Two bf16 numbers between -2 and 2. */
static __device__ uint32_t some_bf16(uint32_t i)
{
    i = (i ^ i >> 15) * 0x2C1B3C6Du;
    i = (i ^ i >> 12) * 0x297A2D39u;
    return (i & 0x803F803Fu) | 0x3F803F80u;
}
#endif

static __global__ void __launch_bounds__(THREADS) multiply_sm90(uint32_t *out)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(1024) uint32_t tile[TILE_WORDS];
    const uint32_t base = shared_address(tile);
    uint32_t a[4];
    float d[WIDTH / 2] = {};
    float sum = 0;

    for (int i = threadIdx.x; i < TILE_WORDS; i += THREADS)
        tile[i] = some_bf16((uint32_t)i);
    for (int i = 0; i < 4; i++)
        a[i] = some_bf16(threadIdx.x * 4 + (uint32_t)i);
    fence_proxy_async();
    __syncthreads();
    wgmma_fence_operand(d);
    for (int round = 0; round < ROUNDS; round++) {
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < STEPS; step++)
            wgmma<false, WIDTH>(d, a, wgmma_descriptor(base + (uint32_t)step * 32));
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_fence_operand(d);
    }
    for (int i = 0; i < WIDTH / 2; i++)
        sum += d[i];
    if (sum == 1.0f) /* never true; keeps the compiler from removing the MMAs */
        *out = 1;
#else
    (void)out;
#endif
}

double launch_probe_sm90(cudaStream_t stream, void *scratch, int n_blocks)
{
    multiply_sm90<<<(unsigned)n_blocks, THREADS, 0, stream>>>((uint32_t *)scratch);
    return (double)n_blocks * GROUPS * ROUNDS * STEPS * WGMMA_FLOPS;
}
