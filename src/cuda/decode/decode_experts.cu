/* Stages router (top-k) and experts of one decode row in one kernel: RMSNorm and top-k from the
 * router sums of the output projection, gate and up projections, SwiGLU, down projection.
 *
 * A pair of kernels (decode_up.cu, decode_down.cu) has an exchange between all SMs: each row of the
 * down projection needs all gated units. Here a cluster of four blocks computes one slice of the
 * gated units of an expert (expert_sums.cuh), exchanges it through distributed shared memory, and
 * multiplies it with the slice's columns of w_down. The results of the slices are added to integer
 * sums in memory, in any order; the next kernel adds the sums to x.
 *
 * Work division: 45 units make seven slices of six units and one of three. A cluster has a slice of
 * six, or the last slices of two experts: 30 clusters with four experts. A block has three of the
 * cluster's twelve rows of units of w_up, and every fourth row of units of w_down. A warp takes two
 * chains (an eighth of the columns of a row of units) of w_up, then a row of units of w_down; its
 * ring of weight copies continues from one into the other. A gated unit has the bits of
 * decode_up.cu, and a slice those of decode_down.cu.
 *
 * Memory bound: the weights of the selected experts are read once. Needs clusters (sm_90). */
#include "cuda/common/cluster.cuh"
#include "cuda/common/expert_sums.cuh"
#include "cuda/common/swiglu.cuh"
#include "cuda/decode/expert_row.cuh"

/* BLOCKS of a cluster: 6 where there are so few slices that these fit the GPU, as on a rank of
 * several; else 4. */
enum {
    CLUSTER_ITEMS = 12, /* rows of units of w_up of a cluster, by equal shares of blocks */
    BLOCKS_MIN = 4,
    BLOCKS_MAX = 6,
    ITEMS_MAX = CLUSTER_ITEMS / BLOCKS_MIN,                /* of a block */
    ITEM_UNITS = UNIT_ROWS / 2,                            /* gated units of an item */
    SLICE_MAX = CLUSTER_ITEMS * ITEM_UNITS / UNIT_COLUMNS, /* units of a cluster */
    UP_CHAINS_MAX = ITEMS_MAX * RING_WARPS,
    WARP_CHAINS = UP_CHAINS_MAX / EXPERT_WARPS, /* of w_up, of a warp, at most */
    GATED_BYTES = SLICE_MAX * UNIT_COLUMNS * 2,
    ITEM_BYTES = ITEM_UNITS * 2,
    ITEM_PIECES = ITEM_BYTES / LANE_BYTES,
    REGISTERS = 96, /* so high that an SM runs one block, so low that it runs beside attn_out's */
    PARTS_MAX = 2
};
static_assert((int)UP_CHAINS_MAX % (int)EXPERT_WARPS == 0, "equal numbers of chains per warp");
static_assert(BLOCKS_MAX * ITEM_PIECES <= (int)WARP_LANES, "an item is sent in one instruction");
static_assert(CLUSTER_ITEMS % BLOCKS_MIN == 0 && CLUSTER_ITEMS % BLOCKS_MAX == 0, "equal shares");

typedef ring_shape<DTYPE_MXFP4, 4, 1, 3> experts_shape;

enum { ITEM_SUMS = RING_WARPS * experts_shape::TILES * TILE_ROWS };

/* How the slices of a row's experts are divided among clusters. */
struct slice_plan {
    int32_t width, n_slices; /* units in a slice, but the last one; slices of an expert */
    int32_t n_single;        /* clusters with one slice; the others have two last slices */
    int32_t n_clusters;
};

/* The slices of a cluster: one, or the last ones of two experts. */
struct cluster_slices {
    int rank[PARTS_MAX], n[PARTS_MAX]; /* n: units; 0: no second slice */
    int first;                         /* unit */
    int n_parts;
};

/* Registers cannot be indexed. */
static __device__ __forceinline__ int rank_of(const struct cluster_slices &c, int part)
{
    return part == 0 ? c.rank[0] : c.rank[1];
}

static __device__ __forceinline__ int units_of_part(const struct cluster_slices &c, int part)
{
    return part == 0 ? c.n[0] : c.n[1];
}

