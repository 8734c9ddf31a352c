/* Paged attention for decode rows with a sliding window of up to 128 tokens, for batches that fill
 * the GPU with a warp for each row and key/value head. It runs the operations of attn_decode.cu in
 * the same order, so the bits are the same: a warp does the work of the eight warps there, called
 * parts here, one after the other, and waits for no other. The sums of the parts are added with
 * factors that depend on the maximum of all of them, so it takes two passes: one over all keys,
 * whose scores stay in registers, and one over all values.
 *
 * A row has at most nine units. The eight parts have one each, but for the first part, which has
 * the last one, too: it comes behind the first one in both passes. Loops process three units an
 * iteration, so that the scores of nine stay in registers and the code is short.
 *
 * Traffic: the keys and values that the rows see, once. H200, 2026-11-28, window of 128, us in a
 * chain of launches, attn_window.cu and this kernel: BF16, 256 rows 21.4 and 17.9, 512 rows 40.1
 * and 35.7; F8, 512 rows 40.1 and 31.0. With 128 rows it takes 11.4 (F8 12.6), attn_window.cu
 * 11.2 (10.6). */
#include "cuda/attention/attn_row.cuh"

enum {
    PARTS = ATTN_GROUP_UNITS, /* the work of a warp of attn_decode.cu */
    ITERATION_UNITS = 3,      /* of an iteration of a pass */
    ITERATIONS = 3,
    UNITS_MAX = ITERATIONS * ITERATION_UNITS,
    ROW_STAGES = 2 * UNITS_MAX, /* keys, then values */
    BLOCKS_AT_ONCE = 16,
    ONE_COPY_BYTES = WARP_LANES * COPY_BYTES, /* of an instruction */
    BLOCKS_AT_LEAST = 1536 /* per launch: with fewer blocks more warps are faster */
};
static_assert((int)UNITS_MAX == (int)PARTS + 1, "the first part has two units");

/* The ring: a stage has the keys or the values of a unit. */
template <int DTYPE> struct ring {
    enum {
        STAGE_BYTES = unit<DTYPE>::KV_HALF_BYTES + unit<DTYPE>::SCALES_BYTES,
        STAGES = DTYPE == DTYPE_F8 ? 10 : 6,
        AHEAD = STAGES - 1, /* stages that are copied before one is processed */
        BYTES = STAGES * STAGE_BYTES
    };
    char *begin;
    uint32_t to;        /* this lane's address in the first stage */
    uint32_t now, free; /* offsets: the stage that is processed next, and the last one */
    int next;           /* stage of the row to copy */
    /* Lane i: the unit of stage i, 0 if there is none, and its scales. */
    unsigned long long from, scales;
};

/* The unit that is processed as number `nth`, relative to the first one; and the part that has
 * it. */
static __device__ __forceinline__ int unit_at(int nth)
{
    return nth == 1 ? (int)PARTS : max(nth - 1, 0);
}

static __device__ __forceinline__ int part_at(int nth)
{
    return max(nth - 1, 0);
}

static __device__ __forceinline__ bool has_unit(const struct block &k, int nth)
{
    return k.unit + unit_at(nth) < k.unit_end;
}

/* Returns the stages that this step writes keys of, as bits. */
template <int DTYPE>
static __device__ __forceinline__ unsigned begin_ring(struct ring<DTYPE> *r, char *begin,
                                                      const struct block &k)
{
    const int lane = threadIdx.x, is_values = lane >= UNITS_MAX;
    const int index = k.unit + unit_at(lane - is_values * UNITS_MAX), at = index % PAGE_UNITS;
    const bool is_there = lane < ROW_STAGES && index < k.unit_end;
    const char *side = k.keys + (is_values ? k.values_bytes : 0) +
                       (uint64_t)(uint32_t)page_of(k, index) * k.page_bytes;

    r->begin = begin;
    r->to = opaque_address((uint32_t)__cvta_generic_to_shared(begin)) +
            piece_offset(lane / 4, lane % 4);
    r->now = r->free = 0;
    r->next = 0;
    r->from = is_there ? (unsigned long long)(side + at * (is_values ? unit<DTYPE>::TILE_BYTES
                                                                     : unit<DTYPE>::KV_HALF_BYTES))
                       : 0;
    r->scales = (unsigned long long)(side + PAGE_UNITS * unit<DTYPE>::KV_HALF_BYTES +
                                     at * unit<DTYPE>::SCALES_BYTES);
    return __ballot_sync(ALL_LANES, is_there && is_written(k, index));
}

