/* Products of several generated rows with a BF16 or MXFP4 matrix, or some of as many columns:
 *
 *     out[t][r] = sum over k of W[r][k] x[t][k] + b[r]
 *
 * Rows are first rounded, once, to the 16 bits in which they meet the weights. A block then has TILES tiles of
 * 16 rows of weights and up to 8 COLS tokens; each warp brings its units of the weights, and what the tokens
 * have in those columns, through a ring of cp.async, so that no warp waits for another before the sums. The
 * same operations in the same order as in decode.cuh: a token's bits are the same in any kernel.
 *
 * Bytes: the weights once for TOKENS_MAX tokens (from L2 after the first), and all tokens' rows from L2 for
 * each block. Bound by L2 and by latency. */
#include "cuda/columns.cuh"

enum {
    SUMS_STRIDE = 20, /* floats from a token's 16 sums to the next's: no two lanes in one bank */
    ROUND_THREADS = 256
};

/* ---- rounding ---- */

/* A block a token. Zeros behind the columns, up to whole units. */
template <bool IS_MXFP4>
static __global__ void __launch_bounds__(ROUND_THREADS)
    round_rows(uint16_t *out, const __grid_constant__ struct decode_rows rows)
{
    const int n_pieces = (int)units_of(rows.n, UNIT_COLUMNS) * (UNIT_COLUMNS / PIECE);
    uint4 *to = (uint4 *)out + (int64_t)blockIdx.x * n_pieces;
    const float *x = source_row(rows, (int)blockIdx.x); /* the batch is there before the step */

    pdl_wait();
    pdl_launch_dependents();
    for (int i = threadIdx.x; i < n_pieces; i += ROUND_THREADS) {
        float4 low = make_float4(0, 0, 0, 0), high = low;

        if (i * PIECE < rows.n) {
            low = __ldcg((const float4 *)(x + i * PIECE));
            high = __ldcg((const float4 *)(x + i * PIECE) + 1);
        }
        to[i] = IS_MXFP4 ? make_uint4(pair_f16(low.x, low.y), pair_f16(low.z, low.w),
                                      pair_f16(high.x, high.y), pair_f16(high.z, high.w))
                         : make_uint4(pair_bf16(low.x, low.y), pair_bf16(low.z, low.w),
                                      pair_bf16(high.x, high.y), pair_bf16(high.z, high.w));
    }
}

void launch_round_rows(cudaStream_t stream, uint16_t *out, const struct decode_rows *rows,
                       int n_tokens, bool is_mxfp4)
{
    pdl_launch(is_mxfp4 ? round_rows<true> : round_rows<false>, (unsigned)n_tokens, ROUND_THREADS,
               0, stream, out, *rows);
}

/* ---- the ring ---- */

template <class SHAPE, int COLS_> struct wide_shape : columns_shape<SHAPE, COLS_> {
    typedef columns_shape<SHAPE, COLS_> C;
    enum {
        ROWS = SHAPE::TILES * TILE_ROWS,
        SUMS_BYTES = RING_WARPS * SHAPE::TILES * C::TOKENS * SUMS_STRIDE * (int)sizeof(float),
        BYTES = (int)C::RING_BYTES > (int)SUMS_BYTES ? (int)C::RING_BYTES : (int)SUMS_BYTES
    };
};

/* What a block works on. */
struct wide_item {
    int job, row, first, n_tokens; /* row: the first of the weights; first: token */
};

template <class W>
static __device__ __forceinline__ struct wide_item item_of_block(const struct decode_wide &p)
{
    const int n_groups = (p.n_tokens + W::TOKENS - 1) / W::TOKENS;
    struct wide_item item;
    int i = (int)blockIdx.x / n_groups, group = (int)blockIdx.x - i * n_groups, n_items;

    for (item.job = 0; item.job + 1 < p.n_jobs; item.job++, i -= n_items) {
        n_items = (p.w[item.job].n_rows + W::ROWS - 1) / W::ROWS;
        if (i < n_items)
            break;
    }
    item.row = i * W::ROWS;
    item.first = group * W::TOKENS;
    item.n_tokens = min((int)W::TOKENS, p.n_tokens - item.first);
    return item;
}

