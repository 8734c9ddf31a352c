/* Shared code of decode GEMMs with several tokens: rounded rows of tokens go through the ring
 * beside the weights, and a word of weights is expanded once for all tokens of the block.
 *
 * For each unit of 64 columns a slot holds (block of 32 columns, token, 32 numbers of 16 bits): the
 * fragments of decode.cuh, for one unit and 8 COLS tokens. */
#ifndef CUDA_DECODE_COLUMNS_CUH
#define CUDA_DECODE_COLUMNS_CUH

#include "cuda/decode/decode.cuh"
#include "cuda/common/warp_units.h"

enum {
    PIECE = LANE_BYTES / 2, /* numbers per copy */
    UNIT_PIECES = UNIT_COLUMNS / PIECE,
    BLOCK_PIECES = MXFP4_BLOCK / PIECE,
    TOKENS_AT_ONCE = WARP_LANES / UNIT_PIECES /* copied at once, a piece per lane */
};

/* A stage of the ring: a unit's tiles, then its tokens. */
template <class SHAPE_, int COLS_> struct columns_shape {
    typedef SHAPE_ SHAPE;
    enum {
        COLS = COLS_,
        TOKENS = COLS * COLUMN_TOKENS,
        COPIES = TOKENS / TOKENS_AT_ONCE, /* copies per lane for the tokens */
        TOKENS_AT = SHAPE::STAGE_BYTES,
        STAGE_BYTES = TOKENS_AT + UNIT_BLOCKS * TOKENS * TOKEN_BLOCK_BYTES,
        WARP_BYTES = SHAPE::STAGES * STAGE_BYTES,
        RING_BYTES = RING_WARPS * WARP_BYTES
    };
};

/* ---- shared memory by 32-bit addresses, with constant offsets in the instruction ---- */

/* Starts a copy of 16 bytes. */
template <int TO, int FROM>
static __device__ __forceinline__ void copy_piece(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;" ::"r"(to), "l"(from),
                 "n"(TO), "n"(FROM)
                 : "memory");
}

static __device__ __forceinline__ void copy_at(uint32_t to, const void *from)
{
    copy_piece<0, 0>(to, from);
}

/* The same, or zero-fills. */
static __device__ __forceinline__ void copy_or_zero_at(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? LANE_BYTES : 0)
                 : "memory");
}

template <int AT> static __device__ __forceinline__ uint4 load_shared(uint32_t from)
{
    uint4 v;

    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from), "n"(AT)
                 : "memory");
    return v;
}

template <int AT> static __device__ __forceinline__ uint2 load_shared_pair(uint32_t from)
{
    uint2 v;

    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2 + %3];"
                 : "=r"(v.x), "=r"(v.y)
                 : "r"(from), "n"(AT)
                 : "memory");
    return v;
}

/* The lower half of a word. */
template <int AT> static __device__ __forceinline__ uint32_t load_shared_half(uint32_t from)
{
    uint16_t v;

    asm volatile("ld.shared.u16 %0, [%1 + %2];" : "=h"(v) : "r"(from), "n"(AT) : "memory");
    return v;
}

template <int AT> static __device__ __forceinline__ uint32_t load_shared_word(uint32_t from)
{
    uint32_t v;

    asm volatile("ld.shared.u32 %0, [%1 + %2];" : "=r"(v) : "r"(from), "n"(AT) : "memory");
    return v;
}

static __device__ __forceinline__ void store_shared(uint32_t to, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z),
                 "f"(v.w)
                 : "memory");
}

static __device__ __forceinline__ void store_shared(uint32_t to, uint4 v)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

/* ---- mbarriers: warps arrive without blocking ---- */

static __device__ __forceinline__ void barrier_init(uint32_t at, int n_arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(n_arrivals) : "memory");
}

/* Every lane that wrote data arrives itself: see mbarrier_arrive() in wgmma.cuh. */
static __device__ __forceinline__ void barrier_arrive(uint32_t at)
{
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}" ::"r"(at)
                 : "memory");
}

/* Waits for the end of the phase with this parity. */
static __device__ __forceinline__ void barrier_wait(uint32_t at, int parity)
{
    uint32_t is_over;

    do {
        asm volatile("{\n"
                     ".reg .pred over;\n"
#if __CUDA_ARCH__ >= 900
                     "mbarrier.try_wait.parity.shared.b64 over, [%1], %2;\n" /* may suspend */
#else
                     "mbarrier.test_wait.parity.shared.b64 over, [%1], %2;\n"
#endif
                     "selp.u32 %0, 1, 0, over;\n"
                     "}"
                     : "=r"(is_over)
                     : "r"(at), "r"(parity)
                     : "memory");
    } while (!is_over);
}

