/* Wrappers of Hopper instructions, sm_90a only: wgmma, bulk copies and mbarriers.
 *
 * D (64 x N, float32) += A (64 x 16, registers) B (16 x N, shared memory). Warp w of the warpgroup
 * holds rows 16 w to 16 w + 15 of A and D in the fragment layout of mma.sync.m16n8k16 (mma.cuh).
 * Register 4 i + j of D is register j of columns 8 i to 8 i + 7. B is stored as N rows of 64
 * consecutive numbers, 128 bytes a row, of which one instruction uses 16. Piece p (16 bytes) of row
 * r is at position p ^ r % 8 (128-byte swizzle). The tile is aligned to 1,024 bytes. */
#ifndef CUDA_COMMON_WGMMA_CUH
#define CUDA_COMMON_WGMMA_CUH

#include <stdint.h>

/* ---- mbarriers; addresses are in the shared window ---- */

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void mbarrier_init(uint32_t barrier, int n_arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals)
                 : "memory");
}

/* Makes initialized mbarriers visible to the asynchronous proxy. */
static __device__ __forceinline__ void mbarrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Every thread that read or wrote the data arrives itself, instead of one lane per warp after
 * __syncwarp(): that may compile to a NOP, and racecheck then reports the other lanes as unordered.
 * It is not slower. */
static __device__ __forceinline__ void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives and adds n_bytes of bulk copies to what the barrier expects. */
static __device__ __forceinline__ void mbarrier_expect_tx(uint32_t barrier, uint32_t n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(n_bytes)
                 : "memory");
}

/* Waits for the end of the phase with this parity. */
static __device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* The same for a warp that may be late: between two looks it sleeps, because a wait that only looks
 * takes a sixth of a scheduler's cycles from the warps that multiply. */
static __device__ __forceinline__ void mbarrier_wait_asleep(uint32_t barrier, uint32_t parity)
{
    enum { SLEEP_NS = 100 };
    uint32_t is_done;

    for (;;) {
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}"
                     : "=r"(is_done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
        if (is_done)
            return;
        __nanosleep(SLEEP_NS);
    }
}

/* ---- bulk copies: sizes and addresses are multiples of 16 bytes ---- */

static __device__ __forceinline__ void bulk_load(uint32_t to, const void *from, uint32_t n_bytes,
                                                 uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void bulk_store(void *to, uint32_t from, uint32_t n_bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to),
                 "r"(from), "r"(n_bytes)
                 : "memory");
}

/* Waits until the thread's bulk stores have finished reading shared memory. */
static __device__ __forceinline__ void bulk_stores_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

