/* Decode GEMM of several rows with BF16 or MXFP4 matrices of the same number of columns:
 *
 *     out[t][r] = sum over k of W[r][k] x[t][k] + b[r]
 *
 * and stage attn_qkv, with RoPE and the KV page write in the epilogue.
 *
 * Work division: rows are first rounded, once, to the 16-bit format of the MMA. A block has TILES
 * tiles of 16 rows of weights and up to 8 COLS tokens. Each warp copies its units of weights, and
 * the tokens' columns of these units, through its own cp.async ring, so that no warp waits for
 * another before the reduction. Operations and order are those of decode.cuh: a token's bits are
 * the same in every kernel. attn_out has slices of units (out_sums.h).
 *
 * Traffic: the weights once per TOKENS_MAX tokens (from L2 after the first), and all tokens' rows
 * from L2 for each block. Bound by L2 bandwidth and latency. */
#include "cuda/decode/columns.cuh"
#include "cuda/decode/heads.cuh"

enum { ROUND_THREADS = 256 };

/* ---- rounding ---- */

/* One block per token. Zero-fills the end up to whole units. */
template <bool IS_MXFP4>
static __global__ void __launch_bounds__(ROUND_THREADS)
    round_rows(uint16_t *out, const __grid_constant__ struct decode_rows rows,
               const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int n_pieces = (int)units_of(rows.n, UNIT_COLUMNS) * (UNIT_COLUMNS / PIECE);
    uint4 *to = (uint4 *)out + (int64_t)blockIdx.x * n_pieces;
    const float *x = source_row(rows, (int)blockIdx.x); /* the batch was uploaded before the step */

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

void launch_round_rows(struct launch_list *list, uint16_t *out, const struct decode_rows *rows,
                       int n_tokens, const int32_t *n_live, bool is_mxfp4)
{
    const dim3 grid((unsigned)n_tokens);

    if (is_mxfp4)
        add_dependent<round_rows<true>>(list, grid, ROUND_THREADS, 0, out, *rows, n_live);
    else
        add_dependent<round_rows<false>>(list, grid, ROUND_THREADS, 0, out, *rows, n_live);
}

/* ---- the ring ---- */

template <class SHAPE, int COLS_> struct gemm_tile_shape : columns_shape<SHAPE, COLS_> {
    typedef columns_shape<SHAPE, COLS_> C;
    enum {
        ROWS = SHAPE::TILES * TILE_ROWS,
        SUMS_BYTES = RING_WARPS * SHAPE::TILES * C::TOKENS * SUMS_STRIDE * (int)sizeof(float),
        BYTES = (int)C::RING_BYTES > (int)SUMS_BYTES ? (int)C::RING_BYTES : (int)SUMS_BYTES
    };
};

/* Tiles `tile` and every STRIDE-th after it in a row of units, and the tokens of a block; n_tokens
 * <= 0: all of them are padding. */
struct gemm_item {
    int job, unit_row, tile, first, n_tokens;
};

template <class W>
static __device__ __forceinline__ struct gemm_item item_of_block(const struct decode_gemm &p)
{
    enum { UNIT_ITEMS = UNIT_ROWS / W::ROWS, STEP = W::SHAPE::STRIDE == 1 ? W::SHAPE::TILES : 1 };
    const int n_groups = (p.n_tokens + W::TOKENS - 1) / W::TOKENS;
    struct gemm_item item;
    int i = (int)blockIdx.x / n_groups, group = (int)blockIdx.x - i * n_groups, n_items;

    for (item.job = 0; item.job + 1 < p.n_jobs; item.job++, i -= n_items) {
        n_items = (p.w[item.job].n_rows + UNIT_ROWS - 1) / UNIT_ROWS * UNIT_ITEMS;
        if (i < n_items)
            break;
    }
    item.unit_row = i / UNIT_ITEMS;
    item.tile = i % UNIT_ITEMS * STEP;
    item.first = group * W::TOKENS;
    item.n_tokens = min((int)W::TOKENS, live_rows(p.n_live, p.n_tokens) - item.first);
    return item;
}

/* The matrix row of the block's row i. */
template <class W> static __device__ __forceinline__ int row_of(const struct gemm_item &item, int i)
{
    return item.unit_row * UNIT_ROWS + item.tile * TILE_ROWS +
           i / TILE_ROWS * W::SHAPE::STRIDE * TILE_ROWS + i % TILE_ROWS;
}

/* Stride of the tokens' rounded rows. */
static __device__ __forceinline__ int row_bytes_of(const struct decode_gemm &p)
{
    return p.w[0].n_units * UNIT_COLUMNS * 2;
}

/* Units of a slice; 0: eighths. Heads and long matrices have no slices, and no code for them. */
template <class W, bool IS_HEADS>
static __device__ __forceinline__ int slice_units_of(const struct decode_gemm &p)
{
    return IS_HEADS || (int)W::SHAPE::TILES == (int)UNIT_TILES ? 0 : p.slice_units;
}

/* From one unit of a warp to the next. */
template <class W, bool IS_HEADS>
static __device__ __forceinline__ int unit_step(const struct decode_gemm &p)
{
    return slice_units_of<W, IS_HEADS>(p) > 0 ? 1 : RING_WARPS;
}

/* A lane's position in the copy stream of its warp: its pieces of the next unit. */
struct stream {
    const unsigned char *weights;
    const char *tokens;
    int scales_at, n_tokens; /* scales_at: relative to the weights */
};

template <class W>
static __device__ __forceinline__ struct stream
stream_of(const struct decode_gemm &p, const struct gemm_item &item, const struct warp_units &units)
{
    typedef typename W::SHAPE SHAPE;
    const struct decode_matrix &w = p.w[item.job];
    const int lane = threadIdx.x % WARP_LANES;
    const int row_bytes = row_bytes_of(p);
    const unsigned char *unit =
        w.units + (int64_t)(item.unit_row * w.n_units + units.first) * SHAPE::UNIT_BYTES;

    return stream{unit + item.tile * SHAPE::TILE_BYTES + lane * LANE_BYTES,
                  (const char *)p.rows + (int64_t)(item.first + lane_token()) * row_bytes +
                      (units.first * UNIT_PIECES + lane_piece()) * LANE_BYTES,
                  MXFP4_SCALES_OFFSET - item.tile * SHAPE::TILE_BYTES, item.n_tokens};
}

template <class W>
static __device__ __forceinline__ void fill_weights(struct stream *from, uint32_t slot, int step)
{
    typedef typename W::SHAPE SHAPE;
    const int lane = threadIdx.x % WARP_LANES;
    const uint32_t to = slot + lane * LANE_BYTES;

#pragma unroll
    for (int i = 0; i < SHAPE::TILES; i++)
#pragma unroll
        for (int piece = 0; piece < SHAPE::TILE_PIECES; piece++)
            copy_at(to + (i * SHAPE::TILE_PIECES + piece) * WARP_LANES * LANE_BYTES,
                    from->weights + i * SHAPE::STRIDE * SHAPE::TILE_BYTES +
                        piece * WARP_LANES * LANE_BYTES);
    if (SHAPE::IS_MXFP4 && lane < (MXFP4_UNIT_BYTES - MXFP4_SCALES_OFFSET) / LANE_BYTES)
        copy_at(to + SHAPE::SCALES_AT,
                from->weights +
                    (SHAPE::TILES == UNIT_TILES ? (int)MXFP4_SCALES_OFFSET : from->scales_at));
    from->weights += step * SHAPE::UNIT_BYTES;
}

/* Tokens past the end are not copied: their columns are not stored. */
template <class W>
static __device__ __forceinline__ void fill_tokens(struct stream *from, uint32_t slot,
                                                   int row_bytes, int step)
{
    const uint32_t to =
        slot + W::TOKENS_AT +
        (lane_piece() / BLOCK_PIECES * W::TOKENS + lane_token()) * TOKEN_BLOCK_BYTES +
        lane_piece() % BLOCK_PIECES * LANE_BYTES;
    const char *at = from->tokens;

#pragma unroll
    for (int i = 0; i < W::COPIES; i++) {
        if (lane_token() + i * TOKENS_AT_ONCE < from->n_tokens)
            copy_at(to + i * TOKENS_AT_ONCE * TOKEN_BLOCK_BYTES, at);
        at += TOKENS_AT_ONCE * row_bytes;
    }
    from->tokens += step * UNIT_COLUMNS * 2;
}

/* acc += the unit in a slot times its tokens. Few values are live at once, because the accumulators
 * take most registers. */
template <class W>
static __device__ __forceinline__ void multiply_slot(float acc[W::SHAPE::TILES][W::COLS][4],
                                                     uint32_t slot, int tile)
{
    typedef typename W::SHAPE SHAPE;
    enum { PIECES = SHAPE::TILE_PIECES };
    const int lane = threadIdx.x % WARP_LANES;
    const uint32_t at = slot + lane * LANE_BYTES;
    const uint32_t scales =
        slot + SHAPE::SCALES_AT + lane / 4 * MXFP4_GROUP_SCALES_BYTES + tile * UNIT_BLOCKS * 2;

#pragma unroll 1
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        const uint32_t words =
            at + block * (SHAPE::IS_MXFP4 ? 8 : PIECES / 2 * WARP_LANES * LANE_BYTES);
        uint4 tokens[W::COLS];

#pragma unroll
        for (int c = 0; c < W::COLS; c++)
            tokens[c] =
                load_shared<0>(at + W::TOKENS_AT + (block * W::COLS + c) * WARP_LANES * LANE_BYTES);
#pragma unroll
        for (int i = 0; i < SHAPE::TILES; i++) {
            const uint32_t tile_at = words + i * SHAPE::TILE_PIECES * WARP_LANES * LANE_BYTES;

            if (SHAPE::IS_MXFP4) {
                const uint2 both = load_shared_pair<0>(tile_at);
                const uint32_t codes =
                    load_shared_half<0>(scales + (i * SHAPE::STRIDE * UNIT_BLOCKS + block) * 2);

                multiply_columns<W::COLS>(acc[i], both.x, both.y, scale_at(codes, 0),
                                          scale_at(codes, 1), tokens);
            } else {
                const uint4 w0 = load_shared<0>(tile_at);
                const uint4 w1 = load_shared<0>(tile_at + WARP_LANES * LANE_BYTES);

#pragma unroll
                for (int c = 0; c < W::COLS; c++)
                    multiply_bf16(acc[i][c], w0, w1, tokens[c]);
            }
        }
    }
}

