/* Loops of independent operations, one per ISA: as fast as the arithmetic units allow, with
 * everything in registers. There are enough accumulators to hide the latency. */
#include "base/probe.h"

#include <stdbool.h>

/* X(accumulator): one variable each, so that it is a register however the compiler unrolls. */
#define ACCUMULATOR_LIST(X) X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j)
enum { ACCUMULATORS = 10 };

/* Keeps a value in a register and opaque to the optimiser. */
#define KEEP(register_class, value) __asm__ volatile("" : "+" register_class(value))

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TARGET(level) __attribute__((target(level)))

/* A loop that updates each accumulator: ADD(acc) is its new value in one round. */
#define X86_DECLARE(acc) acc = x,
#define X86_STEP(acc)                                                                              \
    acc = ADD(acc);                                                                                \
    KEEP("x", acc);
#define X86_KERNEL(function, level, vector, set, n_ops)                                            \
    TARGET(level) static double function(long n_rounds)                                            \
    {                                                                                              \
        vector x = set, ACCUMULATOR_LIST(X86_DECLARE) last = x;                                    \
                                                                                                   \
        for (long round = 0; round < n_rounds; round++) {                                          \
            ACCUMULATOR_LIST(X86_STEP)                                                             \
        }                                                                                          \
        KEEP("x", last);                                                                           \
        return (double)n_rounds * ACCUMULATORS * (n_ops);                                          \
    }

#define ADD(acc) _mm512_fmadd_ps(x, x, acc)
X86_KERNEL(f32_avx512, "avx512f", __m512, _mm512_set1_ps(1e-9f), 2.0 * 16)
#undef ADD
#define ADD(acc) _mm256_fmadd_ps(x, x, acc)
X86_KERNEL(f32_avx2, "avx2,fma", __m256, _mm256_set1_ps(1e-9f), 2.0 * 8)
#undef ADD
#define ADD(acc) _mm_add_ps(acc, _mm_mul_ps(x, x))
X86_KERNEL(f32_sse2, "sse2", __m128, _mm_set1_ps(1e-9f), 2.0 * 4)
#undef ADD
#define ADD(acc) _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)x) /* 0x3089 is 1e-9 */
X86_KERNEL(bf16_avx512, "avx512f,avx512bf16", __m512,
           _mm512_castsi512_ps(_mm512_set1_epi32(0x30893089)), 2.0 * 32)
#undef ADD
#define ADD(acc) _mm512_dpbusd_epi32(acc, x, x)
X86_KERNEL(int8_avx512vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8(1), 2.0 * 64)
#undef ADD
#define ADD(acc) _mm256_dpbusd_avx_epi32(acc, x, x)
X86_KERNEL(int8_avxvnni, "avx2,avxvnni", __m256i, _mm256_set1_epi8(1), 2.0 * 32)
#undef ADD
/* Products of 8 bits, summed in pairs to 16 bits and again to 32: three instructions. The product
 * depends on the sum only to keep the compiler from hoisting it out of the loop. */
#define ADD(acc) _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(x, acc), x))
X86_KERNEL(int8_avx2, "avx2", __m256i, _mm256_set1_epi8(1), 2.0 * 32)
#undef ADD

/* ---- AMX: four accumulators in tiles of 16 by 16, and two operand tiles for each side ---- */

enum { TILES = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64, PRODUCTS = 4 };

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Bits of CPUID leaf 7. */
enum { AMX_BF16 = 1u << 22, AMX_TILE = 1u << 24, AMX_INT8 = 1u << 25 };

/* GCC 12's own intrinsic declares a read of the first eight bytes only, and the compiler then drops
 * the stores to the others. */
#define LOAD_TILE_CONFIG(config) __asm__ volatile("ldtilecfg %0" ::"m"(config))

#define AMX_KERNEL(function, level, product, n_ops)                                                \
    TARGET("amx-tile," level) static double function(long n_rounds)                                \
    {                                                                                              \
        struct tile_config config = {.palette = 1};                                                \
                                                                                                   \
        for (int i = 0; i < TILES; i++) {                                                          \
            config.row_bytes[i] = TILE_ROW_BYTES;                                                  \
            config.rows[i] = TILE_ROWS;                                                            \
        }                                                                                          \
        LOAD_TILE_CONFIG(config); /* this also zeroes all tiles */                                 \
        for (long round = 0; round < n_rounds; round++) {                                          \
            product(0, 4, 6);                                                                      \
            product(1, 4, 7);                                                                      \
            product(2, 5, 6);                                                                      \
            product(3, 5, 7);                                                                      \
        }                                                                                          \
        _tile_release();                                                                           \
        return (double)n_rounds * PRODUCTS * (n_ops);                                              \
    }
AMX_KERNEL(int8_amx, "amx-int8", _tile_dpbssd, 2.0 * 16 * 16 * 64)
AMX_KERNEL(bf16_amx, "amx-bf16", _tile_dpbf16ps, 2.0 * 16 * 16 * 32)

/* The kernel grants a process the tile registers on request. */
static bool may_use_tiles(void)
{
    const long request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, number of the state */

    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

static bool has_tiles(unsigned bits)
{
    unsigned a, b, c, d = 0;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & (AMX_TILE | bits)) == (AMX_TILE | bits) && may_use_tiles();
}

static bool has_leaf_7_1(unsigned bits)
{
    unsigned a = 0, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bits) == bits;
}

