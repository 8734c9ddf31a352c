/* What the decode products share: activations as fragments in shared memory, a warp's share of a product,
 * and the sums of the warps.
 *
 * A block multiplies TILES tiles of 16 rows, all columns of them, with up to 8 COLS tokens. Its warps take
 * every eighth unit of 64 columns, out of their rings (ring.cuh); their sums are added in order. The same
 * operations in the same order as in matmul.cu: a token's bits depend on neither the kernel nor the tokens
 * beside it.
 *
 * Activations: (term, block of 32 columns, token, 32 numbers of 16 bits); a lane reads the eight numbers
 * of its four columns of k at once. Sums: (part, warp, tile, token, 16 rows) floats. */
#ifndef CUDA_DECODE_CUH
#define CUDA_DECODE_CUH

#include "cuda/decode.h"
#include "cuda/decode_launch.cuh"
#include "cuda/mma.cuh"
#include "cuda/norm.cuh"
#include "cuda/ring.cuh"

enum { TOKEN_BLOCK_BYTES = MXFP4_BLOCK * 2, COLUMN_TOKENS = 8 };
static_assert((int)RING_THREADS == (int)NORM_THREADS, "a block norms its rows itself");

/* MXFP4 codes enter the product as 2^-14 times their value. */
static const float CODE_UNIT = 16384.0f;

/* word * FACTOR, where the compiler does not see it: its shifts and sums would go to the pipe that is
 * busiest, and a factor in constant memory would be waited for at every unit. */
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

/* 2^(code - 127) of byte i: 2^-127 is a subnormal number, and smaller than all others. */
static __device__ __forceinline__ float scale_at(uint32_t codes, int i)
{
    const uint32_t exponent = i == 3 ? codes >> 1 : codes << (23 - 8 * i);

    return __uint_as_float(max(exponent & 0x7F800000u, 0x00400000u));
}

/* ---- activations ---- */

static inline HOST_DEVICE int fragments_bytes(int n_units, int n_tokens)
{
    return n_units * UNIT_BLOCKS * n_tokens * TOKEN_BLOCK_BYTES;
}

/* Where number k of a token lies. */
static __device__ __forceinline__ int fragment_at(int k, int token, int n_tokens)
{
    return (k / MXFP4_BLOCK * n_tokens + token) * TOKEN_BLOCK_BYTES + k % MXFP4_BLOCK * 2;
}

static __device__ __forceinline__ uint16_t half_bits(float x)
{
    return __half_as_ushort(__float2half_rn(within_f16(x)));
}

static __device__ __forceinline__ const float *source_row(const struct decode_rows &rows, int token)
{
    const int row = rows.gather == NULL ? token : rows.gather[token * rows.gather_stride];

    return rows.x + (int64_t)row * rows.n;
}

/* Rows as they are, as fragments; zeros behind them up to whole units. The whole block calls it, behind
 * pdl_wait(), and a barrier follows. `first` is the first token's number; AT_ONCE pieces of eight numbers
 * are under way. */
template <bool IS_MXFP4, int AT_ONCE>
static __device__ __forceinline__ void copy_rows(char *fragments, const struct decode_rows &rows,
                                                 int first, int n_tokens, int n_units)
{
    const int n_pieces = n_units * UNIT_COLUMNS / 8, n = n_tokens * n_pieces;

    for (int i0 = threadIdx.x; i0 < n; i0 += RING_THREADS * AT_ONCE) {
        float4 v[AT_ONCE][2];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;

            v[j][0] = v[j][1] = make_float4(0, 0, 0, 0);
            if (i < n && k < rows.n) {
                const float4 *from = (const float4 *)(source_row(rows, first + token) + k);

                v[j][0] = __ldcg(from);
                v[j][1] = __ldcg(from + 1);
            }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;
            const float4 low = v[j][0], high = v[j][1];

            if (i < n)
                *(uint4 *)(fragments + fragment_at(k, token, n_tokens)) =
                    IS_MXFP4 ? make_uint4(pair_f16(low.x, low.y), pair_f16(low.z, low.w),
                                          pair_f16(high.x, high.y), pair_f16(high.z, high.w))
                             : make_uint4(pair_bf16(low.x, low.y), pair_bf16(low.z, low.w),
                                          pair_bf16(high.x, high.y), pair_bf16(high.z, high.w));
        }
    }
}