/* ---- epilogue ---- */

template <class W>
static __device__ __forceinline__ float sum_of(const float *sums, int token, int i)
{
    return sum_of_eighths<W::SHAPE::TILES, W::COLS, W::SHAPE::IS_MXFP4>(sums, token, i);
}

template <class W>
static __device__ __forceinline__ float sum_of_slices(const float *sums, int token, int i)
{
    return columns_of_slices<W::SHAPE::TILES, W::COLS, W::SHAPE::IS_MXFP4>(sums, token, i);
}

/* Each thread stores one row of weights, for a fixed stride of tokens. */
template <class W>
static __device__ __forceinline__ void store_rows(const struct decode_gemm &p,
                                                  const struct gemm_item &item, const float *sums,
                                                  const float *biases)
{
    enum { STEP = RING_THREADS / W::ROWS };
    const int i = threadIdx.x % W::ROWS, row = row_of<W>(item, i);
    const int width = p.out_width[item.job];
    int token = threadIdx.x / W::ROWS;
    float *out = p.out[item.job] + (int64_t)(item.first + token) * width + row;

    if (row >= p.w[item.job].n_rows)
        return;
    for (; token < item.n_tokens; token += STEP, out += STEP * width)
        if (p.low != NULL)
            store_words(
                p.out[0], p.low, out - p.out[0],
                out_sum_of_columns<W::SHAPE::TILES, W::COLS, W::SHAPE::IS_MXFP4>(sums, token, i),
                RING_WARPS);
        else
            *out = (slice_units_of<W, false>(p) > 0 ? sum_of_slices<W>(sums, token, i)
                                                    : sum_of<W>(sums, token, i)) +
                   biases[i];
}

