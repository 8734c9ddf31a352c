/* Adding numbers of several ranks (rank_exchange.h, rank_gathered.h): in the order of ranks, so
 * that the bits are the same on all ranks and with every way that the numbers take. */
#ifndef CUDA_COMMON_RANK_ADD_CUH
#define CUDA_COMMON_RANK_ADD_CUH

#include "cuda/common/expert_sums.cuh"
#include "cuda/common/out_sums.h"
#include "cuda/common/rank_exchange.h"

/* Floats whose bits are RANK_EMPTY are added as 0. */
static __device__ __forceinline__ uint32_t sendable(uint32_t word)
{
    return word == RANK_EMPTY ? 0 : word;
}

static __device__ __forceinline__ uint4 sendable_of(uint4 v)
{
    return make_uint4(sendable(v.x), sendable(v.y), sendable(v.z), sendable(v.w));
}

static __device__ __forceinline__ uint32_t sum_of_words(uint32_t a, uint32_t b, bool is_integer)
{
    if (!is_integer)
        return __float_as_uint(__uint_as_float(a) + __uint_as_float(b));
    return a == EXPERT_SUM_POISONED || b == EXPERT_SUM_POISONED ? EXPERT_SUM_POISONED : a + b;
}

static __device__ __forceinline__ uint4 sum_of(uint4 a, uint4 b, bool is_integer)
{
    return make_uint4(sum_of_words(a.x, b.x, is_integer), sum_of_words(a.y, b.y, is_integer),
                      sum_of_words(a.z, b.z, is_integer), sum_of_words(a.w, b.w, is_integer));
}

static __device__ __forceinline__ float value_of_word(uint32_t word, float unit)
{
    return word == EXPERT_SUM_POISONED ? __uint_as_float(0x7FC00000u)
                                       : value_of_partials((int32_t)word, unit);
}

/* A vector of this rank's h. */
static __device__ __forceinline__ uint4 load_own(const struct rank_sums &s, int64_t i)
{
    return sendable_of(__ldcg((const uint4 *)s.h + i));
}

/* Whether vector i is in a row of integers. */
static __device__ __forceinline__ bool is_integer_vector(const struct rank_sums &s, int64_t i)
{
    return i < (int64_t)s.n_integer * (s.n_columns / RANK_WORDS);
}

/* Stores the result of vector i. */
static __device__ __forceinline__ void store_sum(const struct rank_sums &s, int64_t i, uint4 sum)
{
    float4 out = make_float4(__uint_as_float(sum.x), __uint_as_float(sum.y), __uint_as_float(sum.z),
                             __uint_as_float(sum.w));

    if (is_integer_vector(s, i)) {
        const float4 unit = *((const float4 *)s.unit + i % (s.n_columns / RANK_WORDS));

        out = make_float4(value_of_word(sum.x, unit.x), value_of_word(sum.y, unit.y),
                          value_of_word(sum.z, unit.z), value_of_word(sum.w, unit.w));
    }
    ((float4 *)s.h)[i] = out;
}

/* ---- attn_out ---- */

static __device__ __forceinline__ float bias_at(const struct rank_out &o, int c)
{
    if (o.bias == NULL)
        return 0.0f;
    return o.is_bias_bf16 ? __uint_as_float((uint32_t)((const uint16_t *)o.bias)[c] << 16)
                          : ((const float *)o.bias)[c];
}

static __device__ __forceinline__ float value_of_words(uint32_t high, uint32_t low, float bias)
{
    return out_words_value({(int32_t)high, (int32_t)low}) + bias;
}

/* Stores the result of vector i, from the sums of both words. */
static __device__ __forceinline__ void store_out(const struct rank_out &o, int64_t i, uint4 high,
                                                 uint4 low)
{
    const int c = (int)(i % (o.n_columns / RANK_WORDS)) * RANK_WORDS;

    ((float4 *)o.h)[i] = make_float4(value_of_words(high.x, low.x, bias_at(o, c)),
                                     value_of_words(high.y, low.y, bias_at(o, c + 1)),
                                     value_of_words(high.z, low.z, bias_at(o, c + 2)),
                                     value_of_words(high.w, low.w, bias_at(o, c + 3)));
}

#endif
