/* Input rows of the router kernel (decode_router.cu): columns of rows, split into three BF16 terms,
 * in the shared memory of the blocks that multiply them; and the residual add and RMSNorm before
 * it, each row by the block that selects its experts.
 *
 * A cluster of eight blocks has eight tokens. A block has an eighth of the columns: every eighth
 * unit. Shared-memory layout: (unit, term, block of 32 columns, half of it, token, lane of four,
 * four numbers). */
#ifndef CUDA_DECODE_ROUTER_ROWS_CUH
#define CUDA_DECODE_ROUTER_ROWS_CUH

#include "cuda/common/cluster.cuh"
#include "cuda/decode/columns.cuh"
#include "cuda/decode/router.cuh"

enum {
    EIGHTHS = RING_WARPS,
    TOKENS = EIGHTHS, /* per cluster: one per block */
    TERMS = ROUTER_TERMS,
    TERM_BLOCK_BYTES = TOKENS * TOKEN_BLOCK_BYTES,
    HALF_BLOCK_BYTES = TERM_BLOCK_BYTES / 2,
    UNIT_TERM_BYTES = UNIT_BLOCKS * TERM_BLOCK_BYTES,
    UNIT_TERMS_BYTES = TERMS * UNIT_TERM_BYTES,
    ROW_THREADS = RING_THREADS / 2, /* the last ones hold the row; the other threads copy weights */
    PIECES_PER_THREAD = (DECODE_WIDTH_MAX / PIECE + ROW_THREADS - 1) / ROW_THREADS /* per thread */
};
static_assert((int)TOKENS == (int)COLUMN_TOKENS, "one MMA column per token");

static inline HOST_DEVICE int units_of_eighth(int n_units, int rank)
{
    return (n_units - rank + EIGHTHS - 1) / EIGHTHS;
}

/* Raw bits of the norm's weights for eight columns, unconverted, so that the loads are not waited
 * for before their use. */
struct weight_bits {
    uint4 at[2];
};

static __device__ __forceinline__ struct weight_bits bits_at(const struct decode_vector &norm,
                                                             int k)
{
    struct weight_bits bits = {};

    if (norm.kind == VECTOR_F32) {
        bits.at[0] = ((const uint4 *)((const float *)norm.data + k))[0];
        bits.at[1] = ((const uint4 *)((const float *)norm.data + k))[1];
    } else if (norm.kind == VECTOR_BF16) {
        bits.at[0] = *(const uint4 *)((const uint16_t *)norm.data + k);
    }
    return bits;
}

