/* Clusters: blocks that run at the same time, side by side, and see each other's shared memory.
 * From sm_90 on; below it these are nothing, and kernels of clusters are not launched. */
#ifndef CUDA_COMMON_CLUSTER_CUH
#define CUDA_COMMON_CLUSTER_CUH

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

/* The same where nothing was written but by arrivals_init(). */
static __device__ __forceinline__ void cluster_begin(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void cluster_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* ---- what is sent: the block there waits at its barrier until so many bytes have come ---- */

/* Where a place of one's own shared memory lies in block `rank`. */
static __device__ __forceinline__ uint32_t mapa_address(uint32_t at, int rank)
{
    uint32_t dst = at;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(dst) : "r"(at), "r"(rank));
#endif
    return dst;
}

/* A barrier for n_bytes that others send, by one thread; others may send when the cluster has
 * met behind it. */
static __device__ __forceinline__ void arrivals_init(uint32_t barrier, int n_bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(n_bytes)
                 : "memory");
#else
    (void)barrier, (void)n_bytes;
#endif
}

/* Until all have come. */
static __device__ __forceinline__ void arrivals_wait(uint32_t barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t is_phase_done;

    do {
        asm volatile("{\n"
                     ".reg .pred all;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 all, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, all;\n"
                     "}"
                     : "=r"(is_phase_done)
                     : "r"(barrier)
                     : "memory");
    } while (!is_phase_done);
#else
    (void)barrier;
#endif
}

/* Sixteen bytes; both are places in the block that they go to. */
static __device__ __forceinline__ void send(uint32_t to, uint32_t barrier, uint4 v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
                 : "memory");
#else
    (void)to, (void)barrier, (void)v;
#endif
}

static __device__ __forceinline__ void send(uint32_t to, uint32_t barrier, long long a, long long b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 "
                 "[%0], {%1, %2}, [%3];" ::"r"(to),
                 "l"(a), "l"(b), "r"(barrier)
                 : "memory");
#else
    (void)to, (void)barrier, (void)a, (void)b;
#endif
}

/* ---- what is stored: seen behind the cluster's next meeting ---- */

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
