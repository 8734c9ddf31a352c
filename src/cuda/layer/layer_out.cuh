/* The output projection of attn_layer.cu, with the router's sums: the operations of
 * decode_out.cu, in the same order. */
#ifndef CUDA_LAYER_LAYER_OUT_CUH
#define CUDA_LAYER_LAYER_OUT_CUH

#include "cuda/decode/out_column.cuh"
#include "cuda/layer/chain.cuh"

/* A lane's values of its column, for the end of the output product. */
struct column_ready {
    float before, bias, weight, expert_unit;
    struct expert_part expert;
    uint4 router;
};

static __device__ __forceinline__ struct column_ready
ready_column(const struct decode_out &o, unsigned column, unsigned router_at)
{
    struct column_ready c = {};

    if (is_routing(o))
        c.router = *(const uint4 *)(o.router.units + router_at);
    c.before = __ldcg(o.p.out + column);
    c.bias = bf16_at(o.p.bias, column);
    c.weight = plain_at(o.norm, (int)column) * ROUTER_UNITS;
    if (o.expert.unit != NULL) {
        c.expert_unit = o.expert.unit[column];
        c.expert.sum = __ldcg(o.expert.sums + column);
        if (column == 0)
            c.expert.poison = __ldcg(o.expert.poison);
    }
    return c;
}

static __device__ __forceinline__ void finish_column(const struct decode_out &o, const float *sums,
                                                     const struct column_ready &c, unsigned column)
{
    const int lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES, t = lane % 4;
    const struct out_sum sum = out_sum_by_half<true>(sums);
    const float before = with_expert_part(c.before, c.expert, c.expert_unit);
    const float x = before + (out_sum_value(sum, RING_WARPS) + c.bias), z = x * c.weight;
    uint64_t *const to = o.sums + blockIdx.x % ROUTER_COPIES * ROUTER_COPY_SUMS;
    float v[4];
    uint2 terms[ROUTER_TERMS];
    float part[4];

    if (warp == RING_WARPS - 1 && lane < TILE_ROWS) {
        o.p.out[column] = x;
        if (o.expert.sums != NULL) {
            o.expert.sums[column] = 0;
            if (column == 0)
                o.expert.poison[0] = 0;
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float there = __shfl_sync(ALL_LANES, z, t * 4 + i);

        v[i] = lane < 4 ? there : 0.0f;
    }
#pragma unroll
    for (int term = 0; term < ROUTER_TERMS; term++) {
        const uint32_t low = round_to_bf16(v);

        terms[term] = make_uint2(low, round_to_bf16(v + 2));
    }
    router_partial(part, c.router, terms);
    const float odd = __shfl_up_sync(ALL_LANES, part[2], 1);

    if (is_routing(o) && t < 2)
        add_to(to + warp * TILE_ROWS + lane / 4 * 2 + t, router_fixed(t == 0 ? part[0] : odd));
    if (warp == RING_WARPS - 1) {
        const struct squares s = partial_squares(partial_of_lanes(x));

        if (lane < 2)
            add_to(to + ROUTER_SQUARES_AT + lane, lane == 0 ? s.whole : s.rest);
    }
}

static __device__ __forceinline__ char *out_slots(char *shared, const struct thread_index &at)
{
    return shared + at.group * OUT_BYTES + at.warp * SLICE_UNITS * CHAIN_UNIT_BYTES;
}

static __device__ __forceinline__ void copy_out(char *shared, const struct decode_attn_layer &p,
                                                const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();
    const int tile = tile_of_group(plan, at.group);

    if (tile >= 0)
        copy_chain<SLICE_UNITS, 1>(
            out_slots(shared, at),
            tile_source(p.out.p.w.units +
                            (int64_t)(tile / UNIT_TILES * OUT_UNITS + at.warp * SLICE_UNITS) *
                                MXFP4_UNIT_BYTES,
                        tile % UNIT_TILES, 1),
            SLICE_UNITS);
    copy_commit();
}

/* The output product and the router's part of the block's columns. */
static __device__ __forceinline__ void project_out(char *shared, const struct decode_attn_layer &p,
                                                   const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();
    const int tile = tile_of_group(plan, at.group),
              tid = at.group * (int)RING_THREADS + at.warp * WARP_LANES + at.lane;
    const unsigned column = (unsigned)(tile * TILE_ROWS + at.lane % TILE_ROWS);
    float *const sums = (float *)(shared + SUMS_AT) + at.group * RING_WARPS * TILE_ROWS;
    uint4 *const att = (uint4 *)(shared + ATT_AT);
    struct column_ready ready = {};

    if (tile >= 0)
        ready = ready_column(p.out, column, router_weights_at((unsigned)tile));
    att[tid] = await4(p.words + LAYER_ATT_AT + tid * 4);
    if (tid < LINE_BYTES / 16)
        att[LAYER_THREADS + tid] = make_uint4(0, 0, 0, 0);
    copy_wait<0>();
    __syncthreads();
    if (tile < 0)
        return;
    multiply_chain(sums + at.warp * TILE_ROWS, out_slots(shared, at), SLICE_UNITS,
                   shared + ATT_AT + at.warp * SLICE_UNITS * UNIT_BLOCKS * TOKEN_BLOCK_BYTES, 1,
                   shared + ATT_AT + LAYER_THREADS * 16);
    sync_group(at.group);
    finish_column(p.out, sums, ready, column);
}

#endif
