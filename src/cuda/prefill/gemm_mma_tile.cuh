/* Main loop of gemm_mma.cu: how the warps of a block share a tile, the cp.async ring for weights
 * and tokens, and the MMAs. */
#ifndef CUDA_PREFILL_GEMM_MMA_TILE_CUH
#define CUDA_PREFILL_GEMM_MMA_TILE_CUH

#include "cuda/prefill/gemm_epilogue.cuh"
#include "cuda/common/ldmatrix.cuh"
#include "cuda/common/ring.cuh"

enum {
    MMA_ROWS = 128, /* of W in a tile: with SwiGLU one chunk of the next operand */
    MMA_UNITS = MMA_ROWS / UNIT_ROWS,
    MMA_STAGES_MIN = 2,
    MMA_STAGES_MAX = 4,
    MMA_INFO_BYTES = MMA_ROWS * ROW_INFO_BYTES
};

/* Warp layout of a tile: each warp has ROW_TILES tiles of 16 rows and COLS columns of 8 tokens. */
template <int ROW_TILES_, int COLS_, int WARPS_> struct warp_layout {
    enum {
        ROW_TILES = ROW_TILES_,
        COLS = COLS_,
        THREADS = WARPS_ * WARP_LANES,
        ROW_WARPS = MMA_ROWS / TILE_ROWS / ROW_TILES,
        TOKENS = WARPS_ / ROW_WARPS * COLS * 8
    };
};

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

/* A thread's part of each copy: pieces of the operand, and of units of W. */
struct tile_source {
    const char *operand;
    const unsigned char *unit;
    int chunk_bytes;      /* of the operand; 32 bits: at most some 10,000 rows */
    int row_bytes;        /* stride from one row of units to the next */
    int n_tokens;         /* of the tile */
    int n_units, unit_at; /* units of a row; unit_at: the next unit, which restarts at each term */
    bool is_full;         /* both rows of units are within the matrix */
};

