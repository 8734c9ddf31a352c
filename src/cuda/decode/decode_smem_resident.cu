/* Decode GEMM for 33 to 64 rows with MXFP4 matrices that fit in the shared memory of all SMs
 * together; the bits are those of decode_gemm.cu, including QKV with RoPE and the KV page write.
 * There every block reads its tokens for 32 rows of weights, 93 MB from L2 for QKV of gpt-oss. Here
 * one block per SM has six tiles of 16 rows, or three, and 32 tokens: 36 MB.
 *
 * Work division: a block issues the copies of all its weights before griddepcontrol.wait; they stay
 * resident in shared memory, and the tokens' columns stream past them. A warp has an eighth of the
 * units, or in attn_out a slice (out_sums.h), as in all kernels, and its own ring for the tokens'
 * columns of these units. Warps synchronize only for the reduction. Tiles of heads that RoPE
 * rotates together are in the same block.
 *
 * Traffic: the weights once per 32 tokens, and those tokens for each block, from L2. Bound by L2
 * bandwidth and MMAs. H200, 2026-11-22, 64 rows of gpt-oss-120b: QKV 14.1 us, output projection
 * 10.5; decode_gemm.cu 16.4 and 12.3. */
#include "cuda/decode/columns.cuh"
#include "cuda/common/evict_first.cuh"
#include "cuda/decode/heads.cuh"

enum {
    EIGHTHS = RING_WARPS,
    COLS = 4,
    TOKENS = COLS * COLUMN_TOKENS,
    TOKEN_COPIES = TOKENS / TOKENS_AT_ONCE, /* per lane and unit */
    UNIT_TOKENS_BYTES = UNIT_BLOCKS * TOKENS * TOKEN_BLOCK_BYTES,
    TILE_SCALES = UNIT_BLOCKS * 2, /* bytes of a tile's scales per group of lanes */
    TILE_SCALES_BYTES = TILE_ROWS / 2 * TILE_SCALES,
    ROTATIONS_BYTES = TOKENS * DECODE_HEAD_WIDTH * (int)sizeof(float),
    ROWS_MIN = TOKENS + 1,
    ROWS_MAX = 2 * TOKENS
};

/* The compile-time shape of a block. */
template <int TILES_, int STAGES_> struct resident_shape {
    enum {
        TILES = TILES_,
        STAGES = STAGES_, /* of a ring, in units of tokens */
        ROWS = TILES * TILE_ROWS,
        SUMS_BYTES = EIGHTHS * TILES * TOKENS * SUMS_STRIDE * (int)sizeof(float)
    };
};

/* What a block computes: heads, rows of eighths, or of slices (attn_out). */
enum resident_kind { HEADS, ROWS_OF_EIGHTHS, ROWS_OF_SLICES };

/* The largest number of units of a warp. */
template <int KIND> static inline HOST_DEVICE int units_of_warp_max(const struct decode_gemm &p)
{
    return KIND == ROWS_OF_SLICES ? p.slice_units : (p.w[0].n_units + EIGHTHS - 1) / EIGHTHS;
}

/* Shared-memory layout: tiles (eighth, unit, tile), their scales in that order, the rings, and the
 * RoPE factors of the tokens. The partial sums later reuse everything but the RoPE factors. */
struct smem_layout {
    int scales_at, rings_at, rotations_at, size_bytes;
};

template <class H, int KIND>
static inline HOST_DEVICE struct smem_layout smem_layout_of(const struct decode_gemm &p)
{
    const int n_tiles = EIGHTHS * units_of_warp_max<KIND>(p) * H::TILES;
    struct smem_layout r;

    r.scales_at = n_tiles * MXFP4_TILE_BYTES;
    r.rings_at = r.scales_at + n_tiles * TILE_SCALES_BYTES;
    r.rotations_at = r.rings_at + EIGHTHS * H::STAGES * UNIT_TOKENS_BYTES;
    if (r.rotations_at < H::SUMS_BYTES)
        r.rotations_at = H::SUMS_BYTES;
    r.size_bytes = r.rotations_at + (KIND == HEADS ? (int)ROTATIONS_BYTES : 0);
    return r;
}

