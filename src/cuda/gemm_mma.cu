/* Products of many rows where there is no wgmma, by mma.sync.m16n8k16: the same operands, lists of experts and ends
 * as in gemm_sm90.cu (gemm.h).
 *
 * A block of four or eight warps has a tile of 128 rows of W and 128, 64 or 32 tokens. Units of W as they are packed
 * and the tokens' operand come through a ring in shared memory by cp.async, 64 columns at a time. W is operand A:
 * a lane's 16 bytes of a tile become fragments in registers once for all tokens of the warp, MXFP4 as in
 * gemm_weights.cuh; the operand's pieces are fragments of B as ldmatrix reads them.
 *
 * Each sum runs over all columns in order, in one accumulator: its bits depend on nothing but its row and its
 * token. Flops 2 rows columns tokens; bound by the tensor cores from some hundred tokens on one matrix. Bytes of a
 * tile for each 64 columns: 34 a row of MXFP4 or 128 of BF16, and 128 a token. */
#include "cuda/gemm_ends.cuh"
#include "cuda/ring.cuh"

enum {
    MMA_ROWS = 128, /* of W in a tile: with swiglu one chunk of the next operand */
    MMA_UNITS = MMA_ROWS / UNIT_ROWS,
    MMA_STAGES_MIN = 2,
    MMA_STAGES_MAX = 4,
    MMA_INFO_BYTES = MMA_ROWS * ROW_INFO_BYTES,
    BAND_TILES = 8 /* of tokens that go over the rows together: what they read is in L2 */
};

/* How a block's warps share a tile: ROW_TILES tiles of 16 rows and COLS columns of 8 tokens each. */
template <int ROW_TILES_, int COLS_, int WARPS_> struct sharing {
    enum {
        ROW_TILES = ROW_TILES_,
        COLS = COLS_,
        THREADS = WARPS_ * WARP_LANES,
        ROW_WARPS = MMA_ROWS / TILE_ROWS / ROW_TILES,
        TOKENS = WARPS_ / ROW_WARPS * COLS * 8
    };
};

struct mma_plan {
    struct gemm g;
    struct job jobs[MATMUL_JOBS_MAX];
    int n_row_tiles, n_token_tiles; /* n_token_tiles: with experts as many as there may be */
    int n_stages;
};

/* ---- which tile ---- */

/* Rows of the operand of token tile `id`, and their expert's matrix. */
static __device__ __forceinline__ bool find_tokens(const struct gemm &g, int id, int n_each,
                                                   struct tile *out)
{
    int n = g.n_tokens, first = 0;

    out->expert = 0;
    if (g.experts != NULL) {
        if (id >= g.experts[*g.n_active].first_tile)
            return false;
        const struct expert_rows e = g.experts[expert_of(g, 1, id)];

        out->expert = e.expert;
        first = e.first_row;
        n = e.n_rows;
        id -= e.first_tile;
    }
    out->first = first + id * n_each;
    out->n = min(n_each, n - id * n_each);
    out->width = n_each;
    return out->n > 0;
}

static __device__ __forceinline__ bool find_mma_tile(const struct mma_plan &p, int n_each,
                                                     struct tile *out)
{
    const int band = blockIdx.x / (BAND_TILES * p.n_row_tiles);
    const int rest = blockIdx.x - band * BAND_TILES * p.n_row_tiles;
    const int n_in_band = min((int)BAND_TILES, p.n_token_tiles - band * BAND_TILES);
    const int row_tile = rest / n_in_band;

    out->job = 0;
    while (out->job + 1 < p.g.n_jobs && row_tile >= p.jobs[out->job + 1].first_tile)
        out->job++;
    out->row = (row_tile - p.jobs[out->job].first_tile) * MMA_ROWS;
    return find_tokens(p.g, band * BAND_TILES + rest % n_in_band, n_each, out);
}

/* ---- the ring ---- */

