/* MoE decode for few rows, first kernel: top-k of the router's logits, gate and up projections with
 * SwiGLU. decode_down.cu is the second kernel.
 *
 * An entry is a token at one of its experts. Entries are not grouped: two tokens at the same expert
 * read it twice, the second time from L2. Each of the two kernels has about one block per SM. An SM
 * that runs a block of this kernel has resources for a block of the next, which starts early (PDL)
 * and issues its first weight copies.
 *
 * Work division: warps take chains: units w, w + 8, ... of a row of units, w below 8. At the end of
 * a round the whole block adds the partial sums of the chains in the order of w, as in all kernels
 * (decode.cuh).
 *
 * If the output projection has left router sums (decode_out.cu), the first warp computes the row's
 * logits from them. The other warps normalize the row, and one block per token stores it in y.
 *
 * A block executes the top-k code twice, as decode_down.cu does: first without inputs while the
 * previous kernel still runs, to warm up the instruction cache. Memory bound. */
#include "cuda/common/expert_sums.cuh"
#include "cuda/decode/expert_row.cuh"
#include "cuda/common/swiglu.cuh"

enum {
    UP_WARPS = EXPERT_WARPS,
    UP_THREADS = EXPERT_THREADS,
    UP_ITEMS = 3,      /* of a round */
    UP_REGISTERS = 96, /* high enough that an SM runs only one block of this kernel */
    BUFFERS = 2,       /* of partial sums: one is read while the other is written */
    UP_ITEMS_MAX = 1 << 20
};
static_assert((int)UP_ITEMS * (int)RING_WARPS % (int)UP_WARPS == 0,
              "equal numbers of chains per warp");

/* A block's items: every gridDim.x-th row of units, over the experts of a token in rank order. */
struct up_items {
    const struct decode_matrix *w;
    const int *ids; /* of the experts, by rank */
    int n, n_of_expert, n_units;
    float per_expert; /* 1 / n_of_expert */
};

/* Integer division by multiplication, exact for fewer than UP_ITEMS_MAX items: an offset of half an
 * item keeps the result away from the next integer. A division would take forty instructions before
 * the first weight copy. */
static __device__ __forceinline__ int item_of(const struct up_items &items, int i, int *rank)
{
    const int item = i * (int)gridDim.x + (int)blockIdx.x;

    *rank = (int)(((float)item + 0.5f) * items.per_expert);
    return item - *rank * items.n_of_expert;
}

/* A warp's ring, and its next copy. */
template <class SHAPE> struct up_walk {
    char *slots;
    const unsigned char *at;
    int slot, chain, unit, rank;
};

/* Moves to a chain; `at` then points into the stack's first expert. */
template <class SHAPE>
static __device__ __forceinline__ void walk_to(struct up_walk<SHAPE> *walk,
                                               const struct up_items &items, int chain)
{
    while (chain < items.n * RING_WARPS && chain % RING_WARPS >= items.n_units)
        chain += UP_WARPS;
    walk->chain = chain;
    walk->unit = chain % RING_WARPS;

    const int row = item_of(items, chain / RING_WARPS, &walk->rank);

    walk->at = items.w->units + (int64_t)(row * items.w->n_units + walk->unit) * SHAPE::UNIT_BYTES;
}

/* Adds the offset of the selected expert, once the experts are info. */
template <class SHAPE>
static __device__ __forceinline__ void walk_into(struct up_walk<SHAPE> *walk,
                                                 const struct up_items &items)
{
    if (walk->chain < items.n * RING_WARPS)
        walk->at += items.ids[walk->rank] * items.w->matrix_bytes;
}

/* Starts the copy of the next unit, if there is one. */
template <class SHAPE>
static __device__ __forceinline__ void walk_fill(struct up_walk<SHAPE> *walk,
                                                 const struct up_items &items, char *slot)
{
    if (walk->chain < items.n * RING_WARPS) {
        copy_tiles<SHAPE>(slot, walk->at, 0);
        walk->at += RING_WARPS * SHAPE::UNIT_BYTES;
        walk->unit += RING_WARPS;
        if (walk->unit >= items.n_units) {
            walk_to(walk, items, walk->chain + UP_WARPS);
            walk_into(walk, items);
        }
    }
    copy_commit();
}

/* The part of the setup that does not depend on the selected experts. */
template <class SHAPE>
static __device__ __forceinline__ void walk_prepare(struct up_walk<SHAPE> *walk,
                                                    const struct up_items &items, char *slots)
{
    walk->slots = slots + threadIdx.x / WARP_LANES * SHAPE::WARP_BYTES;
    walk->slot = 0;
    walk_to(walk, items, threadIdx.x / WARP_LANES);
    materialize(walk->at);
    materialize(walk->rank);
    materialize(walk->unit);
}

