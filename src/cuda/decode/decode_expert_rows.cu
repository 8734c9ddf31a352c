/* Stages router (top-k) and experts of two to four decode rows in one kernel, as decode_experts.cu
 * has them for one row, with the same bits: a row's sums depend neither on the other rows nor on
 * how the work is divided.
 *
 * Work division: a job is a distinct expert and its entries (rows that selected it), and a task is
 * a share of a job (expert_slices.h). Each block lists jobs and tasks itself, from the router sums:
 * a list that another kernel writes is a chain of three dependent loads, behind that kernel's end.
 * A cluster of four blocks takes every n-th task; its rings of weight copies continue from one task
 * into the next. The entries of a job are the columns of the MMAs, so its weights are read once.
 *
 * In a task a block has three of twelve rows of units of w_up, a warp two chains of them. The gated
 * units are exchanged through distributed shared memory, in one of two buffers: a block sends those
 * of a task when all its warps have left the task before, and waits for those of the others, so no
 * block is two tasks ahead of another one in its cluster. A warp then takes rows of units of
 * w_down.
 *
 * Memory bound. Needs clusters (sm_90). */
#include "cuda/common/cluster.cuh"
#include "cuda/common/swiglu.cuh"
#include "cuda/decode/columns.cuh"
#include "cuda/decode/expert_columns.cuh"
#include "cuda/decode/expert_row.cuh"
#include "cuda/decode/expert_slices.h"

enum {
    BLOCKS = 4, /* of a cluster */
    ITEMS = CLUSTER_ITEMS / BLOCKS,
    WARP_CHAINS = ITEMS * RING_WARPS / EXPERT_WARPS, /* of w_up, of a warp */
    ENTRIES_MAX = DECODE_FUSED_MAX * DECODE_ACTIVE_MAX,
    TASKS_MAX = WARP_LANES,                     /* of a cluster */
    BUFFERS = 2,                                /* of gated units */
    NORM_FIRST = DECODE_FUSED_MAX * WARP_LANES, /* the first warps select experts, a row each */
    ROW_NORM_THREADS = EXPERT_THREADS - NORM_FIRST,
    UNIT_INPUT_BYTES = UNIT_BLOCKS * TOKEN_BLOCK_BYTES,
    GATED_STRIDE = GATED_BYTES + TOKEN_BLOCK_BYTES, /* adjacent entries are in different banks */
    ENTRY_SUMS = RING_WARPS * UNIT_ROWS,
    SCALES_BYTES = WARP_LANES * LANE_BYTES, /* of the current unit of a warp, as floats */
    REGISTERS = 104 /* so high that an SM runs one block, so low that it runs beside attn_qkv's */
};
static_assert(ITEMS * RING_WARPS % EXPERT_WARPS == 0, "equal numbers of chains per warp");
static_assert((int)ENTRIES_MAX == (int)WARP_LANES, "an entry for each lane");
static_assert(ITEMS * DECODE_FUSED_MAX <= (int)EXPERT_WARPS, "a warp for each item of an entry");
static_assert(BLOCKS * ITEM_PIECES <= (int)WARP_LANES, "an item is sent in one instruction");
static_assert((int)DECODE_FUSED_MAX <= (int)COLUMN_TOKENS, "a job fits the columns of an MMA");
static_assert(ROW_NORM_THREADS * ROW_PIECES * 4 >= (int)DECODE_WIDTH_MAX, "a row fits its threads");
static_assert((int)ROUTER_COPIES == 2 && DECODE_FUSED_MAX * 4 <= (int)WARP_LANES,
              "a lane for each word of the rows' squares");

typedef ring_shape<DTYPE_MXFP4, 4, 1, 3> rows_shape;

/* ---- shared memory ---- */

/* Of constant size. */
struct task_list {
    struct expert_task tasks[TASKS_MAX];
    struct expert_job jobs[ENTRIES_MAX];
    int ids[ENTRIES_MAX]; /* of entry DECODE_ACTIVE_MAX * row + rank */
    float gates[ENTRIES_MAX];
    int n_jobs, n_tasks;
    uint64_t arrived[BUFFERS]; /* mbarriers: the gated units of the cluster */
};

/* Rings, rows as fragments, partial sums (item, entry, eighth, row), gated units of the cluster
 * (buffer, entry), scales and gated units of a warp, zeros. */
