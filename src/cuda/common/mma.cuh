/* mma.sync.m16n8k16 as a function for each operand type, and conversions of its operands. A
 * fragment register holds two 16-bit numbers. With g = lane / 4 and t = lane % 4: A is (rows g and
 * g + 8) x 16, B is 16 x (column g), and D holds rows g, g + 8 x columns 2 t, 2 t + 1. */
#ifndef CUDA_COMMON_MMA_CUH
#define CUDA_COMMON_MMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

static __device__ __forceinline__ void mma_f16(float d[4], const uint32_t a[4], uint32_t b0,
                                               uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0,
                                                uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Saturates to the FP16 range; NaN stays NaN. */
static __device__ __forceinline__ float clamp_f16(float x)
{
    const float largest = 65504.0f;

    return x > largest ? largest : x < -largest ? -largest : x;
}

/* The same for two numbers, packed as FP16. */
static __device__ __forceinline__ uint32_t pair_f16(float x, float y)
{
    uint32_t pair;

    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
}

static __device__ __forceinline__ uint32_t pair_bf16(float x, float y)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);

    return *reinterpret_cast<const uint32_t *>(&pair);
}

/* Rounds both numbers to BF16, returns them as a fragment register, and leaves the remainders in
 * x. */
static __device__ __forceinline__ uint32_t round_to_bf16(float x[2])
{
    const uint32_t pair = pair_bf16(x[0], x[1]);

    x[0] -= __uint_as_float(pair << 16);
    x[1] -= __uint_as_float(pair & 0xFFFF0000u);
    return pair;
}

#endif