/* ---- tokens ---- */

/* The piece of a unit that this lane copies, and its first token. */
static __device__ __forceinline__ int lane_piece(void)
{
    return threadIdx.x % UNIT_PIECES;
}

static __device__ __forceinline__ int lane_token(void)
{
    return threadIdx.x % WARP_LANES / UNIT_PIECES;
}

/* acc += a tile's block of 32 columns of MXFP4 times 8 COLS tokens: multiply_mxfp4() of decode.cuh
 * with the words expanded once. */
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

/* acc += a unit's tiles times its tokens. Addresses are the lane's; SCALES_STEP is the stride in
 * bytes from one tile's scales to the next's. */
template <int TILES, int COLS, int SCALES_STEP>
static __device__ __forceinline__ void multiply_tiles(float acc[TILES][COLS][4], uint32_t tiles,
                                                      uint32_t scales, uint32_t tokens)
{
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        uint4 columns[COLS];

#pragma unroll
        for (int c = 0; c < COLS; c++)
            columns[c] = load_shared<0>(tokens + (block * COLS + c) * WARP_LANES * LANE_BYTES);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const uint2 both = load_shared_pair<0>(tiles + i * MXFP4_TILE_BYTES + block * 8);
            const uint32_t codes = load_shared_half<0>(scales + i * SCALES_STEP + block * 2);

            multiply_columns<COLS>(acc[i], both.x, both.y, scale_at(codes, 0), scale_at(codes, 1),
                                   columns);
        }
    }
}

/* ---- partial sums of a block: (eighth of the units or slice, tile, token, 16 rows) ---- */

enum {
    SUMS_STRIDE = 20 /* token stride in floats, padded so that no two lanes use the same bank */
};

template <int TILES, int COLS>
static __device__ __forceinline__ int sum_at(int eighth, int tile, int token)
{
    return ((eighth * TILES + tile) * COLS * COLUMN_TOKENS + token) * SUMS_STRIDE;
}

/* Stores the partial sums of this warp, which has one eighth of the units, or a slice. */
template <int TILES, int COLS>
static __device__ __forceinline__ void store_columns(float *sums, const float acc[TILES][COLS][4])
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    float2 *to = (float2 *)(sums + sum_at<TILES, COLS>(warp, 0, lane % 4 * 2)) + lane / 4;

#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                to[sum_at<TILES, COLS>(0, i, c * COLUMN_TOKENS + k) / 2] =
                    make_float2(acc[i][c][k], acc[i][c][k + 2]);
}

/* The sum of row i of the block for a token: all eighths, in order. */
template <int TILES, int COLS, bool IS_MXFP4>
static __device__ __forceinline__ float sum_of_eighths(const float *sums, int token, int i)
{
    const float *from = sums + sum_at<TILES, COLS>(0, i / TILE_ROWS, token) + i % TILE_ROWS;
    float sum = 0.0f;

#pragma unroll
    for (int eighth = 0; eighth < RING_WARPS; eighth++)
        sum += from[sum_at<TILES, COLS>(eighth, 0, 0)];
    return IS_MXFP4 ? sum * CODE_UNIT : sum;
}

/* The same of slices (out_sums.h). */
template <int TILES, int COLS, bool IS_MXFP4>
static __device__ __forceinline__ struct out_sum out_sum_of_columns(const float *sums, int token,
                                                                    int i)
{
    const float *from = sums + sum_at<TILES, COLS>(0, i / TILE_ROWS, token) + i % TILE_ROWS;
    struct out_sum sum = {};

#pragma unroll
    for (int slice = 0; slice < RING_WARPS; slice++)
        out_sum_add(&sum, from[sum_at<TILES, COLS>(slice, 0, 0)], slice_unit<IS_MXFP4>());
    return sum;
}

template <int TILES, int COLS, bool IS_MXFP4>
static __device__ __forceinline__ float columns_of_slices(const float *sums, int token, int i)
{
    return out_sum_value(out_sum_of_columns<TILES, COLS, IS_MXFP4>(sums, token, i), RING_WARPS);
}

#endif