struct rows_shared {
    char *slots, *rows, *gated, *scales, *own, *zeros;
    float *sums;
    int row_bytes; /* stride; adjacent rows are in different banks */
};

static inline HOST_DEVICE int row_stride(int n_units)
{
    return fragments_bytes(n_units, 1) + TOKEN_BLOCK_BYTES;
}

static inline HOST_DEVICE int64_t shared_bytes_of(int n_units, int n_tokens)
{
    return EXPERT_WARPS * (int64_t)(rows_shape::WARP_BYTES + SCALES_BYTES + ITEM_BYTES) +
           n_tokens * (row_stride(n_units) + ITEMS * ENTRY_SUMS * (int64_t)sizeof(float) +
                       BUFFERS * GATED_STRIDE) +
           UNIT_INPUT_BYTES;
}

static __device__ __forceinline__ struct rows_shared shared_of(uint4 *shared, int n_units,
                                                               int n_tokens)
{
    struct rows_shared s;

    s.row_bytes = row_stride(n_units);
    s.slots = (char *)shared;
    s.scales = s.slots + EXPERT_WARPS * rows_shape::WARP_BYTES;
    s.own = s.scales + EXPERT_WARPS * SCALES_BYTES;
    s.zeros = s.own + EXPERT_WARPS * ITEM_BYTES;
    s.sums = (float *)(s.zeros + UNIT_INPUT_BYTES);
    s.rows = (char *)(s.sums + n_tokens * ITEMS * ENTRY_SUMS);
    s.gated = s.rows + n_tokens * s.row_bytes;
    return s;
}

static __device__ __forceinline__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* Bytes of gated units that a block receives in a task: entries that a job lacks are zeros. */
static __device__ __forceinline__ int arriving_bytes(const struct decode_experts &p)
{
    return p.n_tokens * GATED_BYTES;
}

/* ---- rows ---- */

static __device__ __forceinline__ int norm_thread(void)
{
    return (int)threadIdx.x - NORM_FIRST;
}

static __device__ __forceinline__ void init_rows_info(struct row_info *info,
                                                      const struct decode_experts &p)
{
    *info = {};
    info->inverse_n = 1.0f / (float)p.n_columns;
    if (threadIdx.x < NORM_FIRST)
        router_biases(info->biases, p.topk_input.bias, p.n_experts);
    else
#pragma unroll
        for (int i = 0; i < ROW_PIECES; i++)
            info->weights[i] = weights_at(p.topk_input.norm,
                                          (norm_thread() + i * ROW_NORM_THREADS) * 4, p.n_columns);
#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++)
        materialize(info->weights[i]);
#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        materialize(info->biases[i]);
    materialize(info->inverse_n);
}

/* Lane l has the norm's factor of row l / 4: router_factor(), a word of which each lane loads. */
static __device__ __forceinline__ float factor_of_lane(const struct decode_experts &p,
                                                       float inverse_n)
{
    const int lane = threadIdx.x % WARP_LANES, row = lane / 4, first = lane - lane % 4;
    const long long *from = (const long long *)p.topk_input.sums + row * ROUTER_ROW_SUMS +
                            lane % 2 * ROUTER_COPY_SUMS + ROUTER_SQUARES_AT + lane / 2 % 2;
    long long word = row < p.n_tokens ? __ldcg(from) : 0;
    struct squares s;

    word += __shfl_xor_sync(ALL_LANES, word, 1);
    s.whole = __shfl_sync(ALL_LANES, word, first);
    s.rest = __shfl_sync(ALL_LANES, word, first + 2);
    return factor_of(sum_of_squares(s), inverse_n, p.topk_input.eps);
}

/* Stores a normalized row as fragments, and in y unless that is NULL. */
static __device__ __forceinline__ void store_row(char *fragments, float *y, float4 regs[ROW_PIECES],
                                                 float factor, const struct decode_experts &p,
                                                 const struct row_info &info)
{
    uint2 *to = (uint2 *)fragments + norm_thread();

#pragma unroll
    for (int i = 0; i < ROW_PIECES; i++) {
        const int at = norm_thread() + i * ROW_NORM_THREADS;
        const float4 w = info.weights[i];
        const float4 v =
            make_float4(normed(regs[i].x, factor, w.x), normed(regs[i].y, factor, w.y),
                        normed(regs[i].z, factor, w.z), normed(regs[i].w, factor, w.w));

        if (at < p.up.n_units * (UNIT_COLUMNS / 4))
            to[i * ROW_NORM_THREADS] = make_uint2(pair_f16(v.x, v.y), pair_f16(v.z, v.w));
        if (y != NULL && at < p.n_columns / 4)
            ((float4 *)y)[at] = v;
    }
}

