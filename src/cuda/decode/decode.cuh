/* Shared code of the decode GEMMs, besides their rows (decode_rows.cuh): split-K over the warps of
 * a block, and the reduction of the partial sums.
 *
 * A block multiplies TILES tiles of 16 rows, all columns, with up to 8 COLS tokens. Each of its
 * eight warps takes every eighth unit of 64 columns from its own ring (ring.cuh). The partial sums
 * of the warps are added in warp order. In attn_out a warp has a slice of adjacent units, and the
 * sums of slices are added as integers (out_sums.h). Operations and order are those of matmul.cu: a
 * token's bits depend neither on the kernel nor on the other tokens.
 *
 * Partial sums: (part, warp, tile, token, 16 rows) floats. */
#ifndef CUDA_DECODE_DECODE_CUH
#define CUDA_DECODE_DECODE_CUH

#include "cuda/decode/decode.h"
#include "cuda/decode/decode_launch.cuh"
#include "cuda/decode/decode_rows.cuh"
#include "cuda/common/mma.cuh"
#include "cuda/common/out_sums.h"
#include "cuda/common/ring.cuh"

enum { COLUMN_TOKENS = 8 };

/* MXFP4 codes enter the MMA as 2^-14 times their value. */
static const float CODE_UNIT = 16384.0f;

/* The factor of out_sum_add() for sums of products with such codes, or with BF16 weights. */
template <bool IS_MXFP4> static __device__ __forceinline__ float slice_unit(void)
{
    return IS_MXFP4 ? OUT_SUM_UNITS * CODE_UNIT : OUT_SUM_UNITS;
}

/* word * FACTOR, opaque to the compiler. It would turn the multiplication into shifts and adds for
 * the busiest pipe, or wait at every unit for a factor in constant memory. */
template <int FACTOR> static __device__ __forceinline__ uint32_t times(uint32_t word)
{
    uint32_t product;

    asm("mul.lo.u32 %0, %1, %2;" : "=r"(product) : "r"(word), "n"(FACTOR));
    return product;
}

/* halves_of_word() */
static __device__ __forceinline__ void decode_word(uint32_t out[4], uint32_t word)
{
    out[0] = word & (uint32_t)E2M1_HALF_MASK;
    out[1] = times<8>(word) & (uint32_t)E2M1_HALF_MASK;
    out[2] = times<514>(word & E2M1_THIRD_BITS) & (uint32_t)E2M1_HALF_MASK;
    out[3] = times<68>(word & E2M1_FOURTH_BITS) & (uint32_t)E2M1_HALF_MASK;
}

/* 2^(code - 127) of byte i, which is not 0 (layout.h). */
static __device__ __forceinline__ float scale_at(uint32_t codes, int i)
{
    const uint32_t exponent = i == 3 ? codes >> 1 : codes << (23 - 8 * i);

    return __uint_as_float(exponent & 0x7F800000u);
}

/* ---- MMAs ---- */

/* A lane's registers for the tiles of a unit. */
template <class SHAPE> struct unit_regs {
    uint4 words[SHAPE::TILES * SHAPE::TILE_PIECES];
    uint32_t scales[SHAPE::TILES];
};

template <class SHAPE>
static __device__ __forceinline__ void load_unit_regs(struct unit_regs<SHAPE> *out,
                                                      const char *slot, int tile)
{
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll
    for (int i = 0; i < SHAPE::TILES * SHAPE::TILE_PIECES; i++)
        out->words[i] = ((const uint4 *)slot)[i * WARP_LANES + lane];
#pragma unroll
    for (int i = 0; i < SHAPE::TILES && SHAPE::IS_MXFP4; i++)
        out->scales[i] =
            *(const uint32_t *)(slot + SHAPE::SCALES_AT + lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                                (tile + i * SHAPE::STRIDE) * UNIT_BLOCKS * 2);
}

