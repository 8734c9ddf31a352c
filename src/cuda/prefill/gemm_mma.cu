/* Prefill GEMM by mma.sync.m16n8k16, for GPUs without wgmma. Operands, expert lists and epilogues
 * are those of gemm_sm90.cu (gemm.h).
 *
 * Work division: a block of four or eight warps has a tile of 128 rows of W and 128, 64 or 32
 * tokens. Packed units of W and the tokens' operand go through a cp.async ring in shared memory, 64
 * columns per stage. W is operand A: a lane's 16 bytes of a tile are expanded to fragments once for
 * all tokens of the warp, MXFP4 as in gemm_weights.cuh. Pieces of the tokens' operand are read as B
 * fragments by ldmatrix.
 *
 * Each sum runs over all columns in order, in one accumulator: its bits depend only on its row and
 * its token.
 *
 * Flops: 2 rows columns tokens; bound by the tensor cores from some hundred tokens per matrix on.
 * Traffic of a tile per 64 columns: 34 bytes per row of MXFP4 or 128 of BF16, and 128 bytes per
 * token. */
#include "cuda/prefill/gemm_mma_epilogue.cuh"

enum { BAND_TILES = 8 }; /* token tiles that share the rows in L2 */

/* ---- tile assignment ---- */

/* The operand rows of token tile `id`, and their expert's matrix. */
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

static __device__ __forceinline__ bool find_mma_tile(const struct launch_plan &p, int n_each,
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

/* ---- the kernel ---- */

template <enum format FORMAT, class WARP_LAYOUT>
static __global__ void __launch_bounds__(WARP_LAYOUT::THREADS, 2)
    prefill_mma_kernel(const __grid_constant__ struct launch_plan p, int n_stages)
{
    extern __shared__ __align__(128) unsigned char smem[];
    const struct thread_slice slice = thread_slice_of<WARP_LAYOUT>();
    const uint32_t info = shared_address(smem), ring = info + MMA_INFO_BYTES;
    float d[WARP_LAYOUT::ROW_TILES][WARP_LAYOUT::COLS][4] = {};
    int scale_shift[WARP_LAYOUT::ROW_TILES][2];
    struct lane_epilogue<WARP_LAYOUT> epilogue;
    struct tile tile;

    if (!find_mma_tile(p, WARP_LAYOUT::TOKENS, &tile))
        return;
    const struct tile_source f = tile_source_of<FORMAT>(p, tile);

    load_row_info<FORMAT>(p, tile, info);
    load_scale_shift<WARP_LAYOUT>(scale_shift, slice, info);
    add_tile<FORMAT, WARP_LAYOUT>(d, f, f.n_units * rounding_terms(p.g.x.rounding), n_stages, ring,
                                  slice, scale_shift);
    load_lane_epilogue<FORMAT, WARP_LAYOUT>(&epilogue, slice, info);
    if (p.g.units.data != NULL)
        store_gated<WARP_LAYOUT>(p, tile, d, slice, epilogue);
    else if (p.g.out_width[tile.job] % 2 == 0 && tile.row + MMA_ROWS <= p.jobs[tile.job].n_rows)
        store_sums<WARP_LAYOUT, true>(p, tile, d, slice, epilogue);
    else
        store_sums<WARP_LAYOUT, false>(p, tile, d, slice, epilogue);
}

/* ---- host ---- */

/* X(tokens, warp layout) */
#define MMA_SHAPES(X)                                                                              \
    X(32, warp_layout<1, 4, 8>)                                                                    \
    X(64, warp_layout<2, 4, 8>)                                                                    \
    X(128, warp_layout<4, 8, 4>)

static const struct {
    int n_tokens, n_threads;
    void (*add[2])(struct launch_list *, dim3, dim3, int64_t, const struct launch_plan &,
                   const int &);
    int stage_bytes[2];
} mma_shapes[] = {
#define MMA_SHAPE(tokens, ...)                                                                     \
    {tokens,                                                                                       \
     __VA_ARGS__::THREADS,                                                                         \
     {add_kernel<prefill_mma_kernel<FORMAT_BF16, __VA_ARGS__>, struct launch_plan, int>,           \
      add_kernel<prefill_mma_kernel<FORMAT_MXFP4, __VA_ARGS__>, struct launch_plan, int>},         \
     {mma_stage_bytes<FORMAT_BF16, tokens>(), mma_stage_bytes<FORMAT_MXFP4, tokens>()}},
    MMA_SHAPES(MMA_SHAPE)
#undef MMA_SHAPE
};
enum { N_MMA_SHAPES = sizeof(mma_shapes) / sizeof(mma_shapes[0]) };

/* Two blocks to a multiprocessor where their shared memory allows it. */
static int stages_that_fit(const struct gpu_desc *gpu, int stage_bytes)
{
    const int half = gpu->shared_per_sm / 2 - gpu->shared_reserved;
    const int n = (half - MMA_INFO_BYTES) / stage_bytes;

    return n < MMA_STAGES_MIN ? MMA_STAGES_MIN : n > MMA_STAGES_MAX ? MMA_STAGES_MAX : n;
}

void launch_gemm_mma(struct launch_list *list, const struct gemm *g, int n_token_tiles)
{
    const int format = g->w[0].dtype == DTYPE_MXFP4 ? FORMAT_MXFP4 : FORMAT_BF16;
    const struct launch_plan p = plan_of(g, MMA_ROWS, n_token_tiles);
    int shape = 0, n_stages, shared_bytes;

    while (shape + 1 < N_MMA_SHAPES && mma_shapes[shape].n_tokens < g->n_tile_tokens)
        shape++;
    n_stages = stages_that_fit(list->gpu, mma_shapes[shape].stage_bytes[format]);
    shared_bytes = MMA_INFO_BYTES + n_stages * mma_shapes[shape].stage_bytes[format];
    mma_shapes[shape].add[format](list, (unsigned)(p.n_row_tiles * n_token_tiles),
                                  (unsigned)mma_shapes[shape].n_threads, shared_bytes, p, n_stages);
}