/* Normalizes all rows; all warps but those that select experts. Row r goes to y in block r. */
static __device__ __forceinline__ void
norm_rows(const struct rows_shared &s, const struct decode_experts &p, const struct row_info &info)
{
    float4 regs[DECODE_FUSED_MAX][ROW_PIECES];

#pragma unroll
    for (int row = 0; row < DECODE_FUSED_MAX; row++)
#pragma unroll
        for (int i = 0; i < ROW_PIECES; i++) {
            const int at = norm_thread() + i * ROW_NORM_THREADS;

            regs[row][i] = make_float4(0, 0, 0, 0);
            if (row < p.n_tokens && at < p.n_columns / 4)
                regs[row][i] = __ldcg((const float4 *)(p.topk_input.x + row * p.n_columns) + at);
        }
    const float factors = factor_of_lane(p, info.inverse_n);

#pragma unroll
    for (int row = 0; row < DECODE_FUSED_MAX; row++) {
        const float factor = __shfl_sync(ALL_LANES, factors, row * 4);

        if (row < p.n_tokens)
            store_row(s.rows + row * s.row_bytes,
                      (int)blockIdx.x == row ? p.y + row * p.n_columns : NULL, regs[row], factor, p,
                      info);
    }
}

/* ---- jobs and tasks ---- */

/* Selects the experts of row `row`, by one warp. */
static __device__ __forceinline__ void select_experts(struct task_list *list,
                                                      const struct decode_experts &p,
                                                      const struct row_info &info, int row)
{
    const int first = row * DECODE_ACTIVE_MAX;

    if (row < p.n_tokens)
        store_gates(list->gates + first,
                    topk_of_sums(list->ids + first, p.topk_input.sums + row * ROUTER_ROW_SUMS, p,
                                 info, p.n_experts),
                    threadIdx.x % WARP_LANES, p.n_ranks);
}

static __device__ __forceinline__ bool is_entry(const struct decode_experts &p, int i)
{
    return i / DECODE_ACTIVE_MAX < p.n_tokens && i % DECODE_ACTIVE_MAX < p.n_ranks;
}

/* Lists the jobs, in the order of their first entries, and the tasks of this cluster, by one
 * warp. */
static __device__ __forceinline__ void list_tasks(struct task_list *list,
                                                  const struct decode_experts &p, int n_slices)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int id = is_entry(p, lane) ? list->ids[lane] : -1 - lane; /* else different ones */
    const unsigned same = __match_any_sync(ALL_LANES, id), lower = (1u << lane) - 1;
    const bool leads = is_entry(p, lane) && (same & lower) == 0;
    const unsigned leaders = __ballot_sync(ALL_LANES, leads);
    const int n_jobs = __popc(leaders), n_clusters = (int)gridDim.x / BLOCKS;
    const int task = (int)blockIdx.x / BLOCKS + lane * n_clusters;
    const struct slice_plan plan = plan_of_slices(p.down.n_units, p.slice_units, n_slices, n_jobs);

    if (leads)
        list->jobs[__popc(leaders & lower)] = expert_job{id, same};
    __syncwarp();
    if (task < plan.n_clusters)
        list->tasks[lane] = task_of_jobs(&plan, list->jobs, n_jobs, p.down.n_units, task);
    const int n_tasks = __popc(__ballot_sync(ALL_LANES, task < plan.n_clusters));

    if (lane == 0) {
        list->n_jobs = n_jobs;
        list->n_tasks = n_tasks;
    }
}

/* Stores the result of stage router, by one warp. */
static __device__ __forceinline__ void store_topk(const struct decode_experts &p,
                                                  const struct task_list &list)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int to = lane / DECODE_ACTIVE_MAX * p.n_ranks + lane % DECODE_ACTIVE_MAX;

    if (is_entry(p, lane)) {
        p.ids[to] = list.ids[lane];
        p.gates[to] = list.gates[lane];
    }
    if (lane == 0) /* without a return value, so that nothing waits for it */
        atomicAdd((unsigned long long *)p.n_read, (unsigned long long)list.n_jobs);
}

