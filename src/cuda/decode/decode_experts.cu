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
 * A rank of several has fewer slices, so clusters of eight blocks fit. With half rows of units a
 * warp then has half of that work, and all SMs of an H100 have a block on one of two ranks.
 *
 * Memory bound: the weights of the selected experts are read once. Needs clusters (sm_90). */
#include "cuda/common/cluster.cuh"
#include "cuda/common/expert_sums.cuh"
#include "cuda/common/swiglu.cuh"
#include "cuda/decode/expert_row.cuh"

/* BLOCKS of a cluster: 8 or 6 where there are so few slices that these fit the GPU, as on a rank of
 * several; else 4. */
enum {
    CLUSTER_ROWS = 12, /* rows of units of w_up of a cluster */
    BLOCKS_MIN = 4,
    BLOCKS_MID = 6,
    BLOCKS_MAX = 8,
    SLICE_MAX = CLUSTER_ROWS * UNIT_ROWS / 2 / UNIT_COLUMNS, /* units of a cluster */
    GATED_BYTES = SLICE_MAX * UNIT_COLUMNS * 2,
    REGISTERS = 96, /* so high that an SM runs one block, so low that it runs beside attn_out's */
    PARTS_MAX = 2
};

/* The share of a block. A row of units is one item, or, in clusters of BLOCKS_MAX, two, so that the
 * warps of a block have equal numbers of chains: 24 of w_up, and 12 rows of w_down at most. */
template <int BLOCKS> struct share {
    enum {
        ROW_ITEMS = BLOCKS == BLOCKS_MAX ? 2 : 1, /* of a row of units */
        TILES = UNIT_TILES / ROW_ITEMS,
        ITEM_ROWS = UNIT_ROWS / ROW_ITEMS,
        ITEMS = CLUSTER_ROWS * ROW_ITEMS / BLOCKS, /* of w_up */
        ITEM_UNITS = ITEM_ROWS / 2,                /* gated units of an item */
        ITEM_BYTES = ITEM_UNITS * 2,
        ITEM_PIECES = ITEM_BYTES / LANE_BYTES,
        ITEM_SUMS = RING_WARPS * ITEM_ROWS,
        WARP_CHAINS = (ITEMS * RING_WARPS + EXPERT_WARPS - 1) / EXPERT_WARPS /* of w_up, at most */
    };
    typedef ring_shape<DTYPE_MXFP4, TILES, 1, 3 * ROW_ITEMS> ring;

    static_assert(CLUSTER_ROWS * ROW_ITEMS % BLOCKS == 0, "equal shares");
    static_assert(BLOCKS * ITEM_PIECES <= (int)WARP_LANES, "an item is sent in one instruction");
};

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

/* An item of w_up: rank of its expert, and its number in the matrix; rank -1: none. */
struct up_row {
    int rank, row;
};

/* Item i of the block. */
template <int BLOCKS>
static __device__ __forceinline__ struct up_row up_row_of(const struct cluster_slices &c, int i)
{
    enum { ITEMS = share<BLOCKS>::ITEMS, UNIT_ITEMS = 2 * share<BLOCKS>::ROW_ITEMS };
    const int at = cluster_rank() * ITEMS + i, unit = at / UNIT_ITEMS;
    const int part = unit < c.n[0] ? 0 : 1;
    const int of_part = part == 0 ? unit : unit - c.n[0];

    if (i >= ITEMS || of_part >= units_of_part(c, part))
        return {-1, 0};
    return {rank_of(c, part), (c.first + of_part) * UNIT_ITEMS + at % UNIT_ITEMS};
}

/* Item of w_down number i of a warp. */
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
    int tile;                                  /* the chain's first one in its units */
};

/* The first unit of an item, from a unit of its row of units on. */
template <int BLOCKS>
static __device__ __forceinline__ const unsigned char *
item_at(struct experts_walk *walk, const struct decode_matrix &w, int item, int unit)
{
    enum { ROW_ITEMS = share<BLOCKS>::ROW_ITEMS };

    walk->tile = item % ROW_ITEMS * share<BLOCKS>::TILES;
    return w.units + (int64_t)(item / ROW_ITEMS * w.n_units + unit) * MXFP4_UNIT_BYTES +
           walk->tile * MXFP4_TILE_BYTES;
}