template <int BLOCKS>
static __device__ __forceinline__ struct cluster_slices
slices_of_cluster(const struct slice_plan &s, int n_ranks, int n_units)
{
    const int cluster = (int)blockIdx.x / BLOCKS, slice = cluster / n_ranks;
    struct cluster_slices c;

    if (cluster < s.n_single) {
        c.first = slice * s.width;
        c.rank[0] = c.rank[1] = cluster - slice * n_ranks;
        c.n[0] = min((int)s.width, n_units - c.first);
        c.n[1] = 0;
    } else {
        const int pair = (cluster - s.n_single) * PARTS_MAX;

        c.first = (s.n_slices - 1) * s.width;
        c.n[0] = c.n[1] = n_units - c.first;
        c.rank[0] = pair;
        c.rank[1] = pair + 1;
        if (pair + 1 >= n_ranks) {
            c.rank[1] = pair;
            c.n[1] = 0;
        }
    }
    c.n_parts = c.n[1] > 0 ? PARTS_MAX : 1;
    return c;
}

/* A row of units of w_up: rank of its expert, and its number in the matrix; rank -1: none. */
struct up_row {
    int rank, row;
};

/* Item i of the block. */
template <int BLOCKS>
static __device__ __forceinline__ struct up_row up_row_of(const struct cluster_slices &c, int i)
{
    const int items = CLUSTER_ITEMS / BLOCKS;
    const int at = cluster_rank() * items + i, unit = at / 2, part = unit < c.n[0] ? 0 : 1;
    const int of_part = part == 0 ? unit : unit - c.n[0];

    if (i >= items || of_part >= units_of_part(c, part))
        return {-1, 0};
    return {rank_of(c, part), (c.first + of_part) * 2 + at % 2};
}

/* Row of units of w_down number i of a warp. */
template <int BLOCKS> static __device__ __forceinline__ int down_row_of(int i)
{
    return (i * EXPERT_WARPS + (int)threadIdx.x / WARP_LANES) * BLOCKS + cluster_rank();
}

/* ---- a warp's copies ---- */

/* A warp's ring, and its next copy. Chains 0 to WARP_CHAINS - 1 are those of w_up; those of w_down
 * follow: the parts of a row of units, then the next row. */
struct experts_walk {
    char *slots;
    const unsigned char *at;
    int slot, chain, rank, n_left, step_bytes; /* n_left: copies of the chain */
};

/* Moves to the first chain from walk->chain on that has units for this warp. Its address is that of
 * expert 0. */