/* acc += a tile's block of 32 columns times the tokens' fragments. */
static __device__ __forceinline__ void multiply_mxfp4(float acc[4], uint32_t low_word,
                                                      uint32_t high_word, float low_scale,
                                                      float high_scale, uint4 b)
{
    float d[4] = {0, 0, 0, 0};
    uint32_t low[4], high[4];

    decode_word(low, low_word);
    decode_word(high, high_word);
    const uint32_t a0[4] = {low[0], high[0], low[1], high[1]};
    const uint32_t a1[4] = {low[2], high[2], low[3], high[3]};

    mma_f16(d, a0, b.x, b.y);
    mma_f16(d, a1, b.z, b.w);
    acc[0] = __fmaf_rn(d[0], low_scale, acc[0]);
    acc[1] = __fmaf_rn(d[1], low_scale, acc[1]);
    acc[2] = __fmaf_rn(d[2], high_scale, acc[2]);
    acc[3] = __fmaf_rn(d[3], high_scale, acc[3]);
}

static __device__ __forceinline__ void multiply_bf16(float acc[4], uint4 w0, uint4 w1, uint4 b)
{
    const uint32_t a0[4] = {w0.x, w0.y, w0.z, w0.w}, a1[4] = {w1.x, w1.y, w1.z, w1.w};

    mma_bf16(acc, a0, b.x, b.y);
    mma_bf16(acc, a1, b.z, b.w);
}

/* acc += one unit times the tokens; `fragments` is the first block's. Each term of a token has its
 * own accumulators: they shorten the dependency chain of MMAs, which bounds the router. */
template <class SHAPE, int COLS, int TERMS>
static __device__ __forceinline__ void
multiply_unit(float acc[SHAPE::TILES][COLS * TERMS][4], const struct unit_regs<SHAPE> &unit,
              const char *fragments, int term_bytes, int n_tokens)
{
    const int group = threadIdx.x % WARP_LANES / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                const int token = c * COLUMN_TOKENS + group;
                uint4 b = make_uint4(0, 0, 0, 0);

                if (token < n_tokens)
                    b = *(const uint4 *)(fragments + term * term_bytes +
                                         (block * n_tokens + token) * TOKEN_BLOCK_BYTES +
                                         t * LANE_BYTES);
#pragma unroll
                for (int i = 0; i < SHAPE::TILES; i++) {
                    const uint4 *words = &unit.words[i * SHAPE::TILE_PIECES];

                    if (SHAPE::IS_MXFP4)
                        multiply_mxfp4(acc[i][c * TERMS + term],
                                       block == 0 ? words[0].x : words[0].z,
                                       block == 0 ? words[0].y : words[0].w,
                                       scale_at(unit.scales[i], block * 2),
                                       scale_at(unit.scales[i], block * 2 + 1), b);
                    else
                        multiply_bf16(acc[i][c * TERMS + term],
                                      words[(block * 2) % SHAPE::TILE_PIECES],
                                      words[(block * 2 + 1) % SHAPE::TILE_PIECES], b);
                }
            }
}

/* Adds the terms of a sum, the smallest first. */
template <int TERMS>
static __device__ __forceinline__ float sum_of_terms(const float terms[TERMS][4], int i)
{
    float sum = terms[TERMS - 1][i];

#pragma unroll
    for (int term = TERMS - 2; term >= 0; term--)
        sum = __fadd_rn(sum, terms[term][i]);
    return sum;
}

enum { WHOLE_STAGES = 6 }; /* of rings that hold a whole walk */

/* acc += all units of a walk of one part that is resident in the ring. No refill is issued, so the
 * loads of one unit need not wait for the MMAs of another. */
template <class SHAPE, int COLS, int TERMS>
static __device__ __forceinline__ void
multiply_whole(float acc[SHAPE::TILES][COLS * TERMS][4], const struct ring<SHAPE> &r, int tile,
               const char *fragments, int term_bytes, int n_tokens)
{
    const char *slot = r.slots;

    copy_wait<0>();
    __syncwarp();
#pragma unroll 2
    for (int unit = first_unit(r); unit < end_unit(r); unit += SHAPE::UNIT_STEP) {
        struct unit_regs<SHAPE> regs;

        load_unit_regs<SHAPE>(&regs, slot, tile);
        multiply_unit<SHAPE, COLS, TERMS>(
            acc, regs, fragments + unit * UNIT_BLOCKS * n_tokens * TOKEN_BLOCK_BYTES, term_bytes,
            n_tokens);
        slot += SHAPE::STAGE_BYTES;
    }
}