template <int BLOCKS>
static __device__ __forceinline__ int down_items(const struct decode_experts &p)
{
    return (p.down.n_rows + UNIT_ROWS - 1) / UNIT_ROWS * share<BLOCKS>::ROW_ITEMS;
}

/* Moves to the first chain from walk->chain on that has units for this warp. Its address is that of
 * expert 0. */
template <int BLOCKS>
static __device__ __forceinline__ void walk_prepare(struct experts_walk *walk,
                                                    const struct decode_experts &p,
                                                    const struct cluster_slices &c)
{
    enum { WARP_CHAINS = share<BLOCKS>::WARP_CHAINS };
    const int warp = threadIdx.x / WARP_LANES;

    for (; walk->chain < WARP_CHAINS; walk->chain++) {
        const int i = walk->chain * EXPERT_WARPS + warp, eighth = i % RING_WARPS;
        const struct up_row r = up_row_of<BLOCKS>(c, i / RING_WARPS);

        if (r.rank >= 0 && eighth < p.up.n_units) {
            walk->rank = r.rank;
            walk->at = item_at<BLOCKS>(walk, p.up, r.row, eighth);
            walk->n_left = (p.up.n_units - eighth + RING_WARPS - 1) / RING_WARPS;
            walk->step_bytes = RING_WARPS * MXFP4_UNIT_BYTES;
            return;
        }
    }
    const int i = walk->chain - WARP_CHAINS, part = c.n_parts == 1 ? 0 : i % PARTS_MAX;
    const int row = down_row_of<BLOCKS>(c.n_parts == 1 ? i : i / PARTS_MAX);

    walk->n_left = 0;
    if (row < down_items<BLOCKS>(p)) {
        walk->rank = rank_of(c, part);
        walk->at = item_at<BLOCKS>(walk, p.down, row, c.first);
        walk->n_left = units_of_part(c, part);
        walk->step_bytes = MXFP4_UNIT_BYTES;
    }
}

/* Adds the offset of the selected expert. */
template <int BLOCKS>
static __device__ __forceinline__ void walk_into(struct experts_walk *walk,
                                                 const struct decode_experts &p, const int *ids)
{
    if (walk->n_left > 0)
        walk->at +=
            ids[walk->rank] *
            (walk->chain < share<BLOCKS>::WARP_CHAINS ? p.up.matrix_bytes : p.down.matrix_bytes);
}

/* Starts the copy of the next unit, if there is one. */
template <int BLOCKS>
static __device__ __forceinline__ void
walk_fill(struct experts_walk *walk, const struct decode_experts &p, const struct cluster_slices &c,
          const int *ids, char *slot)
{
    if (walk->n_left > 0) {
        copy_tiles<typename share<BLOCKS>::ring>(slot, walk->at, walk->tile);
        walk->at += walk->step_bytes;
        if (--walk->n_left == 0) {
            walk->chain++;
            walk_prepare<BLOCKS>(walk, p, c);
            walk_into<BLOCKS>(walk, p, ids);
        }
    }
    copy_commit();
}

/* ---- MMAs ---- */

/* Units that are multiplied together: each block of 32 columns of them is a column of operand B of
 * its own, between zeros, so that the MMAs of all blocks add to the same registers. */
enum { GROUP_UNITS = 3, CHAIN_LANE = GROUP_UNITS - 1 };
static_assert(GROUP_UNITS * UNIT_BLOCKS <= (int)COLUMN_TOKENS, "a column for each block");

/* A warp's sums of an item: lane 4 g + CHAIN_LANE has rows 2 g and 2 g + 1 of each tile. */
template <int TILES> struct chain_sums {
    float at[TILES][2];
};

/* Adds the products of a group to the sums, in the order of the blocks: lane 4 g + t has those of
 * unit t. */
