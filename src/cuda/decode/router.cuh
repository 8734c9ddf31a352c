/* Router logits of a decode row, accumulated by columns: logit = factor * (w . (g x)) + bias, where
 * g are the weights of the preceding RMSNorm and factor is 1 / sqrt(mean of x^2 + eps). A kernel
 * that has computed some columns of x can multiply them before the other columns exist.
 *
 * The sum over columns is fixed point, so it is exact and independent of the order, and a row has
 * the same bits in every kernel. One MMA multiplies 16 columns, starting at a multiple of 16, for
 * each of the three BF16 terms of g x. The result is rounded once to an integer multiple of
 * ROUTER_UNIT (g is scaled by ROUTER_UNITS before, exactly), and integers are added. The range of
 * 2^31 holds the sums of any model (rows of 1e5 give less than 1e7), and 2^-32 is far below the
 * last bit of the smallest (rows of 1e-2 give 1e-3). A partial outside the range saturates, and
 * sums wrap: logits of such a row are meaningless but the same in all kernels. A NaN becomes
 * whatever integer the GPU's conversion returns; the row itself keeps it. */
#ifndef CUDA_DECODE_ROUTER_CUH
#define CUDA_DECODE_ROUTER_CUH

#include "cuda/decode/topk.cuh"
#include "cuda/decode/decode.cuh"
#include "cuda/decode/partial_norm.cuh"

enum { ROUTER_TERMS = 3, TILE_PARTS = UNIT_COLUMNS / SPLIT_COLUMNS };

static const float ROUTER_UNITS = 4294967296.0f, ROUTER_UNIT = 1.0f / 4294967296.0f;

/* Fixed point of a partial whose row was multiplied by ROUTER_UNITS. */
static __device__ __forceinline__ long long router_fixed(float part)
{
    return __float2ll_rn(part);
}

static __device__ __forceinline__ float router_logit(long long sum, float factor, float bias)
{
    return __fmaf_rn(__ll2float_rn(sum) * ROUTER_UNIT, factor, bias);
}

/* Index, among the (MMA, lane) pieces of 32 columns of a packed tile, of the piece that holds
 * columns 4 t to 4 t + 3 of half `half` for the rows of this lane's group. */
static __device__ __forceinline__ int router_piece(int half)
{
    const int lane = threadIdx.x % WARP_LANES, t = lane % 4;

    return t % 2 * WARP_LANES + lane / 4 * 4 + half * 2 + t / 2;
}

/* out = 16 experts, whose weights are w, times 16 columns of 8 rows. The lane has four columns of
 * one row, in terms; the smallest terms are added first. */
static __device__ __forceinline__ void router_partial(float out[4], uint4 w,
                                                      const uint2 z[ROUTER_TERMS])
{
    const uint32_t a[4] = {w.x, w.y, w.z, w.w};

#pragma unroll
    for (int i = 0; i < 4; i++)
        out[i] = 0.0f;
#pragma unroll
    for (int term = ROUTER_TERMS - 1; term >= 0; term--)
        mma_bf16(out, a, z[term].x, z[term].y);
}

/* ---- for top-k kernels ---- */

/* A lane's part of a row's sums: experts lane, lane + 32, ...; and the squares. */
struct router_sums {
    long long of[LOGITS_PER_LANE];
};

static __device__ __forceinline__ long long sum_of_copies(const uint64_t *sum)
{
    long long copies[ROUTER_COPIES], all = 0;

#pragma unroll
    for (int i = 0; i < ROUTER_COPIES; i++)
        copies[i] = __ldcg((const long long *)sum + i * ROUTER_COPY_SUMS);
#pragma unroll
    for (int i = 0; i < ROUTER_COPIES; i++)
        all += copies[i];
    return all;
}

/* Experts past the end read as zero, because no block adds to them. */
static __device__ __forceinline__ struct router_sums router_load(const uint64_t *sums)
{
    struct router_sums regs;

#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        regs.of[i] = sum_of_copies(sums + i * WARP_LANES + threadIdx.x % WARP_LANES);
    return regs;
}

static __device__ __forceinline__ float router_factor(const uint64_t *sums, float inverse_n,
                                                      float eps)
{
    const struct squares s = {sum_of_copies(sums + ROUTER_SQUARES_AT),
                              sum_of_copies(sums + ROUTER_SQUARES_AT + 1)};

    return factor_of(sum_of_squares(s), inverse_n, eps);
}

/* Element i of a vector that is not packed. */
static __device__ __forceinline__ float plain_at(const struct decode_vector &v, int i)
{
    float x = 0.0f;

    if (v.kind == VECTOR_F32)
        x = ((const float *)v.data)[i];
    else if (v.kind == VECTOR_BF16)
        x = __uint_as_float((uint32_t)((const uint16_t *)v.data)[i] << 16);
    return x;
}

static __device__ __forceinline__ struct candidates
router_candidates(const struct router_sums &sums, float factor, const float biases[LOGITS_PER_LANE],
                  int n_experts)
{
    const int n_left = n_experts - (int)(threadIdx.x % WARP_LANES);
    struct candidates c;

#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        c.orders[i] =
            i * WARP_LANES < n_left ? order_of(router_logit(sums.of[i], factor, biases[i])) : 0;
    return c;
}

/* The biases of this lane's experts, from a vector that is not packed. */
static __device__ __forceinline__ void
router_biases(float out[LOGITS_PER_LANE], const struct decode_vector &bias, int n_experts)
{
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        out[i] = i * WARP_LANES < n_experts - lane ? plain_at(bias, i * WARP_LANES + lane) : 0.0f;
}

#endif
