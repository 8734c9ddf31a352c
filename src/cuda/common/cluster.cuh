/* Thread block clusters: barriers, distributed shared memory and asynchronous remote stores. Blocks
 * of a cluster are co-scheduled and can access each other's shared memory. Needs sm_90; on older
 * architectures these functions are empty, and kernels with clusters are not launched. */
#ifndef CUDA_COMMON_CLUSTER_CUH
#define CUDA_COMMON_CLUSTER_CUH

#include <stdint.h>

/* Rank of this block in its cluster. */
static __device__ __forceinline__ int cluster_rank(void)
{
    uint32_t rank = 0;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

/* Executed by all threads of all blocks. Writes before the arrival are visible after
 * cluster_wait(). */
static __device__ __forceinline__ void cluster_arrive(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/* The same with relaxed ordering: only arrivals_init() may have written before it. */
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

/* ---- st.async: the receiving block waits on an mbarrier for the expected byte count ---- */

/* The address in block `rank` that corresponds to this block's shared-memory address `at`. */
static __device__ __forceinline__ uint32_t mapa_address(uint32_t at, int rank)
{
    uint32_t dst = at;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(dst) : "r"(at), "r"(rank));
#endif
    return dst;
}

/* Initializes an mbarrier that expects n_bytes from other blocks; called by one thread. Other
 * blocks may send after the next cluster barrier. */
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

/* Expects n_bytes in the barrier's next phase; called by one thread behind arrivals_wait(). */
static __device__ __forceinline__ void arrivals_expect(uint32_t barrier, int n_bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(n_bytes)
                 : "memory");
#else
    (void)barrier, (void)n_bytes;
#endif
}

/* Waits until all expected bytes of the phase with this parity have arrived. */
static __device__ __forceinline__ void arrivals_wait(uint32_t barrier, int parity = 0)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t is_phase_done;

    do {
        asm volatile("{\n"
                     ".reg .pred all;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 all, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, all;\n"
                     "}"
                     : "=r"(is_phase_done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!is_phase_done);
#else
    (void)barrier, (void)parity;
#endif
}

/* Sends 16 bytes; both addresses are in the receiving block. */
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

/* ---- plain remote stores: visible after the next cluster barrier ---- */

/* Two floats to the same shared-memory address of block `rank`. */
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

/* Eight or sixteen bytes; the receiving block must have started. */
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
