/* RoPE of one pair of a head's elements, and the location of K and V elements in a KV page. All
 * kernels share these functions, so that they produce the same bits. */
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

/* Index of element d of a slot in the keys (which 0) or values (which 1) of a page:
 * backend/kv_page.h. */
static __device__ __forceinline__ int64_t kv_element(const struct tensor *kv, int which, int slot,
                                                     int64_t d)
{
    const int n = kv_parts(kv->dtype);

    return kv_word(n, kv->dim[4], which, slot, d) * n + (which == 0 ? d : slot) % n;
}

#endif
