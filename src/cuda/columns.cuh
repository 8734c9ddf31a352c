/* What products of several tokens share: rounded rows of tokens come through the ring beside the weights, and
 * a word of weights is expanded once for all of them.
 *
 * Of a unit's 64 columns a slot holds (block of 32 columns, token, 32 numbers of 16 bits): what decode.cuh calls
 * fragments, for one unit and 8 COLS tokens. */
#ifndef CUDA_COLUMNS_CUH
#define CUDA_COLUMNS_CUH

#include "cuda/decode.cuh"

enum {
    PIECE = LANE_BYTES / 2, /* numbers of one copy */
    UNIT_PIECES = UNIT_COLUMNS / PIECE,
    BLOCK_PIECES = MXFP4_BLOCK / PIECE,
    TOKENS_AT_ONCE = WARP_LANES / UNIT_PIECES /* of which the lanes copy a piece each */
};

/* A stage of the ring: a unit's tiles, and then its tokens. */
template <class SHAPE_, int COLS_> struct columns_shape {
    typedef SHAPE_ SHAPE;
    enum {
        COLS = COLS_,
        TOKENS = COLS * COLUMN_TOKENS,
        COPIES = TOKENS / TOKENS_AT_ONCE, /* of a lane for the tokens */
        TOKENS_AT = SHAPE::STAGE_BYTES,
        STAGE_BYTES = TOKENS_AT + UNIT_BLOCKS * TOKENS * TOKEN_BLOCK_BYTES,
        WARP_BYTES = SHAPE::STAGES * STAGE_BYTES,
        RING_BYTES = RING_WARPS * WARP_BYTES
    };
};

/* Sixteen bytes, or zeros. */
static __device__ __forceinline__ void copy_async_or_zero(void *shared, const void *global,
                                                          bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(is_there ? LANE_BYTES : 0)
                 : "memory");
}

/* Which of a unit's pieces a lane copies, and of which token first. */
static __device__ __forceinline__ int lane_piece(void)
{
    return threadIdx.x % UNIT_PIECES;
}

static __device__ __forceinline__ int lane_token(void)
{
    return threadIdx.x % WARP_LANES / UNIT_PIECES;
}

/* Where the lane's piece of token lane_token() + copy * TOKENS_AT_ONCE goes. */
template <class C> static __device__ __forceinline__ char *place_of_copy(char *slot, int copy)
{
    const int token = lane_token() + copy * TOKENS_AT_ONCE, piece = lane_piece();

    return slot + C::TOKENS_AT + (piece / BLOCK_PIECES * C::TOKENS + token) * TOKEN_BLOCK_BYTES +
           piece % BLOCK_PIECES * LANE_BYTES;
}

/* What the tokens have in a block of 32 columns. */
template <class C>
static __device__ __forceinline__ void hold_tokens(uint4 out[C::COLS], const char *slot, int block)
{
    const uint4 *from = (const uint4 *)(slot + C::TOKENS_AT) + threadIdx.x % WARP_LANES;

#pragma unroll
    for (int c = 0; c < C::COLS; c++)
        out[c] = from[(block * C::COLS + c) * WARP_LANES];
}

/* acc += a tile's block of 32 columns of MXFP4 times 8 COLS tokens: decode.cuh's multiply_mxfp4(), the words
 * expanded once. */
template <int COLS>
static __device__ __forceinline__ void multiply_columns(float acc[COLS][4], uint32_t low_word,
                                                        uint32_t high_word, float low_scale,
                                                        float high_scale, const uint4 tokens[COLS])
{
    uint32_t low[4], high[4];

    decode_word(low, low_word);
    decode_word(high, high_word);
    const uint32_t a0[4] = {low[0], high[0], low[1], high[1]};
    const uint32_t a1[4] = {low[2], high[2], low[3], high[3]};

#pragma unroll
    for (int c = 0; c < COLS; c++) {
        float d[4] = {0, 0, 0, 0};

        mma_f16(d, a0, tokens[c].x, tokens[c].y);
        mma_f16(d, a1, tokens[c].z, tokens[c].w);
        acc[c][0] = __fmaf_rn(d[0], low_scale, acc[c][0]);
        acc[c][1] = __fmaf_rn(d[1], low_scale, acc[c][1]);
        acc[c][2] = __fmaf_rn(d[2], high_scale, acc[c][2]);
        acc[c][3] = __fmaf_rn(d[3], high_scale, acc[c][3]);
    }
}

#endif
