/* The experts of a mixed step: the prefill GEMM (prefill/gemm_sm90.cu) and the decode GEMM
 * (decode/decode_grouped_wide.cu) in one kernel, side by side in every block. Both have the bits
 * that they have alone, as neither reads the other's data.
 *
 * Work division: a block has two consumer warpgroups for prefill tiles, one for decode items, and a
 * producer, two of whose warps load for each phase. Each phase has its own ring, order of work and
 * share of a block. A prefill warpgroup waits most of the time, for its wgmmas and for data: two of
 * them issue an instruction in 40 % of the cycles, and the tensor cores are busy for half of them.
 * The decode warpgroup, with one warp a scheduler, uses what is left; up to some 400 decode rows it
 * ends first.
 *
 * Traffic: that of both kernels. The weights are read from memory twice, which does not bind: about
 * 3.4 GB in more than a millisecond. */
#include "cuda/decode/grouped_wide.cuh"
#include "cuda/mixed/mixed.h"
#include "cuda/prefill/gemm_loop.cuh"

enum {
    JOB_TOKENS = 16,
    DECODE_GROUPS = 1,
    STAGE_UNITS = 2,
    DECODE_STAGES = 6,
    LOADING_WARPS = GROUP_WARPS / 2, /* of each phase */
    MIXED_THREADS = (1 + CONSUMERS + DECODE_GROUPS) * GROUP_THREADS,
    PRODUCERS_REGISTERS = 40,
    PREFILL_REGISTERS = 168, /* enough for two widths of 80 tokens, or three of 64: with fewer, or
                              * more widths, the compiler serializes the wgmmas (C7512) */
    DECODE_REGISTERS = 136,
    TILE_ROWS_MIXED = 256
};

typedef struct wide_shape<JOB_TOKENS, DECODE_GROUPS, STAGE_UNITS, ROWS_OF_GROUP,
                          PRODUCERS_REGISTERS, DECODE_STAGES, LOADING_WARPS>
    DECODE_SHAPE;

enum { PREFILL_SHARED_BYTES = SHARED_BYTES_MAX - DECODE_SHAPE::SHARED_BYTES };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Producer of prefill tiles: produce() of prefill/gemm_ring.cuh for one thread of each of two
 * warps, which loads units `warp` and `warp` + 2 of W. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void produce_tiles(const struct launch_plan &p,
                                                     struct tile_ring r, int warp)
{
    const int n_units = (int)units_of(matrix_columns(&p.g.w[0]), UNIT_COLUMNS);
    const int64_t chunk_bytes = p.g.x.n_rows * OPERAND_ROW_BYTES;
    const int64_t row_bytes = (int64_t)n_units * FORM::UNIT_BYTES;
    struct tile tile;

    static_assert((int)FORM::TILE_UNITS == 2 * (int)LOADING_WARPS, "a warp has two units");
    for (int id = blockIdx.x; find_tile<FORM, WIDTHS...>(p, id, &tile); id += gridDim.x) {
        const int row = tile.row + warp * UNIT_ROWS;
        const int second = row + LOADING_WARPS * UNIT_ROWS;
        const unsigned char *unit = matrix_of(p, tile) + row / UNIT_ROWS * row_bytes;
        const char *operand = (const char *)p.g.x.data + (int64_t)tile.first * OPERAND_ROW_BYTES;
        const uint32_t operand_bytes = warp == 0 ? tile.width * OPERAND_ROW_BYTES : 0;
        const bool has_first = row < p.jobs[tile.job].n_padded_rows;
        const bool has_second = second < p.jobs[tile.job].n_padded_rows;

#pragma unroll 1
        for (int chunk = 0; chunk < n_units; chunk++) {
            const uint32_t full = r.full + r.stage * 8;

            mbarrier_wait(r.empty + r.stage * 8, r.parity ^ 1);
            mbarrier_expect_tx(full, operand_bytes + (has_first ? FORM::UNIT_BYTES : 0));
            mbarrier_expect_tx(full, has_second ? FORM::UNIT_BYTES : 0);
            if (operand_bytes > 0)
                bulk_load(operand_at<FORM>(r, r.stage), operand, operand_bytes, full);
            if (has_first)
                bulk_load(unit_at<FORM>(r, r.stage, warp), unit, FORM::UNIT_BYTES, full);
            if (has_second)
                bulk_load(unit_at<FORM>(r, r.stage, warp + LOADING_WARPS),
                          unit + LOADING_WARPS * row_bytes, FORM::UNIT_BYTES, full);
            unit += FORM::UNIT_BYTES;
            operand += chunk_bytes;
            advance<FORM>(&r);
        }
    }
}

#endif