static __device__ __forceinline__ void copy_16(uint32_t shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

template <enum format FORMAT> static HOST_DEVICE constexpr int packed_bytes(void)
{
    return FORMAT == FORMAT_MXFP4 ? (int)MXFP4_UNIT_BYTES : (int)BF16_UNIT_BYTES;
}

template <enum format FORMAT, int TOKENS> static HOST_DEVICE constexpr int mma_stage_bytes(void)
{
    return TOKENS * OPERAND_ROW_BYTES + MMA_UNITS * packed_bytes<FORMAT>();
}

/* What a thread copies of each chunk: pieces of the operand, and of units of W. */
struct feed {
    const char *operand;
    const unsigned char *unit;
    int chunk_bytes;      /* of the operand: a step has some 10,000 rows at most */
    int row_bytes;        /* of units of the same rows */
    int n_tokens;         /* of the tile */
    int n_units, unit_at; /* of a row; the next: it starts again for each term */
    bool is_full;         /* both rows of units are there */
};

/* Asks for the next chunk. What has no source keeps what it was: nobody looks at its products. */
template <enum format FORMAT, class SHARE>
static __device__ __forceinline__ void load_chunk(struct feed *f, uint32_t stage)
{
    enum {
        UNIT_PIECES = packed_bytes<FORMAT>() / LANE_BYTES,
        ROW_PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES
    };
    const uint32_t to = stage + threadIdx.x * LANE_BYTES,
                   units = to + SHARE::TOKENS * OPERAND_ROW_BYTES;

#pragma unroll
    for (int i = 0; i < SHARE::TOKENS * ROW_PIECES; i += SHARE::THREADS)
        if ((int)(threadIdx.x + i) / ROW_PIECES < f->n_tokens)
            copy_16(to + i * OPERAND_PIECE_BYTES, f->operand + i * OPERAND_PIECE_BYTES);
#pragma unroll
    for (int u = 0; u < MMA_UNITS; u++)
#pragma unroll
        for (int i = 0; i < UNIT_PIECES; i += SHARE::THREADS)
            if ((i + SHARE::THREADS <= UNIT_PIECES || threadIdx.x < UNIT_PIECES - i) &&
                (u == 0 || f->is_full))
                copy_16(units + u * packed_bytes<FORMAT>() + i * LANE_BYTES,
                        f->unit + u * f->row_bytes + i * LANE_BYTES);
    f->operand += f->chunk_bytes;
    f->unit += packed_bytes<FORMAT>();
    if (++f->unit_at == f->n_units) {
        f->unit_at = 0;
        f->unit -= f->row_bytes;
    }
}

/* ---- products ---- */

/* Four fragment registers: two of each of two columns of tokens. */
static __device__ __forceinline__ void load_matrices(uint32_t b[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address)
                 : "memory");
}

static __device__ __forceinline__ uint2 load_8(uint32_t address)
{
    uint2 v;

    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
    return v;
}

/* The warp's place in its tile. */
struct my_part {
    int row_tile, col; /* its first */
};

template <class SHARE> static __device__ __forceinline__ struct my_part my_part_of(void)
{
    const int warp = threadIdx.x / WARP_LANES;

    return {warp % SHARE::ROW_WARPS * SHARE::ROW_TILES, warp / SHARE::ROW_WARPS * SHARE::COLS};
}

/* Fragments of both products of a block of 32 columns of one tile of rows. */
template <enum format FORMAT>
static __device__ __forceinline__ void load_block(uint32_t a[2][4], uint32_t units, int row_tile,
                                                  int block, const int less[2])
{
    const int lane = threadIdx.x % WARP_LANES, tile = row_tile % UNIT_TILES;
    const uint32_t unit = units + row_tile / UNIT_TILES * packed_bytes<FORMAT>();

    if constexpr (FORMAT == FORMAT_MXFP4) {
        const uint2 codes = load_8(unit + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES + block * 8);
        const uint32_t scales =
            load_4(unit + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                   tile * UNIT_BLOCKS * 2) >>
            block * 16;
        const uint32_t even = relative_scale(scales & 255, less[0]);
        const uint32_t odd = relative_scale(scales >> 8 & 255, less[1]);
        uint32_t low[4], high[4];

        halves_of_word(low, codes.x);
        halves_of_word(high, codes.y);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i / 2][i % 2 * 2] = times_f16(low[i], even);
            a[i / 2][i % 2 * 2 + 1] = times_f16(high[i], odd);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 words = load_16(unit + tile * BF16_TILE_BYTES + block * BF16_BLOCK_BYTES +
                                        (i * WARP_LANES + lane) * LANE_BYTES);

            a[i][0] = words.x, a[i][1] = words.y, a[i][2] = words.z, a[i][3] = words.w;
        }
    }
}