/* Copies a unit's keys or values: APART bytes from one instruction's to the next one's. */
template <int DTYPE, int APART>
static __device__ __forceinline__ void copy_half(uint32_t to, const char *from)
{
#pragma unroll
    for (int i = 0; i < unit<DTYPE>::KV_HALF_BYTES / ONE_COPY_BYTES; i++)
        copy_evict_first(to + i * ONE_COPY_BYTES, from + i * APART);
}

/* Copies stage `stage` of the row, if there is one, to this offset in the ring. */
template <int DTYPE>
static __device__ __forceinline__ void copy_stage(const struct ring<DTYPE> *r, int stage,
                                                  uint32_t offset)
{
    const int lane = threadIdx.x;
    const char *from = (const char *)__shfl_sync(ALL_LANES, r->from, stage);
    const uint32_t to = opaque_address(r->to + offset);

    if (from == NULL)
        return;
    if (stage < UNITS_MAX)
        copy_half<DTYPE, ONE_COPY_BYTES>(to, from + lane * COPY_BYTES);
    else if (DTYPE == DTYPE_F8)
        copy_half<DTYPE, PAGE_UNITS * ONE_COPY_BYTES>(
            to, from + lane / 16 * PAGE_UNITS * unit<DTYPE>::TILE_BYTES + lane % 16 * COPY_BYTES);
    else
        copy_half<DTYPE, PAGE_UNITS * ONE_COPY_BYTES>(to, from + lane * COPY_BYTES);
    if (DTYPE == DTYPE_F8) {
        const char *scales = (const char *)__shfl_sync(ALL_LANES, r->scales, stage);

        if (lane < 4)
            copy_async(r->begin + offset + unit<DTYPE>::KV_HALF_BYTES + lane * COPY_BYTES,
                       scales + lane * COPY_BYTES);
    }
}

/* Copies all stages but the last one: those of `which`, as bits. */
template <int DTYPE>
static __device__ __forceinline__ void fill_ring(const struct ring<DTYPE> *r, unsigned which)
{
    static_assert(ring<DTYPE>::AHEAD <= UNITS_MAX, "keys");
#pragma unroll 1
    for (int i = 0; i < ring<DTYPE>::AHEAD; i++)
        if ((which >> i & 1) != 0)
            copy_stage<DTYPE>(r, i, i * ring<DTYPE>::STAGE_BYTES);
}

/* All copies so far become the first stage. The others have been copied with it. */
template <int DTYPE> static __device__ __forceinline__ void start_ring(struct ring<DTYPE> *r)
{
#pragma unroll
    for (int i = 0; i < ring<DTYPE>::AHEAD; i++)
        cp_async_commit();
    r->next = ring<DTYPE>::AHEAD;
    r->free = ring<DTYPE>::AHEAD * ring<DTYPE>::STAGE_BYTES;
}

/* Waits for the next stage, and copies another one over the previous one. */
template <int DTYPE> static __device__ __forceinline__ char *next_stage(struct ring<DTYPE> *r)
{
    char *const stage = r->begin + r->now;

    cp_async_wait<ring<DTYPE>::AHEAD - 1>();
    __syncwarp(); /* all lanes have their data, and are done with the previous stage */
    copy_stage<DTYPE>(r, r->next, r->free);
    cp_async_commit();
    r->next++;
    r->free = r->now;
    r->now += ring<DTYPE>::STAGE_BYTES;
    r->now = r->now == ring<DTYPE>::BYTES ? 0 : r->now;
    return stage;
}

/* ---- a row ---- */

/* The bits of the first n slots of a word. */
template <int WORD_SLOTS> static __device__ __forceinline__ uint32_t slots_below(int n)
{
    const int n_bits = min(max(n, 0), WORD_SLOTS) * (32 / WORD_SLOTS);

    return (uint32_t)((1ull << n_bits) - 1);
}

/* Sets values of a unit, and their scales, to zero but for the slots of [first, end). */
template <int DTYPE>
static __device__ __forceinline__ void clear_values(char *values, char *scales, int first, int end)
{
    enum { WORD_SLOTS = unit<DTYPE>::WORD_SLOTS };
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll 1
    for (int i = lane; i < unit<DTYPE>::KV_HALF_BYTES / KV_WORD_BYTES; i += WARP_LANES) {
        const int slot = i / KV_COLUMNS % unit<DTYPE>::TILE_ROWS * WORD_SLOTS;

        ((uint32_t *)values)[i] &=
            slots_below<WORD_SLOTS>(end - slot) & ~slots_below<WORD_SLOTS>(first - slot);
    }
    if (lane < unit<DTYPE>::SCALES_BYTES / 4 && (lane < first || lane >= end))
        ((float *)scales)[lane] = 0.0f;
}