/* The decode ring is in front of the prefill pipeline: both are aligned. */
template <class FORM, bool IS_UP, int... WIDTHS>
static __device__ __forceinline__ void run(const struct launch_plan &p,
                                           const struct decode_grouped &d)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char smem[];
    const int group = __shfl_sync(ALL_LANES, threadIdx.x / GROUP_THREADS, 0);
    const int warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP_LANES % GROUP_WARPS, 0);
    const struct stages s = {shared_address(smem)};
    struct tile_ring r;

    ring_init<FORM>(&r, smem + DECODE_SHAPE::SHARED_BYTES);
    init_barriers<DECODE_SHAPE>(s.at);
    if (group == 0) {
        warpgroup_reg_dealloc<PRODUCERS_REGISTERS>();
        if (threadIdx.x % WARP_LANES != 0)
            return;
        if (warp < LOADING_WARPS)
            produce_tiles<FORM, WIDTHS...>(p, r, warp);
        else
            produce_items<DECODE_SHAPE, IS_UP>(d, s, warp - LOADING_WARPS);
    } else if (group <= CONSUMERS) {
        warpgroup_reg_alloc<PREFILL_REGISTERS>();
        r.staging += (group - 1) * FORM::TILE_BYTES;
        r.info += (group - 1) * FORM::ROWS_INFO_BYTES;
        consume<FORM, WIDTHS...>(p, r, group - 1);
    } else {
        warpgroup_reg_alloc<DECODE_REGISTERS>();
        consume_items<DECODE_SHAPE, IS_UP>(d, s, warp);
    }
#else
    (void)p; /* other architectures have no wgmma, and the tuning table has no such kernel for
              * them */
    (void)d;
    __trap();
#endif
}

template <int MAX_TOKENS>
using prefill_shape = kernel_shape<FORMAT_MXFP4, TILE_ROWS_MIXED, MAX_TOKENS, PREFILL_SHARED_BYTES>;

template <bool IS_UP, int MAX_TOKENS, int... WIDTHS>
static __global__ void __launch_bounds__(MIXED_THREADS, 1)
    mixed_experts_kernel(const __grid_constant__ struct launch_plan p,
                         const __grid_constant__ struct decode_grouped d)
{
    run<prefill_shape<MAX_TOKENS>, IS_UP, MAX_TOKENS, WIDTHS...>(p, d);
}

/* ---- host ---- */

/* Returns false and appends nothing if the GPU has too little shared memory for a block. */
template <auto KERNEL, int MAX_TOKENS>
static bool launch_of(struct launch_list *list, const struct launch_plan &plan,
                      const struct decode_grouped &d)
{
    const int64_t shared_bytes =
        DECODE_SHAPE::SHARED_BYTES + prefill_shape<MAX_TOKENS>::SHARED_BYTES;

    if (shared_bytes >
        gpu_dynamic_shared(list->gpu, (const void *)KERNEL, name_of_kernel<KERNEL>()))
        return false;
    add_kernel<KERNEL>(list, (unsigned)list->gpu->n_sms, MIXED_THREADS, shared_bytes, plan, d);
    return true;
}

static bool launch(struct launch_list *list, const struct gemm *g, const struct decode_grouped *d,
                   bool is_up)
{
    const struct launch_plan p = plan_of(g, TILE_ROWS_MIXED, 0);

    switch (g->n_tile_tokens) {
#define MIXED_LAUNCH(max_tokens, ...)                                                              \
    case max_tokens:                                                                               \
        return is_up                                                                               \
                   ? launch_of<mixed_experts_kernel<true, max_tokens, __VA_ARGS__>, max_tokens>(   \
                         list, p, *d)                                                              \
                   : launch_of<mixed_experts_kernel<false, max_tokens, __VA_ARGS__>, max_tokens>(  \
                         list, p, *d);
        MIXED_TILES(MIXED_LAUNCH)
#undef MIXED_LAUNCH
    default:
        return false;
    }
}

void launch_mixed_experts(struct launch_list *list, const struct gemm *g,
                          const struct decode_grouped *d, bool is_up)
{
    (void)launch(list, g, d, is_up);
}

/* Items of a job. */
static int parts_of(const struct decode_matrix *w)
{
    return (int)units_of(units_of(w->n_rows, UNIT_ROWS), DECODE_SHAPE::ROWS);
}

bool mixed_experts_fit(struct launch_list *list, const struct gemm *g, struct decode_grouped *d)
{
    const bool is_whole = d->e.n_columns % UNIT_COLUMNS == 0 && d->e.n_units % UNIT_COLUMNS == 0;
    bool fits;

    d->job_tokens = JOB_TOKENS;
    d->n_shares = list->gpu->n_sms;
    d->n_parts[0] = parts_of(&d->e.up);
    d->n_parts[1] = parts_of(&d->e.down);
    list->is_query = true;
    fits = is_whole && d->n_shares <= DECODE_SHARES_MAX && launch(list, g, d, true) &&
           launch(list, g, d, false);
    list->is_query = false;
    return fits;
}