/* d += the stage's 64 columns. */
template <enum format FORMAT, class SHARE>
static __device__ __forceinline__ void add_chunk(float (&d)[SHARE::ROW_TILES][SHARE::COLS][4],
                                                 uint32_t stage, struct my_part mine,
                                                 const int (&less)[SHARE::ROW_TILES][2])
{
    const int lane = threadIdx.x % WARP_LANES;
    const uint32_t units = stage + SHARE::TOKENS * OPERAND_ROW_BYTES;
    /* of the pair of columns at hand: the lane's row of one of four matrices */
    const uint32_t row = stage + (mine.col * 8 + lane / 16 * 8 + lane % 8) * OPERAND_ROW_BYTES;

#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        uint32_t a[SHARE::ROW_TILES][2][4];

#pragma unroll
        for (int r = 0; r < SHARE::ROW_TILES; r++)
            load_block<FORMAT>(a[r], units, mine.row_tile + r, block, less[r]);
#pragma unroll
        for (int product = 0; product < 2; product++) {
            const int piece = (block * 2 + product) * 2 + lane / 8 % 2;
            const uint32_t at = row + (piece ^ lane % 8) * OPERAND_PIECE_BYTES;

#pragma unroll
            for (int c = 0; c < SHARE::COLS; c += 2) {
                uint32_t b[4];

                load_matrices(b, at + c * 8 * OPERAND_ROW_BYTES);
#pragma unroll
                for (int r = 0; r < SHARE::ROW_TILES; r++)
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        if (FORMAT == FORMAT_MXFP4)
                            mma_f16(d[r][c + i], a[r][product], b[2 * i], b[2 * i + 1]);
                        else
                            mma_bf16(d[r][c + i], a[r][product], b[2 * i], b[2 * i + 1]);
                    }
            }
        }
    }
}

/* Until the chunk that is oldest of n_stages - 1 is there. */
static __device__ __forceinline__ void wait_for_oldest(int n_stages)
{
    if (n_stages == 2)
        copy_wait<0>();
    else if (n_stages == 3)
        copy_wait<1>();
    else
        copy_wait<2>();
}

template <enum format FORMAT, class SHARE>
static __device__ __forceinline__ void
add_tile(float (&d)[SHARE::ROW_TILES][SHARE::COLS][4], struct feed f, int n_chunks, int n_stages,
         uint32_t ring, struct my_part mine, const int (&less)[SHARE::ROW_TILES][2])
{
    const uint32_t bytes = mma_stage_bytes<FORMAT, SHARE::TOKENS>();
    const uint32_t end = ring + n_stages * bytes;
    uint32_t from = ring, to = ring;

    for (int chunk = 0; chunk < n_stages - 1; chunk++, to += bytes) {
        if (chunk < n_chunks)
            load_chunk<FORMAT, SHARE>(&f, to);
        copy_commit();
    }
    for (int chunk = 0; chunk < n_chunks; chunk++) {
        wait_for_oldest(n_stages);
        __syncthreads(); /* and all have left the stage that is filled next */
        if (chunk + n_stages - 1 < n_chunks)
            load_chunk<FORMAT, SHARE>(&f, to);
        copy_commit();
        add_chunk<FORMAT, SHARE>(d, from, mine, less);
        from = from + bytes == end ? ring : from + bytes;
        to = to + bytes == end ? ring : to + bytes;
    }
}

/* ---- what becomes of the sums ---- */

/* How the sums of a lane's rows end. */
template <class SHARE> struct lane_ends {
    float factor[SHARE::ROW_TILES][2], bias[SHARE::ROW_TILES][2];
};

static __device__ __forceinline__ float row_bias(const struct mma_plan &p, const struct tile &tile,
                                                 int row)
{
    const struct tensor *bias = &p.g.bias[tile.job];

    if (bias->data == NULL || row >= p.jobs[tile.job].n_rows)
        return 0.0f;
    return bias->n_dims == 1 ? weight_at(bias, 0, 0, row) : weight_at(bias, 0, tile.expert, row);
}

/* Each of the first threads looks one row up for all: 30 minus the code of its largest scale, and its bias. */
template <enum format FORMAT>
static __device__ __forceinline__ void look_rows_up(const struct mma_plan &p,
                                                    const struct tile &tile, uint32_t info)
{
    const struct job *job = &p.jobs[tile.job];
    const unsigned char *tops = job->data + tile.expert * job->matrix_bytes + job->tops_offset;
    const int row = tile.row + threadIdx.x;

    if (threadIdx.x < MMA_ROWS) {
        const bool has_top = FORMAT == FORMAT_MXFP4 && row < job->n_padded_rows;

        store_8(info + threadIdx.x * ROW_INFO_BYTES, (uint32_t)(30 - (has_top ? tops[row] : 127)),
                __float_as_uint(row_bias(p, tile, row)));
    }
    __syncthreads();
}