/* Of tokens that there are not, nothing: their columns are not stored. */
template <class W>
static __device__ __forceinline__ void copy_tokens(char *slot, const char *rows, int row_bytes,
                                                   int unit, int n_tokens)
{
    const char *from =
        rows + lane_token() * row_bytes + (unit * UNIT_PIECES + lane_piece()) * LANE_BYTES;

#pragma unroll
    for (int i = 0; i < W::COPIES; i++) {
        if (lane_token() + i * TOKENS_AT_ONCE < n_tokens)
            copy_async(place_of_copy<W>(slot, i), from);
        from += TOKENS_AT_ONCE * row_bytes;
    }
}

/* acc += the unit in a slot times its tokens. Little is held at a time: the sums take most registers. */
template <class W>
static __device__ __forceinline__ void multiply_slot(float acc[W::SHAPE::TILES][W::COLS][4],
                                                     const char *slot, int tile)
{
    enum { PIECES = W::SHAPE::TILE_PIECES };
    const int lane = threadIdx.x % WARP_LANES;
    const char *scales =
        slot + W::SHAPE::SCALES_AT + lane / 4 * MXFP4_GROUP_SCALES_BYTES + tile * UNIT_BLOCKS * 2;

#pragma unroll 1
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        uint4 tokens[W::COLS];

        hold_tokens<W>(tokens, slot, block);
#pragma unroll
        for (int i = 0; i < W::SHAPE::TILES; i++) {
            const uint4 *words = (const uint4 *)slot + i * PIECES * WARP_LANES + lane;

            if (W::SHAPE::IS_MXFP4) {
                const uint2 both = ((const uint2 *)words)[block];
                const uint32_t codes = *(const uint16_t *)(scales + (i * UNIT_BLOCKS + block) * 2);

                multiply_columns<W::COLS>(acc[i], both.x, both.y, scale_at(codes, 0),
                                          scale_at(codes, 1), tokens);
            } else {
                const uint4 w0 = words[block * 2 % PIECES * WARP_LANES];
                const uint4 w1 = words[(block * 2 + 1) % PIECES * WARP_LANES];

#pragma unroll
                for (int c = 0; c < W::COLS; c++)
                    multiply_bf16(acc[i][c], w0, w1, tokens[c]);
            }
        }
    }
}

/* ---- sums ---- */

template <class W> static __device__ __forceinline__ int sum_at(int warp, int tile, int token)
{
    return ((warp * W::SHAPE::TILES + tile) * W::TOKENS + token) * SUMS_STRIDE;
}

template <class W>
static __device__ __forceinline__ void put_wide(float *sums,
                                                const float acc[W::SHAPE::TILES][W::COLS][4])
{
    const int warp = threadIdx.x / WARP_LANES, group = threadIdx.x % WARP_LANES / 4;

#pragma unroll
    for (int i = 0; i < W::SHAPE::TILES; i++)
#pragma unroll
        for (int c = 0; c < W::COLS; c++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int token = c * COLUMN_TOKENS + threadIdx.x % 4 * 2 + k;

                ((float2 *)(sums + sum_at<W>(warp, i, token)))[group] =
                    make_float2(acc[i][c][k], acc[i][c][k + 2]);
            }
}

/* Every thread has one row of weights, for every so many tokens. */
template <class W>
static __device__ __forceinline__ void
store_wide(const struct decode_wide &p, const struct wide_item &item, const float *sums, float bias)
{
    enum { TOKENS_AT_ONCE = RING_THREADS / W::ROWS };
    const int row = threadIdx.x % W::ROWS;
    float *out = p.out[item.job] + item.row + row;

    if (item.row + row >= p.w[item.job].n_rows)
        return;
    for (int token = threadIdx.x / W::ROWS; token < item.n_tokens; token += TOKENS_AT_ONCE) {
        float sum = 0.0f;

#pragma unroll
        for (int warp = 0; warp < RING_WARPS; warp++)
            sum += sums[sum_at<W>(warp, row / TILE_ROWS, token) + row % TILE_ROWS];
        out[(int64_t)(item.first + token) * p.out_width[item.job]] =
            (W::SHAPE::IS_MXFP4 ? sum * CODE_UNIT : sum) + bias;
    }
}

/* ---- the kernel ---- */