/* Scores of a unit, scaled for base-2 exponentials. */
template <int DTYPE>
static __device__ __forceinline__ void scaled_scores(float s[4], const struct query &q,
                                                     const char *keys, float scale)
{
    scores_of<DTYPE>(s, q, keys);
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = __fmul_rn(s[i],
                         __fmul_rn(scale, unit<DTYPE>::scale_at(keys + unit<DTYPE>::KV_HALF_BYTES,
                                                                unit<DTYPE>::slot_of(i))));
}

/* Adds the values of a unit, weighted by s. */
template <int DTYPE>
static __device__ __forceinline__ void add_scaled_values(float out[STEPS][4], float s[4],
                                                         const char *values)
{
    const uint32_t all[2] = {0xFFFFFFFFu, 0xFFFFFFFFu};

#pragma unroll
    for (int i = 0; i < 4 && DTYPE == DTYPE_F8; i++)
        s[i] = __fmul_rn(s[i], unit<DTYPE>::scale_at(values + unit<DTYPE>::KV_HALF_BYTES,
                                                     unit<DTYPE>::slot_of(i)) *
                                   operand_scale<DTYPE>());
    add_values<DTYPE>(out, s, values, all);
}

/* Adds the sums of part `part` to those of all parts, as sum_warps() does. Lanes 4 part to 4 part +
 * 3 have its factor in `add`. */
static __device__ __forceinline__ void add_part(struct state *all, const float out[STEPS][4],
                                                const float weights[2], const float add[2],
                                                int part)
{
    const int lane = 4 * part + threadIdx.x % 4;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float factor = __shfl_sync(ALL_LANES, add[h], lane);

        all->weights[h] = __fmaf_rn(weights[h], factor, all->weights[h]);
#pragma unroll
        for (int j = 0; j < STEPS; j++) {
            all->out[j][h] = __fmaf_rn(out[j][h], factor, all->out[j][h]);
            all->out[j][2 + h] = __fmaf_rn(out[j][2 + h], factor, all->out[j][2 + h]);
        }
    }
}

/* Scores of unit number `nth`, and the maximum of its part. */
template <int DTYPE>
static __device__ __forceinline__ void score_unit(float s[4], float largest[2],
                                                  const struct query &q, const char *keys,
                                                  const struct block &k, int nth, float scale)
{
    const int index = k.unit + unit_at(nth), part = threadIdx.x / 4;
    const int first = k.first - index * ATTN_UNIT_KEYS, end = k.end - index * ATTN_UNIT_KEYS;

    scaled_scores<DTYPE>(s, q, keys, scale);
    if (first > 0 || end < ATTN_UNIT_KEYS) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = unit<DTYPE>::slot_of(i);

            s[i] = at >= first && at < end ? s[i] : -INFINITY;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float most = heads_max(fmaxf(s[h], s[2 + h]));

        largest[h] = part == part_at(nth) ? fmaxf(largest[h], most) : largest[h];
    }
}

/* Adds the weights and values of unit number `nth` to the sums of its part. */
template <int DTYPE>
static __device__ __forceinline__ void weigh_unit(struct state *of_part, float s[4],
                                                  const float largest[2], char *values,
                                                  const struct block &k, int nth)
{
    const int index = k.unit + unit_at(nth);
    const int first = k.first - index * ATTN_UNIT_KEYS, end = k.end - index * ATTN_UNIT_KEYS;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float most = __shfl_sync(ALL_LANES, largest[h], 4 * part_at(nth) + threadIdx.x % 4);

        s[h] = power_of_two(__fadd_rn(s[h], -most));
        s[2 + h] = power_of_two(__fadd_rn(s[2 + h], -most));
        of_part->weights[h] = __fadd_rn(of_part->weights[h], __fadd_rn(s[h], s[2 + h]));
    }
    if (first > 0 || end < ATTN_UNIT_KEYS) {
        clear_values<DTYPE>(values, values + unit<DTYPE>::KV_HALF_BYTES, first, end);
        __syncwarp();
    }
    add_scaled_values<DTYPE>(of_part->out, s, values);
}