/* ---- a warp's copies ---- */

/* Item i of the block. */
static __device__ __forceinline__ struct up_row up_row_of(const struct cluster_slices &c, int i)
{
    return up_row_of_item(&c, cluster_rank() * ITEMS + i);
}

/* Of a chain of w_up: number in the block. */
static __device__ __forceinline__ int up_chain_of(int chain)
{
    return chain * EXPERT_WARPS + (int)threadIdx.x / WARP_LANES;
}

/* Units of an eighth. */
static __device__ __forceinline__ int units_of_eighth(int n_units, int eighth)
{
    return (n_units - eighth + RING_WARPS - 1) / RING_WARPS;
}

/* Chain i of w_down of a warp: the parts of a row of units, then those of the next row. */
struct down_chain {
    int part, row;
};

static __device__ __forceinline__ struct down_chain down_chain_of(const struct cluster_slices &c,
                                                                  int i)
{
    const int row = c.n_parts > 1 ? i / PARTS_MAX : i;

    return {c.n_parts > 1 ? i % PARTS_MAX : 0, up_chain_of(row) * BLOCKS + cluster_rank()};
}

/* A warp's ring, and its next copy. In a task chains 0 to WARP_CHAINS - 1 are those of w_up; those
 * of w_down follow. */
struct rows_walk {
    char *slots;
    const unsigned char *at;
    int slot, task, chain, n_left, step_bytes; /* n_left: copies of the chain; 0: no more tasks */
};

