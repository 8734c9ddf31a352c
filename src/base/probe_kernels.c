/* Loops of independent operations, one a level of the instruction set: as fast as the arithmetic
 * units go, with everything in registers. The accumulators are many enough to hide the latency. */
#include "base/probe.h"

#include <stddef.h>

/* X(accumulator): by name, so that each is a register whatever the compiler unrolls. */
#define ACCUMULATOR_LIST(X) X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j)
enum { ACCUMULATORS = 10 };

/* Keeps a value in a register and out of the optimiser's sight. */
#define KEEP(register_class, value) __asm__ volatile("" : "+" register_class(value))

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define TARGET(level) __attribute__((target(level)))

/* A loop that adds to each accumulator: ADD(acc) is one round's new value. */
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
#define ADD(acc) _mm512_dpbusd_epi32(acc, x, x)
X86_KERNEL(int8_avx512vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8(1), 2.0 * 64)
#undef ADD
#define ADD(acc) _mm256_dpbusd_avx_epi32(acc, x, x)
X86_KERNEL(int8_avxvnni, "avx2,avxvnni", __m256i, _mm256_set1_epi8(1), 2.0 * 32)
#undef ADD
/* Products of 8 bits, summed in pairs to 16 bits and again to 32: three instructions. The product
 * depends on the sum only so that the compiler cannot move it out of the loop. */
#define ADD(acc) _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(x, acc), x))
X86_KERNEL(int8_avx2, "avx2", __m256i, _mm256_set1_epi8(1), 2.0 * 32)
#undef ADD

static int has_avxvnni(void)
{
    unsigned a = 0, b, c, d;

    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & 1u << 4) != 0;
}

struct probe_kernel probe_f32_kernel(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return (struct probe_kernel){"AVX-512 fused", f32_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct probe_kernel){"AVX2 fused", f32_avx2};
    return (struct probe_kernel){"SSE2", f32_sse2};
}

struct probe_kernel probe_int8_kernel(void)
{
    if (__builtin_cpu_supports("avx512vnni"))
        return (struct probe_kernel){"AVX-512 VNNI", int8_avx512vnni};
    if (has_avxvnni())
        return (struct probe_kernel){"AVX-VNNI", int8_avxvnni};
    if (__builtin_cpu_supports("avx2"))
        return (struct probe_kernel){"AVX2 maddubs, madd, add", int8_avx2};
    return (struct probe_kernel){"none", NULL};
}

#elif defined(__aarch64__)
#include <arm_neon.h>

static double f32_neon(long n_rounds)
{
#define NEON_DECLARE(acc) acc = x,
#define NEON_STEP(acc)                                                                             \
    acc = vfmaq_f32(acc, x, x);                                                                    \
    KEEP("w", acc);
    float32x4_t x = vdupq_n_f32(1e-9f), ACCUMULATOR_LIST(NEON_DECLARE) last = x;

    for (long round = 0; round < n_rounds; round++) {
        ACCUMULATOR_LIST(NEON_STEP)
    }
    KEEP("w", last);
    return (double)n_rounds * ACCUMULATORS * 2.0 * 4;
}

struct probe_kernel probe_f32_kernel(void)
{
    return (struct probe_kernel){"NEON fused", f32_neon};
}

struct probe_kernel probe_int8_kernel(void)
{
    return (struct probe_kernel){"none", NULL};
}

#else

static double f32_scalar(long n_rounds)
{
    volatile float acc[ACCUMULATORS] = {0};

    for (long round = 0; round < n_rounds; round++)
        for (int i = 0; i < ACCUMULATORS; i++)
            acc[i] += 1e-9f * 1e-9f;
    return (double)n_rounds * ACCUMULATORS * 2.0;
}

struct probe_kernel probe_f32_kernel(void)
{
    return (struct probe_kernel){"scalar", f32_scalar};
}

struct probe_kernel probe_int8_kernel(void)
{
    return (struct probe_kernel){"none", NULL};
}

#endif