static __device__ __forceinline__ uint32_t my_info(struct my_part mine, uint32_t info)
{
    return info + (mine.row_tile * TILE_ROWS + threadIdx.x % WARP_LANES / 4 * 2) * ROW_INFO_BYTES;
}

template <class SHARE>
static __device__ __forceinline__ void find_less(int (&less)[SHARE::ROW_TILES][2],
                                                 struct my_part mine, uint32_t info)
{
#pragma unroll
    for (int r = 0; r < SHARE::ROW_TILES; r++) {
        const uint4 two = load_16(my_info(mine, info) + r * TILE_ROWS * ROW_INFO_BYTES);

        less[r][0] = (int)two.x;
        less[r][1] = (int)two.z;
    }
}

template <enum format FORMAT, class SHARE>
static __device__ __forceinline__ void find_lane_ends(struct lane_ends<SHARE> *out,
                                                      struct my_part mine, uint32_t info)
{
#pragma unroll
    for (int r = 0; r < SHARE::ROW_TILES; r++) {
        const uint4 two = load_16(my_info(mine, info) + r * TILE_ROWS * ROW_INFO_BYTES);

        out->factor[r][0] = FORMAT == FORMAT_MXFP4 ? 0.5f * scale_of(30 - two.x) : 1.0f;
        out->factor[r][1] = FORMAT == FORMAT_MXFP4 ? 0.5f * scale_of(30 - two.z) : 1.0f;
        out->bias[r][0] = __uint_as_float(two.y);
        out->bias[r][1] = __uint_as_float(two.w);
    }
}

/* The sum d of a row as it is meant. */
template <class SHARE>
static __device__ __forceinline__ float ended(float d, const struct lane_ends<SHARE> &ends, int r,
                                              int odd)
{
    return __fmaf_rn(d, ends.factor[r][odd], ends.bias[r][odd]);
}

/* A token's sums of the lane's rows. Not IS_WHOLE: of a matrix that ends here, or whose rows have no alignment. */
template <bool IS_WHOLE>
static __device__ __forceinline__ void put_pair(float *to, int n_left, float even, float odd)
{
    if (IS_WHOLE) {
        *reinterpret_cast<float2 *>(to) = make_float2(even, odd);
        return;
    }
    if (n_left > 0)
        to[0] = even;
    if (n_left > 1)
        to[1] = odd;
}

template <class SHARE, bool IS_WHOLE>
static __device__ __forceinline__ void put_sums(const struct mma_plan &p, const struct tile &tile,
                                                const float (&d)[SHARE::ROW_TILES][SHARE::COLS][4],
                                                struct my_part mine,
                                                const struct lane_ends<SHARE> &ends)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int row = tile.row + mine.row_tile * TILE_ROWS + lane / 4 * 2;
    const int n_left = p.jobs[tile.job].n_rows - row;

#pragma unroll
    for (int i = 0; i < SHARE::COLS * 2; i++) {
        const int token = (mine.col + i / 2) * 8 + lane % 4 * 2 + i % 2;
        struct row_use use = {tile.first + token, 1.0f};

        if (token >= tile.n)
            continue;
        if (p.g.uses != NULL)
            use = p.g.uses[use.to];
        float *const to = p.g.out[tile.job] + use.to * p.g.out_width[tile.job] + row;

#pragma unroll
        for (int r = 0; r < SHARE::ROW_TILES; r++)
            put_pair<IS_WHOLE>(to + r * TILE_ROWS, n_left - r * TILE_ROWS,
                               use.gate * ended<SHARE>(d[r][i / 2][i % 2], ends, r, 0),
                               use.gate * ended<SHARE>(d[r][i / 2][i % 2 + 2], ends, r, 1));
    }
}

/* Both gated numbers of a lane for a column of tokens; neighbours exchange one, so that each has two numbers of
 * one token, as a word of the next operand. */