/* Starts the walk and fills every stage of the ring. */
template <class SHAPE>
static __device__ __forceinline__ void walk_begin(struct up_walk<SHAPE> *walk,
                                                  const struct up_items &items)
{
    walk_into(walk, items);
#pragma unroll 1
    for (int i = 0; i < SHAPE::STAGES; i++)
        walk_fill(walk, items, walk->slots + i * SHAPE::STAGE_BYTES);
}

/* Loads a row of inputs as fragments. */
static __device__ __forceinline__ void prefetch_row(char *fragments, const float *x, int n,
                                                    int n_units)
{
    const int n_left = n / 4 - row_thread();
    const int n_put_left = n_units * (UNIT_COLUMNS / 4) - row_thread();
    const float4 *from = (const float4 *)x + row_thread();
    uint2 *to = (uint2 *)fragments + row_thread();
    float4 regs[ROW_PIECES];

#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++)
        regs[i] =
            i * ROW_THREADS < n_left ? __ldcg(from + i * ROW_THREADS) : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++)
        if (i * ROW_THREADS < n_put_left)
            to[i * ROW_THREADS] =
                make_uint2(pair_f16(regs[i].x, regs[i].y), pair_f16(regs[i].z, regs[i].w));
}

/* ---- MMAs ---- */

/* acc = the units of a chain times the token. */
template <class SHAPE>
static __device__ __forceinline__ void
multiply_chain(float acc[SHAPE::TILES][1][4], struct up_walk<SHAPE> *walk,
               const struct up_items &items, int w, const char *fragments)
{
#pragma unroll
    for (int i = 0; i < SHAPE::TILES * 4; i++)
        acc[i / 4][0][i % 4] = 0.0f;
    for (int unit = w; unit < items.n_units; unit += RING_WARPS) {
        char *slot = walk->slots + walk->slot * SHAPE::STAGE_BYTES;
        struct unit_regs<SHAPE> regs;

        copy_wait<SHAPE::STAGES - 1>();
        __syncwarp();
        load_unit_regs<SHAPE>(&regs, slot, 0);
        __syncwarp();
        walk_fill(walk, items, slot);
        walk->slot = walk->slot + 1 == SHAPE::STAGES ? 0 : walk->slot + 1;
        multiply_unit<SHAPE, 1, 1>(acc, regs, fragments + unit * UNIT_BLOCKS * TOKEN_BLOCK_BYTES, 0,
                                   1);
    }
}