static __device__ __forceinline__ void bulk_stores_wait(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Orders the thread's writes to shared memory before later accesses by the asynchronous proxy. */
static __device__ __forceinline__ void fence_proxy_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- register allocation of a warpgroup ---- */

template <int N> static __device__ __forceinline__ void warpgroup_reg_alloc(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void warpgroup_reg_dealloc(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- wgmma ---- */

/* Required between register writes to A or D and the wgmma that uses them. */
static __device__ __forceinline__ void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most N committed groups are pending. */
template <int N> static __device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Keeps the compiler from moving uses of D before a wait. */
template <int N> static __device__ __forceinline__ void wgmma_fence_operand(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Descriptor of a tile of B as above: groups of 8 rows are 1,024 bytes apart, 128-byte swizzle. */
static __device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t tile)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 |
           (tile & 0x3FFFF) >> 4;
}

#define OUT_4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OUT_8(d, i)  OUT_4(d, i), OUT_4(d, i + 4)
#define OUT_16(d, i) OUT_8(d, i), OUT_8(d, i + 8)
#define OUT_32(d, i) OUT_16(d, i), OUT_16(d, i + 16)

#define NAMES_0  "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_8  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"

/* X(N, names of D's registers, D's registers, names of A's registers, name of B's descriptor) */
#define WGMMA_WIDTHS(X)                                                                            \
    X(16, NAMES_0, (OUT_8(d, 0)), "%8, %9, %10, %11", "%12")                                       \
    X(24, NAMES_0 ", %8, %9, %10, %11", (OUT_8(d, 0), OUT_4(d, 8)), "%12, %13, %14, %15", "%16")   \
    X(32, NAMES_0 NAMES_8, (OUT_16(d, 0)), "%16, %17, %18, %19", "%20")                            \
    X(48, NAMES_0 NAMES_8 NAMES_16, (OUT_16(d, 0), OUT_8(d, 16)), "%24, %25, %26, %27", "%28")     \
    X(64, NAMES_0 NAMES_8 NAMES_16 NAMES_24, (OUT_32(d, 0)), "%32, %33, %34, %35", "%36")          \
    X(80, NAMES_0 NAMES_8 NAMES_16 NAMES_24 NAMES_32, (OUT_32(d, 0), OUT_8(d, 32)),                \
      "%40, %41, %42, %43", "%44")                                                                 \
    X(96, NAMES_0 NAMES_8 NAMES_16 NAMES_24 NAMES_32 NAMES_40, (OUT_32(d, 0), OUT_16(d, 32)),      \
      "%48, %49, %50, %51", "%52")                                                                 \
    X(112, NAMES_0 NAMES_8 NAMES_16 NAMES_24 NAMES_32 NAMES_40 NAMES_48,                           \
      (OUT_32(d, 0), OUT_16(d, 32), OUT_8(d, 48)), "%56, %57, %58, %59", "%60")                    \
    X(128, NAMES_0 NAMES_8 NAMES_16 NAMES_24 NAMES_32 NAMES_40 NAMES_48 NAMES_56,                  \
      (OUT_32(d, 0), OUT_32(d, 32)), "%64, %65, %66, %67", "%68")

#define WITHOUT_PARENTHESES(...) __VA_ARGS__
#define WGMMA_TEXT(width, type, names_d, names_a, name_b)                                          \
    "{\n.reg .pred adds;\nsetp.eq.b32 adds, 0, 0;\n"                                               \
    "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32." type "." type " {" names_d               \
    "}, {" names_a "}, " name_b ", adds, 1, 1, 0;\n}"
#define WGMMA_ASM(width, type, names_d, out_d, names_a, name_b)                                    \
    asm volatile(WGMMA_TEXT(width, type, names_d, names_a, name_b)                                 \
                 : WITHOUT_PARENTHESES out_d                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WGMMA_OF_WIDTH(width, names_d, out_d, names_a, name_b)                                     \
    if constexpr (WIDTH == width && IS_F16)                                                        \
        WGMMA_ASM(width, "f16", names_d, out_d, names_a, name_b);                                  \
    if constexpr (WIDTH == width && !IS_F16)                                                       \
        WGMMA_ASM(width, "bf16", names_d, out_d, names_a, name_b);

#define NEW_4(d, i)  "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3])
#define NEW_16(d, i) NEW_4(d, i), NEW_4(d, i + 4), NEW_4(d, i + 8), NEW_4(d, i + 12)

/* d = a b, BF16, 64 columns; the previous content of d is ignored. */
static __device__ __forceinline__ void wgmma_first(float d[32], const uint32_t a[4], uint64_t b)
{
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{" NAMES_0 NAMES_8 NAMES_16 NAMES_24
                 "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n}"
                 : NEW_16(d, 0), NEW_16(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#define NEW_8(d, i) NEW_4(d, i), NEW_4(d, i + 4)

#define WGMMA_OF_ZERO(width, names_d, out_d, names_a, name_b)                                      \
    if constexpr (WIDTH == width)                                                                  \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, 0, 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32.f16.f16 {" names_d            \
                 "}, {" names_a "}, " name_b ", adds, 1, 1, 0;\n}"                                 \
                 : WITHOUT_PARENTHESES out_d                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#define NEW_32(d, i) NEW_16(d, i), NEW_16(d, i + 16)

/* d = a b, FP16, WIDTH columns: 16, 24, 32, 48, 64 or 128; the previous content of d is ignored. */
template <int WIDTH>
static __device__ __forceinline__ void wgmma_of_zero(float d[WIDTH / 2], const uint32_t a[4],
                                                     uint64_t b)
{
    static_assert(WIDTH == 16 || WIDTH == 24 || WIDTH == 32 || WIDTH == 48 || WIDTH == 64 ||
                      WIDTH == 128,
                  "one of these widths");
    WGMMA_OF_ZERO(16, NAMES_0, (NEW_8(d, 0)), "%8, %9, %10, %11", "%12");
    WGMMA_OF_ZERO(24, NAMES_0 ", %8, %9, %10, %11", (NEW_8(d, 0), NEW_4(d, 8)),
                  "%12, %13, %14, %15", "%16");
    WGMMA_OF_ZERO(32, NAMES_0 NAMES_8, (NEW_16(d, 0)), "%16, %17, %18, %19", "%20");
    WGMMA_OF_ZERO(48, NAMES_0 NAMES_8 NAMES_16, (NEW_16(d, 0), NEW_8(d, 16)), "%24, %25, %26, %27",
                  "%28");
    WGMMA_OF_ZERO(64, NAMES_0 NAMES_8 NAMES_16 NAMES_24, (NEW_32(d, 0)), "%32, %33, %34, %35",
                  "%36");
    WGMMA_OF_ZERO(128, NAMES_0 NAMES_8 NAMES_16 NAMES_24 NAMES_32 NAMES_40 NAMES_48 NAMES_56,
                  (NEW_32(d, 0), NEW_32(d, 32)), "%64, %65, %66, %67", "%68");
}

/* d += a b, WIDTH columns. */
template <bool IS_F16, int WIDTH>
static __device__ __forceinline__ void wgmma(float d[WIDTH / 2], const uint32_t a[4], uint64_t b)
{
    WGMMA_WIDTHS(WGMMA_OF_WIDTH)
}

#endif
