/* What becomes of the rows of q, k and v: the rotation of one pair of a head, and where an
 * element of a key or value lies. One form for all kernels, so that they give the same bits. */
#ifndef CUDA_COMMON_ROPE_CACHE_CUH
#define CUDA_COMMON_ROPE_CACHE_CUH

#include "backend/kv_page.h"

static __device__ __forceinline__ void rotate_pair(float *low, float *high, float cosine,
                                                   float sine)
{
    const float x1 = *low, x2 = *high;

    *low = __fmaf_rn(x1, cosine, -__fmul_rn(x2, sine));
    *high = __fmaf_rn(x2, cosine, __fmul_rn(x1, sine));
}

/* The element of a side that is d of a slot: backend/kv_page.h. */
static __device__ __forceinline__ int64_t kv_element(const struct tensor *kv, int which, int slot,
                                                     int64_t d)
{
    const int n = kv_parts(kv->dtype);

    return kv_word(n, kv->dim[4], which, slot, d) * n + (which == 0 ? d : slot) % n;
}

#endif