template <class SHARE>
static __device__ __forceinline__ uint32_t unit_word(const struct mma_plan &p, const float d[4],
                                                     const struct lane_ends<SHARE> &ends, int r,
                                                     bool is_here)
{
    const bool is_odd = threadIdx.x / 4 % 2 != 0;
    const float slope = -p.g.alpha * 1.44269504f;
    float v[2];

#pragma unroll
    for (int k = 0; k < 2; k++)
        v[k] = is_here ? swiglu(ended<SHARE>(d[k], ends, r, 0), ended<SHARE>(d[k + 2], ends, r, 1),
                                p.g.limit, slope)
                       : 0.0f;
    const float other = __shfl_xor_sync(0xFFFFFFFFu, is_odd ? v[0] : v[1], 4);

    return pair_of(p.g.units, is_odd ? other : v[0], is_odd ? v[1] : other);
}

/* The tile's gated numbers are one chunk of the next operand, the warp's row tiles words of its pieces. */
template <class SHARE>
static __device__ __forceinline__ void put_gated(const struct mma_plan &p, const struct tile &tile,
                                                 const float (&d)[SHARE::ROW_TILES][SHARE::COLS][4],
                                                 struct my_part mine,
                                                 const struct lane_ends<SHARE> &ends)
{
    const int number = threadIdx.x % WARP_LANES / 4;
    const int piece = mine.row_tile / 4 * 4 + number / 2, chunk = tile.row / MMA_ROWS;
    const int row = tile.row + mine.row_tile * TILE_ROWS + number * 2;

#pragma unroll
    for (int c = 0; c < SHARE::COLS; c++) {
        const int token = (mine.col + c) * 8 + threadIdx.x % 4 * 2 + number % 2;
        uint32_t words[SHARE::ROW_TILES];

        if ((mine.col + c) * 8 >= tile.n)
            break;
#pragma unroll
        for (int r = 0; r < SHARE::ROW_TILES; r++)
            words[r] = unit_word<SHARE>(p, d[r][c], ends, r,
                                        row + r * TILE_ROWS + 1 < p.jobs[tile.job].n_rows);
        if (token >= tile.n)
            continue;
        char *to = (char *)p.g.units.data +
                   operand_piece_offset(p.g.units.n_rows, tile.first + token, chunk, piece) +
                   mine.row_tile % 4 * 4;

        if constexpr (SHARE::ROW_TILES == 4)
            *reinterpret_cast<uint4 *>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        else if constexpr (SHARE::ROW_TILES == 2)
            *reinterpret_cast<uint2 *>(to) = make_uint2(words[0], words[1]);
        else
            *reinterpret_cast<uint32_t *>(to) = words[0];
    }
}

/* ---- the kernel ---- */

template <enum format FORMAT>
static __device__ __forceinline__ struct feed feed_of(const struct mma_plan &p,
                                                      const struct tile &tile)
{
    const struct job *job = &p.jobs[tile.job];
    const int n_units = (int)units_of(matrix_columns(&p.g.w[0]), UNIT_COLUMNS);
    const int row_bytes = n_units * packed_bytes<FORMAT>();

    return {.operand = (const char *)p.g.x.data + (int64_t)tile.first * OPERAND_ROW_BYTES +
                       threadIdx.x * OPERAND_PIECE_BYTES,
            .unit = job->data + tile.expert * job->matrix_bytes +
                    (int64_t)(tile.row / UNIT_ROWS) * row_bytes + threadIdx.x * LANE_BYTES,
            .chunk_bytes = (int)p.g.x.n_rows * OPERAND_ROW_BYTES,
            .row_bytes = row_bytes,
            .n_tokens = tile.n,
            .n_units = n_units,
            .unit_at = 0,
            .is_full = tile.row + MMA_ROWS <= job->n_padded_rows};
}