/* Moves to the first chain from walk->chain on that has units for this warp. */
static __device__ __forceinline__ void
walk_prepare(struct rows_walk *walk, const struct decode_experts &p, const struct task_list &list)
{
    const int n_rows = (p.down.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;

    for (; walk->task < list.n_tasks; walk->task++, walk->chain = 0) {
        const struct expert_task &task = list.tasks[walk->task];

        for (; walk->chain < WARP_CHAINS; walk->chain++) {
            const int i = up_chain_of(walk->chain), eighth = i % RING_WARPS;
            const struct up_row r = up_row_of(task.slices, i / RING_WARPS);

            if (r.part >= 0 && eighth < p.up.n_units) {
                walk->at = p.up.units + task.expert[r.part] * p.up.matrix_bytes +
                           (int64_t)(r.row * p.up.n_units + eighth) * MXFP4_UNIT_BYTES;
                walk->n_left = units_of_eighth(p.up.n_units, eighth);
                walk->step_bytes = RING_WARPS * MXFP4_UNIT_BYTES;
                return;
            }
        }
        const struct down_chain d = down_chain_of(task.slices, walk->chain - WARP_CHAINS);

        if (d.row < n_rows) {
            walk->at = p.down.units + task.expert[d.part] * p.down.matrix_bytes +
                       (int64_t)(d.row * p.down.n_units + task.slices.first) * MXFP4_UNIT_BYTES;
            walk->n_left = task.slices.n[d.part];
            walk->step_bytes = MXFP4_UNIT_BYTES;
            return;
        }
    }
    walk->n_left = 0;
}

/* Starts the copy of the next unit, if there is one. */
static __device__ __forceinline__ void walk_fill(struct rows_walk *walk,
                                                 const struct decode_experts &p,
                                                 const struct task_list &list, char *slot)
{
    if (walk->n_left > 0) {
        copy_tiles<rows_shape>(slot, walk->at, 0);
        walk->at += walk->step_bytes;
        if (--walk->n_left == 0) {
            walk->chain++;
            walk_prepare(walk, p, list);
        }
    }
    copy_commit();
}

/* ---- MMAs ---- */

/* A lane's inputs: those of a unit are at `at`, of the next one of the chain `step` behind it, and
 * those of a unit's second block TOKEN_BLOCK_BYTES further on. */
struct input_columns {
    uint32_t at, step;
};

/* Entry `i` of a job: its bit. */
static __device__ __forceinline__ int entry_of(uint32_t entries, int i)
{
#pragma unroll
    for (int k = 0; k < DECODE_FUSED_MAX - 1; k++)
        entries = k < i ? entries & (entries - 1) : entries;
    return __ffs((int)entries) - 1;
}

/* Inputs of w_up, from the first unit of an eighth on: those of the rows. */
static __device__ __forceinline__ struct input_columns columns_of_rows(const struct rows_shared &s,
                                                                       uint32_t entries, int eighth)
{
    const int lane = threadIdx.x % WARP_LANES, column = lane / 4;
    const uint32_t piece = lane % 4 * LANE_BYTES;

    if (column >= __popc(entries))
        return {shared_address(s.zeros) + piece, 0};
    return {shared_address(s.rows) + entry_of(entries, column) / DECODE_ACTIVE_MAX * s.row_bytes +
                eighth * UNIT_INPUT_BYTES + piece,
            RING_WARPS * UNIT_INPUT_BYTES};
}

/* Inputs of w_down, from unit `first` of the share on: gated units. */
static __device__ __forceinline__ struct input_columns
columns_of_gated(const struct rows_shared &s, const char *gated, uint32_t entries, int first)
{
    const int lane = threadIdx.x % WARP_LANES, column = lane / 4;
    const uint32_t piece = lane % 4 * LANE_BYTES;

    if (column >= __popc(entries))
        return {shared_address(s.zeros) + piece, 0};
    return {shared_address(gated) + column * GATED_STRIDE + first * UNIT_INPUT_BYTES + piece,
            UNIT_INPUT_BYTES};
}

/* acc = n units of the walk times the inputs. A lane converts four scales to floats and reads those
 * of its rows. */
static __device__ __forceinline__ void
multiply_chain(float acc[UNIT_TILES][1][4], struct rows_walk *walk, const struct decode_experts &p,
               const struct task_list &list, int n, struct input_columns inputs, uint32_t scales)
{
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll
    for (int i = 0; i < UNIT_TILES * 4; i++)
        acc[i / 4][0][i % 4] = 0.0f;
#pragma unroll 1
    for (int left = n; left > 0; left--) {
        char *slot = walk->slots + walk->slot * rows_shape::STAGE_BYTES;
        uint4 words[UNIT_TILES], columns[UNIT_BLOCKS];

        copy_wait<rows_shape::STAGES - 1>();
        __syncwarp();
        const uint32_t at = shared_address(slot);
        const uint32_t codes = load_shared_word<MXFP4_SCALES_OFFSET>(at + lane * 4);

        store_shared(scales + lane * LANE_BYTES,
                     make_float4(scale_at(codes, 0), scale_at(codes, 1), scale_at(codes, 2),
                                 scale_at(codes, 3)));
        columns[0] = load_shared<0>(inputs.at);
        columns[1] = load_shared<TOKEN_BLOCK_BYTES>(inputs.at);
        inputs.at += inputs.step;
#pragma unroll
        for (int i = 0; i < UNIT_TILES; i++)
            words[i] = load_shared<0>(at + lane * LANE_BYTES + i * MXFP4_TILE_BYTES);
        __syncwarp(); /* the scales are there, and nobody reads the slot any more */
        walk_fill(walk, p, list, slot);
        walk->slot = walk->slot + 1 == rows_shape::STAGES ? 0 : walk->slot + 1;
#pragma unroll
        for (int i = 0; i < UNIT_TILES; i++) {
            const uint4 bits = load_shared<0>(scales + (lane / 4 * UNIT_TILES + i) * LANE_BYTES);

            multiply_columns<1>(acc[i], words[i].x, words[i].y, __uint_as_float(bits.x),
                                __uint_as_float(bits.y), &columns[0]);
            multiply_columns<1>(acc[i], words[i].z, words[i].w, __uint_as_float(bits.z),
                                __uint_as_float(bits.w), &columns[1]);
        }
    }
}

/* ---- from sums of w_up to the cluster ---- */

/* Stores the sums of a chain of an item: `sums` are those of its first entry. */
static __device__ __forceinline__ void store_chain(float *sums, const float acc[UNIT_TILES][1][4],
                                                   int eighth, int n_entries)
{
    const int lane = threadIdx.x % WARP_LANES, first = lane % 4 * 2;
    float2 *to = (float2 *)(sums + first * ENTRY_SUMS + eighth * UNIT_ROWS) + lane / 4;

#pragma unroll
    for (int k = 0; k < 2; k++)
        if (first + k < n_entries)
#pragma unroll
            for (int i = 0; i < UNIT_TILES; i++)
                to[(k * ENTRY_SUMS + i * TILE_ROWS) / 2] =
                    make_float2(acc[i][0][k], acc[i][0][k + 2]);
}

/* The sums of rows 2 l and 2 l + 1 of an entry's item in lane l: all eighths, in order. */
static __device__ __forceinline__ float2 pair_of_sums(const float *sums)
{
    const float2 *from = (const float2 *)sums + threadIdx.x % WARP_LANES;
    float2 sum = make_float2(0.0f, 0.0f);

#pragma unroll
    for (int eighth = 0; eighth < RING_WARPS; eighth++) {
        const float2 part = from[eighth * UNIT_ROWS / 2];

        sum.x += part.x;
        sum.y += part.y;
    }
    return make_float2(sum.x * CODE_UNIT, sum.y * CODE_UNIT);
}

/* What a warp gates in a task: an item of the block, and which entry of its job. */
struct gated_item {
    struct up_row up; /* part -1: no such item */
    int item, which;
    uint2 bias_bits; /* of the lane's unit, loaded before the products */
};

static __device__ __forceinline__ struct gated_item gated_item_of(const struct decode_experts &p,
                                                                  const struct expert_task &task)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    struct gated_item g = {{-1, 0}, warp % ITEMS, warp / ITEMS, make_uint2(0, 0)};

    g.up = up_row_of(task.slices, g.item);
    if (g.up.part >= 0 && g.which >= __popc(task.entries[g.up.part]))
        g.up.part = -1;
    if (g.up.part >= 0 && g.up.row * ITEM_UNITS + lane < p.n_units)
        g.bias_bits =
            vector_pair_bits(p.bias_up, task.expert[g.up.part], (g.up.row * ITEM_UNITS + lane) * 2);
    return g;
}