template <int BLOCKS>
static __device__ __forceinline__ void walk_prepare(struct experts_walk *walk,
                                                    const struct decode_experts &p,
                                                    const struct cluster_slices &c)
{
    const int warp = threadIdx.x / WARP_LANES, n_rows = (p.down.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;

    for (; walk->chain < WARP_CHAINS; walk->chain++) {
        const int i = walk->chain * EXPERT_WARPS + warp, eighth = i % RING_WARPS;
        const struct up_row r = up_row_of<BLOCKS>(c, i / RING_WARPS);

        if (r.rank >= 0 && eighth < p.up.n_units) {
            walk->rank = r.rank;
            walk->at = p.up.units + (int64_t)(r.row * p.up.n_units + eighth) * MXFP4_UNIT_BYTES;
            walk->n_left = (p.up.n_units - eighth + RING_WARPS - 1) / RING_WARPS;
            walk->step_bytes = RING_WARPS * MXFP4_UNIT_BYTES;
            return;
        }
    }
    const int i = walk->chain - WARP_CHAINS, part = c.n_parts == 1 ? 0 : i % PARTS_MAX;
    const int row = down_row_of<BLOCKS>(c.n_parts == 1 ? i : i / PARTS_MAX);

    walk->n_left = 0;
    if (row < n_rows) {
        walk->rank = rank_of(c, part);
        walk->at = p.down.units + (int64_t)(row * p.down.n_units + c.first) * MXFP4_UNIT_BYTES;
        walk->n_left = units_of_part(c, part);
        walk->step_bytes = MXFP4_UNIT_BYTES;
    }
}

/* Adds the offset of the selected expert. */
static __device__ __forceinline__ void walk_into(struct experts_walk *walk,
                                                 const struct decode_experts &p, const int *ids)
{
    if (walk->n_left > 0)
        walk->at +=
            ids[walk->rank] * (walk->chain < WARP_CHAINS ? p.up.matrix_bytes : p.down.matrix_bytes);
}

/* Starts the copy of the next unit, if there is one. */
template <int BLOCKS>
static __device__ __forceinline__ void
walk_fill(struct experts_walk *walk, const struct decode_experts &p, const struct cluster_slices &c,
          const int *ids, char *slot)
{
    if (walk->n_left > 0) {
        copy_tiles<experts_shape>(slot, walk->at, 0);
        walk->at += walk->step_bytes;
        if (--walk->n_left == 0) {
            walk->chain++;
            walk_prepare<BLOCKS>(walk, p, c);
            walk_into(walk, p, ids);
        }
    }
    copy_commit();
}

/* ---- MMAs ---- */

/* Units that are multiplied together: each block of 32 columns of them is a column of operand B of
 * its own, between zeros, so that the MMAs of all blocks add to the same registers. */
enum { GROUP_UNITS = experts_shape::STAGES, CHAIN_LANE = GROUP_UNITS - 1 };
static_assert(GROUP_UNITS * UNIT_BLOCKS <= (int)COLUMN_TOKENS, "a column for each block");

/* A warp's sums of 64 rows: lane 4 g + CHAIN_LANE has rows 2 g and 2 g + 1 of each tile. */
struct chain_sums {
    float at[UNIT_TILES][2];
};

/* Adds the products of a group to the sums, in the order of the blocks: lane 4 g + t has those of
 * unit t. */
static __device__ __forceinline__ void add_group(struct chain_sums *sums,
                                                 const float d[UNIT_TILES][4], uint4 scales)
{
    const int lane = threadIdx.x % WARP_LANES, t = lane % 4;
    const int from = lane - t + (t == 0 ? (int)CHAIN_LANE : t - 1);
    const uint32_t codes[UNIT_TILES] = {scales.x, scales.y, scales.z, scales.w};
    float scale[UNIT_TILES][4];

#pragma unroll
    for (int i = 0; i < UNIT_TILES * 4; i++)
        scale[i / 4][i % 4] = scale_at(codes[i / 4], i % 4);
#pragma unroll
    for (int unit = 0; unit < GROUP_UNITS; unit++)
#pragma unroll
        for (int i = 0; i < UNIT_TILES; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const float before = __shfl_sync(ALL_LANES, sums->at[i][k], from);

                sums->at[i][k] = __fmaf_rn(d[i][k * 2 + 1], scale[i][2 + k],
                                           __fmaf_rn(d[i][k * 2], scale[i][k], before));
            }
}

/* d += unit `column` of a group times its inputs, and keeps the unit's scales in its lanes. */
static __device__ __forceinline__ void multiply_unit_of(float d[UNIT_TILES][4], uint4 *scales,
                                                        const char *slot, int column,
                                                        const char *inputs, const char *zeros)
{
    const int lane = threadIdx.x % WARP_LANES, group = lane / 4, t = lane % 4;
    uint4 words[UNIT_TILES], b[UNIT_BLOCKS];

#pragma unroll
    for (int i = 0; i < UNIT_TILES; i++)
        words[i] = ((const uint4 *)slot)[i * WARP_LANES + lane];
    if (t == column)
        *scales = *(const uint4 *)(slot + MXFP4_SCALES_OFFSET + group * MXFP4_GROUP_SCALES_BYTES);
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
        b[block] = *(const uint4 *)(group == column * UNIT_BLOCKS + block
                                        ? inputs + block * TOKEN_BLOCK_BYTES + t * LANE_BYTES
                                        : zeros);
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < UNIT_TILES; i++) {
            uint32_t low[4], high[4];

            decode_word(low, block == 0 ? words[i].x : words[i].z);
            decode_word(high, block == 0 ? words[i].y : words[i].w);
            const uint32_t a0[4] = {low[0], high[0], low[1], high[1]};
            const uint32_t a1[4] = {low[2], high[2], low[3], high[3]};

            mma_f16(d[i], a0, b[block].x, b[block].y);
            mma_f16(d[i], a1, b[block].z, b[block].w);
        }
}

