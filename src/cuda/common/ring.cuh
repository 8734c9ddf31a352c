/* Ring buffer of cp.async stages for weights, private to a warp: the copies of later units run
 * while the warp multiplies the current one. A lane reads back the bytes that it copied itself,
 * except the scales of MXFP4, which eight lanes copy for the warp.
 *
 * A walk is a sequence of parts. A part covers TILES tiles (the first, and every STRIDE-th of their
 * unit) of a row of units; a warp takes every eighth unit of a part, or a slice of adjacent units
 * (out_sums.h). An overload of split_weights() returns where a part begins, so that the ring
 * continues from one part into the next. */
#ifndef CUDA_COMMON_RING_CUH
#define CUDA_COMMON_RING_CUH

#include "cuda/common/evict_first.cuh"
#include "cuda/common/layout.h"

enum { RING_WARPS = 8, RING_THREADS = RING_WARPS * WARP_LANES };

/* The compile-time shape of a ring. */
template <int DTYPE_, int TILES_, int STRIDE_, int STAGES_> struct ring_shape {
    enum {
        DTYPE = DTYPE_,
        TILES = TILES_,
        STRIDE = STRIDE_,
        STAGES = STAGES_,
        IS_MXFP4 = DTYPE_ == DTYPE_MXFP4,
        IS_SLICED = 0,
        UNIT_STEP = RING_WARPS, /* from one unit of a warp to the next */
        UNIT_BYTES = IS_MXFP4 ? MXFP4_UNIT_BYTES : BF16_UNIT_BYTES,
        TILE_BYTES = IS_MXFP4 ? MXFP4_TILE_BYTES : BF16_TILE_BYTES,
        TILE_PIECES = TILE_BYTES / (WARP_LANES * LANE_BYTES), /* 16-byte loads per lane and tile */
        SCALES_AT = TILES * TILE_BYTES,
        STAGE_BYTES = SCALES_AT + (IS_MXFP4 ? MXFP4_UNIT_BYTES - MXFP4_SCALES_OFFSET : 0),
        WARP_BYTES = STAGES * STAGE_BYTES,
        BYTES = RING_WARPS * WARP_BYTES
    };
};

/* The same for warps that have slices of adjacent units. */
template <int DTYPE_, int TILES_, int STRIDE_, int STAGES_>
struct sliced_shape : ring_shape<DTYPE_, TILES_, STRIDE_, STAGES_> {
    enum { IS_SLICED = 1, UNIT_STEP = 1 };
};

template <class SHAPE> struct ring {
    char *slots; /* this warp's stages */
    int slot;    /* multiplied next, then refilled */
    int part, n_parts, unit, n_units;
    int slice_units;         /* of a sliced shape */
    int n_walk_parts;        /* parts of the walk for any warp, including one without units */
    const unsigned char *at; /* the part's first tile in its first unit */
};

/* This warp's units: [first_unit(), end_unit()), UNIT_STEP apart. */
template <class SHAPE> static __device__ __forceinline__ int first_unit(const struct ring<SHAPE> &r)
{
    const int warp = threadIdx.x / WARP_LANES;

    return SHAPE::IS_SLICED ? warp * r.slice_units : warp;
}

template <class SHAPE> static __device__ __forceinline__ int end_unit(const struct ring<SHAPE> &r)
{
    return SHAPE::IS_SLICED ? min(first_unit(r) + r.slice_units, r.n_units) : r.n_units;
}

static __device__ __forceinline__ void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most N of this thread's copy groups are pending. */
template <int N> static __device__ __forceinline__ void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Starts the copies of the tiles of one unit; `at` is the first tile, `tile` its index in the
 * unit. */
template <class SHAPE>
static __device__ __forceinline__ void copy_tiles(char *slot, const unsigned char *at, int tile)
{
    const int lane = threadIdx.x % WARP_LANES;
    const uint32_t to =
        opaque_address((uint32_t)__cvta_generic_to_shared(slot) + lane * LANE_BYTES);

#pragma unroll
    for (int i = 0; i < SHAPE::TILES; i++)
#pragma unroll
        for (int piece = 0; piece < SHAPE::TILE_PIECES; piece++)
            copy_evict_first(to + (i * SHAPE::TILE_PIECES + piece) * WARP_LANES * LANE_BYTES,
                             at + i * SHAPE::STRIDE * SHAPE::TILE_BYTES +
                                 (piece * WARP_LANES + lane) * LANE_BYTES);
    if (SHAPE::IS_MXFP4 && lane < (MXFP4_UNIT_BYTES - MXFP4_SCALES_OFFSET) / LANE_BYTES)
        copy_evict_first(to + SHAPE::SCALES_AT,
                         at + MXFP4_SCALES_OFFSET - tile * SHAPE::TILE_BYTES + lane * LANE_BYTES);
}

/* Starts the copies of the walk's next unit, if any, into the slot. */
template <class SHAPE, class PARTS>
static __device__ __forceinline__ void ring_fill(struct ring<SHAPE> *r, const PARTS &parts,
                                                 char *slot)
{
    if (r->part < r->n_parts) {
        copy_tiles<SHAPE>(slot, r->at + (int64_t)r->unit * SHAPE::UNIT_BYTES,
                          split_tile(parts, r->part));
        r->unit += SHAPE::UNIT_STEP;
        if (r->unit >= end_unit(*r)) {
            r->unit = first_unit(*r);
            if (++r->part < r->n_parts)
                r->at = split_weights(parts, r->part);
        }
    }
    copy_commit();
}

/* Starts the walk and fills every stage of the ring. slice_units: of a sliced shape. */
template <class SHAPE, class PARTS>
static __device__ __forceinline__ void ring_begin(struct ring<SHAPE> *r, char *slots,
                                                  const PARTS &parts, int n_parts, int n_units,
                                                  int slice_units = 0)
{
    r->slots = slots + threadIdx.x / WARP_LANES * SHAPE::WARP_BYTES;
    r->slot = 0;
    r->part = 0;
    r->n_walk_parts = n_parts;
    r->n_units = n_units;
    r->slice_units = slice_units;
    r->unit = first_unit(*r);
    r->n_parts = r->unit < n_units ? n_parts : 0;
    if (r->n_parts > 0)
        r->at = split_weights(parts, 0);
    for (int i = 0; i < SHAPE::STAGES; i++)
        ring_fill(r, parts, r->slots + i * SHAPE::STAGE_BYTES);
}

#endif