/* Converts the weights; ones without a norm. */
static __device__ __forceinline__ void weights_of(float g[PIECE], const struct weight_bits &bits,
                                                  enum decode_vector_type kind)
{
    if (kind == VECTOR_BF16) {
        const uint32_t words[PIECE / 2] = {bits.at[0].x, bits.at[0].y, bits.at[0].z, bits.at[0].w};

#pragma unroll
        for (int i = 0; i < PIECE; i++)
            g[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
    } else if (kind == VECTOR_F32) {
        const uint32_t words[PIECE] = {bits.at[0].x, bits.at[0].y, bits.at[0].z, bits.at[0].w,
                                       bits.at[1].x, bits.at[1].y, bits.at[1].z, bits.at[1].w};

#pragma unroll
        for (int i = 0; i < PIECE; i++)
            g[i] = __uint_as_float(words[i]);
    } else {
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            g[i] = 1.0f;
    }
}

/* A number times the norm's weight, in router units. The product is rounded before it is split into
 * terms: fused into the subtractions it would not be. */
static __device__ __forceinline__ float weighted(float x, float weight)
{
    return __fmul_rn(x, weight * ROUTER_UNITS);
}

/* Offset of eight columns, piece `piece` of a unit, for a token, relative to the unit. */
static __device__ __forceinline__ int piece_at(int piece, int token)
{
    return piece / BLOCK_PIECES * TERM_BLOCK_BYTES + piece % BLOCK_PIECES / 2 * HALF_BLOCK_BYTES +
           token * (TOKEN_BLOCK_BYTES / 2) + piece % 2 * LANE_BYTES;
}

/* The next term of eight numbers. */
static __device__ __forceinline__ uint4 take_term(float v[PIECE])
{
    uint32_t pairs[PIECE / 2];

#pragma unroll
    for (int i = 0; i < PIECE / 2; i++)
        pairs[i] = round_to_bf16(v + 2 * i);
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/* Splits the columns of the eighth of tokens from `first` on into three terms; zeros for missing
 * tokens. By SPLIT_THREADS threads, this one being `thread`. */
enum { SPLIT_THREADS = RING_THREADS / 2 };

static __device__ __forceinline__ void split_tokens(char *to, const struct decode_router &p,
                                                    int first, int rank, int n_units, int n_live,
                                                    int thread)
{
    enum { AT_ONCE = 3, UNIT_ITEMS = UNIT_PIECES * TOKENS };
    const int n = n_units * UNIT_ITEMS;

    for (int i0 = thread; i0 < n; i0 += SPLIT_THREADS * AT_ONCE) {
        float v[AT_ONCE][PIECE];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * SPLIT_THREADS, token = first + i % UNIT_ITEMS / UNIT_PIECES;
            const int k =
                (rank + i / UNIT_ITEMS * EIGHTHS) * UNIT_COLUMNS + i % UNIT_PIECES * PIECE;
            const bool is_there = i < n && token < n_live && k < p.n;
            const float4 *from = (const float4 *)(p.x + (is_there ? (int64_t)token * p.n + k : 0));
            float g[PIECE];

            ((float4 *)v[j])[0] = is_there ? __ldcg(from) : make_float4(0, 0, 0, 0);
            ((float4 *)v[j])[1] = is_there ? __ldcg(from + 1) : make_float4(0, 0, 0, 0);
            weights_of(g, bits_at(p.norm, is_there ? k : 0), p.norm.kind);
#pragma unroll
            for (int c = 0; c < PIECE; c++)
                v[j][c] = weighted(v[j][c], g[c]);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * SPLIT_THREADS, piece = i % UNIT_PIECES;
            char *at = to + i / UNIT_ITEMS * UNIT_TERMS_BYTES +
                       piece_at(piece, i % UNIT_ITEMS / UNIT_PIECES);

#pragma unroll
            for (int term = 0; term < TERMS && i < n; term++)
                *(uint4 *)(at + term * UNIT_TERM_BYTES) = take_term(v[j]);
        }
    }
}

/* ---- residual add and RMSNorm ---- */

/* The pieces of the block's token that a thread holds: index piece_of_thread(i). */
struct row_regs {
    float at[PIECES_PER_THREAD][PIECE];
};

static __device__ __forceinline__ int piece_of_thread(int i)
{
    return (int)threadIdx.x - (RING_THREADS - ROW_THREADS) + i * ROW_THREADS;
}

/* Addresses and weights that do not depend on the row. */
struct row_plan {
    struct weight_bits norm[PIECES_PER_THREAD];
    int at[PIECES_PER_THREAD]; /* in x, h and y; -1 for columns past the end */
    uint32_t to[PIECES_PER_THREAD],
        barrier[PIECES_PER_THREAD]; /* in the block that multiplies these columns */
};

static __device__ __forceinline__ struct row_plan plan_row(const struct decode_router &p,
                                                           const struct decode_rmsnorm &rmsnorm,
                                                           int token, bool has_token,
                                                           uint32_t tokens, uint32_t barrier)
{
    struct row_plan plan;

#pragma unroll
    for (int i = 0; i < PIECES_PER_THREAD; i++) {
        const int piece = piece_of_thread(i), unit = piece / UNIT_PIECES;
        const bool is_there = piece * PIECE < p.n;

        plan.norm[i] = bits_at(rmsnorm.norm, is_there ? piece * PIECE : 0);
        plan.at[i] = is_there && has_token ? token * p.n + piece * PIECE : -1;
        plan.to[i] = mapa_address(tokens + unit / EIGHTHS * UNIT_TERMS_BYTES +
                                      piece_at(piece % UNIT_PIECES, cluster_rank()),
                                  unit % EIGHTHS);
        plan.barrier[i] = mapa_address(barrier, unit % EIGHTHS);
    }
    return plan;
}

/* x + h; zeros past the end. */
static __device__ __forceinline__ struct row_regs rmsnorm_row(const struct row_plan &plan,
                                                              const struct decode_rmsnorm &j)
{
    struct row_regs x, h;

#pragma unroll
    for (int i = 0; i < PIECES_PER_THREAD; i++)
#pragma unroll
        for (int k = 0; k < PIECE / 4; k++) {
            const float4 none = make_float4(0, 0, 0, 0);

            ((float4 *)x.at[i])[k] =
                plan.at[i] < 0 ? none : __ldcg((const float4 *)(j.x + plan.at[i]) + k);
            ((float4 *)h.at[i])[k] =
                plan.at[i] < 0 ? none : __ldcg((const float4 *)(j.h + plan.at[i]) + k);
        }
#pragma unroll
    for (int i = 0; i < PIECES_PER_THREAD * PIECE; i++)
        x.at[i / PIECE][i % PIECE] += h.at[i / PIECE][i % PIECE];
    return x;
}

/* Sends the row's pieces, times the norm's weights and ROUTER_UNITS, split into three terms, to the
 * blocks that multiply these columns. Columns past the end and missing tokens are sent as zeros. */
static __device__ __forceinline__ void send_row(const struct row_regs &row,
                                                const struct row_regs &weights,
                                                const struct row_plan &plan, int n_units)
{
#pragma unroll
    for (int i = 0; i < PIECES_PER_THREAD; i++) {
        float v[PIECE];

#pragma unroll
        for (int c = 0; c < PIECE; c++)
            v[c] = weighted(row.at[i][c], weights.at[i][c]);
#pragma unroll
        for (int term = 0; term < TERMS; term++) {
            const uint4 pairs = take_term(v);

            if (piece_of_thread(i) < n_units * UNIT_PIECES)
                send(plan.to[i] + term * UNIT_TERM_BYTES, plan.barrier[i], pairs);
        }
    }
}

/* The thread's squares. Of two adjacent threads the even one has partials 0 and 2, the odd one
 * partial 1. */
static __device__ __forceinline__ struct squares squares_of_row(const struct row_regs &row)
{
    float parts[PIECES_PER_THREAD];
    static_assert((int)PIECES_PER_THREAD == 3 && (int)SPLIT_COLUMNS == 2 * (int)PIECE,
                  "three parts of two threads");
    const bool is_even = threadIdx.x % 2 == 0;

#pragma unroll
    for (int i = 0; i < PIECES_PER_THREAD; i++) {
        float sums[PIECE];

#pragma unroll
        for (int c = 0; c < PIECE; c++)
            sums[c] = __fmul_rn(row.at[i][c], row.at[i][c]);
#pragma unroll
        for (int n = PIECE / 2; n > 0; n /= 2)
#pragma unroll
            for (int c = 0; c < n; c++)
                sums[c] = __fadd_rn(sums[2 * c], sums[2 * c + 1]);
        parts[i] = __fadd_rn(sums[0], __shfl_xor_sync(ALL_LANES, sums[0], 1));
    }

    const struct squares first = partial_squares(is_even ? parts[0] : parts[1]);
    const struct squares second = partial_squares(is_even ? parts[2] : 0.0f);

    return {first.whole + second.whole, first.rest + second.rest};
}

/* Stores the row and its RMSNorm for the next kernels. */
static __device__ __forceinline__ void
store_row(const struct row_regs &row, const struct row_regs &weights, const struct row_plan &plan,
          const struct decode_rmsnorm &j, float factor, int n_units, int token)
{
#pragma unroll
    for (int i = 0; i < PIECES_PER_THREAD; i++) {
        float y[PIECE];
        uint32_t halves[PIECE / 2];

#pragma unroll
        for (int c = 0; c < PIECE; c++)
            y[c] = normed(row.at[i][c], factor, weights.at[i][c]);
        if (plan.at[i] >= 0)
#pragma unroll
            for (int k = 0; k < PIECE / 4; k++) {
                ((float4 *)(j.x + plan.at[i]))[k] = ((const float4 *)row.at[i])[k];
                ((float4 *)(j.y + plan.at[i]))[k] = ((const float4 *)y)[k];
            }
#pragma unroll
        for (int c = 0; c < PIECE / 2; c++)
            halves[c] = plan.at[i] < 0 ? 0 : pair_f16(y[2 * c], y[2 * c + 1]);
        if (j.normed != NULL && piece_of_thread(i) < n_units * UNIT_PIECES)
            ((uint4 *)(j.normed + (int64_t)token * n_units * UNIT_COLUMNS))[piece_of_thread(i)] =
                make_uint4(halves[0], halves[1], halves[2], halves[3]);
    }
}

#endif