/* ---- epilogue of heads: RoPE and KV page write ---- */

/* Each thread has two rows, which RoPE rotates together, for a fixed stride of tokens. */
template <class W>
static __device__ __forceinline__ void
store_heads(const struct decode_gemm &p, const struct gemm_item &item, const float *sums,
            const float *biases, const struct slot_of_token *slots)
{
    enum { PAIRS = W::ROWS / 2, HALF = DECODE_HEAD_WIDTH / 2 };
    const struct decode_heads &h = p.heads;
    const int i = threadIdx.x % PAIRS, d = item.tile * TILE_ROWS + i;

    for (int token = threadIdx.x / PAIRS; token < item.n_tokens; token += RING_THREADS / PAIRS) {
        const float *rotation = h.cos_sin + (item.first + token) * DECODE_HEAD_WIDTH + d;
        float low = sum_of<W>(sums, token, i) + biases[i];
        float high = sum_of<W>(sums, token, i + PAIRS) + biases[i + PAIRS];

        if (item.job < 2)
            rotate_pair(&low, &high, __ldcg(rotation), __ldcg(rotation + HALF));
        store_rotated(h, slots[token], item.job, item.unit_row, d,
                      p.out[0] + (int64_t)(item.first + token) * p.out_width[0] +
                          item.unit_row * DECODE_HEAD_WIDTH,
                      low, high);
    }
}