/* The items of this block. */
static __device__ __forceinline__ struct up_items up_items_of(const struct decode_experts &p,
                                                              const int *ids, int n_items)
{
    const int n_of_expert = (p.up.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;

    return {&p.up,
            ids,
            (n_items - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x,
            n_of_expert,
            p.up.n_units,
            1.0f / (float)n_of_expert};
}

/* A gated unit times the gate of its expert, from the sums of an item: `at` is the row of its
 * gate. */
template <class SHAPE>
static __device__ __forceinline__ float gated_unit(const float *sums, int at, float2 bias,
                                                   float gate, const struct decode_experts &p)
{
    return gate * swiglu(sum_of_warps<true>(sums, at, SHAPE::TILES, 1) + bias.x,
                         sum_of_warps<true>(sums, at + 1, SHAPE::TILES, 1) + bias.y, p.limit,
                         p.alpha);
}

/* Grid: blocks that share the items of a token, tokens. Gated units are stored as FP16, the input
 * format of the down kernel. */
template <class SHAPE, bool HAS_SUMS>
static __global__ void __maxnreg__(UP_REGISTERS)
    up_kernel(const __grid_constant__ struct decode_experts p, int n_items)
{
    enum {
        GATED = SHAPE::TILES * TILE_ROWS / 2,
        ITEM_SUMS = RING_WARPS * SHAPE::TILES * TILE_ROWS
    };
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ int ids[DECODE_ACTIVE_MAX];
    __shared__ float gates[DECODE_ACTIVE_MAX]; /* behind the barrier of the first round */
    const int token = blockIdx.y, warp = threadIdx.x / WARP_LANES;
    char *fragments = (char *)shared + UP_WARPS * SHAPE::WARP_BYTES;
    float *sums = (float *)(fragments + fragments_bytes(p.up.n_units, 1));
    const struct up_items items = up_items_of(p, ids, n_items);
    const float *row = (HAS_SUMS ? p.topk_input.x : p.y) + token * p.n_columns;
    const float *router_logits = p.router_logits + (HAS_SUMS ? 0 : token * p.n_experts);
    const uint64_t *router = p.topk_input.sums + token * ROUTER_ROW_SUMS;
    float *y = HAS_SUMS && blockIdx.x == 0 ? p.y + token * p.n_columns : NULL;
    struct up_walk<SHAPE> walk;
    struct row_info info;
    struct by_lane mine = {};

    walk_prepare(&walk, items, (char *)shared);
    materialize(row);
    if (HAS_SUMS) {
        init_row_info(&info, p);
        materialize(router);
    } else {
        materialize(router_logits);
    }
#pragma unroll 1
    for (int pass = WARMUP_PASS; pass < N_PASSES; pass++) {
        const bool is_real = pass == FINAL_PASS;

        if (is_real) {
            pdl_wait();
            pdl_launch_dependents(); /* now: the next kernel reads the logits early */
        }
        if (HAS_SUMS && warp == 0)
            mine = topk_of_sums(ids, router, p, info, is_real ? p.n_experts : 0);
        else if (HAS_SUMS)
            norm_row(fragments, row, router, is_real ? y : NULL, p, info,
                     is_real ? p.n_columns : 0);
        else if (warp == 0)
            mine =
                block_topk(ids, candidates_of(router_logits, is_real ? p.n_experts : 0), p.n_ranks);
        else
            prefetch_row(fragments, row, is_real ? p.n_columns : 0, p.up.n_units);
        __syncthreads();
        if (is_real)
            walk_begin(&walk, items);
        if (warp == 0)
            store_gates(gates, mine, threadIdx.x, p.n_ranks);
    }
    for (int first = 0; first < items.n; first += UP_ITEMS) {
        float *sums_of_round = sums + first / UP_ITEMS % BUFFERS * UP_ITEMS * ITEM_SUMS;
        const int end = min(items.n, first + UP_ITEMS), i = first + (int)threadIdx.x / GATED;
        int rank;
        const int unit = item_of(items, i, &rank) * GATED + (int)threadIdx.x % GATED;
        const bool is_mine = i < end && unit < p.n_units;
        const uint2 bias_bits =
            is_mine ? vector_pair_bits(p.bias_up, ids[rank], unit * 2) : make_uint2(0, 0);

        for (int chain = first * RING_WARPS + warp; chain < end * RING_WARPS; chain += UP_WARPS) {
            float acc[SHAPE::TILES][1][4];

            multiply_chain<SHAPE>(acc, &walk, items, chain % RING_WARPS, fragments);
            store_sums_of<SHAPE::TILES, 1>(sums_of_round + (chain / RING_WARPS - first) * ITEM_SUMS,
                                           acc, chain % RING_WARPS, 1);
        }
        __syncthreads();
        if (is_mine) {
            const float *from = sums_of_round + (i - first) * ITEM_SUMS;
            const float2 bias = pair_of_bits(p.bias_up, bias_bits);
            const int at = threadIdx.x % GATED * 2;

            const float number = gated_unit<SHAPE>(from, at, bias, gates[rank], p);

            p.units[(token * p.n_ranks + rank) * p.n_units + unit] = half_bits(number);
            poison_if_not_finite(p.poison, token, number);
        }
    }
    copy_wait<0>();
}

typedef ring_shape<DTYPE_MXFP4, 4, 1, 3> up_shape;

template <bool HAS_SUMS> static bool up(struct launch_list *list, const struct decode_experts *p)
{
    const int n_processors = list->gpu->n_sms;
    const int n_items = (int)units_of(p->up.n_rows, UNIT_ROWS) * p->n_ranks;
    const int n_blocks_max = n_processors > p->n_tokens ? n_processors / p->n_tokens : 1;
    const int n_of_block = (int)units_of(n_items, n_blocks_max);
    const int64_t shared_bytes =
        UP_WARPS * up_shape::WARP_BYTES + fragments_bytes(p->up.n_units, 1) +
        BUFFERS * UP_ITEMS * split_sums(up_shape::TILES, 1) * (int64_t)sizeof(float);

    return n_items < UP_ITEMS_MAX &&
           decode_launch_of<up_kernel<up_shape, HAS_SUMS>>(
               list, dim3((unsigned)units_of(n_items, n_of_block), (unsigned)p->n_tokens),
               UP_THREADS, shared_bytes, *p, n_items);
}

bool launch_decode_up(struct launch_list *list, const struct decode_experts *p)
{
    return p->topk_input.sums != NULL ? up<true>(list, p) : up<false>(list, p);
}
