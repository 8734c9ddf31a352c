/* What the ISAs of 128-bit registers share: int8 dot products by sdot (ARMv8.2 dot product). Both
 * operands are signed, so weights are 2 e2m1 without an offset, and the bias is 0. */
#include <arm_neon.h>
#include <stdbool.h>

#include "backend/tensor.h"
#include "cpu/kernels/kernels.h"

#define LANES 4
typedef float fvec __attribute__((vector_size(16)));

static inline fvec fma_v(fvec a, fvec b, fvec c)
{
    return (fvec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

static inline fvec load_bf16(const uint16_t *p)
{
    return (fvec)vshll_n_u16(vld1_u16(p), 16);
}

/* out[0 .. 3] = the sums of a, b, c and d: pairwise additions of neighbours, then of pairs. */
static inline void sums_v(float out[4], fvec a, fvec b, fvec c, fvec d)
{
    const float32x4_t ab = vpaddq_f32((float32x4_t)a, (float32x4_t)b);
    const float32x4_t cd = vpaddq_f32((float32x4_t)c, (float32x4_t)d);

    vst1q_f32(out, vpaddq_f32(ab, cd));
}

/* NaN if a or b is NaN. */
static inline fvec max_v(fvec a, fvec b)
{
    return (fvec)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

static inline fvec min_v(fvec a, fvec b)
{
    return (fvec)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

#include "cpu/kernels/round_fenv.h"
#include "cpu/kernels/kernels_float.h"

#include "cpu/kernels/kernels_sums.h"

#include "cpu/kernels/kernels_attn.h"

typedef int8x16_t bytes;
enum { INT8_TOKENS = 4 };

/* 2 e2m1 for each of the sixteen codes. */
INLINE bytes look_up(uint8x16_t codes)
{
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

    return vqtbl1q_s8(vld1q_s8(values), codes);
}

INLINE bytes expand_low(bytes codes)
{
    return look_up(vandq_u8(vreinterpretq_u8_s8(codes), vdupq_n_u8(15)));
}

INLINE bytes expand_high(bytes codes)
{
    return look_up(vshrq_n_u8(vreinterpretq_u8_s8(codes), 4));
}

INLINE bytes four(const int8_t *a)
{
    int32_t word;

    memcpy(&word, a, sizeof(word));
    return vreinterpretq_s8_s32(vdupq_n_s32(word));
}

INLINE ivec begin(int32_t bias)
{
    return (ivec)vdupq_n_s32(bias);
}

INLINE ivec dot(ivec sum, bytes w, bytes a)
{
    return (ivec)vdotq_s32((int32x4_t)sum, w, a);
}

INLINE fvec total(ivec sum)
{
    return (fvec)vcvtq_f32_s32((int32x4_t)sum);
}

INLINE fvec scales_of(const uint8_t *p)
{
    uint32_t word;
    uint16x8_t wide;

    memcpy(&word, p, sizeof(word));
    wide = vmovl_u8(vcreate_u8(word));
    return (fvec)vshlq_n_u32(vmovl_u16(vget_low_u16(wide)), 23);
}

static int32_t bias_of(const int8_t *codes)
{
    (void)codes;
    return 0;
}