/* The sums of n units times the inputs; the inputs of the units are step_bytes apart. */
template <int BLOCKS>
static __device__ __forceinline__ void
multiply_chain(struct chain_sums *sums, struct experts_walk *walk, const struct decode_experts &p,
               const struct cluster_slices &c, const int *ids, int n, const char *inputs,
               int step_bytes, const char *zeros)
{
#pragma unroll
    for (int i = 0; i < UNIT_TILES * 2; i++)
        sums->at[i / 2][i % 2] = 0.0f;
#pragma unroll 1
    for (int left = n; left > 0; left -= GROUP_UNITS) {
        float d[UNIT_TILES][4] = {};
        uint4 scales = make_uint4(0, 0, 0, 0);

#pragma unroll
        for (int unit = 0; unit < GROUP_UNITS; unit++) {
            if (unit >= left)
                break;
            char *slot = walk->slots + walk->slot * experts_shape::STAGE_BYTES;

            copy_wait<experts_shape::STAGES - 1>();
            __syncwarp();
            multiply_unit_of(d, &scales, slot, unit, inputs, zeros);
            __syncwarp();
            walk_fill<BLOCKS>(walk, p, c, ids, slot);
            walk->slot = walk->slot + 1 == experts_shape::STAGES ? 0 : walk->slot + 1;
            inputs += step_bytes;
        }
        add_group(sums, d, scales);
    }
}

/* Stores the sums of a chain where sum_of_warps() reads those of an eighth. */
static __device__ __forceinline__ void store_chain(float *to, const struct chain_sums &sums,
                                                   int eighth)
{
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll
    for (int i = 0; i < UNIT_TILES && lane % 4 == CHAIN_LANE; i++)
        ((float2 *)(to + (eighth * UNIT_TILES + i) * TILE_ROWS))[lane / 4] =
            make_float2(sums.at[i][0], sums.at[i][1]);
}

/* ---- from gated units to the cluster ---- */

/* Computes the gated units of item i from its sums, by warp i, and sends them to all blocks of the
 * cluster. */
template <int BLOCKS>
static __device__ __forceinline__ void
send_gated(char *gated, uint32_t arrived, const float *sums, const struct decode_experts &p,
           const struct up_row &r, int i, float gate, uint2 bias_bits)
{
    const int lane = threadIdx.x % WARP_LANES, to_block = lane / ITEM_PIECES;
    const int at = (cluster_rank() * (CLUSTER_ITEMS / BLOCKS) + i) * ITEM_BYTES;
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(gated) + at;
    char *own = gated + GATED_BYTES + i * ITEM_BYTES;
    float unit = 0.0f;

    if (r.rank >= 0 && r.row * ITEM_UNITS + lane < p.n_units) {
        const float2 bias = pair_of_bits(p.bias_up, bias_bits);
        const float *from = sums + i * ITEM_SUMS;

        unit = gate * swiglu(sum_of_warps<true>(from, 2 * lane, UNIT_TILES, 1) + bias.x,
                             sum_of_warps<true>(from, 2 * lane + 1, UNIT_TILES, 1) + bias.y,
                             p.limit, p.alpha);
        poison_if_not_finite(p.poison, 0, unit);
    }
    ((uint16_t *)own)[lane] = half_bits(unit);
    __syncwarp();
    if (to_block < BLOCKS) {
        const int piece = lane % ITEM_PIECES;

        send(mapa_address(to + piece * LANE_BYTES, to_block), mapa_address(arrived, to_block),
             ((const uint4 *)own)[piece]);
    }
}

/* ---- sums ---- */

