/* What the parts of attn_layer.cu share: how blocks share a layer, their shared memory, and
 * the words that they exchange. */
#ifndef CUDA_LAYER_SHARED_CUH
#define CUDA_LAYER_SHARED_CUH

#include "cuda/decode/router.cuh"

#include "cuda/attention/attn_row.cuh"
#include "cuda/common/rope_cache.cuh"
#include "cuda/layer/attn_layer.h"

enum {
    GROUPS = 2, /* of eight warps */
    LAYER_THREADS = GROUPS * RING_THREADS,
    LAYER_REGISTERS = 56, /* beside a block of decode_experts.cu */
    HALF = DECODE_HEAD_WIDTH / 2,
    HALVES_OF_A_HEAD = HALF / TILE_ROWS,
    CHAIN_SCALES_BYTES = 8 * 4,
    CHAIN_UNIT_BYTES = MXFP4_TILE_BYTES + CHAIN_SCALES_BYTES,
    OUT_UNITS = LAYER_HEADS * DECODE_HEAD_WIDTH / UNIT_COLUMNS,
    SLICE_UNITS = OUT_UNITS / RING_WARPS,
    OUT_BYTES = OUT_UNITS * CHAIN_UNIT_BYTES, /* a tile */
    ROW_UNITS = 45,                           /* of a row of QKV */
    EIGHTH_UNITS = (ROW_UNITS + RING_WARPS - 1) / RING_WARPS,
    QKV_BYTES = ROW_UNITS * CHAIN_UNIT_BYTES, /* a tile */
    ROW_BYTES = ROW_UNITS * UNIT_COLUMNS * 2,
    ROW_VECTORS = ROW_UNITS * UNIT_COLUMNS / 4,
    UNITS_OF_A_SPLIT = 2 * WARPS,
    KV_BYTES = UNITS_OF_A_SPLIT * unit<DTYPE_BF16>::BYTES,
    QUERY_BYTES = QUERY_TERMS * STEPS * WARP_LANES * 8,
    SUMS_BYTES = 3 * RING_WARPS * TILE_ROWS * 4,

    /* Shared memory: as much as decode_experts.cu leaves. Weights of the output product; weights of
     * QKV, the row and its norm, later overwritten by keys, values and queries, then by att. */
    SECOND_AT = OUT_BYTES, /* the second tile of the output matrix, or the split half-head */
    QKV_AT = SECOND_AT + OUT_BYTES,
    ROW_AT = QKV_AT + 2 * QKV_BYTES,
    X_AT = ROW_AT + ROW_BYTES,
    ZEROS_AT = X_AT + ROW_BYTES * 2,
    NORM_AT = ZEROS_AT + LINE_BYTES,
    ATT_AT = QKV_AT,             /* of the output product; behind attention */
    KV_AT = QKV_AT,              /* behind the product of QKV */
    QUERY_AT = KV_AT + KV_BYTES, /* the same */
    SUMS_AT = QUERY_AT + QUERY_BYTES,
    SHARED_BYTES = SUMS_AT + SUMS_BYTES
};
static_assert((int)NORM_AT + 64 <= (int)SUMS_AT, "no overlap");
static_assert(sizeof(struct shared) <= (size_t)SUMS_BYTES, "alias");

/* A word that has not been sent. No number that is sent has these bits: arithmetic
 * makes NaN of 0x7FFFFFFF, and conversion to FP16 of 0x7FFF. */
#define EMPTY 0xFFFFFFFFu

enum { POLLS_MAX = 1 << 22 }; /* some seconds; a wait takes 2 us */

/* ---- words that blocks exchange: what is not EMPTY is there, so no fence is needed ---- */

static __device__ __forceinline__ uint4 load4(const void *from)
{
    uint4 v;

    asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}

/* Two words at once: if one is there, both are. */
static __device__ __forceinline__ uint2 load2(const void *from)
{
    uint64_t v;

    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
    return make_uint2((uint32_t)v, (uint32_t)(v >> 32));
}

static __device__ __forceinline__ void store1(void *to, uint32_t v)
{
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}