static __device__ __forceinline__ void copy_scores(float to[ITERATION_UNITS][4],
                                                   const float from[ITERATION_UNITS][4])
{
#pragma unroll
    for (int i = 0; i < ITERATION_UNITS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            to[i][j] = from[i][j];
}

/* The sums of a row, before result_scale(). */
template <int DTYPE>
static __device__ __forceinline__ void sum_row(struct state *all, struct ring<DTYPE> *r,
                                               const struct query &q, const struct block &k,
                                               float scale)
{
    float s[ITERATIONS][ITERATION_UNITS][4] = {}, add[2], largest[2] = {-INFINITY, -INFINITY};
    struct state of_part = {};

#pragma unroll 1
    for (int iteration = 0;; iteration++) {
#pragma unroll
        for (int i = 0; i < ITERATION_UNITS; i++) {
            const char *keys = next_stage<DTYPE>(r);

            if (has_unit(k, iteration * ITERATION_UNITS + i))
                score_unit<DTYPE>(s[ITERATIONS - 1][i], largest, q, keys, k,
                                  iteration * ITERATION_UNITS + i, scale);
        }
        if (iteration == ITERATIONS - 1)
            break;
        copy_scores(s[0], s[1]);
        copy_scores(s[1], s[2]);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        all->largest[h] = heads_max(largest[h]);
        add[h] = power_of_two(largest[h] - all->largest[h]);
    }
#pragma unroll 1
    for (int iteration = 0;; iteration++) {
#pragma unroll
        for (int i = 0; i < ITERATION_UNITS; i++) {
            const int nth = iteration * ITERATION_UNITS + i;
            char *values = next_stage<DTYPE>(r);

            if (has_unit(k, nth))
                weigh_unit<DTYPE>(&of_part, s[0][i], largest, values, k, nth);
            if (nth > 0 && k.unit + part_at(nth) < k.unit_end) {
                const float weights[2] = {heads_sum(of_part.weights[0]),
                                          heads_sum(of_part.weights[1])};

                add_part(all, of_part.out, weights, add, part_at(nth));
                of_part = {};
            }
        }
        if (iteration == ITERATIONS - 1)
            break;
        copy_scores(s[0], s[1]);
        copy_scores(s[1], s[2]);
    }
}

template <int DTYPE>
static __device__ __forceinline__ void store_row(const struct attn_launch &l, const struct block &k,
                                                 const struct state &all, const float sinks[2])
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const struct ending end = end_head(all.largest[h], all.weights[h], sinks[h]);

        if (2 * t + h >= k.n_heads)
            continue;
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            store_columns(l, k, 2 * t + h, 16 * i + 2 * g,
                          make_float2(__fmul_rn(all.out[i][h], result_scale<DTYPE>()),
                                      __fmul_rn(all.out[i][2 + h], result_scale<DTYPE>())),
                          end);
    }
}

/* ---- the kernel ---- */

/* Grid: 1, blocks per row, rows. The kernel report identifies decode attention by this function
 * name. */
template <int DTYPE>
static __global__ void __launch_bounds__(WARP_LANES, BLOCKS_AT_ONCE)
    attn_decode(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char stages[];
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    const int t = threadIdx.x % 4;
    struct state all = {};
    struct ring<DTYPE> r;
    struct block k;
    struct query q;
    unsigned late;

    if (!begin_row(&k, l))
        return;
    const float *head = query_of_block(l, k);
    const float sinks[2] = {load_sink(l, k, 2 * t), load_sink(l, k, 2 * t + 1)};

    late = begin_ring<DTYPE>(&r, stages, k);
    fill_ring<DTYPE>(&r, ~late);
    materialize(head);
    pdl_wait();
    fill_ring<DTYPE>(&r, late);
    start_ring<DTYPE>(&r);
    load_query<DTYPE>(&q, head, k);
    sum_row<DTYPE>(&all, &r, q, k, scale);
    store_row<DTYPE>(l, k, all, sinks);
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    add_dependent<attn_decode<DTYPE>>(
        list, dim3(1, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows), dim3(WARP_LANES),
        ring<DTYPE>::BYTES, *l);
}

bool launch_attn_many_window(struct launch_list *list, const struct attn_launch *l)
{
    if (l->n_splits > 1 || attn_units_of_row(l) > UNITS_MAX ||
        l->n_rows * attn_row_blocks(&l->args) < BLOCKS_AT_LEAST)
        return false;
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
    return true;
}