/* This lane's two of the 64 rows of a row of units: lane and lane + 32. */
static __device__ __forceinline__ float2 rows_of_lane(const struct chain_sums &sums)
{
    const int lane = threadIdx.x % WARP_LANES, from = lane % TILE_ROWS / 2 * 4 + CHAIN_LANE;
    float out[2];

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float v[2][2];

#pragma unroll
        for (int tile = 0; tile < 2; tile++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                v[tile][k] = __shfl_sync(ALL_LANES, sums.at[half * 2 + tile][k], from);
        out[half] = lane < TILE_ROWS ? (lane % 2 == 0 ? v[0][0] : v[0][1])
                                     : (lane % 2 == 0 ? v[1][0] : v[1][1]);
    }
    return make_float2(out[0], out[1]);
}

static __device__ __forceinline__ void add_to(int32_t *sum, int value)
{
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(sum), "r"(value) : "memory");
}

/* Scales and biases of a lane's two rows. */
struct lane_rows {
    float scale[2];
    uint32_t bias_bits[2]; /* not converted, so that the loads are not waited for */
};

static __device__ __forceinline__ int row_of_lane(int row_of_units, int half)
{
    return row_of_units * UNIT_ROWS + half * WARP_LANES + (int)threadIdx.x % WARP_LANES;
}

static __device__ __forceinline__ void load_scales(struct lane_rows *r,
                                                   const struct decode_experts &p, int row_of_units)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = row_of_lane(row_of_units, half);

        r->scale[half] = row < p.down.n_rows ? p.grid[row] : 1.0f;
    }
}

static __device__ __forceinline__ void
load_biases(struct lane_rows *r, const struct decode_experts &p, int id, int row_of_units)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = row_of_lane(row_of_units, half);

        r->bias_bits[half] = row < p.down.n_rows ? vector_bits(p.bias_down, id, row) : 0;
    }
}

static __device__ __forceinline__ float value_of_bits(const struct decode_vector &v, uint32_t bits)
{
    return __uint_as_float(v.kind == VECTOR_F32 ? bits : bits << 16);
}

/* Adds a slice, and with the first slice of an expert the gated bias, to the sums. */
static __device__ __forceinline__ void add_slice(const struct decode_experts &p,
                                                 const struct chain_sums &slice,
                                                 const struct lane_rows &r, int row_of_units,
                                                 float gate, bool is_first)
{
    const float2 sums = rows_of_lane(slice);

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = row_of_lane(row_of_units, half);
        int32_t value = slice_partial(half == 0 ? sums.x : sums.y, slice_factor(r.scale[half]));

        if (is_first)
            value +=
                bias_partial(gate, value_of_bits(p.bias_down, r.bias_bits[half]), r.scale[half]);
        if (row < p.down.n_rows)
            add_to(p.sums + row, value);
    }
}

/* By one warp. */
static __device__ __forceinline__ void store_gates(float *gates, const struct by_lane &mine,
                                                   int n_ranks)
{
    const int lane = threadIdx.x % WARP_LANES;
    const float gate = gate_of_lane(mine, n_ranks);

    if (lane < n_ranks)
        gates[lane] = gate;
}

static __device__ void store_topk(const struct decode_experts &p, const int *ids,
                                  const float *gates)
{
    const int rank = threadIdx.x;

    if (rank < p.n_ranks) {
        p.ids[rank] = ids[rank];
        p.gates[rank] = gates[rank];
    }
    if (rank == 0) /* without a return value, so that nothing waits for it */
        atomicAdd((unsigned long long *)p.n_read, (unsigned long long)p.n_ranks);
}

/* Shared memory of a block: rings, the row, partial sums of the items, gated units of the cluster
 * and of the block. */
struct experts_shared {
    char *slots, *row, *gated, *zeros;
    float *sums;
};

static inline HOST_DEVICE int64_t shared_bytes_of(int n_units)
{
    return EXPERT_WARPS * (int64_t)experts_shape::WARP_BYTES + fragments_bytes(n_units, 1) +
           ITEMS_MAX * ITEM_SUMS * (int64_t)sizeof(float) + GATED_BYTES + ITEMS_MAX * ITEM_BYTES +
           LANE_BYTES;
}