template <int TILES>
static __device__ __forceinline__ void
add_group(struct chain_sums<TILES> *sums, const float d[TILES][4], const uint32_t codes[TILES])
{
    const int lane = threadIdx.x % WARP_LANES, t = lane % 4;
    const int from = lane - t + (t == 0 ? (int)CHAIN_LANE : t - 1);
    float scale[TILES][4];

#pragma unroll
    for (int i = 0; i < TILES * 4; i++)
        scale[i / 4][i % 4] = scale_at(codes[i / 4], i % 4);
#pragma unroll
    for (int unit = 0; unit < GROUP_UNITS; unit++)
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const float before = __shfl_sync(ALL_LANES, sums->at[i][k], from);

                sums->at[i][k] = __fmaf_rn(d[i][k * 2 + 1], scale[i][2 + k],
                                           __fmaf_rn(d[i][k * 2], scale[i][k], before));
            }
}

/* The scales of a group's rows of the tiles. */
static __device__ __forceinline__ void load_codes(uint32_t (&codes)[UNIT_TILES], const char *from)
{
    const uint4 all = *(const uint4 *)from;

    codes[0] = all.x, codes[1] = all.y, codes[2] = all.z, codes[3] = all.w;
}

static __device__ __forceinline__ void load_codes(uint32_t (&codes)[UNIT_TILES / 2],
                                                  const char *from)
{
    const uint2 both = *(const uint2 *)from;

    codes[0] = both.x, codes[1] = both.y;
}

/* d += unit `column` of a group times its inputs, and keeps the unit's scales in its lanes; `tile`
 * is the item's first one. */
template <class RING>
static __device__ __forceinline__ void
multiply_unit_of(float d[RING::TILES][4], uint32_t (&codes)[RING::TILES], const char *slot,
                 int tile, int column, const char *inputs, const char *zeros)
{
    enum { TILES = RING::TILES };
    const int lane = threadIdx.x % WARP_LANES, group = lane / 4, t = lane % 4;
    uint4 words[TILES], b[UNIT_BLOCKS];

#pragma unroll
    for (int i = 0; i < TILES; i++)
        words[i] = ((const uint4 *)slot)[i * WARP_LANES + lane];
    if (t == column)
        load_codes(codes, slot + RING::SCALES_AT + group * MXFP4_GROUP_SCALES_BYTES +
                              tile * UNIT_BLOCKS * 2);
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
        b[block] = *(const uint4 *)(group == column * UNIT_BLOCKS + block
                                        ? inputs + block * TOKEN_BLOCK_BYTES + t * LANE_BYTES
                                        : zeros);
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint32_t low[4], high[4];

            decode_word(low, block == 0 ? words[i].x : words[i].z);
            decode_word(high, block == 0 ? words[i].y : words[i].w);
            const uint32_t a0[4] = {low[0], high[0], low[1], high[1]};
            const uint32_t a1[4] = {low[2], high[2], low[3], high[3]};

            mma_f16(d[i], a0, b[block].x, b[block].y);
            mma_f16(d[i], a1, b[block].z, b[block].w);
        }
}

/* The sums of n units times the inputs; the inputs of the units are step_bytes apart. `tile`: the
 * first one of the chain. */
template <int BLOCKS>
static __device__ __forceinline__ void
multiply_chain(struct chain_sums<share<BLOCKS>::TILES> *sums, struct experts_walk *walk,
               const struct decode_experts &p, const struct cluster_slices &c, const int *ids,
               int tile, int n, const char *inputs, int step_bytes, const char *zeros)
{
    typedef typename share<BLOCKS>::ring ring;
    enum { TILES = ring::TILES };

#pragma unroll
    for (int i = 0; i < TILES * 2; i++)
        sums->at[i / 2][i % 2] = 0.0f;
#pragma unroll 1
    for (int left = n; left > 0; left -= GROUP_UNITS) {
        float d[TILES][4] = {};
        uint32_t codes[TILES] = {};

#pragma unroll
        for (int unit = 0; unit < GROUP_UNITS; unit++) {
            if (unit >= left)
                break;
            char *slot = walk->slots + walk->slot * ring::STAGE_BYTES;

            copy_wait<ring::STAGES - 1>();
            __syncwarp();
            multiply_unit_of<ring>(d, codes, slot, tile, unit, inputs, zeros);
            __syncwarp();
            walk_fill<BLOCKS>(walk, p, c, ids, slot);
            walk->slot = walk->slot + 1 == ring::STAGES ? 0 : walk->slot + 1;
            inputs += step_bytes;
        }
        add_group(sums, d, codes);
    }
}