template <enum format FORMAT>
static __device__ __forceinline__ struct tile_source tile_source_of(const struct launch_plan &p,
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

/* Starts the copies of the next chunk. Shared memory without a source keeps old data, whose
 * products are not stored. */
template <enum format FORMAT, class WARP_LAYOUT>
static __device__ __forceinline__ void load_chunk(struct tile_source *f, uint32_t stage)
{
    enum {
        UNIT_PIECES = packed_bytes<FORMAT>() / LANE_BYTES,
        ROW_PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES
    };
    const uint32_t to = stage + threadIdx.x * LANE_BYTES,
                   units = to + WARP_LAYOUT::TOKENS * OPERAND_ROW_BYTES;

#pragma unroll
    for (int i = 0; i < WARP_LAYOUT::TOKENS * ROW_PIECES; i += WARP_LAYOUT::THREADS)
        if ((int)(threadIdx.x + i) / ROW_PIECES < f->n_tokens)
            copy_16(to + i * OPERAND_PIECE_BYTES, f->operand + i * OPERAND_PIECE_BYTES);
#pragma unroll
    for (int u = 0; u < MMA_UNITS; u++)
#pragma unroll
        for (int i = 0; i < UNIT_PIECES; i += WARP_LAYOUT::THREADS)
            if ((i + WARP_LAYOUT::THREADS <= UNIT_PIECES || threadIdx.x < UNIT_PIECES - i) &&
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

/* ---- MMAs ---- */

static __device__ __forceinline__ uint2 load_8(uint32_t address)
{
    uint2 v;

    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
    return v;
}

/* The warp's part of its tile. */
struct thread_slice {
    int row_tile, col; /* of the warp */
};

template <class WARP_LAYOUT>
static __device__ __forceinline__ struct thread_slice thread_slice_of(void)
{
    const int warp = threadIdx.x / WARP_LANES;

    return {warp % WARP_LAYOUT::ROW_WARPS * WARP_LAYOUT::ROW_TILES,
            warp / WARP_LAYOUT::ROW_WARPS * WARP_LAYOUT::COLS};
}

static __device__ __forceinline__ uint32_t times_f16(uint32_t x, uint32_t y)
{
    uint32_t product;

    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
}

/* Two copies of 2^15 times a scale relative to the row's largest, as FP16. `scale_shift` is 30
 * minus the code of the largest. */
static __device__ __forceinline__ uint32_t relative_scale(uint32_t code, int scale_shift)
{
    return (uint32_t)max((int)code + scale_shift, 0) * 0x04000400u;
}

/* Fragments of both MMAs of a block of 32 columns, for one tile of rows. */
template <enum format FORMAT>
static __device__ __forceinline__ void load_block(uint32_t a[2][4], uint32_t units, int row_tile,
                                                  int block, const int scale_shift[2])
{
    const int lane = threadIdx.x % WARP_LANES, tile = row_tile % UNIT_TILES;
    const uint32_t unit = units + row_tile / UNIT_TILES * packed_bytes<FORMAT>();

    if constexpr (FORMAT == FORMAT_MXFP4) {
        const uint2 codes = load_8(unit + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES + block * 8);
        const uint32_t scales =
            load_4(unit + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                   tile * UNIT_BLOCKS * 2) >>
            block * 16;
        const uint32_t even = relative_scale(scales & 255, scale_shift[0]);
        const uint32_t odd = relative_scale(scales >> 8 & 255, scale_shift[1]);
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

/* d += the 64 columns of the stage. */
template <enum format FORMAT, class WARP_LAYOUT>
static __device__ __forceinline__ void
add_chunk(float (&d)[WARP_LAYOUT::ROW_TILES][WARP_LAYOUT::COLS][4], uint32_t stage,
          struct thread_slice slice, const int (&scale_shift)[WARP_LAYOUT::ROW_TILES][2])
{
    const int lane = threadIdx.x % WARP_LANES;
    const uint32_t units = stage + WARP_LAYOUT::TOKENS * OPERAND_ROW_BYTES;
    /* for the current pair of columns: the row that this lane addresses in one of four matrices */
    const uint32_t row = stage + (slice.col * 8 + lane / 16 * 8 + lane % 8) * OPERAND_ROW_BYTES;

#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        uint32_t a[WARP_LAYOUT::ROW_TILES][2][4];

#pragma unroll
        for (int r = 0; r < WARP_LAYOUT::ROW_TILES; r++)
            load_block<FORMAT>(a[r], units, slice.row_tile + r, block, scale_shift[r]);
#pragma unroll
        for (int product = 0; product < 2; product++) {
            const int piece = (block * 2 + product) * 2 + lane / 8 % 2;
            const uint32_t at = row + (piece ^ lane % 8) * OPERAND_PIECE_BYTES;

#pragma unroll
            for (int c = 0; c < WARP_LAYOUT::COLS; c += 2) {
                const uint4 columns = load_matrices(at + c * 8 * OPERAND_ROW_BYTES);
                const uint32_t b[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
                for (int r = 0; r < WARP_LAYOUT::ROW_TILES; r++)
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

/* Waits for the oldest of n_stages - 1 chunks. */
static __device__ __forceinline__ void cp_async_wait_oldest(int n_stages)
{
    if (n_stages == 2)
        copy_wait<0>();
    else if (n_stages == 3)
        copy_wait<1>();
    else
        copy_wait<2>();
}

template <enum format FORMAT, class WARP_LAYOUT>
static __device__ __forceinline__ void
add_tile(float (&d)[WARP_LAYOUT::ROW_TILES][WARP_LAYOUT::COLS][4], struct tile_source f,
         int n_chunks, int n_stages, uint32_t ring, struct thread_slice slice,
         const int (&scale_shift)[WARP_LAYOUT::ROW_TILES][2])
{
    const uint32_t bytes = mma_stage_bytes<FORMAT, WARP_LAYOUT::TOKENS>();
    const uint32_t end = ring + n_stages * bytes;
    uint32_t from = ring, to = ring;

    for (int chunk = 0; chunk < n_stages - 1; chunk++, to += bytes) {
        if (chunk < n_chunks)
            load_chunk<FORMAT, WARP_LAYOUT>(&f, to);
        copy_commit();
    }
    for (int chunk = 0; chunk < n_chunks; chunk++) {
        cp_async_wait_oldest(n_stages);
        __syncthreads(); /* and all threads have finished reading the stage that is filled next */
        if (chunk + n_stages - 1 < n_chunks)
            load_chunk<FORMAT, WARP_LAYOUT>(&f, to);
        copy_commit();
        add_chunk<FORMAT, WARP_LAYOUT>(d, from, slice, scale_shift);
        from = from + bytes == end ? ring : from + bytes;
        to = to + bytes == end ? ring : to + bytes;
    }
}

#endif