/* The lane's gated unit; 0 if the item has no such entry, or the expert no such unit. */
static __device__ __forceinline__ float
gated_unit(const struct rows_shared &s, const struct decode_experts &p,
           const struct task_list &list, const struct expert_task &task, const struct gated_item &g)
{
    if (g.up.part < 0 || g.up.row * ITEM_UNITS + (int)threadIdx.x % WARP_LANES >= p.n_units)
        return 0.0f;
    const int entry = entry_of(task.entries[g.up.part], g.which);
    const float2 sum = pair_of_sums(s.sums + (g.item * p.n_tokens + g.which) * ENTRY_SUMS);
    const float2 bias = pair_of_bits(p.bias_up, g.bias_bits);
    const float unit = list.gates[entry] * swiglu(sum.x + bias.x, sum.y + bias.y, p.limit, p.alpha);

    poison_if_not_finite(p.poison, entry / DECODE_ACTIVE_MAX, unit);
    return unit;
}

/* Sends a warp's gated units to all blocks of the cluster. */
static __device__ __forceinline__ void send_gated(const struct rows_shared &s, char *gated,
                                                  uint32_t arrived, const struct gated_item &g,
                                                  float unit)
{
    const int lane = threadIdx.x % WARP_LANES, to_block = lane / ITEM_PIECES;
    const int piece = lane % ITEM_PIECES;
    const uint32_t to = shared_address(gated) + g.which * GATED_STRIDE +
                        (cluster_rank() * ITEMS + g.item) * ITEM_BYTES + piece * LANE_BYTES;
    char *own = s.own + threadIdx.x / WARP_LANES * ITEM_BYTES;

    ((uint16_t *)own)[lane] = half_bits(unit);
    __syncwarp();
    if (to_block < BLOCKS)
        send(mapa_address(to, to_block), mapa_address(arrived, to_block),
             ((const uint4 *)own)[piece]);
}

/* When all warps of the block have their sums of w_up: sends the block's gated units of a task, and
 * receives those of the cluster. The barrier of the next task was last waited for in the task
 * before; its next phase begins before any other block can send for that task. */