/* Stores the sums of a chain where sum_of_warps() reads those of an eighth. */
template <int TILES>
static __device__ __forceinline__ void store_chain(float *to, const struct chain_sums<TILES> &sums,
                                                   int eighth)
{
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll
    for (int i = 0; i < TILES && lane % 4 == CHAIN_LANE; i++)
        ((float2 *)(to + (eighth * TILES + i) * TILE_ROWS))[lane / 4] =
            make_float2(sums.at[i][0], sums.at[i][1]);
}

/* ---- from gated units to the cluster ---- */

/* Whether the lane has a gated unit of the item. */
template <int BLOCKS>
static __device__ __forceinline__ bool has_gated_unit(const struct decode_experts &p,
                                                      const struct up_row &r)
{
    enum { ITEM_UNITS = share<BLOCKS>::ITEM_UNITS };
    const int lane = threadIdx.x % WARP_LANES;

    return lane < ITEM_UNITS && r.row * ITEM_UNITS + lane < p.n_units;
}

/* Computes the gated units of item i from its sums, by warp i, and sends them to all blocks of the
 * cluster. */
template <int BLOCKS>
static __device__ __forceinline__ void
send_gated(char *gated, uint32_t arrived, const float *sums, const struct decode_experts &p,
           const struct up_row &r, int i, float gate, uint2 bias_bits)
{
    typedef struct share<BLOCKS> share;
    enum { ITEM_PIECES = share::ITEM_PIECES, ITEM_UNITS = share::ITEM_UNITS };
    const int lane = threadIdx.x % WARP_LANES, to_block = lane / ITEM_PIECES;
    const int at = (cluster_rank() * share::ITEMS + i) * share::ITEM_BYTES;
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(gated) + at;
    char *own = gated + GATED_BYTES + i * share::ITEM_BYTES;
    float unit = 0.0f;

    if (r.rank >= 0 && has_gated_unit<BLOCKS>(p, r)) {
        const float2 bias = pair_of_bits(p.bias_up, bias_bits);
        const float *from = sums + i * share::ITEM_SUMS;

        unit = gate * swiglu(sum_of_warps<true>(from, 2 * lane, share::TILES, 1) + bias.x,
                             sum_of_warps<true>(from, 2 * lane + 1, share::TILES, 1) + bias.y,
                             p.limit, p.alpha);
        poison_if_not_finite(p.poison, 0, unit);
    }
    if (lane < ITEM_UNITS)
        ((uint16_t *)own)[lane] = half_bits(unit);
    __syncwarp();
    if (to_block < BLOCKS) {
        const int piece = lane % ITEM_PIECES;

        send(mapa_address(to + piece * LANE_BYTES, to_block), mapa_address(arrived, to_block),
             ((const uint4 *)own)[piece]);
    }
}

/* ---- sums ---- */

/* This lane's rows of an item: lane, and lane + 32 of 64. */
template <int N>
static __device__ __forceinline__ void rows_of_lane(float out[N],
                                                    const struct chain_sums<2 * N> &sums)
{
    const int lane = threadIdx.x % WARP_LANES, from = lane % TILE_ROWS / 2 * 4 + CHAIN_LANE;

#pragma unroll
    for (int i = 0; i < N; i++) {
        float v[2][2];

#pragma unroll
        for (int tile = 0; tile < 2; tile++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                v[tile][k] = __shfl_sync(ALL_LANES, sums.at[i * 2 + tile][k], from);
        out[i] = lane < TILE_ROWS ? (lane % 2 == 0 ? v[0][0] : v[0][1])
                                  : (lane % 2 == 0 ? v[1][0] : v[1][1]);
    }
}

static __device__ __forceinline__ void add_to(int32_t *sum, int value)
{
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(sum), "r"(value) : "memory");
}

/* Scales and biases of a lane's N rows of an item. */
template <int N> struct lane_rows {
    float scale[N];
    uint32_t bias_bits[N]; /* not converted, so that the loads are not waited for */
};