static __device__ __forceinline__ struct experts_shared shared_of(uint4 *shared, int n_units)
{
    struct experts_shared s;

    s.slots = (char *)shared;
    s.row = s.slots + EXPERT_WARPS * experts_shape::WARP_BYTES;
    s.sums = (float *)(s.row + fragments_bytes(n_units, 1));
    s.gated = (char *)(s.sums + ITEMS_MAX * ITEM_SUMS);
    s.zeros = s.gated + GATED_BYTES + ITEMS_MAX * ITEM_BYTES;
    return s;
}

/* When all warps of the block have their sums: sends the block's gated units, and receives those of
 * the cluster. */
template <int BLOCKS>
static __device__ __forceinline__ void
exchange_gated(const struct experts_shared &s, uint32_t arrived, const struct decode_experts &p,
               const struct up_row &item, float gate, uint2 bias_bits)
{
    const int warp = threadIdx.x / WARP_LANES;

    __syncthreads();
    cluster_wait(); /* all blocks of the cluster have started */
    if (warp < CLUSTER_ITEMS / BLOCKS)
        send_gated<BLOCKS>(s.gated, arrived, s.sums, p, item, warp, gate, bias_bits);
    arrivals_wait(arrived);
}

/* Of the kernels below. */
template <int BLOCKS>
static __device__ __forceinline__ void run_experts(const struct decode_experts &p,
                                                   const struct slice_plan &plan)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ int ids[DECODE_ACTIVE_MAX];
    __shared__ float gates[DECODE_ACTIVE_MAX];
    __shared__ uint64_t arrived_at;
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const struct experts_shared s = shared_of(shared, p.up.n_units);
    const uint32_t arrived = (uint32_t)__cvta_generic_to_shared(&arrived_at);
    const struct cluster_slices c = slices_of_cluster<BLOCKS>(plan, p.n_ranks, p.down.n_units);
    const struct up_row item = up_row_of<BLOCKS>(c, warp < CLUSTER_ITEMS / BLOCKS ? warp : 0);
    float *y = blockIdx.x == 0 ? p.y : NULL;
    struct experts_walk walk = {s.slots + warp * experts_shape::WARP_BYTES, NULL, 0, 0, 0, 0, 0};
    struct lane_rows rows;
    struct row_info info;
    uint2 bias_bits = make_uint2(0, 0);

    if (threadIdx.x == WARP_LANES)
        *(uint4 *)s.zeros = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0)
        arrivals_init(arrived, CLUSTER_ITEMS * ITEM_BYTES);
    cluster_begin();
    init_row_info(&info, p);
    load_scales(&rows, p, down_row_of<BLOCKS>(0));
    walk_prepare<BLOCKS>(&walk, p, c);
    pdl_wait();
    if (warp == 0)
        store_gates(gates, topk_of_sums(ids, p.topk_input.sums, p, info, p.n_experts), p.n_ranks);
    else
        norm_row(s.row, p.topk_input.x, p.topk_input.sums, y, p, info, p.n_columns);
    __syncthreads();
    walk_into(&walk, p, ids);