static __device__ __forceinline__ void exchange_gated(const struct rows_shared &s,
                                                      const struct decode_experts &p,
                                                      const struct task_list &list, int task,
                                                      const struct gated_item &g)
{
    const int buffer = task % BUFFERS;
    const uint32_t arrived = shared_address(&list.arrived[buffer]);

    __syncthreads();
    if (task == 0)
        cluster_wait(); /* all blocks of the cluster have started */
    else if (threadIdx.x == 0 && task + 1 < list.n_tasks)
        arrivals_begin_phase(shared_address(&list.arrived[buffer ^ 1]), arriving_bytes(p));
    __syncwarp();
    if (g.which < p.n_tokens)
        send_gated(s, s.gated + buffer * p.n_tokens * GATED_STRIDE, arrived, g,
                   gated_unit(s, p, list, list.tasks[task], g));
    arrivals_wait_phase(arrived, task / BUFFERS % 2);
}

/* ---- sums ---- */

/* This lane's two of the 64 rows of a row of units, lane and lane + 32, of column 2 t + k. */
template <int K>
static __device__ __forceinline__ float2 rows_of_column(const float acc[UNIT_TILES][1][4], int t)
{
    const int lane = threadIdx.x % WARP_LANES, from = lane % TILE_ROWS / 2 * 4 + t;
    float out[2];

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float v[2][2];

#pragma unroll
        for (int tile = 0; tile < 2; tile++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++)
                v[tile][odd] = __shfl_sync(ALL_LANES, acc[half * 2 + tile][0][odd * 2 + K], from);
        out[half] = lane < TILE_ROWS ? (lane % 2 == 0 ? v[0][0] : v[0][1])
                                     : (lane % 2 == 0 ? v[1][0] : v[1][1]);
    }
    return make_float2(out[0], out[1]);
}

/* Adds a slice of an entry, and with the first slice of an expert the gated bias, to its row's
 * sums. */
static __device__ __forceinline__ void add_entry(const struct decode_experts &p, float2 slice,
                                                 const struct lane_rows &r, int row_of_units,
                                                 int row, float gate, bool is_first)
{
    int32_t *sums = p.sums + row * p.n_columns;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int column = row_of_lane(row_of_units, half);
        int32_t value = slice_partial(half == 0 ? slice.x : slice.y, slice_factor(r.scale[half]));

        if (is_first)
            value +=
                bias_partial(gate, value_of_bits(p.bias_down, r.bias_bits[half]), r.scale[half]);
        if (column < p.down.n_rows)
            add_to(sums + column, value);
    }
}

/* The same of all entries of a job. */
static __device__ __forceinline__ void add_entries(const struct decode_experts &p,
                                                   const struct task_list &list,
                                                   const float acc[UNIT_TILES][1][4],
                                                   const struct lane_rows &r, int row_of_units,
                                                   uint32_t entries, bool is_first)
{
#pragma unroll 1
    for (int t = 0; entries != 0; t++) {
        int entry = __ffs((int)entries) - 1;

        entries &= entries - 1;
        add_entry(p, rows_of_column<0>(acc, t), r, row_of_units, entry / DECODE_ACTIVE_MAX,
                  list.gates[entry], is_first);
        if (entries == 0)
            break;
        entry = __ffs((int)entries) - 1;
        entries &= entries - 1;
        add_entry(p, rows_of_column<1>(acc, t), r, row_of_units, entry / DECODE_ACTIVE_MAX,
                  list.gates[entry], is_first);
    }
}

/* ---- a task ---- */