static __device__ __forceinline__ void store2(void *to, uint2 v)
{
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"((uint64_t)v.y << 32 | v.x)
                 : "memory");
}

static __device__ __forceinline__ bool is_there(uint4 v)
{
    return v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
}

/* Waits for four words. All blocks run at once, so a wait without end is an error of the launch:
 * words that came after it would be taken for those of the next one. */
static __device__ __forceinline__ uint4 await4(const uint32_t *from)
{
    uint4 v = load4(from);

#pragma unroll 1
    for (int polls = 0; !is_there(v); polls++) {
        if (polls == POLLS_MAX)
            __trap();
        v = load4(from);
    }
    return v;
}

static __device__ __forceinline__ void prefetch_l2(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

static __device__ __forceinline__ bool is_there(uint2 v)
{
    return v.x != EMPTY;
}

static __device__ __forceinline__ float bf16_at(const struct decode_vector &v, unsigned i)
{
    return __uint_as_float((uint32_t)((const uint16_t *)v.data)[i] << 16);
}

/* How blocks share the layer: blocks b have half-head b and tile b. Those below 2 n_split also have
 * half b % 2 of a half-head, the last n_two a second tile. */
struct layer_plan {
    int32_t n_split, n_two;
    uint32_t n_each; /* vectors of words that a block empties */
};

/* A thread's index in its block. It is read in inline assembly each time, so that the compiler does
 * not keep it in registers between phases. */
struct thread_index {
    int group, warp, lane;
};

static __device__ __forceinline__ struct thread_index index_of_thread(void)
{
    int x, y;

    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    asm volatile("mov.u32 %0, %%tid.y;" : "=r"(y));
    return {y, (int)((unsigned)x / WARP_LANES), (int)((unsigned)x % WARP_LANES)};
}

/* The group's tile of the output matrix; -1: it has none. */
static __device__ __forceinline__ int tile_of_group(const struct layer_plan &plan, int group)
{
    const int b = (int)blockIdx.x, n = (int)gridDim.x, second = b - (n - plan.n_two);

    return group == 0 ? b : second >= 0 ? n + second : -1;
}

/* Offset of the router's weights of this warp's 16 experts for the columns of a tile. */
static __device__ __forceinline__ unsigned router_weights_at(unsigned part)
{
    const unsigned tile = threadIdx.x / WARP_LANES;
    const unsigned unit = tile / UNIT_TILES * ROW_UNITS + part / TILE_PARTS;

    return unit * BF16_UNIT_BYTES + tile % UNIT_TILES * BF16_TILE_BYTES +
           part % TILE_PARTS / 2 * BF16_BLOCK_BYTES + router_piece((int)part % 2) * LANE_BYTES;
}

/* Whether the warp has 16 experts. */
static __device__ __forceinline__ bool is_routing(const struct decode_out &o)
{
    return (int)threadIdx.x / WARP_LANES * TILE_ROWS < o.router.n_rows;
}

/* Prefetches what the end of the kernel loads. The experts' weights have evicted it from the
 * second-level cache. */
static __device__ __forceinline__ void prefetch_end(const struct decode_attn_layer &p,
                                                    const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();
    const int tile = tile_of_group(plan, at.group), column = tile * TILE_ROWS;

    if (tile < 0)
        return;
    if (is_routing(p.out))
        prefetch_l2(p.out.router.units + router_weights_at((unsigned)tile));
    if (at.warp == 0)
        prefetch_l2((const char *)p.out.p.bias.data + column * 2);
    if (at.warp == 1)
        prefetch_l2((const char *)p.out.norm.data +
                    column * (p.out.norm.kind == VECTOR_F32 ? 4 : 2));
    if (at.warp == 2 && p.out.expert.unit != NULL)
        prefetch_l2(p.out.expert.unit + column);
}

/* The identifiers are constants, so that the block has three barriers, not all 16. */
static __device__ __forceinline__ void sync_group(int group)
{
    if (group == 0)
        asm volatile("bar.sync 1, %0;" ::"n"((int)RING_THREADS) : "memory");
    else
        asm volatile("bar.sync 2, %0;" ::"n"((int)RING_THREADS) : "memory");
}

#endif