/* acc = this warp's units of the walk's next part times the tokens, term by term. */
template <class SHAPE, int COLS, int TERMS, class PARTS>
static __device__ __forceinline__ void
multiply_terms(float acc[SHAPE::TILES][COLS * TERMS][4], struct ring<SHAPE> *r, const PARTS &parts,
               int tile, const char *fragments, int term_bytes, int n_tokens)
{
#pragma unroll
    for (int i = 0; i < SHAPE::TILES * COLS * TERMS * 4; i++)
        acc[i / 4 / (COLS * TERMS)][i / 4 % (COLS * TERMS)][i % 4] = 0.0f;
    if (SHAPE::STAGES >= WHOLE_STAGES && r->n_walk_parts == 1 &&
        (SHAPE::IS_SLICED ? r->slice_units : r->n_units) <= SHAPE::STAGES * SHAPE::UNIT_STEP) {
        multiply_whole<SHAPE, COLS, TERMS>(acc, *r, tile, fragments, term_bytes, n_tokens);
        return;
    }
    for (int unit = first_unit(*r); unit < end_unit(*r); unit += SHAPE::UNIT_STEP) {
        char *slot = r->slots + r->slot * SHAPE::STAGE_BYTES;
        struct unit_regs<SHAPE> regs;

        copy_wait<SHAPE::STAGES - 1>();
        __syncwarp();
        load_unit_regs<SHAPE>(&regs, slot, tile);
        __syncwarp();
        ring_fill(r, parts, slot);
        r->slot = r->slot + 1 == SHAPE::STAGES ? 0 : r->slot + 1;
        multiply_unit<SHAPE, COLS, TERMS>(
            acc, regs, fragments + unit * UNIT_BLOCKS * n_tokens * TOKEN_BLOCK_BYTES, term_bytes,
            n_tokens);
    }
}

/* acc = this warp's units of the walk's next part times the tokens. */
template <class SHAPE, int COLS, int TERMS, class PARTS>
static __device__ __forceinline__ void
multiply_split(float acc[SHAPE::TILES][COLS][4], struct ring<SHAPE> *r, const PARTS &parts,
               int tile, const char *fragments, int term_bytes, int n_tokens)
{
    if constexpr (TERMS == 1) {
        multiply_terms<SHAPE, COLS, 1>(acc, r, parts, tile, fragments, term_bytes, n_tokens);
    } else {
        float terms[SHAPE::TILES][COLS * TERMS][4];

        multiply_terms<SHAPE, COLS, TERMS>(terms, r, parts, tile, fragments, term_bytes, n_tokens);
#pragma unroll
        for (int i = 0; i < SHAPE::TILES * COLS * 4; i++)
            acc[i / 4 / COLS][i / 4 % COLS][i % 4] =
                sum_of_terms<TERMS>(terms[i / 4 / COLS] + i / 4 % COLS * TERMS, i % 4);
    }
}

/* ---- partial sums ---- */

static inline HOST_DEVICE int split_sums(int n_tiles, int n_tokens)
{
    return RING_WARPS * n_tiles * n_tokens * TILE_ROWS;
}

/* Stores the partial sums of the units that warp `warp` of eight takes. */
template <int TILES, int COLS>
static __device__ __forceinline__ void store_sums_of(float *sums, const float acc[TILES][COLS][4],
                                                     int warp, int n_tokens)
{
    const int group = threadIdx.x % WARP_LANES / 4;

#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int token = c * COLUMN_TOKENS + threadIdx.x % 4 * 2 + k;
                float *to = sums + ((warp * TILES + i) * n_tokens + token) * TILE_ROWS;

                if (token < n_tokens)
                    ((float2 *)to)[group] = make_float2(acc[i][c][k], acc[i][c][k + 2]);
            }
}

template <int TILES, int COLS>
static __device__ __forceinline__ void store_sums(float *sums, const float acc[TILES][COLS][4],
                                                  int n_tokens)
{
    store_sums_of<TILES, COLS>(sums, acc, threadIdx.x / WARP_LANES, n_tokens);
}

/* Adds up sum i = (tile * n_tokens + token) * TILE_ROWS + row over all warps. */
template <bool IS_MXFP4>
static __device__ __forceinline__ float sum_of_warps(const float *sums, int i, int n_tiles,
                                                     int n_tokens)
{
    float sum = 0.0f;

#pragma unroll
    for (int warp = 0; warp < RING_WARPS; warp++)
        sum += sums[warp * n_tiles * n_tokens * TILE_ROWS + i];
    return IS_MXFP4 ? sum * CODE_UNIT : sum;
}