/* Chains of w_up, then of w_down: one loop, so that the code of the MMAs exists once. */
static __device__ __forceinline__ void run_task(struct rows_walk *walk, const struct rows_shared &s,
                                                const struct decode_experts &p,
                                                const struct task_list &list, int task_index)
{
    const struct expert_task &task = list.tasks[task_index];
    const struct gated_item gated = gated_item_of(p, task);
    const char *units = s.gated + task_index % BUFFERS * p.n_tokens * GATED_STRIDE;
    const int n_rows = (p.down.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    const uint32_t scales = shared_address(s.scales) + threadIdx.x / WARP_LANES * SCALES_BYTES;

#pragma unroll 1
    for (int chain = 0;; chain++) {
        const int i = up_chain_of(chain), eighth = i % RING_WARPS, of_down = chain - WARP_CHAINS;
        const struct down_chain d = down_chain_of(task.slices, max(of_down, 0));
        struct lane_rows rows = {};
        struct input_columns inputs;
        float acc[UNIT_TILES][1][4];
        int n = units_of_eighth(p.up.n_units, eighth), part = d.part;

        if (of_down == 0) {
            if (task_index + 1 == list.n_tasks)
                pdl_launch_dependents();
            exchange_gated(s, p, list, task_index, gated);
        }
        if (of_down >= 0) {
            if (d.row >= n_rows)
                break;
            load_scales(&rows, p, d.row);
            if (task.slices.first == 0)
                load_biases(&rows, p, task.expert[part], d.row);
            n = task.slices.n[part];
            inputs =
                columns_of_gated(s, units, task.entries[part], part == 0 ? 0 : task.slices.n[0]);
        } else {
            part = up_row_of(task.slices, i / RING_WARPS).part;
            if (part < 0)
                continue;
            inputs = columns_of_rows(s, task.entries[part], eighth);
        }
        multiply_chain(acc, walk, p, list, n, inputs, scales);
        if (of_down < 0)
            store_chain(s.sums + i / RING_WARPS * p.n_tokens * ENTRY_SUMS, acc, eighth,
                        __popc(task.entries[part]));
        else
            add_entries(p, list, acc, rows, d.row, task.entries[part], task.slices.first == 0);
    }
}

/* Grid: clusters of BLOCKS blocks. */
static __global__ void __maxnreg__(REGISTERS)
    experts_rows_kernel(const __grid_constant__ struct decode_experts p, int n_slices)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ struct task_list list;
    const int warp = threadIdx.x / WARP_LANES;
    const struct rows_shared s = shared_of(shared, p.up.n_units, p.n_tokens);
    struct rows_walk walk = {s.slots + warp * rows_shape::WARP_BYTES, NULL, 0, 0, 0, 0, 0};
    struct row_info info;

    if (threadIdx.x >= WARP_LANES && threadIdx.x < WARP_LANES + UNIT_INPUT_BYTES / LANE_BYTES)
        ((uint4 *)s.zeros)[threadIdx.x - WARP_LANES] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0)
        for (int i = 0; i < BUFFERS; i++)
            arrivals_init(shared_address(&list.arrived[i]), arriving_bytes(p));
    cluster_begin();
    init_rows_info(&info, p);
    pdl_wait();
    if (warp < DECODE_FUSED_MAX)
        select_experts(&list, p, info, warp);
    else
        norm_rows(s, p, info);
    __syncthreads();
    if (warp == 0)
        list_tasks(&list, p, n_slices);
    __syncthreads();
    walk_prepare(&walk, p, list);
#pragma unroll 1
    for (int i = 0; i < rows_shape::STAGES; i++)
        walk_fill(&walk, p, list, walk.slots + i * rows_shape::STAGE_BYTES);
    if (blockIdx.x == 0 && warp == 0)
        store_topk(p, list);
    if (list.n_tasks == 0)
        cluster_wait();
#pragma unroll 1
    for (int i = 0; i < list.n_tasks; i++)
        run_task(&walk, s, p, list, i);
    copy_wait<0>();
}

bool launch_decode_experts_rows(struct launch_list *list, const struct decode_experts *p)
{
    const int n_units = p->down.n_units, n_entries = p->n_tokens * p->n_ranks;
    const int n_slices = slices_of_expert(n_units, p->slice_units);
    const int n_tasks = plan_of_experts(n_units, p->slice_units, min(n_entries, p->n_experts))
                            .n_clusters; /* at most */
    const int64_t shared_bytes = shared_bytes_of(p->up.n_units, p->n_tokens);
    const int n_clusters =
        clusters_at_once<experts_rows_kernel>(list->gpu, EXPERT_THREADS, BLOCKS, shared_bytes);

    if (p->topk_input.sums == NULL || p->n_tokens > DECODE_FUSED_MAX ||
        p->slice_units > SLICE_MAX || n_tasks > n_clusters * TASKS_MAX)
        return false;
    add_dependent_clusters<experts_rows_kernel>(list,
                                                dim3((unsigned)(min(n_clusters, n_tasks) * BLOCKS)),
                                                EXPERT_THREADS, shared_bytes, BLOCKS, *p, n_slices);
    if (!list->is_query && list->n > 0)
        list->launches[list->n - 1].has_max_carveout = true;
    return true;
}
