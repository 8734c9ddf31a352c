/* Shared-memory pipeline of gemm_sm90.cu, and its producer. A stage has a tile of the operand and
 * the units of W that are multiplied with it. */
#ifndef CUDA_PREFILL_GEMM_RING_CUH
#define CUDA_PREFILL_GEMM_RING_CUH

#include "cuda/prefill/gemm_tile.cuh"
#include "cuda/common/wgmma.cuh"

enum { EMPTY_BARRIERS = STAGES_MAX * 8 /* bytes behind the `full` barriers */ };

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
    r->empty = r->full + EMPTY_BARRIERS;
    r->order_barriers = r->empty + EMPTY_BARRIERS;
    r->stage = 0;
    r->parity = 0;
    r->n_order_waits = 0;
    if (threadIdx.x == 0) {
        for (int i = 0; i < FORM::STAGES; i++) {
            mbarrier_init(r->full + i * 8, FORM::TILE_UNITS);
            mbarrier_init(r->empty + i * 8, (FORM::IS_PINGPONG ? 1 : CONSUMERS) * GROUP_WARPS);
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

/* Releases the stage with this `full` barrier, for the warp: one arrival, not one of each
 * thread. */
static __device__ __forceinline__ void release_stage(uint32_t full)
{
    __syncwarp();
    if (threadIdx.x % WARP_LANES == 0)
        mbarrier_arrive(full + EMPTY_BARRIERS);
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

/* Offset of the current stage's unit i from unit 0 of stage 0. */
template <class FORM>
static __device__ __forceinline__ uint32_t stage_offset(const struct ring &r, int i)
{
    return r.stage * (FORM::TILE_UNITS * FORM::UNIT_BYTES) + i * FORM::UNIT_BYTES;
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

/* A value that all lanes have, by a shuffle: the compiler then knows that, and keeps what follows
 * from it in uniform registers. */
static __device__ __forceinline__ int uniform(int value)
{
    return __shfl_sync(ALL_LANES, value, 0);
}

/* find_tile() for a whole warp. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ bool find_warp_tile(const struct launch_plan &p, int id,
                                                      struct tile *out)
{
    struct tile t = {};
    const bool is_found = find_tile<FORM, WIDTHS...>(p, id, &t);

    *out = {uniform(t.job),   uniform(t.row), uniform(t.expert),
            uniform(t.first), uniform(t.n),   uniform(t.width)};
    return uniform(is_found) != 0;
}

static __device__ __forceinline__ void prefetch(const void *from)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/* Brings the scales and biases that find_rows() loads for the rows of a unit to the L2 cache. */
template <class FORM>
static __device__ __forceinline__ void prefetch_rows(const struct launch_plan &p,
                                                     const struct tile &tile, int row)
{
    enum { SECTOR_BYTES = 32 };
    const struct job *job = &p.jobs[tile.job];
    const struct tensor *bias = &p.g.bias[tile.job];
    const int at = (int)threadIdx.x % WARP_LANES * SECTOR_BYTES;
    const int value_bytes = bias->dtype == DTYPE_F32 ? 4 : 2;

    if (FORM::IS_MXFP4 && at < UNIT_ROWS && row < job->n_padded_rows)
        prefetch(matrix_of(p, tile) + job->tops_offset + row + at);
    if (bias->data != NULL && at < UNIT_ROWS * value_bytes && row + at / value_bytes < job->n_rows)
        prefetch((const char *)bias->data +
                 ((int64_t)(bias->n_dims == 1 ? 0 : tile.expert) * job->n_rows + row) *
                     value_bytes +
                 at);
}

/* Producer: the first TILE_UNITS warps of the group. Each loads one unit of W per stage; the first
 * also loads the operand. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void produce(const struct launch_plan &p, struct ring r, int warp)
{
    const int n_units = (int)units_of(matrix_columns(&p.g.w[0]), UNIT_COLUMNS);
    const int n_chunks = chunks_of(p.g);
    const int64_t chunk_bytes = p.g.x.n_rows * OPERAND_ROW_BYTES;
    const int64_t row_bytes = (int64_t)n_units * FORM::UNIT_BYTES;
    struct tile tile;

    for (int id = blockIdx.x; find_warp_tile<FORM, WIDTHS...>(p, id, &tile); id += gridDim.x) {
        const int row = tile.row + warp * UNIT_ROWS;
        const unsigned char *unit = matrix_of(p, tile) + row / UNIT_ROWS * row_bytes;
        const char *operand = (const char *)p.g.x.data + (int64_t)tile.first * OPERAND_ROW_BYTES;
        const uint32_t unit_bytes = row < p.jobs[tile.job].n_padded_rows ? FORM::UNIT_BYTES : 0;
        /* rows behind the tile's keep old values, whose products nobody stores */
        const int n_rows = (int)units_of(tile.n, OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS;
        const uint32_t operand_bytes = warp == 0 ? n_rows * OPERAND_ROW_BYTES : 0;

        int units_left = n_units; /* of the operand's term */

        prefetch_rows<FORM>(p, tile, row);
#pragma unroll 1
        for (int chunk = 0; chunk < n_chunks; chunk++) {
            const uint32_t full = r.full + r.stage * 8;

            mbarrier_wait(r.empty + r.stage * 8, r.parity ^ 1);
            if (threadIdx.x % WARP_LANES == 0) {
                mbarrier_expect_tx(full, unit_bytes + operand_bytes);
                if (operand_bytes > 0)
                    bulk_load(operand_at<FORM>(r, r.stage), operand, operand_bytes, full);
                if (unit_bytes > 0)
                    bulk_load(unit_at<FORM>(r, r.stage, warp), unit, unit_bytes, full);
            }
            operand += chunk_bytes;
            unit += FORM::UNIT_BYTES;
            if (--units_left == 0) {
                units_left = n_units;
                unit -= row_bytes;
            }
            advance<FORM>(&r);
        }
    }
}

#endif