template <int N> static __device__ __forceinline__ int row_of_lane(int item, int i)
{
    return (item * N + i) * WARP_LANES + (int)threadIdx.x % WARP_LANES;
}

template <int N>
static __device__ __forceinline__ void load_scales(struct lane_rows<N> *r,
                                                   const struct decode_experts &p, int item)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int row = row_of_lane<N>(item, i);

        r->scale[i] = row < p.down.n_rows ? p.grid[row] : 1.0f;
    }
}

template <int N>
static __device__ __forceinline__ void load_biases(struct lane_rows<N> *r,
                                                   const struct decode_experts &p, int id, int item)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int row = row_of_lane<N>(item, i);

        r->bias_bits[i] = row < p.down.n_rows ? vector_bits(p.bias_down, id, row) : 0;
    }
}

static __device__ __forceinline__ float value_of_bits(const struct decode_vector &v, uint32_t bits)
{
    return __uint_as_float(v.kind == VECTOR_F32 ? bits : bits << 16);
}

/* Adds a slice, and with the first slice of an expert the gated bias, to the sums. */
template <int N>
static __device__ __forceinline__ void
add_slice(const struct decode_experts &p, const struct chain_sums<2 * N> &slice,
          const struct lane_rows<N> &r, int item, float gate, bool is_first)
{
    float sums[N];

    rows_of_lane<N>(sums, slice);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int row = row_of_lane<N>(item, i);
        int32_t value = slice_partial(sums[i], slice_factor(r.scale[i]));

        if (is_first)
            value += bias_partial(gate, value_of_bits(p.bias_down, r.bias_bits[i]), r.scale[i]);
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

template <int BLOCKS> static inline HOST_DEVICE int64_t shared_bytes_of(int n_units)
{
    typedef struct share<BLOCKS> share;

    return EXPERT_WARPS * (int64_t)share::ring::WARP_BYTES + fragments_bytes(n_units, 1) +
           share::ITEMS * share::ITEM_SUMS * (int64_t)sizeof(float) + GATED_BYTES +
           share::ITEMS * share::ITEM_BYTES + LANE_BYTES;
}

template <int BLOCKS>
static __device__ __forceinline__ struct experts_shared shared_of(uint4 *shared, int n_units)
{
    typedef struct share<BLOCKS> share;
    struct experts_shared s;

    s.slots = (char *)shared;
    s.row = s.slots + EXPERT_WARPS * share::ring::WARP_BYTES;
    s.sums = (float *)(s.row + fragments_bytes(n_units, 1));
    s.gated = (char *)(s.sums + share::ITEMS * share::ITEM_SUMS);
    s.zeros = s.gated + GATED_BYTES + share::ITEMS * share::ITEM_BYTES;
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
    if (warp < share<BLOCKS>::ITEMS)
        send_gated<BLOCKS>(s.gated, arrived, s.sums, p, item, warp, gate, bias_bits);
    arrivals_wait(arrived);
}

/* Of the kernels below. */
template <int BLOCKS>
static __device__ __forceinline__ void run_experts(const struct decode_experts &p,
                                                   const struct slice_plan &plan)
{
    typedef struct share<BLOCKS> share;
    typedef typename share::ring ring;
    enum { LANE_ROWS = share::ITEM_ROWS / WARP_LANES, WARP_CHAINS = share::WARP_CHAINS };
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ int ids[DECODE_ACTIVE_MAX];
    __shared__ float gates[DECODE_ACTIVE_MAX];
    __shared__ uint64_t arrived_at;
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const struct experts_shared s = shared_of<BLOCKS>(shared, p.up.n_units);
    const uint32_t arrived = (uint32_t)__cvta_generic_to_shared(&arrived_at);
    const struct cluster_slices c = slices_of_cluster<BLOCKS>(plan, p.n_ranks, p.down.n_units);
    const struct up_row item = up_row_of<BLOCKS>(c, warp < share::ITEMS ? warp : 0);
    float *y = blockIdx.x == 0 ? p.y : NULL;
    struct experts_walk walk = {s.slots + warp * ring::WARP_BYTES, NULL, 0, 0, 0, 0, 0, 0};
    struct lane_rows<LANE_ROWS> rows;
    struct row_info info;
    uint2 bias_bits = make_uint2(0, 0);

    if (threadIdx.x == WARP_LANES)
        *(uint4 *)s.zeros = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0)
        arrivals_init(arrived, BLOCKS * share::ITEMS * share::ITEM_BYTES);
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
    walk_into<BLOCKS>(&walk, p, ids);
#pragma unroll 1
    for (int i = 0; i < ring::STAGES; i++)
        walk_fill<BLOCKS>(&walk, p, c, ids, walk.slots + i * ring::STAGE_BYTES);
    if (warp < share::ITEMS && item.rank >= 0 && has_gated_unit<BLOCKS>(p, item))
        bias_bits =
            vector_pair_bits(p.bias_up, ids[item.rank], (item.row * share::ITEM_UNITS + lane) * 2);
    load_biases(&rows, p, ids[c.rank[0]], down_row_of<BLOCKS>(0));
    if (blockIdx.x == 0 && warp == 0)
        store_topk(p, ids, gates);

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
        struct chain_sums<share::TILES> sums;
        int of_row; /* the chain's item */

        if (of_down == 0) {
            pdl_launch_dependents();
            exchange_gated<BLOCKS>(s, arrived, p, item, item.rank < 0 ? 0.0f : gates[item.rank],
                                   bias_bits);
        }
        if (of_down >= 0) {
            if (row >= down_items<BLOCKS>(p))
                break;
            of_row = row;
            if (of_down > 0) {
                load_scales(&rows, p, row);
                load_biases(&rows, p, ids[rank], row);
            }
            n = units_of_part(c, part);
            inputs = s.gated + (part == 0 ? 0 : c.n[0]) * UNIT_BLOCKS * TOKEN_BLOCK_BYTES;
            step = 1;
        } else {
            const struct up_row r = up_row_of<BLOCKS>(c, i / RING_WARPS);

            if (r.rank < 0)
                continue;
            of_row = r.row;
        }
        multiply_chain<BLOCKS>(&sums, &walk, p, c, ids, of_row % share::ROW_ITEMS * share::TILES, n,
                               inputs, step * UNIT_BLOCKS * TOKEN_BLOCK_BYTES, s.zeros);
        if (of_down < 0)
            store_chain(s.sums + i / RING_WARPS * share::ITEM_SUMS, sums, eighth);
        else
            add_slice<LANE_ROWS>(p, sums, rows, row, gates[rank], c.first == 0);
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

/* The same in larger clusters, of fewer slices. Grid: clusters of BLOCKS_MID blocks. */
static __global__ void __maxnreg__(REGISTERS)
    experts_few_kernel(const __grid_constant__ struct decode_experts p,
                       const __grid_constant__ struct slice_plan plan)
{
    run_experts<BLOCKS_MID>(p, plan);
}

/* The same with items of half a row of units. Grid: clusters of BLOCKS_MAX blocks. */
static __global__ void __maxnreg__(REGISTERS)
    experts_halves_kernel(const __grid_constant__ struct decode_experts p,
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

/* A gated unit has two rows of units of w_up. Where the last one lacks its second row, a cluster
 * would read behind the matrix. */
static bool has_whole_gated_units(const struct decode_experts *p)
{
    return p->up.n_rows > (2 * p->down.n_units - 1) * UNIT_ROWS;
}

template <auto KERNEL, int BLOCKS>
static bool launch_clusters(struct launch_list *list, const struct decode_experts *p)
{
    const struct slice_plan plan = plan_of(p);
    const int64_t shared_bytes = shared_bytes_of<BLOCKS>(p->up.n_units);

    if (p->topk_input.sums == NULL || plan.width > SLICE_MAX || !has_whole_gated_units(p) ||
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
    return launch_clusters<experts_halves_kernel, BLOCKS_MAX>(list, p) ||
           launch_clusters<experts_few_kernel, BLOCKS_MID>(list, p) ||
           launch_clusters<experts_row_kernel, BLOCKS_MIN>(list, p);
}
