/* Clusters: blocks that run at the same time, side by side, and see each other's shared memory. From sm_90 on;
 * below it these are nothing, and kernels of clusters are not launched. */
#ifndef CUDA_CLUSTER_CUH
#define CUDA_CLUSTER_CUH

#include <stdint.h>

/* Which block of its cluster this one is. */
static __device__ __forceinline__ int cluster_rank(void)
{
    uint32_t rank = 0;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

/* All threads of all blocks arrive; what they wrote before is seen behind the wait. */
static __device__ __forceinline__ void cluster_arrive(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void cluster_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* A whole number in the shared memory of block `rank`; `at` is the address of the same place in one's own. */
static __device__ __forceinline__ long long load_of_block(uint32_t at, int rank)
{
    long long v = 0;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .u32 there;\n"
                 "mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.s64 %0, [there];\n"
                 "}"
                 : "=l"(v)
                 : "r"(at), "r"(rank)
                 : "memory");
#endif
    return v;
}

/* Two numbers to the same place there. */
static __device__ __forceinline__ void store_to_block(uint32_t at, int rank, float2 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .u32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.v2.f32 [there], {%2, %3};\n"
                 "}" ::"r"(at),
                 "r"(rank), "f"(v.x), "f"(v.y)
                 : "memory");
#else
    (void)at, (void)rank, (void)v;
#endif
}

/* Eight or sixteen bytes; the block there has begun. */
static __device__ __forceinline__ void store_to_block(uint32_t at, int rank, uint2 v)
{
    store_to_block(at, rank, make_float2(__uint_as_float(v.x), __uint_as_float(v.y)));
}

static __device__ __forceinline__ void store_to_block(uint32_t at, int rank, uint4 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .u32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.v4.u32 [there], {%2, %3, %4, %5};\n"
                 "}" ::"r"(at),
                 "r"(rank), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
#else
    (void)at, (void)rank, (void)v;
#endif
}

#endif
