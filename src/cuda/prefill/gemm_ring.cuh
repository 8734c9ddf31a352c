/* Shared-memory pipeline of gemm_sm90.cu, and its producer. A stage has a tile of the operand and
 * the units of W that are multiplied with it. */
#ifndef CUDA_PREFILL_GEMM_RING_CUH
#define CUDA_PREFILL_GEMM_RING_CUH

#include "cuda/prefill/gemm_tile.cuh"
#include "cuda/common/wgmma.cuh"

/* Addresses in shared memory. `staging` and `info` are private to a consumer. */
struct ring {
    uint32_t operand, units, staging, info, full, empty, order_barriers;
    int stage;
    uint32_t parity;        /* phase parity of the barriers */
    uint32_t n_order_waits; /* waits of this consumer so far */
};

/* One thread initializes the barriers for the block. */
template <class FORM>
static __device__ __forceinline__ void ring_init(struct ring *r, const void *smem)
{
    r->operand = shared_address(smem);
    if (r->operand % SWIZZLE_BYTES != 0)
        __trap();
    r->staging = r->operand + FORM::STAGES * FORM::TILE_BYTES;
    r->units = r->staging + CONSUMERS * FORM::TILE_BYTES;
    r->info = r->units + FORM::STAGES * FORM::TILE_UNITS * FORM::UNIT_BYTES;
    r->full = r->info + CONSUMERS * FORM::ROWS_INFO_BYTES;
    r->empty = r->full + STAGES_MAX * 8;
    r->order_barriers = r->empty + STAGES_MAX * 8;
    r->stage = 0;
    r->parity = 0;
    r->n_order_waits = 0;
    if (threadIdx.x == 0) {
        for (int i = 0; i < FORM::STAGES; i++) {
            mbarrier_init(r->full + i * 8, FORM::TILE_UNITS);
            mbarrier_init(r->empty + i * 8, (FORM::IS_PINGPONG ? 1 : CONSUMERS) * GROUP_THREADS);
        }
        for (int i = 0; i < CONSUMERS; i++)
            mbarrier_init(r->order_barriers + i * 8, GROUP_THREADS);
        mbarrier_init_fence();
    }
    __syncthreads();
}

template <class FORM> static __device__ __forceinline__ void advance(struct ring *r)
{
    if (++r->stage == FORM::STAGES) {
        r->stage = 0;
        r->parity ^= 1;
    }
}

/* Advances past n stages that the other consumer uses. */
template <class FORM> static __device__ __forceinline__ void skip(struct ring *r, int n)
{
    const int at = r->stage + n;

    r->stage = at % FORM::STAGES;
    r->parity ^= at / FORM::STAGES & 1;
}

/* Ping-pong order between the consumers. Barriers distinguish phases only by parity, so a group may
 * wait for a stage only after the other group has seen all earlier stages arrive. Group 0 goes
 * first. */
static __device__ __forceinline__ void order_wait(struct ring *r, int group)
{
    mbarrier_wait(r->order_barriers + group * 8, (r->n_order_waits + (group == 0 ? 1 : 0)) & 1);
    r->n_order_waits++;
}

/* Signals that the group has seen all of its stages arrive. */
static __device__ __forceinline__ void order_arrive(const struct ring &r, int group)
{
    mbarrier_arrive(r.order_barriers + (1 - group) * 8);
}

template <class FORM>
static __device__ __forceinline__ uint32_t unit_at(const struct ring &r, int stage, int unit)
{
    return r.units + (stage * FORM::TILE_UNITS + unit) * FORM::UNIT_BYTES;
}

template <class FORM>
static __device__ __forceinline__ uint32_t operand_at(const struct ring &r, int stage)
{
    return r.operand + stage * FORM::TILE_BYTES;
}

/* Chunks of the operand, over all terms. */
static __device__ __forceinline__ int chunks_of(const struct gemm &g)
{
    return (int)units_of(matrix_columns(&g.w[0]), UNIT_COLUMNS) * rounding_terms(g.x.rounding);
}

/* Producer: one thread of each of the first TILE_UNITS warps of the group. Each loads one unit of W
 * per stage; the first also loads the operand. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void produce(const struct launch_plan &p, struct ring r, int warp)
{
    const int n_units = (int)units_of(matrix_columns(&p.g.w[0]), UNIT_COLUMNS);
    const int n_chunks = chunks_of(p.g);
    const int64_t chunk_bytes = p.g.x.n_rows * OPERAND_ROW_BYTES;
    struct tile tile;

    for (int id = blockIdx.x; find_tile<FORM, WIDTHS...>(p, id, &tile); id += gridDim.x) {
        const int row = tile.row + warp * UNIT_ROWS;
        const unsigned char *unit =
            matrix_of(p, tile) + (int64_t)row / UNIT_ROWS * n_units * FORM::UNIT_BYTES;
        const char *operand = (const char *)p.g.x.data + (int64_t)tile.first * OPERAND_ROW_BYTES;
        const uint32_t unit_bytes = row < p.jobs[tile.job].n_padded_rows ? FORM::UNIT_BYTES : 0;
        const uint32_t operand_bytes = warp == 0 ? tile.width * OPERAND_ROW_BYTES : 0;

        for (int chunk = 0; chunk < n_chunks; chunk++) {
            const uint32_t full = r.full + r.stage * 8;

            mbarrier_wait(r.empty + r.stage * 8, r.parity ^ 1);
            mbarrier_expect_tx(full, unit_bytes + operand_bytes);
            if (operand_bytes > 0)
                bulk_load(operand_at<FORM>(r, r.stage), operand + chunk * chunk_bytes,
                          operand_bytes, full);
            if (unit_bytes > 0)
                bulk_load(unit_at<FORM>(r, r.stage, warp),
                          unit + (int64_t)(chunk % n_units) * FORM::UNIT_BYTES, unit_bytes, full);
            advance<FORM>(&r);
        }
    }
}

#endif