#pragma unroll 1
    for (int i = 0; i < experts_shape::STAGES; i++)
        walk_fill<BLOCKS>(&walk, p, c, ids, walk.slots + i * experts_shape::STAGE_BYTES);
    if (warp < CLUSTER_ITEMS / BLOCKS && item.rank >= 0 && item.row * ITEM_UNITS + lane < p.n_units)
        bias_bits = vector_pair_bits(p.bias_up, ids[item.rank], (item.row * ITEM_UNITS + lane) * 2);
    load_biases(&rows, p, ids[c.rank[0]], down_row_of<BLOCKS>(0));
    if (blockIdx.x == 0 && warp == 0)
        store_topk(p, ids, gates);
    const int n_rows = (p.down.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;

    /* chains of w_up, then of w_down: one loop, so that the code of the MMAs exists once */
#pragma unroll 1
    for (int chain = 0;; chain++) {
        const int i = chain * EXPERT_WARPS + warp, eighth = i % RING_WARPS;
        const int of_down = chain - WARP_CHAINS;
        const int part = of_down >= 0 && c.n_parts > 1 ? of_down % PARTS_MAX : 0;
        const int row = down_row_of<BLOCKS>(c.n_parts > 1 ? of_down / PARTS_MAX : of_down);
        const int rank = rank_of(c, part);
        const char *inputs = s.row + eighth * UNIT_BLOCKS * TOKEN_BLOCK_BYTES;
        int n = (p.up.n_units - eighth + RING_WARPS - 1) / RING_WARPS, step = RING_WARPS;
        struct chain_sums sums;

        if (of_down == 0) {
            pdl_launch_dependents();
            exchange_gated<BLOCKS>(s, arrived, p, item, item.rank < 0 ? 0.0f : gates[item.rank],
                                   bias_bits);
        }
        if (of_down >= 0) {
            if (row >= n_rows)
                break;
            if (of_down > 0) {
                load_scales(&rows, p, row);
                load_biases(&rows, p, ids[rank], row);
            }
            n = units_of_part(c, part);
            inputs = s.gated + (part == 0 ? 0 : c.n[0]) * UNIT_BLOCKS * TOKEN_BLOCK_BYTES;
            step = 1;
        } else if (up_row_of<BLOCKS>(c, i / RING_WARPS).rank < 0) {
            continue;
        }
        multiply_chain<BLOCKS>(&sums, &walk, p, c, ids, n, inputs,
                               step * UNIT_BLOCKS * TOKEN_BLOCK_BYTES, s.zeros);
        if (of_down < 0)
            store_chain(s.sums + i / RING_WARPS * ITEM_SUMS, sums, eighth);
        else
            add_slice(p, sums, rows, row, gates[rank], c.first == 0);
    }
    copy_wait<0>();
}

/* Grid: clusters of BLOCKS_MIN blocks. */
static __global__ void __maxnreg__(REGISTERS)
    experts_row_kernel(const __grid_constant__ struct decode_experts p,
                       const __grid_constant__ struct slice_plan plan)
{
    run_experts<BLOCKS_MIN>(p, plan);
}

/* The same in larger clusters, of fewer slices. Grid: clusters of BLOCKS_MAX blocks. */
static __global__ void __maxnreg__(REGISTERS)
    experts_few_kernel(const __grid_constant__ struct decode_experts p,
                       const __grid_constant__ struct slice_plan plan)
{
    run_experts<BLOCKS_MAX>(p, plan);
}

static struct slice_plan plan_of(const struct decode_experts *p)
{
    const int n_units = p->down.n_units, width = p->slice_units;
    const int n_slices = (int)units_of(n_units, width), n_last = n_units - (n_slices - 1) * width;
    const bool is_paired = n_slices > 1 && n_last * PARTS_MAX <= width;
    const int n_single = p->n_ranks * (is_paired ? n_slices - 1 : n_slices);

    return {width, n_slices, n_single,
            n_single + (is_paired ? (p->n_ranks + PARTS_MAX - 1) / PARTS_MAX : 0)};
}

template <auto KERNEL, int BLOCKS>
static bool launch_clusters(struct launch_list *list, const struct decode_experts *p)
{
    const struct slice_plan plan = plan_of(p);
    const int64_t shared_bytes = shared_bytes_of(p->up.n_units);

    if (p->topk_input.sums == NULL || plan.width > SLICE_MAX ||
        clusters_at_once<KERNEL>(list->gpu, EXPERT_THREADS, BLOCKS, shared_bytes) < plan.n_clusters)
        return false;
    add_dependent_clusters<KERNEL>(list, dim3((unsigned)(plan.n_clusters * BLOCKS)), EXPERT_THREADS,
                                   shared_bytes, BLOCKS, *p, plan);
    if (!list->is_query && list->n > 0)
        list->launches[list->n - 1].has_max_carveout = true;
    return true;
}

bool launch_decode_experts_row(struct launch_list *list, const struct decode_experts *p)
{
    return launch_clusters<experts_few_kernel, BLOCKS_MAX>(list, p) ||
           launch_clusters<experts_row_kernel, BLOCKS_MIN>(list, p);
}
