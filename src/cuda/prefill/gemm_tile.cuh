/* Tile scheduler of gemm_sm90.cu and the sizes of its shared-memory pipeline; the launch plan,
 * which gemm_mma.cu uses, too. */
#ifndef CUDA_PREFILL_GEMM_TILE_CUH
#define CUDA_PREFILL_GEMM_TILE_CUH

#include "cuda/common/sums.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/prefill/gemm.h"

enum {
    CONSUMERS = 2, /* warpgroups */
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * WARP_LANES,
    THREADS = (1 + CONSUMERS) * GROUP_THREADS,
    PRODUCER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
    K_STEPS = UNIT_COLUMNS / 16,
    SWIZZLE_BYTES = OPERAND_ALIGN_ROWS * OPERAND_ROW_BYTES,
    STAGES_MAX = 12,
    SHARED_BYTES_MAX = 227 << 10,
    ROW_INFO_BYTES = 8 /* row values that the threads of a group share */
};

enum format { FORMAT_BF16, FORMAT_MXFP4 };

/* Compile-time parameters of a kernel: the format of the weights, the rows of its tiles, the tokens
 * of its widest tile, and the sizes that follow from them. */
template <enum format FORMAT_, int ROWS_, int MAX_TOKENS_> struct kernel_shape {
    enum {
        IS_MXFP4 = FORMAT_ == FORMAT_MXFP4,
        ROWS = ROWS_,
        MAX_TOKENS = MAX_TOKENS_,
        TILE_UNITS = ROWS / UNIT_ROWS,
        IS_PINGPONG = TILE_UNITS < CONSUMERS, /* tiles alternate between the consumers */
        UNITS = IS_PINGPONG ? TILE_UNITS : TILE_UNITS / CONSUMERS, /* per consumer */
        GROUP_ROWS = UNITS * UNIT_ROWS,
        SUMS = MAX_TOKENS / 2, /* accumulators per thread and unit, in the widest tile */
        UNIT_BYTES = IS_MXFP4 ? MXFP4_UNIT_BYTES : BF16_UNIT_BYTES,
        TILE_BYTES = MAX_TOKENS * OPERAND_ROW_BYTES, /* of the operand */
        ROWS_INFO_BYTES = GROUP_ROWS * ROW_INFO_BYTES,
        STAGE_BYTES = TILE_BYTES + TILE_UNITS * UNIT_BYTES,
        REST_BYTES =
            CONSUMERS * (TILE_BYTES + ROWS_INFO_BYTES + 8) + 2 * STAGES_MAX * 8, /* + barriers */
        STAGES_THAT_FIT = (SHARED_BYTES_MAX - REST_BYTES) / STAGE_BYTES,
        STAGES = STAGES_THAT_FIT < STAGES_MAX ? STAGES_THAT_FIT : STAGES_MAX,
        SHARED_BYTES = STAGES * STAGE_BYTES + REST_BYTES
    };
};

/* The tile-independent facts of a matrix or stack. */
struct job {
    const unsigned char *data;
    int64_t matrix_bytes, tops_offset;
    int n_rows, n_padded_rows;
    int first_tile; /* index among the row tiles of all jobs */
};

struct launch_plan {
    struct gemm g;
    struct job jobs[MATMUL_JOBS_MAX];
    int n_row_tiles, n_token_tiles; /* n_token_tiles: with experts an upper bound, or 0 */
};

struct tile {
    int job, row; /* row: its first, within the job */
    int expert;
    int first, n; /* rows of the operand */
    int width;    /* n, rounded up to an instantiated width */
};

/* The last expert whose tiles begin at or before `id`. is_warp: all lanes of a warp look for it,
 * each at other experts, and no load waits for another. */
static __device__ __forceinline__ int expert_of(const struct gemm &g, int n_row_tiles, int id,
                                                bool is_warp = false)
{
    const int n = *g.n_active;
    int low = 0, high = n;

    if (is_warp) {
        int n_begun = 0;

#pragma unroll 4
        for (int first = 0; first < n; first += WARP_LANES) {
            const int i = first + threadIdx.x % WARP_LANES;

            n_begun += __popc(
                __ballot_sync(ALL_LANES, i < n && g.experts[i].first_tile * n_row_tiles <= id));
        }
        return n_begun - 1;
    }
    while (high - low > 1) {
        const int middle = (low + high) / 2;

        if (g.experts[middle].first_tile * n_row_tiles <= id)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The smallest of the widths, which are descending, that n tokens fit into. */
template <int... WIDTHS> static __device__ __forceinline__ int width_of(int n)
{
    int width = 0;

    ((width = WIDTHS >= n ? WIDTHS : width), ...);
    return width;
}

/* All lanes of a warp call it, with the same id. Tiles of the same weights have consecutive ids, so
 * that the weights are read from memory once. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ bool find_tile(const struct launch_plan &p, int id,
                                                 struct tile *out)
{
    const struct gemm &g = p.g;
    int n = g.n_tokens, n_each = g.n_tile_tokens, first = 0, n_tiles = p.n_token_tiles, row_tile;

    out->expert = 0;
    if (g.experts != NULL) {
        if (id >= g.experts[*g.n_active].first_tile * p.n_row_tiles)
            return false;
        const int at = expert_of(g, p.n_row_tiles, id, true);
        const struct expert_rows e = g.experts[at];

        out->expert = e.expert;
        n = e.n_rows;
        n_tiles = g.experts[at + 1].first_tile - e.first_tile;
        n_each = width_of<WIDTHS...>((n + n_tiles - 1) / n_tiles);
        first = e.first_row;
        id -= e.first_tile * p.n_row_tiles;
    } else if (id >= p.n_row_tiles * n_tiles) {
        return false;
    }
    row_tile = id / n_tiles;
    out->first = first + (id - row_tile * n_tiles) * n_each;
    out->n = min(n_each, first + n - out->first);
    out->width = width_of<WIDTHS...>(out->n);
    out->job = 0;
    while (out->job + 1 < g.n_jobs && row_tile >= p.jobs[out->job + 1].first_tile)
        out->job++;
    out->row = (row_tile - p.jobs[out->job].first_tile) * FORM::ROWS;
    return true;
}

static __device__ __forceinline__ const unsigned char *matrix_of(const struct launch_plan &p,
                                                                 const struct tile &tile)
{
    return p.jobs[tile.job].data + tile.expert * p.jobs[tile.job].matrix_bytes;
}

/* ---- host ---- */

static inline struct job job_of(const struct tensor *w, int first_tile)
{
    return {.data = (const unsigned char *)w->data,
            .matrix_bytes = matrix_bytes(w),
            .tops_offset = mxfp4_tops_offset(w),
            .n_rows = (int)matrix_rows(w),
            .n_padded_rows = (int)units_of(matrix_rows(w), UNIT_ROWS) * UNIT_ROWS,
            .first_tile = first_tile};
}

/* Tiles have tile_rows rows of W. */
static inline struct launch_plan plan_of(const struct gemm *g, int tile_rows, int n_token_tiles)
{
    struct launch_plan p = {.g = *g, .jobs = {}, .n_row_tiles = 0, .n_token_tiles = n_token_tiles};

    for (int i = 0; i < g->n_jobs; i++) {
        p.jobs[i] = job_of(&g->w[i], p.n_row_tiles);
        p.n_row_tiles += (int)units_of(matrix_rows(&g->w[i]), tile_rows);
    }
    return p;
}

#endif
