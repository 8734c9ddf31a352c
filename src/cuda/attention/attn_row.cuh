/* Attention of one decode row by the warps of a block: block assignment, a warp's loop over its
 * units, the reduction over warps, and the merge of split-K partials within a cluster.
 * attn_decode.cu describes the algorithm. */
#ifndef CUDA_ATTENTION_ATTN_ROW_CUH
#define CUDA_ATTENTION_ATTN_ROW_CUH

#include "cuda/attention/attn_units.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/common/operand_piece.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/sums.cuh"

enum {
    WARPS = ATTN_GROUP_UNITS,
    THREADS = WARPS * WARP_LANES,
    BLOCKS_PER_SM = 2,
    CLUSTER_SPLITS_MAX = ATTN_SPLITS_NEAR, /* of a row whose splits are merged in shared memory */
    HEAD_STRIDE = ATTN_HEAD_DIM + 4        /* in floats; padded against bank conflicts */
};
static_assert((int)WARPS == (int)ATTN_HEADS, "one warp merges one head");
static_assert((int)ATTN_SPLITS_MAX <= (int)WARP_LANES, "one lane per split");
static_assert((int)WARPS % (int)PAGE_UNITS == 0, "same page offset for all units of a warp");

/* The row, heads and keys of a block. */
struct block {
    int row, first_head, n_heads;
    int first, end;       /* visible keys */
    int unit, step;       /* the first unit of this split, and the stride to its next group */
    int unit_end;         /* of the row */
    int n_splits;         /* of the row */
    int written;          /* keys from this position on are written by this step */
    const int32_t *pages; /* page of position p: pages[p / P] */
    const char *keys;     /* of this head in page 0, */
    int64_t values_bytes; /* offset to its values, */
    uint32_t page_bytes;  /* page stride */
};

/* A lane's source addresses for copies. All units of a warp have the same offset in their pages. */
struct source {
    const char *keys, *values; /* in page 0 */
    uint32_t page_bytes;
    int unit;
};

/* Long row n of the first n_scanned rows; n_scanned: there is none. Each warp scans them. */
static __device__ int long_row(const struct attn_rows &rows, int n_scanned, int n)
{
    const int lane = threadIdx.x % WARP_LANES;
    int n_before = 0;

#pragma unroll 4
    for (int first = 0; first < n_scanned; first += WARP_LANES) {
        const int row = first + lane;
        const bool is_there = row < n_scanned;
        const unsigned which =
            __ballot_sync(ALL_LANES, is_there && rows.phases[is_there ? row : 0] == PHASE_DECODE &&
                                         attn_is_long(rows.positions[is_there ? row : 0]));
        const bool is_it =
            (which >> lane & 1) != 0 && n_before + __popc(which & ((1u << lane) - 1)) == n;
        const unsigned found = __ballot_sync(ALL_LANES, is_it);

        if (found != 0)
            return first + __ffs((int)found) - 1;
        n_before += __popc(which);
    }
    return n_scanned;
}

/* Groups of query heads of a key/value head. */
static __device__ __forceinline__ int head_parts(const struct attn_launch &l)
{
    return (l.n_group + ATTN_HEADS - 1) / ATTN_HEADS;
}

/* The block's share of a row, with a group of its heads. Returns false if it has none. */
static __device__ __forceinline__ bool block_of_row(struct block *k, const struct attn_launch &l,
                                                    int row, int part)
{
    const struct attn_args &a = l.args;
    const int n_group = l.n_group, n_parts = head_parts(l);
    const int position = l.rows.positions[row];
    const int phase = l.rows.phases[row], kv_head = (int)blockIdx.y / n_parts;
    const struct batch_seq *seq = &l.rows.seqs[l.rows.row_seq[row]];
    int n_units;

    k->row = row;
    k->first_head = kv_head * n_group + part * ATTN_HEADS;
    k->n_heads = min(n_group - part * ATTN_HEADS, (int)ATTN_HEADS);
    k->end = position + 1;
    k->first = a.window_tokens > 0 ? max(k->end - a.window_tokens, 0) : 0;
    n_units = attn_units(k->first, k->end);
    k->n_splits = attn_splits(n_units, IS_ORDER_FREE ? l.n_splits : (int)ATTN_SPLITS_MAX);
    k->unit = k->first / ATTN_UNIT_KEYS + blockIdx.x * ATTN_GROUP_UNITS;
    k->unit_end = k->first / ATTN_UNIT_KEYS + n_units;
    k->step = k->n_splits * ATTN_GROUP_UNITS;
    if (phase != PHASE_DECODE || (int)blockIdx.x >= k->n_splits)
        return false;
    k->written = position - (row - seq->first_row); /* the rows of a sequence are consecutive */
    k->pages = l.rows.pages + seq->table[a.group] - seq->first_page[a.group];
    k->keys = kv_side(&a.kv, 0, 0, kv_head);
    k->values_bytes = kv_side(&a.kv, 0, 1, kv_head) - k->keys;
    k->page_bytes = (uint32_t)(kv_side(&a.kv, 1, 0, kv_head) - k->keys);
    materialize(k->pages);
    return true;
}