/* ---- the kernel ---- */

template <class W, bool IS_HEADS>
static __global__ void __launch_bounds__(RING_THREADS, 2)
    decode_gemm_kernel(const __grid_constant__ struct decode_gemm p)
{
    typedef typename W::SHAPE SHAPE;
    enum { STAGES = SHAPE::STAGES };
    extern __shared__ uint4 shared[];
    __shared__ float biases[W::ROWS];
    __shared__ struct slot_of_token slots_of_tokens[IS_HEADS ? (int)W::TOKENS : 1];
    const int warp = threadIdx.x / WARP_LANES;
    const struct gemm_item item = item_of_block<W>(p);
    const struct decode_matrix &w = p.w[item.job];
    const struct warp_units units = warp_units_of(w.n_units, slice_units_of<W, IS_HEADS>(p), warp);
    const int n_units = units.n;
    const uint32_t slots = (uint32_t)__cvta_generic_to_shared(shared) + warp * W::WARP_BYTES;
    struct stream stream = stream_of<W>(p, item, units);
    float acc[SHAPE::TILES][W::COLS][4] = {};
    uint32_t slot = slots;

#pragma unroll
    for (int i = 0; i < STAGES; i++)
        if (i < n_units)
            fill_weights<W>(&stream, slots + i * W::STAGE_BYTES, unit_step<W, IS_HEADS>(p));
    if (threadIdx.x < W::ROWS) {
        const int row = row_of<W>(item, threadIdx.x);

        biases[threadIdx.x] = row < w.n_rows ? vector_at(p.bias[item.job], 0, row) : 0.0f;
    }
    if (IS_HEADS && item.job > 0 && (int)threadIdx.x < item.n_tokens)
        slots_of_tokens[threadIdx.x] = slot_of(p.heads, item.first + (int)threadIdx.x);
    pdl_wait();
    pdl_launch_dependents();
#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        if (i < n_units)
            fill_tokens<W>(&stream, slots + i * W::STAGE_BYTES, row_bytes_of(p),
                           unit_step<W, IS_HEADS>(p));
        copy_commit();
    }
    for (int unit = 0; unit < n_units; unit++) {
        copy_wait<STAGES - 1>();
        __syncwarp();
        multiply_slot<W>(acc, slot, item.tile);
        __syncwarp();
        if (unit + STAGES < n_units) {
            fill_weights<W>(&stream, slot, unit_step<W, IS_HEADS>(p));
            fill_tokens<W>(&stream, slot, row_bytes_of(p), unit_step<W, IS_HEADS>(p));
        }
        copy_commit();
        slot = slot == slots + (STAGES - 1) * W::STAGE_BYTES ? slots : slot + W::STAGE_BYTES;
    }
    copy_wait<0>();
    __syncthreads(); /* the partial sums reuse the memory of the rings */
    store_columns<SHAPE::TILES, W::COLS>((float *)shared, acc);
    __syncthreads();
    if (IS_HEADS)
        store_heads<W>(p, item, (const float *)shared, biases, slots_of_tokens);
    else
        store_rows<W>(p, item, (const float *)shared, biases);
}