/* The same of rows of which each number is the sum of TERMS of bf16. */
template <int TERMS, int AT_ONCE>
static __device__ __forceinline__ void split_rows(char *fragments, const struct decode_rows &rows,
                                                  int first, int n_tokens, int n_units)
{
    const int n_pieces = n_units * UNIT_COLUMNS / 8, n = n_tokens * n_pieces;
    const int term_bytes = fragments_bytes(n_units, n_tokens);

    for (int i0 = threadIdx.x; i0 < n; i0 += RING_THREADS * AT_ONCE) {
        float v[AT_ONCE][8];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;
            const bool is_there = i < n && k < rows.n;
            const float4 *from = (const float4 *)(source_row(rows, first + (is_there ? token : 0)) +
                                                  (is_there ? k : 0));

            ((float4 *)v[j])[0] = is_there ? __ldcg(from) : make_float4(0, 0, 0, 0);
            ((float4 *)v[j])[1] = is_there ? __ldcg(from + 1) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = i / n_pieces,
                      k = (i - token * n_pieces) * 8;
            char *to = fragments + fragment_at(k, token, n_tokens);

#pragma unroll
            for (int term = 0; term < TERMS && i < n; term++)
                *(uint4 *)(to + term * term_bytes) = make_uint4(
                    take_bf16(v[j]), take_bf16(v[j] + 2), take_bf16(v[j] + 4), take_bf16(v[j] + 6));
        }
    }
}

enum {
    NORM_PIECE = 4, /* of a row's numbers, which a thread norms at once */
    NORM_PIECES = NORM_HELD / NORM_PIECE
};

/* The norm's weights of pieces threadIdx.x + i NORM_THREADS as they lie there, so that nobody waits for them before
 * they are used: they may be asked for before pdl_wait(). */
struct piece_weights {
    uint4 at[NORM_PIECES];
};

static __device__ __forceinline__ struct piece_weights hold_pieces(const struct decode_vector &w,
                                                                   int n)
{
    struct piece_weights held;

#pragma unroll
    for (int i = 0; i < NORM_PIECES; i++) {
        const int piece = threadIdx.x + i * NORM_THREADS;

        held.at[i] = make_uint4(0, 0, 0, 0);
        if (w.kind == VECTOR_F32 && piece * NORM_PIECE < n)
            held.at[i] = ((const uint4 *)w.data)[piece];
        if (w.kind == VECTOR_BF16 && piece * NORM_PIECE < n)
            *(uint2 *)&held.at[i] = ((const uint2 *)w.data)[piece];
    }
    return held;
}

static __device__ __forceinline__ float4 weights_of_piece(uint4 bits, bool is_f32)
{
    return is_f32
               ? make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y),
                             __uint_as_float(bits.z), __uint_as_float(bits.w))
               : make_float4(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xFFFF0000u),
                             __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xFFFF0000u));
}

/* Four numbers in each of their terms. */
template <bool IS_MXFP4, int TERMS>
static __device__ __forceinline__ void put_piece(char *to, int term_bytes, float4 y)
{
    float v[NORM_PIECE] = {y.x, y.y, y.z, y.w};

#pragma unroll
    for (int term = 0; term < TERMS; term++) {
        uint2 both;

        if (IS_MXFP4) {
            both = make_uint2(pair_f16(v[0], v[1]), pair_f16(v[2], v[3]));
        } else {
            both.x = take_bf16(v);
            both.y = take_bf16(v + 2);
        }
        *(uint2 *)(to + term * term_bytes) = both;
    }
}

/* The same as copy_rows() of rows that are normed, one after the other, in TERMS numbers each. A row is asked for
 * twice at once, in the order of the norm's sum and by pieces of four: what runs behind the sum is short. */
template <bool IS_MXFP4, int TERMS>
static __device__ __forceinline__ void
norm_rows(char *fragments, const struct decode_rows &rows, int first, int n_tokens, int n_units,
          const struct piece_weights &weights, bool stores_y, float *room)
{
    const int term_bytes = fragments_bytes(n_units, n_tokens);

    for (int token = 0; token < n_tokens; token++) {
        const float *x = source_row(rows, first + token);
        const struct norm_held held = norm_hold(x, rows.n);
        float4 pieces[NORM_PIECES];
        float factor;

#pragma unroll
        for (int i = 0; i < NORM_PIECES; i++) {
            const int piece = threadIdx.x + i * NORM_THREADS;

            pieces[i] = piece * NORM_PIECE < rows.n ? __ldcg((const float4 *)x + piece)
                                                    : make_float4(0, 0, 0, 0);
        }
        factor = norm_factor(&held, x, rows.n, rows.eps, room);
#pragma unroll
        for (int i = 0; i < NORM_PIECES; i++) {
            const int piece = threadIdx.x + i * NORM_THREADS;
            const float4 w = weights_of_piece(weights.at[i], rows.norm.kind == VECTOR_F32);
            const float4 y =
                make_float4(normed(pieces[i].x, factor, w.x), normed(pieces[i].y, factor, w.y),
                            normed(pieces[i].z, factor, w.z), normed(pieces[i].w, factor, w.w));

            if (piece * NORM_PIECE < n_units * UNIT_COLUMNS)
                put_piece<IS_MXFP4, TERMS>(
                    fragments + fragment_at(piece * NORM_PIECE, token, n_tokens), term_bytes, y);
            if (stores_y && piece * NORM_PIECE < rows.n)
                ((float4 *)(rows.y + (first + token) * rows.n))[piece] = y;
        }
    }
}

