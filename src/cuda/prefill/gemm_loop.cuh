/* Consumers of the prefill GEMM by wgmma: the loops over tiles and over the columns of a tile
 * (gemm_sm90.cu). */
#ifndef CUDA_PREFILL_GEMM_LOOP_CUH
#define CUDA_PREFILL_GEMM_LOOP_CUH

#include "cuda/prefill/gemm_epilogue.cuh"
#include "cuda/prefill/gemm_ring.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- main loop ---- */

template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_unit(float (&d)[FORM::SUMS], uint32_t a[K_STEPS][4],
                                                uint32_t operand)
{
    const uint64_t b = wgmma_descriptor(operand);

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < K_STEPS; i++)
        wgmma<FORM::IS_MXFP4, WIDTH>(d, a[i], b + i * 2);
    wgmma_commit();
}

/* State of the loop over chunks. */
struct walk {
    int warp;            /* of the group */
    int first_unit;      /* of the group, in a stage */
    uint32_t prev_empty; /* `empty` barrier of the previous stage; 0: there was no stage yet */
};

/* One chunk with unit u of the group. A stage is released when the wgmmas of its last unit have
 * completed. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_chunk(float (&d)[FORM::SUMS], uint32_t a[K_STEPS][4],
                                                 struct tile_ring *r, struct walk *w,
                                                 const struct my_rows<FORM> &rows, int u)
{
    if (u == 0)
        mbarrier_wait(r->full + r->stage * 8, r->parity);
    load_a<FORM>(a, unit_at<FORM>(*r, r->stage, w->first_unit + u), w->warp, rows.scale_shift[u]);
    add_unit<FORM, WIDTH>(d, a, operand_at<FORM>(*r, r->stage));
    wgmma_wait<1>();
    if (u == 0 && w->prev_empty != 0)
        mbarrier_arrive(w->prev_empty);
    if (u + 1 == FORM::UNITS) {
        w->prev_empty = r->empty + r->stage * 8;
        advance<FORM>(r);
    }
}

/* All columns of the group's units. Registers of A are filled while the wgmmas that use the other
 * registers run. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_columns(float (&d)[FORM::UNITS][FORM::SUMS],
                                                   struct tile_ring *r, int n_chunks, int group,
                                                   int first_unit, const struct my_rows<FORM> &rows)
{
    struct walk w = {(int)threadIdx.x / WARP_LANES % GROUP_WARPS, first_unit, 0};
    uint32_t a0[K_STEPS][4], a1[K_STEPS][4];

    if (FORM::IS_PINGPONG)
        order_wait(r, group);
    if constexpr (FORM::UNITS == 2) {
        for (int chunk = 0; chunk < n_chunks; chunk++) {
            add_chunk<FORM, WIDTH>(d[0], a0, r, &w, rows, 0);
            add_chunk<FORM, WIDTH>(d[1], a1, r, &w, rows, 1);
        }
    } else {
        for (int chunk = 0;;) {
            add_chunk<FORM, WIDTH>(d[0], a0, r, &w, rows, 0);
            if (++chunk == n_chunks)
                break;
            add_chunk<FORM, WIDTH>(d[0], a1, r, &w, rows, 0);
            if (++chunk == n_chunks)
                break;
        }
    }
    if (FORM::IS_PINGPONG)
        order_arrive(*r, group);
    wgmma_wait<0>();
    mbarrier_arrive(w.prev_empty);
}

/* The group's part of a tile, units from first_unit on. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void compute_tile(const struct launch_plan &p,
                                                    const struct tile &tile, struct tile_ring *r,
                                                    int group, int first_unit)
{
    const int n_chunks = chunks_of(p.g), first_row = tile.row + first_unit * UNIT_ROWS;
    const int row = first_row + my_row();
    float d[FORM::UNITS][FORM::SUMS];
    struct my_rows<FORM> rows;
    struct epilogue<FORM> epilogue;

#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++)
#pragma unroll
        for (int i = 0; i < FORM::SUMS; i++)
            d[u][i] = 0.0f;
    find_rows<FORM>(p, tile, first_row, group, r->info, &rows);
    ((tile.width == WIDTHS ? add_columns<FORM, WIDTHS>(d, r, n_chunks, group, first_unit, rows)
                           : void()),
     ...);
#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++)
        wgmma_fence_operand(d[u]);
    load_epilogue<FORM>(r->info, &epilogue);
    if (p.g.units.data != NULL) {
        store_swiglu<FORM>(p, tile, d, epilogue, first_row, r->staging, group);
        return;
    }
    load_row_use(p.g, tile, r->staging);
    group_sync(group);
    if (is_whole<FORM>(p, tile, first_row))
        store_tile_rows<FORM, true>(p, tile, d, epilogue, row, r->staging);
    else
        store_tile_rows<FORM, false>(p, tile, d, epilogue, row, r->staging);
    group_sync(group);
}

/* A tile without rows for this group: releases its stages. */
template <class FORM>
static __device__ __forceinline__ void skip_tile(const struct launch_plan &p, struct tile_ring *r)
{
    for (int chunk = chunks_of(p.g); chunk > 0; chunk--) {
        mbarrier_wait(r->full + r->stage * 8, r->parity);
        mbarrier_arrive(r->empty + r->stage * 8);
        advance<FORM>(r);
    }
}

/* All tiles of the block, half of each; with ping-pong every second tile, whole. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void consume(const struct launch_plan &p, struct tile_ring r,
                                               int group)
{
    const int n_order_waits = FORM::IS_PINGPONG ? CONSUMERS : 1;
    const int first_unit = FORM::IS_PINGPONG ? 0 : group * FORM::UNITS;
    int id = blockIdx.x;
    struct tile tile;

    if (FORM::IS_PINGPONG && group > 0) {
        skip<FORM>(&r, chunks_of(p.g));
        id += gridDim.x;
    }
    for (; find_tile<FORM, WIDTHS...>(p, id, &tile); id += n_order_waits * gridDim.x) {
        if (tile.row + first_unit * UNIT_ROWS < p.jobs[tile.job].n_rows)
            compute_tile<FORM, WIDTHS...>(p, tile, &r, group, first_unit);
        else
            skip_tile<FORM>(p, &r);
        if (FORM::IS_PINGPONG)
            skip<FORM>(&r, chunks_of(p.g));
    }
    bulk_stores_wait();
}

#endif

#endif