/* ---- tile assignment ---- */

/* Tile `tile` of a row of units of one of the jobs. */
struct resident_tile {
    int job, unit_row, tile;
    bool is_there;
};

static inline HOST_DEVICE int unit_rows_of(const struct decode_gemm &p)
{
    int n = 0;

    for (int i = 0; i < p.n_jobs; i++)
        n += (p.w[i].n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    return n;
}

/* The block's tile i. With heads, tiles of the first half have their RoPE partners in the second
 * half, two tiles further on in the row of units. Past the end, the last tiles are repeated. */
template <class H, int KIND>
static __device__ __forceinline__ struct resident_tile tile_of(const struct decode_gemm &p,
                                                               int share, int i)
{
    enum {
        OF_ROW = KIND == HEADS ? UNIT_TILES / 2 : UNIT_TILES,
        OF_BLOCK = KIND == HEADS ? H::TILES / 2 : H::TILES
    };
    const int n = unit_rows_of(p) * OF_ROW, at = share * OF_BLOCK + i % OF_BLOCK;
    const int one = min(at, n - 1);
    struct resident_tile t = {0, one / OF_ROW, one % OF_ROW + i / OF_BLOCK * OF_ROW, at < n};

    for (int rows; t.job + 1 < p.n_jobs; t.job++, t.unit_row -= rows) {
        rows = (p.w[t.job].n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
        if (t.unit_row < rows)
            break;
    }
    return t;
}

static __device__ __forceinline__ int row_of(const struct resident_tile &t, int i)
{
    return t.unit_row * UNIT_ROWS + t.tile * TILE_ROWS + i % TILE_ROWS;
}

/* Per-row and per-token values that do not depend on the sums. */
template <class H> struct resident_table {
    struct resident_tile tiles[H::TILES];
    float biases[H::ROWS];
    struct slot_of_token slots[TOKENS];
};

/* Address of the table, after the tiles. */
template <class H, int KIND>
static __device__ __forceinline__ void record_tile(struct resident_table<H> *tile_table,
                                                   const struct decode_gemm &p, int first,
                                                   int n_tokens)
{
    const int i = threadIdx.x;

    if (i < (int)H::ROWS) {
        const struct resident_tile t = tile_table->tiles[i / TILE_ROWS];
        const int row = row_of(t, i);

        tile_table->biases[i] = row < p.w[t.job].n_rows ? vector_at(p.bias[t.job], 0, row) : 0.0f;
    }
    if (KIND == HEADS && i < min(TOKENS, n_tokens))
        tile_table->slots[i] = slot_of(p.heads, first + i);
}

/* ---- weights and tokens ---- */

static __device__ __forceinline__ void copy_word_at(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

template <int KIND>
static __device__ __forceinline__ struct warp_units units_of_warp(const struct decode_gemm &p)
{
    return warp_units_of(p.w[0].n_units, KIND == ROWS_OF_SLICES ? p.slice_units : 0,
                         (int)threadIdx.x / WARP_LANES);
}

/* Index of the first of a warp's tiles in shared memory. */
template <class H, int KIND>
static __device__ __forceinline__ int first_tile(const struct decode_gemm &p)
{
    return (int)threadIdx.x / WARP_LANES * units_of_warp_max<KIND>(p) * H::TILES;
}

/* Starts the copies of all the warp's tiles. The code is kept small: code that runs once is
 * slow. */
template <class H, int KIND>
static __device__ __forceinline__ void
fill_tiles(uint32_t shared, const struct smem_layout &smem_layout, const struct decode_gemm &p,
           const struct resident_tile *tiles)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int n_units = p.w[0].n_units, first = first_tile<H, KIND>(p);
    const struct warp_units units = units_of_warp<KIND>(p);

#pragma unroll 1
    for (int i = 0; i < H::TILES; i++) {
        const struct resident_tile t = tiles[i];
        const unsigned char *unit =
            p.w[t.job].units + (int64_t)(t.unit_row * n_units + units.first) * MXFP4_UNIT_BYTES;
        const unsigned char *from = unit + t.tile * MXFP4_TILE_BYTES + lane * LANE_BYTES;
        const unsigned char *scales =
            unit + MXFP4_SCALES_OFFSET + t.tile * TILE_SCALES + lane * MXFP4_GROUP_SCALES_BYTES;
        uint32_t to = shared + (first + i) * MXFP4_TILE_BYTES + lane * LANE_BYTES;
        uint32_t scales_to =
            shared + smem_layout.scales_at + (first + i) * TILE_SCALES_BYTES + lane * TILE_SCALES;

#pragma unroll 1
        for (int u = 0; u < units.n; u++) {
            copy_evict_first(opaque_address(to), from);
            if (lane < TILE_ROWS / 2)
                copy_word_at(scales_to, scales);
            from += units.step * MXFP4_UNIT_BYTES;
            scales += units.step * MXFP4_UNIT_BYTES;
            to += H::TILES * MXFP4_TILE_BYTES;
            scales_to += H::TILES * TILE_SCALES_BYTES;
        }
    }
}

/* A lane's position in the copy stream of its warp: the tokens' columns of the next unit. */
struct stream {
    int from;    /* byte offset from p.rows */
    uint32_t to; /* offset in the slot */
};

static __device__ __forceinline__ int row_bytes_of(const struct decode_gemm &p)
{
    return p.w[0].n_units * UNIT_COLUMNS * 2;
}

template <int KIND>
static __device__ __forceinline__ struct stream stream_of(const struct decode_gemm &p, int first)
{
    const int piece = lane_piece(), unit = units_of_warp<KIND>(p).first;

    return stream{(first + lane_token()) * row_bytes_of(p) +
                      (unit * UNIT_PIECES + piece) * LANE_BYTES,
                  (uint32_t)((piece / BLOCK_PIECES * TOKENS + lane_token()) * TOKEN_BLOCK_BYTES +
                             piece % BLOCK_PIECES * LANE_BYTES)};
}

/* Starts the copies; n_tokens: of the group, from this lane's first on. Tokens past the end are not
 * copied: their columns are not stored. */
template <int KIND>
static __device__ __forceinline__ void fill_tokens(struct stream *s, const struct decode_gemm &p,
                                                   uint32_t slot, int n_tokens)
{
    const char *from = (const char *)p.rows + s->from;
    const uint32_t to = slot + s->to;

#pragma unroll
    for (int i = 0; i < TOKEN_COPIES; i++) {
        if (i * TOKENS_AT_ONCE < n_tokens)
            copy_at(to + i * TOKENS_AT_ONCE * TOKEN_BLOCK_BYTES, from);
        from += TOKENS_AT_ONCE * row_bytes_of(p);
    }
    s->from += (KIND == ROWS_OF_SLICES ? 1 : EIGHTHS) * UNIT_COLUMNS * 2;
}

static __device__ __forceinline__ void fill_cos_sin(uint32_t to, const struct decode_gemm &p,
                                                    int first, int n_tokens)
{
    enum { PIECES_EACH = DECODE_HEAD_WIDTH * (int)sizeof(float) / LANE_BYTES };

#pragma unroll 1
    for (int i = threadIdx.x; i < TOKENS * PIECES_EACH; i += RING_THREADS)
        if (i / PIECES_EACH < n_tokens)
            copy_at(to + i * LANE_BYTES, p.heads.cos_sin + first * DECODE_HEAD_WIDTH + i * 4);
}

/* ---- MMAs ---- */

/* Offset of a lane's scales from its offset in the tiles: a sixteenth, because 16 bytes of codes
 * have one byte of scale, which four lanes share. */
static __device__ __forceinline__ uint32_t next_scales(uint32_t tiles_at)
{
    static_assert((int)MXFP4_TILE_BYTES == (int)TILE_SCALES_BYTES * LANE_BYTES,
                  "one scale byte per 16 bytes of codes");
    return tiles_at / LANE_BYTES / TILE_SCALES * TILE_SCALES;
}

/* ---- epilogue ---- */

template <class H, int KIND>
static __device__ __forceinline__ void store_rows(const struct decode_gemm &p,
                                                  const struct resident_table<H> &tile_table,
                                                  const float *sums, int first, int n_tokens)
{
#pragma unroll 1
    for (int at = threadIdx.x; at < TOKENS * (int)H::ROWS; at += RING_THREADS) {
        const int token = at / H::ROWS, i = at % H::ROWS;
        const struct resident_tile t = tile_table.tiles[i / TILE_ROWS];
        const int row = row_of(t, i);

        if (!t.is_there || row >= p.w[t.job].n_rows || token >= n_tokens)
            continue;
        if (p.low != NULL)
            store_words(p.out[0], p.low, (int64_t)(first + token) * p.out_width[0] + row,
                        out_sum_of_columns<H::TILES, COLS, true>(sums, token, i), RING_WARPS);
        else
            p.out[t.job][(int64_t)(first + token) * p.out_width[t.job] + row] =
                (KIND == ROWS_OF_SLICES ? columns_of_slices<H::TILES, COLS, true>(sums, token, i)
                                        : sum_of_eighths<H::TILES, COLS, true>(sums, token, i)) +
                tile_table.biases[i];
    }
}

template <class H>
static __device__ __forceinline__ void
store_heads(const struct decode_gemm &p, const struct resident_table<H> &tile_table,
            const float *sums, const float *cos_sin, int first, int n_tokens)
{
    enum { PAIRS = H::ROWS / 2, HALF = DECODE_HEAD_WIDTH / 2 };

#pragma unroll 1
    for (int at = threadIdx.x; at < TOKENS * PAIRS; at += RING_THREADS) {
        const int token = at / PAIRS, i = at % PAIRS;
        const struct resident_tile t = tile_table.tiles[i / TILE_ROWS];
        const int d = t.tile * TILE_ROWS + i % TILE_ROWS;
        const float *rotation = cos_sin + token * DECODE_HEAD_WIDTH + d;
        float low = sum_of_eighths<H::TILES, COLS, true>(sums, token, i) + tile_table.biases[i];
        float high = sum_of_eighths<H::TILES, COLS, true>(sums, token, i + PAIRS) +
                     tile_table.biases[i + PAIRS];

        if (!t.is_there || token >= n_tokens)
            continue;
        if (t.job < 2)
            rotate_pair(&low, &high, rotation[0], rotation[HALF]);
        store_rotated(p.heads, tile_table.slots[token], t.job, t.unit_row, d,
                      p.out[0] + (int64_t)(first + token) * p.out_width[0] +
                          t.unit_row * DECODE_HEAD_WIDTH,
                      low, high);
    }
}

/* ---- the kernel. Grid: shares of the tiles, groups of TOKENS tokens ---- */

template <class H, int KIND>
static __global__ void __launch_bounds__(RING_THREADS, 1)
    smem_resident_kernel(const __grid_constant__ struct decode_gemm p)
{
    enum { RING_BYTES = H::STAGES * UNIT_TOKENS_BYTES };
    extern __shared__ __align__(LINE_BYTES)
        uint4 shared[]; /* aligned to cache lines: otherwise the copies are slower */
    __shared__ struct resident_table<H> tile_table;
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int n_groups = (p.n_tokens + TOKENS - 1) / TOKENS, n_units = units_of_warp<KIND>(p).n;
    const int share = (int)blockIdx.x / n_groups, first = (int)blockIdx.x % n_groups * TOKENS;
    const struct smem_layout smem_layout = smem_layout_of<H, KIND>(p);
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t ring = base + smem_layout.rings_at + warp * RING_BYTES;
    uint32_t tiles_at = first_tile<H, KIND>(p) * MXFP4_TILE_BYTES + lane * LANE_BYTES, slot = ring;
    const int n_tokens = live_rows(p.n_live, p.n_tokens) - first; /* <= 0: all are padding */
    struct stream stream = stream_of<KIND>(p, first);
    float acc[H::TILES][COLS][4] = {};

    if (threadIdx.x < H::TILES)
        tile_table.tiles[threadIdx.x] = tile_of<H, KIND>(p, share, (int)threadIdx.x);
    __syncthreads();
    fill_tiles<H, KIND>(base, smem_layout, p, tile_table.tiles);
    copy_commit();
    record_tile<H, KIND>(&tile_table, p, first, n_tokens);
    pdl_wait();
    pdl_launch_dependents();
#pragma unroll
    for (int i = 0; i < H::STAGES; i++) {
        if (i < n_units)
            fill_tokens<KIND>(&stream, p, ring + i * UNIT_TOKENS_BYTES, n_tokens - lane_token());
        if (KIND == HEADS && i == 0)
            fill_cos_sin(base + smem_layout.rotations_at, p, first, n_tokens);
        copy_commit();
    }
    for (int unit = 0; unit < n_units; unit++) {
        copy_wait<H::STAGES - 1>();
        __syncwarp();
        multiply_tiles<H::TILES, COLS, TILE_SCALES_BYTES>(
            acc, base + tiles_at, base + smem_layout.scales_at + next_scales(tiles_at),
            slot + lane * LANE_BYTES);
        __syncwarp();
        if (unit + H::STAGES < n_units)
            fill_tokens<KIND>(&stream, p, slot, n_tokens - lane_token());
        copy_commit();
        tiles_at += H::TILES * MXFP4_TILE_BYTES;
        slot = slot == ring + RING_BYTES - UNIT_TOKENS_BYTES ? ring : slot + UNIT_TOKENS_BYTES;
    }
    copy_wait<0>();
    __syncthreads(); /* the partial sums reuse the memory of weights and rings */
    store_columns<H::TILES, COLS>((float *)shared, acc);
    __syncthreads();
    if (KIND == HEADS)
        store_heads<H>(p, tile_table, (const float *)shared,
                       (const float *)((const char *)shared + smem_layout.rotations_at), first,
                       n_tokens);
    else
        store_rows<H, KIND>(p, tile_table, (const float *)shared, first, n_tokens);
}

/* ---- launches ---- */

template <class H, int KIND>
static bool launch(struct launch_list *list, const struct decode_gemm *p)
{
    const int n_processors = list->gpu->n_sms;
    const int64_t n_tiles = (int64_t)unit_rows_of(*p) * UNIT_TILES;
    const int64_t n_blocks = units_of(n_tiles, H::TILES) * units_of(p->n_tokens, TOKENS);

    return n_blocks <= n_processors &&
           decode_launch<smem_resident_kernel<H, KIND>>(list, dim3((unsigned)n_blocks),
                                                        smem_layout_of<H, KIND>(*p).size_bytes, *p);
}

bool launch_decode_smem_resident(struct launch_list *list, const struct decode_gemm *p)
{
    if (!p->is_mxfp4 || p->n_tokens < ROWS_MIN || p->n_tokens > ROWS_MAX)
        return false;
    if (p->heads.pages != NULL)
        return launch<resident_shape<6, 2>, HEADS>(list, p);
    if (p->slice_units > 0)
        return launch<resident_shape<3, 3>, ROWS_OF_SLICES>(list, p) ||
               launch<resident_shape<6, 2>, ROWS_OF_SLICES>(list, p);
    return launch<resident_shape<3, 3>, ROWS_OF_EIGHTHS>(list, p) ||
           launch<resident_shape<6, 2>, ROWS_OF_EIGHTHS>(list,
                                                         p); /* QKV whose heads go to pages of F8 */
}