template <class W>
static __global__ void __launch_bounds__(RING_THREADS, 2)
    wide_kernel(const __grid_constant__ struct decode_wide p)
{
    typedef typename W::SHAPE SHAPE;
    enum { STAGES = SHAPE::STAGES };
    extern __shared__ uint4 shared[];
    const int warp = threadIdx.x / WARP_LANES;
    const struct wide_item item = item_of_block<W>(p);
    const struct decode_matrix &w = p.w[item.job];
    const int n_units = w.n_units, row_bytes = n_units * UNIT_COLUMNS * 2;
    const int tile = item.row % UNIT_ROWS / TILE_ROWS, row = item.row + threadIdx.x % W::ROWS;
    const unsigned char *weights = w.units +
                                   (int64_t)(item.row / UNIT_ROWS * n_units) * SHAPE::UNIT_BYTES +
                                   tile * SHAPE::TILE_BYTES;
    const char *rows = (const char *)p.rows + (int64_t)item.first * row_bytes;
    char *slots = (char *)shared + warp * STAGES * W::STAGE_BYTES;
    float acc[SHAPE::TILES][W::COLS][4] = {};
    int slot = 0;

#pragma unroll
    for (int i = 0; i < STAGES; i++)
        if (warp + i * RING_WARPS < n_units)
            copy_tiles<SHAPE>(slots + i * W::STAGE_BYTES,
                              weights + (int64_t)(warp + i * RING_WARPS) * SHAPE::UNIT_BYTES, tile);
    const float bias = row < w.n_rows ? vector_at(p.bias[item.job], 0, row) : 0.0f;

    pdl_wait();
    pdl_launch_dependents();
#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        if (warp + i * RING_WARPS < n_units)
            copy_tokens<W>(slots + i * W::STAGE_BYTES, rows, row_bytes, warp + i * RING_WARPS,
                           item.n_tokens);
        copy_commit();
    }
    for (int unit = warp; unit < n_units; unit += RING_WARPS) {
        const int next = unit + STAGES * RING_WARPS;
        char *at = slots + slot * W::STAGE_BYTES;

        copy_wait<STAGES - 1>();
        __syncwarp();
        multiply_slot<W>(acc, at, tile);
        __syncwarp();
        if (next < n_units) {
            copy_tiles<SHAPE>(at, weights + (int64_t)next * SHAPE::UNIT_BYTES, tile);
            copy_tokens<W>(at, rows, row_bytes, next, item.n_tokens);
        }
        copy_commit();
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
    copy_wait<0>();
    __syncthreads(); /* sums lie where the rings were */
    put_wide<W>((float *)shared, acc);
    __syncthreads();
    store_wide<W>(p, item, (const float *)shared, bias);
}

/* ---- launches ---- */

template <class W> static bool launch_shape(const cudaStream_t *stream, const struct decode_wide *p)
{
    const int64_t n_groups = units_of(p->n_tokens, W::TOKENS);
    int64_t n_items = 0;

    for (int i = 0; i < p->n_jobs; i++)
        n_items += units_of(p->w[i].n_rows, W::ROWS);
    return decode_launch<wide_kernel<W>>(stream, dim3((unsigned)(n_items * n_groups)), W::BYTES,
                                         *p);
}

/* Few tokens: more blocks, and more of their weights under way. */
bool launch_decode_wide(const cudaStream_t *stream, const struct decode_wide *p)
{
    if (!p->is_mxfp4)
        return p->n_tokens <= 2 * COLUMN_TOKENS
                   ? launch_shape<wide_shape<ring_shape<DTYPE_BF16, 1, 1, 3>, 2>>(stream, p)
                   : launch_shape<wide_shape<ring_shape<DTYPE_BF16, 1, 1, 2>, 4>>(stream, p);
    if (p->n_tokens <= COLUMN_TOKENS)
        return launch_shape<wide_shape<ring_shape<DTYPE_MXFP4, 2, 1, 4>, 1>>(stream, p);
    if (p->n_tokens <= 2 * COLUMN_TOKENS)
        return launch_shape<wide_shape<ring_shape<DTYPE_MXFP4, 2, 1, 4>, 2>>(stream, p);
    return launch_shape<wide_shape<ring_shape<DTYPE_MXFP4, 4, 1, 2>, 4>>(stream, p);
}