static bool has_f32_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
static bool has_f32_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_f32_sse2(void)
{
    return !has_f32_avx2();
}
static bool has_bf16_avx512(void)
{
    return has_f32_avx512() && has_leaf_7_1(1u << 5);
}
static bool has_bf16_amx(void)
{
    return has_tiles(AMX_BF16);
}
static bool has_int8_avx512vnni(void)
{
    return __builtin_cpu_supports("avx512vnni");
}
static bool has_int8_avxvnni(void)
{
    return __builtin_cpu_supports("avx2") && has_leaf_7_1(1u << 4);
}
static bool has_int8_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
static bool has_int8_amx(void)
{
    return has_tiles(AMX_INT8);
}

/* X(function, kind, name): the best of each kind first; all that the CPU supports are measured. */
#define KERNEL_LIST(X)                                                                             \
    X(f32_avx512, PROBE_F32, "AVX-512 fused")                                                      \
    X(f32_avx2, PROBE_F32, "AVX2 fused")                                                           \
    X(f32_sse2, PROBE_F32, "SSE2")                                                                 \
    X(bf16_amx, PROBE_BF16, "AMX BF16")                                                            \
    X(bf16_avx512, PROBE_BF16, "AVX-512 BF16")                                                     \
    X(int8_amx, PROBE_INT8, "AMX int8")                                                            \
    X(int8_avx512vnni, PROBE_INT8, "AVX-512 VNNI")                                                 \
    X(int8_avxvnni, PROBE_INT8, "AVX-VNNI")                                                        \
    X(int8_avx2, PROBE_INT8, "AVX2 maddubs, madd, add")

#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>

/* Bits of getauxval(AT_HWCAP) and (AT_HWCAP2). */
enum { CAP_DOT = 1 << 20, CAP2_I8MM = 1 << 13, CAP2_BF16 = 1 << 14 };

#define NEON_DECLARE(acc) acc = zero,
#define NEON_STEP(acc)                                                                             \
    acc = ADD(acc);                                                                                \
    KEEP("w", acc);
#define NEON_KERNEL(function, level, vector, sum, set, n_ops)                                      \
    __attribute__((target(level))) static double function(long n_rounds)                           \
    {                                                                                              \
        vector x = set;                                                                            \
        sum zero = {0}, ACCUMULATOR_LIST(NEON_DECLARE) last = zero;                                \
                                                                                                   \
        for (long round = 0; round < n_rounds; round++) {                                          \
            ACCUMULATOR_LIST(NEON_STEP)                                                            \
        }                                                                                          \
        KEEP("w", last);                                                                           \
        return (double)n_rounds * ACCUMULATORS * (n_ops);                                          \
    }

#define ADD(acc) vfmaq_f32(acc, x, x)
NEON_KERNEL(f32_neon, "arch=armv8-a", float32x4_t, float32x4_t, vdupq_n_f32(1e-9f), 2.0 * 4)
#undef ADD
#define ADD(acc) vdotq_s32(acc, x, x)
NEON_KERNEL(int8_dot, "arch=armv8.2-a+dotprod", int8x16_t, int32x4_t, vdupq_n_s8(1), 2.0 * 16)
#undef ADD
#define ADD(acc) vmmlaq_s32(acc, x, x)
NEON_KERNEL(int8_i8mm, "arch=armv8.2-a+i8mm", int8x16_t, int32x4_t, vdupq_n_s8(1), 2.0 * 32)
#undef ADD
#define ADD(acc) vbfmmlaq_f32(acc, x, x)
NEON_KERNEL(bf16_bfmmla, "arch=armv8.2-a+bf16", bfloat16x8_t, float32x4_t,
            vreinterpretq_bf16_u16(vdupq_n_u16(0)), 2.0 * 16)
#undef ADD

static bool has_f32_neon(void)
{
    return true;
}
static bool has_int8_dot(void)
{
    return (getauxval(AT_HWCAP) & CAP_DOT) != 0;
}
static bool has_int8_i8mm(void)
{
    return (getauxval(AT_HWCAP2) & CAP2_I8MM) != 0;
}
static bool has_bf16_bfmmla(void)
{
    return (getauxval(AT_HWCAP2) & CAP2_BF16) != 0;
}

#define KERNEL_LIST(X)                                                                             \
    X(f32_neon, PROBE_F32, "NEON fused")                                                           \
    X(bf16_bfmmla, PROBE_BF16, "BF16 matrix")                                                      \
    X(int8_i8mm, PROBE_INT8, "int8 matrix")                                                        \
    X(int8_dot, PROBE_INT8, "int8 dot product")

#else

static double f32_scalar(long n_rounds)
{
    volatile float acc[ACCUMULATORS] = {0};

    for (long round = 0; round < n_rounds; round++)
        for (int i = 0; i < ACCUMULATORS; i++)
            acc[i] += 1e-9f * 1e-9f;
    return (double)n_rounds * ACCUMULATORS * 2.0;
}

static bool has_f32_scalar(void)
{
    return true;
}

#define KERNEL_LIST(X) X(f32_scalar, PROBE_F32, "scalar")

#endif

int probe_kernels(struct probe_kernel out[PROBE_PEAKS_MAX])
{
    int n = 0;

#define ADD_KERNEL(function, kind, name)                                                           \
    if (n < PROBE_PEAKS_MAX && has_##function())                                                   \
        out[n++] = (struct probe_kernel){name, kind, function};
    KERNEL_LIST(ADD_KERNEL)
#undef ADD_KERNEL
    return n;
}