/* Returns false if the block has no work. */
static __device__ __forceinline__ bool block_of(struct block *k, const struct attn_launch &l)
{
    const int part = blockIdx.y % head_parts(l);
    int row = l.first_row + blockIdx.z;

    if (l.n_scanned > 0)
        row = long_row(l.rows, l.n_scanned, row);
    if (l.n_scanned > 0 && row == l.n_scanned)
        return false;
    return block_of_row(k, l, row, part);
}

/* ---- one warp over its units ---- */

/* Address of query head g of the block, or of its last head. */
static __device__ __forceinline__ const float *query_of_block(const struct attn_launch &l,
                                                              const struct block &k)
{
    const int g = threadIdx.x % WARP_LANES / 4;

    return (const float *)l.args.q.data + k.row * l.args.q.dim[1] +
           (k.first_head + min(g, k.n_heads - 1)) * ATTN_HEAD_DIM;
}

/* The query in terms; heads that the block does not have are zeros. */
template <int DTYPE>
static __device__ __forceinline__ void load_query(struct query *q, const float *head,
                                                  const struct block &k)
{
    const int g = threadIdx.x % WARP_LANES / 4;
    const float factor = g < k.n_heads ? operand_scale<DTYPE>() : 0.0f;

#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        float x[2][2];

        unit<DTYPE>::query_columns(x, head, step);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            x[i][0] *= factor, x[i][1] *= factor;
#pragma unroll
            for (int part = 0; part < QUERY_TERMS; part++)
                q->partials[part][step][i] = round_to_bf16(x[i]);
        }
    }
}

/* Scores of a unit, scaled for base-2 exponentials; -inf for keys that the row does not see. */
template <int DTYPE>
static __device__ __forceinline__ void masked_scores(float s[4], const struct query &q,
                                                     const char *ring, const struct block &k,
                                                     int index, float scale)
{
    const int first = k.first - index * ATTN_UNIT_KEYS, end = k.end - index * ATTN_UNIT_KEYS;
    const char *scales = ring + 2 * unit<DTYPE>::KV_HALF_BYTES;

    scores_of<DTYPE>(s, q, ring);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = unit<DTYPE>::slot_of(i);

        s[i] = __fmul_rn(s[i], __fmul_rn(scale, unit<DTYPE>::scale_at(scales, at)));
        s[i] = at >= first && at < end ? s[i] : -INFINITY;
    }
}

template <int DTYPE>
static __device__ __forceinline__ void add_unit(struct state *st, float s[4], const char *ring,
                                                const struct block &k, int index)
{
    const int first = k.first - index * ATTN_UNIT_KEYS, end = k.end - index * ATTN_UNIT_KEYS;
    const char *values = ring + unit<DTYPE>::KV_HALF_BYTES;
    const char *scales = ring + 2 * unit<DTYPE>::KV_HALF_BYTES + unit<DTYPE>::SCALES_BYTES;
    uint32_t seen[2] = {0xFFFFFFFFu, 0xFFFFFFFFu};

    if (first > 0 || end < ATTN_UNIT_KEYS)
        unit<DTYPE>::visible_mask(seen, first, end);
#pragma unroll
    for (int i = 0; i < 4 && DTYPE == DTYPE_F8; i++) {
        const int at = unit<DTYPE>::slot_of(i);
        const float factor = unit<DTYPE>::scale_at(scales, at) * operand_scale<DTYPE>();

        s[i] = at >= first && at < end ? __fmul_rn(s[i], factor) : 0.0f;
    }
    add_values<DTYPE>(st->out, s, values, seen);
}