template <enum format FORMAT, class SHARE>
static __global__ void __launch_bounds__(SHARE::THREADS, 2)
    prompt_mma_kernel(const __grid_constant__ struct mma_plan p)
{
    extern __shared__ __align__(128) unsigned char room[];
    const struct my_part mine = my_part_of<SHARE>();
    const uint32_t info = shared_address(room), ring = info + MMA_INFO_BYTES;
    float d[SHARE::ROW_TILES][SHARE::COLS][4] = {};
    int less[SHARE::ROW_TILES][2];
    struct lane_ends<SHARE> ends;
    struct tile tile;

    if (!find_mma_tile(p, SHARE::TOKENS, &tile))
        return;
    const struct feed f = feed_of<FORMAT>(p, tile);

    look_rows_up<FORMAT>(p, tile, info);
    find_less<SHARE>(less, mine, info);
    add_tile<FORMAT, SHARE>(d, f, f.n_units * rounding_terms(p.g.x.rounding), p.n_stages, ring,
                            mine, less);
    find_lane_ends<FORMAT, SHARE>(&ends, mine, info);
    if (p.g.units.data != NULL)
        put_gated<SHARE>(p, tile, d, mine, ends);
    else if (p.g.out_width[tile.job] % 2 == 0 && tile.row + MMA_ROWS <= p.jobs[tile.job].n_rows)
        put_sums<SHARE, true>(p, tile, d, mine, ends);
    else
        put_sums<SHARE, false>(p, tile, d, mine, ends);
}

/* ---- host ---- */

/* X(tokens, the warps' sharing) */
#define MMA_SHAPES(X)                                                                              \
    X(32, sharing<1, 4, 8>)                                                                        \
    X(64, sharing<2, 4, 8>)                                                                        \
    X(128, sharing<4, 8, 4>)

static const struct {
    int n_tokens, n_threads;
    void (*kernel[2])(struct mma_plan);
    int stage_bytes[2];
} mma_shapes[] = {
#define MMA_SHAPE(tokens, ...)                                                                     \
    {tokens,                                                                                       \
     __VA_ARGS__::THREADS,                                                                         \
     {prompt_mma_kernel<FORMAT_BF16, __VA_ARGS__>, prompt_mma_kernel<FORMAT_MXFP4, __VA_ARGS__>},  \
     {mma_stage_bytes<FORMAT_BF16, tokens>(), mma_stage_bytes<FORMAT_MXFP4, tokens>()}},
    MMA_SHAPES(MMA_SHAPE)
#undef MMA_SHAPE
};
enum { N_MMA_SHAPES = sizeof(mma_shapes) / sizeof(mma_shapes[0]) };

static int limit_of_device(enum cudaDeviceAttr attribute)
{
    int device = 0, value = 0;

    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

/* Two blocks to a multiprocessor where their shared memory allows it. */
static int stages_that_fit(int stage_bytes)
{
    const int reserved = limit_of_device(cudaDevAttrReservedSharedMemoryPerBlock);
    const int half = limit_of_device(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 - reserved;
    const int n = (half - MMA_INFO_BYTES) / stage_bytes;

    return n < MMA_STAGES_MIN ? MMA_STAGES_MIN : n > MMA_STAGES_MAX ? MMA_STAGES_MAX : n;
}

static struct job mma_job_of(const struct tensor *w, int first_tile)
{
    return {.data = (const unsigned char *)w->data,
            .matrix_bytes = matrix_bytes(w),
            .tops_offset = mxfp4_tops_offset(w),
            .n_rows = (int)matrix_rows(w),
            .n_padded_rows = (int)units_of(matrix_rows(w), UNIT_ROWS) * UNIT_ROWS,
            .first_tile = first_tile};
}

void launch_gemm_mma(cudaStream_t stream, const struct gemm *g, int n_token_tiles)
{
    const int format = g->w[0].dtype == DTYPE_MXFP4 ? FORMAT_MXFP4 : FORMAT_BF16;
    struct mma_plan p = {};
    int shape = 0, shared_bytes;

    p.g = *g;
    p.n_token_tiles = n_token_tiles;
    while (shape + 1 < N_MMA_SHAPES && mma_shapes[shape].n_tokens < g->n_tile_tokens)
        shape++;
    for (int i = 0; i < g->n_jobs; i++) {
        p.jobs[i] = mma_job_of(&g->w[i], p.n_row_tiles);
        p.n_row_tiles += (int)units_of(matrix_rows(&g->w[i]), MMA_ROWS);
    }
    p.n_stages = stages_that_fit(mma_shapes[shape].stage_bytes[format]);
    shared_bytes = MMA_INFO_BYTES + p.n_stages * mma_shapes[shape].stage_bytes[format];
    (void)cudaFuncSetAttribute((const void *)mma_shapes[shape].kernel[format],
                               cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    mma_shapes[shape]
        .kernel[format]<<<p.n_row_tiles * n_token_tiles, mma_shapes[shape].n_threads, shared_bytes,
                          stream>>>(p);
}