/* Either of them, and the barrier. */
template <bool IS_MXFP4, int TERMS>
static __device__ __forceinline__ void
put_rows(char *fragments, const struct decode_rows &rows, int first, int n_tokens, int n_units,
         const struct piece_weights &weights, bool stores_y, float *room)
{
    if (rows.norm.kind != VECTOR_NONE)
        norm_rows<IS_MXFP4, TERMS>(fragments, rows, first, n_tokens, n_units, weights, stores_y,
                                   room);
    else if (TERMS > 1)
        split_rows<TERMS, 3>(fragments, rows, first, n_tokens, n_units);
    else
        copy_rows<IS_MXFP4, 4>(fragments, rows, first, n_tokens, n_units);
    __syncthreads();
}

/* ---- products ---- */

/* What a lane holds of a unit's tiles. */
template <class SHAPE> struct unit_held {
    uint4 words[SHAPE::TILES * SHAPE::TILE_PIECES];
    uint32_t scales[SHAPE::TILES];
};

template <class SHAPE>
static __device__ __forceinline__ void hold_unit(struct unit_held<SHAPE> *out, const char *slot,
                                                 int tile)
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

/* acc += one unit times the tokens; `fragments` are those of its first block. A term of a token has sums of its own:
 * a chain of products as long as a term's is what a router's rows wait for. */
template <class SHAPE, int COLS, int TERMS>
static __device__ __forceinline__ void
multiply_unit(float acc[SHAPE::TILES][COLS * TERMS][4], const struct unit_held<SHAPE> &unit,
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

/* The smallest first. */
template <int TERMS>
static __device__ __forceinline__ float sum_of_terms(const float terms[TERMS][4], int i)
{
    float sum = terms[TERMS - 1][i];

#pragma unroll
    for (int term = TERMS - 2; term >= 0; term--)
        sum = __fadd_rn(sum, terms[term][i]);
    return sum;
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
    for (int unit = threadIdx.x / WARP_LANES; unit < r->n_units; unit += RING_WARPS) {
        char *slot = r->slots + r->slot * SHAPE::STAGE_BYTES;
        struct unit_held<SHAPE> held;

        copy_wait<SHAPE::STAGES - 1>();
        __syncwarp();
        hold_unit<SHAPE>(&held, slot, tile);
        __syncwarp();
        ring_fill(r, parts, slot);
        r->slot = r->slot + 1 == SHAPE::STAGES ? 0 : r->slot + 1;
        multiply_unit<SHAPE, COLS, TERMS>(
            acc, held, fragments + unit * UNIT_BLOCKS * n_tokens * TOKEN_BLOCK_BYTES, term_bytes,
            n_tokens);
    }
}

/* acc = this warp's units of the walk's next part times the tokens. */
template <class SHAPE, int COLS, int TERMS, class PARTS>
static __device__ __forceinline__ void
multiply_part(float acc[SHAPE::TILES][COLS][4], struct ring<SHAPE> *r, const PARTS &parts, int tile,
              const char *fragments, int term_bytes, int n_tokens)
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

/* ---- sums ---- */

static inline HOST_DEVICE int part_sums(int n_tiles, int n_tokens)
{
    return RING_WARPS * n_tiles * n_tokens * TILE_ROWS;
}

/* Sums of the units that warp `warp` of eight takes. */
template <int TILES, int COLS>
static __device__ __forceinline__ void put_sums_of(float *sums, const float acc[TILES][COLS][4],
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
static __device__ __forceinline__ void put_sums(float *sums, const float acc[TILES][COLS][4],
                                                int n_tokens)
{
    put_sums_of<TILES, COLS>(sums, acc, threadIdx.x / WARP_LANES, n_tokens);
}

/* Sum i = (tile * n_tokens + token) * TILE_ROWS + row of all warps. */
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

/* Where element i of vector `matrix` of a stack of 16-bit numbers lies, in numbers. */
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

static __device__ __forceinline__ float vector_at(const struct decode_vector &v, int matrix, int i)
{
    if (v.kind == VECTOR_NONE)
        return 0.0f;
    if (v.kind == VECTOR_F32)
        return ((const float *)v.data)[matrix * v.n + i];
    return __uint_as_float((uint32_t)((const uint16_t *)v.data)[upper_at(v, matrix, i)] << 16);
}

/* Elements i and i + 1 as they lie there, so that nobody waits for them before they are used; i and the
 * number of elements are even. */
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

static __device__ __forceinline__ float2 vector_pair_at(const struct decode_vector &v, int matrix,
                                                        int i)
{
    return pair_of_bits(v, vector_pair_bits(v, matrix, i));
}

#endif