/* N units; the last may be missing. */
template <int DTYPE, int N>
static __device__ __forceinline__ void add_units(struct state *st, const struct query &q,
                                                 char *const rings[N], const struct block &k,
                                                 int index, float scale)
{
    const bool has_last = N == 1 || index + (N - 1) * k.step < k.unit_end;
    float s[N][4];

    masked_scores<DTYPE>(s[0], q, rings[0], k, index, scale);
    s[N - 1][0] = N > 1 ? -INFINITY : s[0][0];
    s[N - 1][1] = N > 1 ? -INFINITY : s[0][1];
    s[N - 1][2] = N > 1 ? -INFINITY : s[0][2];
    s[N - 1][3] = N > 1 ? -INFINITY : s[0][3];
    if (N > 1 && has_last)
        masked_scores<DTYPE>(s[N - 1], q, rings[N - 1], k, index + (N - 1) * k.step, scale);
    softmax_step<N>(st, s);
    add_unit<DTYPE>(st, s[0], rings[0], k, index);
    if (N > 1 && has_last)
        add_unit<DTYPE>(st, s[N - 1], rings[N - 1], k, index + (N - 1) * k.step);
}

/* Start of a kernel without long rows, which another launch has. Returns false if the block has no
 * work. A kernel that waits for this one must also wait for the earlier ones, so one of the blocks
 * without work waits, too. */
static __device__ __forceinline__ bool begin_row(struct block *k, const struct attn_launch &l)
{
    pdl_launch_dependents();
    if (block_of_row(k, l, l.first_row + (int)blockIdx.z, (int)blockIdx.y % head_parts(l)) &&
        k->n_splits <= ATTN_SPLITS_NEAR)
        return true;
    if (blockIdx.y + blockIdx.z == 0)
        pdl_wait();
    return false;
}

/* The page of a unit; a valid page if there is no such unit. */
static __device__ __forceinline__ int32_t page_of(const struct block &k, int index)
{
    return k.pages[(unsigned)min(index, k.unit_end - 1) / PAGE_UNITS];
}

/* The offset of this warp's units, the same in any page. */
template <int DTYPE>
static __device__ __forceinline__ struct source source_of(const struct block &k, int index)
{
    const int at = index % PAGE_UNITS;
    struct source from = {k.keys + at * unit<DTYPE>::KV_HALF_BYTES,
                          k.keys + k.values_bytes + at * unit<DTYPE>::TILE_BYTES, k.page_bytes, at};

    materialize(from.keys);
    materialize(from.values);
    return from;
}

template <int DTYPE>
static __device__ __forceinline__ void copy_unit(char *ring, const struct source &from,
                                                 int32_t page, bool is_there)
{
    const uint64_t at = (uint64_t)(uint32_t)page * from.page_bytes;

    if (is_there)
        unit<DTYPE>::copy(ring, from.keys + at, from.values + at, from.unit);
    cp_async_commit();
}

/* True if this step writes keys of the unit, which are then visible only after pdl_wait(). */
static __device__ __forceinline__ bool is_written(const struct block &k, int index)
{
    return (index + 1) * ATTN_UNIT_KEYS > k.written;
}

/* ---- reduction within a block and over the row ---- */

/* In shared memory, besides the rings. */
struct shared {
    float largest[WARPS][ATTN_HEADS], weights[WARPS][ATTN_HEADS];
};

/* This thread's two columns of a head, with the maximum score and the sum of weights. */
struct sums {
    float2 out;
    float largest, weights;
};

/* Stores the partial sums of warp `warp` in its slot. */
static __device__ void store_sums(struct shared *s, char *scratch, struct state *st, int warp)
{
    const int lane = threadIdx.x % WARP_LANES, g = lane / 4, t = lane % 4;
    float *out = (float *)scratch;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float weights = heads_sum(st->weights[h]);

        if (g == 0) {
            s->largest[warp][2 * t + h] = st->largest[h];
            s->weights[warp][2 * t + h] = weights;
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            *(float2 *)(out + (2 * t + h) * HEAD_STRIDE + 16 * i + 2 * g) =
                make_float2(st->out[i][h], st->out[i][2 + h]);
    }
}