/* The same of slices (out_sums.h), by the same thread. */
template <bool IS_MXFP4>
static __device__ __forceinline__ struct out_sum out_sum_of_slices(const float *sums, int i,
                                                                   int n_tiles, int n_tokens)
{
    struct out_sum sum = {};

#pragma unroll
    for (int warp = 0; warp < RING_WARPS; warp++)
        out_sum_add(&sum, sums[warp * n_tiles * n_tokens * TILE_ROWS + i], slice_unit<IS_MXFP4>());
    return sum;
}

template <bool IS_MXFP4>
static __device__ __forceinline__ float sum_of_slices(const float *sums, int i, int n_tiles,
                                                      int n_tokens)
{
    return out_sum_value(out_sum_of_slices<IS_MXFP4>(sums, i, n_tiles, n_tokens), RING_WARPS);
}

/* Stores a sum's words at element `at` of out and low. */
static __device__ __forceinline__ void store_words(float *out, int32_t *low, int64_t at,
                                                   struct out_sum sum, int n)
{
    const struct out_words words = out_sum_words(sum, n);

    ((int32_t *)out)[at] = words.high;
    low[at] = words.low;
}

/* By the shape of the ring. */
template <class SHAPE>
static __device__ __forceinline__ float sum_of_split(const float *sums, int i, int n_tiles,
                                                     int n_tokens)
{
    return SHAPE::IS_SLICED ? sum_of_slices<SHAPE::IS_MXFP4>(sums, i, n_tiles, n_tokens)
                            : sum_of_warps<SHAPE::IS_MXFP4>(sums, i, n_tiles, n_tokens);
}

/* Index of element i of vector `matrix` in a stack of 16-bit numbers. */
static __device__ __forceinline__ int upper_at(const struct decode_vector &v, int matrix, int i)
{
    const int r = matrix % TILE_ROWS, c = i % MXFP4_BLOCK, k = c % 8; /* layout.h: bf16_offset() */
    const int unit = matrix / UNIT_ROWS * v.n + i / UNIT_COLUMNS, lane = r / 2 * 4 + c / 8;

    if (v.kind == VECTOR_BF16)
        return matrix * v.n + i;
    return (unit * BF16_UNIT_BYTES + matrix % UNIT_ROWS / TILE_ROWS * BF16_TILE_BYTES +
            i % UNIT_COLUMNS / MXFP4_BLOCK * BF16_BLOCK_BYTES +
            (k / 4 * WARP_LANES + lane) * LANE_BYTES + (k % 4 / 2 * 2 + r % 2) * 4) /
               2 +
           k % 2;
}

/* The raw bits of element i (16 bits, or the 32 bits of F32), without conversion, so that the load
 * is not waited for before the value is used. */
static __device__ __forceinline__ uint32_t vector_bits(const struct decode_vector &v, int matrix,
                                                       int i)
{
    if (v.kind == VECTOR_NONE)
        return 0;
    if (v.kind == VECTOR_F32)
        return ((const uint32_t *)v.data)[matrix * v.n + i];
    return ((const uint16_t *)v.data)[upper_at(v, matrix, i)];
}

static __device__ __forceinline__ float vector_at(const struct decode_vector &v, int matrix, int i)
{
    if (v.kind == VECTOR_NONE)
        return 0.0f;
    if (v.kind == VECTOR_F32)
        return ((const float *)v.data)[matrix * v.n + i];
    return __uint_as_float((uint32_t)((const uint16_t *)v.data)[upper_at(v, matrix, i)] << 16);
}

/* The raw bits of elements i and i + 1, without conversion, so that the loads are not waited for
 * before the values are used. i and the number of elements are even. */
static __device__ __forceinline__ uint2 vector_pair_bits(const struct decode_vector &v, int matrix,
                                                         int i)
{
    if (v.kind == VECTOR_NONE)
        return make_uint2(0, 0);
    if (v.kind == VECTOR_F32)
        return *(const uint2 *)((const float *)v.data + matrix * v.n + i);
    return make_uint2(*(const uint32_t *)((const uint16_t *)v.data + upper_at(v, matrix, i)), 0);
}

static __device__ __forceinline__ float2 pair_of_bits(const struct decode_vector &v, uint2 bits)
{
    return v.kind == VECTOR_F32
               ? make_float2(__uint_as_float(bits.x), __uint_as_float(bits.y))
               : make_float2(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xFFFF0000u));
}

#endif