/* ---- launches ---- */

template <class W, bool IS_HEADS>
static bool launch_shape(struct launch_list *list, const struct decode_gemm *p)
{
    const int64_t n_groups = units_of(p->n_tokens, W::TOKENS);
    int64_t n_items = 0;

    for (int i = 0; i < p->n_jobs; i++)
        n_items += units_of(p->w[i].n_rows, UNIT_ROWS) * (UNIT_ROWS / W::ROWS);
    return decode_launch<decode_gemm_kernel<W, IS_HEADS>>(
        list, dim3((unsigned)(n_items * n_groups)), W::BYTES, *p);
}

/* For few rows of weights or few tokens: smaller blocks, so that there are more of them and more
 * weight copies are in flight. */
template <bool IS_HEADS>
static bool launch_mxfp4(struct launch_list *list, const struct decode_gemm *p)
{
    enum { ROWS_OF_WHOLE_UNITS = 16384 };

    if (p->n_tokens <= COLUMN_TOKENS)
        return launch_shape<gemm_tile_shape<ring_shape<DTYPE_MXFP4, 2, 2, 4>, 1>, IS_HEADS>(list,
                                                                                            p);
    if (p->n_tokens <= 2 * COLUMN_TOKENS)
        return launch_shape<gemm_tile_shape<ring_shape<DTYPE_MXFP4, 2, 2, 4>, 2>, IS_HEADS>(list,
                                                                                            p);
    if (p->w[0].n_rows < ROWS_OF_WHOLE_UNITS || p->slice_units > 0)
        return launch_shape<gemm_tile_shape<ring_shape<DTYPE_MXFP4, 2, 2, 2>, 4>, IS_HEADS>(list,
                                                                                            p);
    return !IS_HEADS &&
           launch_shape<gemm_tile_shape<ring_shape<DTYPE_MXFP4, 4, 1, 2>, 4>, false>(list, p);
}

bool launch_decode_gemm(struct launch_list *list, const struct decode_gemm *p)
{
    if (p->heads.pages != NULL)
        return p->is_mxfp4 && launch_mxfp4<true>(list, p);
    if (p->is_mxfp4)
        return launch_mxfp4<false>(list, p);
    return p->n_tokens <= 2 * COLUMN_TOKENS
               ? launch_shape<gemm_tile_shape<ring_shape<DTYPE_BF16, 1, 1, 3>, 2>, false>(list, p)
               : launch_shape<gemm_tile_shape<ring_shape<DTYPE_BF16, 1, 1, 2>, 4>, false>(list, p);
}