/* Address of the first warp's slot, and the stride to the next. */
template <int DTYPE>
static __device__ struct sums sum_warps(const struct shared *s, const char *scratches,
                                        int scratch_bytes, int head)
{
    const int lane = threadIdx.x % WARP_LANES;
    struct sums all = {{0.0f, 0.0f}, s->largest[0][head], 0.0f};

#pragma unroll
    for (int w = 1; w < WARPS; w++)
        all.largest = fmaxf(all.largest, s->largest[w][head]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const float add = power_of_two(s->largest[w][head] - all.largest);
        const float2 out =
            ((const float2 *)(scratches + w * scratch_bytes))[head * HEAD_STRIDE / 2 + lane];

        all.weights = __fmaf_rn(s->weights[w][head], add, all.weights);
        all.out.x = __fmaf_rn(out.x, add, all.out.x);
        all.out.y = __fmaf_rn(out.y, add, all.out.y);
    }
    all.out.x = __fmul_rn(all.out.x, result_scale<DTYPE>());
    all.out.y = __fmul_rn(all.out.y, result_scale<DTYPE>());
    return all;
}

/* The sink of a head. Loaded early, because it was last read a step ago and is not cached. */
static __device__ __forceinline__ float load_sink(const struct attn_launch &l,
                                                  const struct block &k, int head)
{
    return head < k.n_heads ? ((const float *)l.args.sinks.data)[k.first_head + head] : 0.0f;
}

/* The factor of a head's sums, and what divides them. */
struct ending {
    float add, total;
};

static __device__ __forceinline__ struct ending end_head(float largest, float weights, float sink)
{
    struct ending end;
    float most;

    sink *= LOG2_E;
    most = fmaxf(sink, largest);
    end.add = power_of_two(largest - most);
    end.total = __fmaf_rn(weights, end.add, power_of_two(sink - most));
    return end;
}

/* Stores columns `column` and the next one of a head of the block. */
static __device__ __forceinline__ void store_columns(const struct attn_launch &l,
                                                     const struct block &k, int head, int column,
                                                     float2 sums, const struct ending &end)
{
    const float2 out = make_float2(__fdiv_rn(__fmul_rn(sums.x, end.add), end.total),
                                   __fdiv_rn(__fmul_rn(sums.y, end.add), end.total));
    const int i = (k.first_head + head) * ATTN_HEAD_DIM + column; /* of the row */
    const int64_t at = k.row * l.args.att.dim[1] + i;

    *(float2 *)((float *)l.args.att.data + at) = out;
    if (l.rounded != NULL)
        *(uint32_t *)((char *)l.rounded + (l.n_rounded_rows > 0
                                               ? operand_number_offset(l.n_rounded_rows, k.row, i)
                                               : at * (int64_t)sizeof(uint16_t))) =
            pair_f16(out.x, out.y);
}

static __device__ void finish(const struct attn_launch &l, const struct block &k, struct sums sums,
                              float sink, int head)
{
    if (head < k.n_heads)
        store_columns(l, k, head, threadIdx.x % WARP_LANES * 2, sums.out,
                      end_head(sums.largest, sums.weights, sink));
}

/* ---- split-K within a cluster: partials in distributed shared memory ---- */

/* The partials of a split, in the shared memory of the last split's block. */
struct walked {
    float2 out[THREADS];
    float2 numbers[WARPS]; /* per head: the maximum score and the sum of weights */
};

/* Adds the partials of the splits, in order. */
static __device__ __forceinline__ struct sums sum_walked_splits(const struct walked *splits,
                                                                int n_splits)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const float2 of_split =
        lane < n_splits ? splits[lane].numbers[head] : make_float2(-INFINITY, 0.0f);
    struct sums all = {};
    float add;

    all.largest = warp_max(of_split.x);
    add = power_of_two(__fadd_rn(of_split.x, -all.largest));
    all.weights = warp_sum(__fmul_rn(of_split.y, add));
    for (int split = 0; split < n_splits; split++) {
        const float2 out = splits[split].out[threadIdx.x];
        const float factor = __shfl_sync(ALL_LANES, add, split);

        all.out.x = __fmaf_rn(out.x, factor, all.out.x);
        all.out.y = __fmaf_rn(out.y, factor, all.out.y);
    }
    return all;
}

#endif
