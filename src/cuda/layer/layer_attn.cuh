/* Attention of attn_layer.cu: the operations of attn_decode.cu, in the same order. A block
 * has one key/value head and one split of the keys, whose warps have two units each at most. */
#ifndef CUDA_LAYER_LAYER_ATTN_CUH
#define CUDA_LAYER_LAYER_ATTN_CUH

#include "cuda/layer/shared.cuh"

/* What a block attends to; in shared memory. */
struct attn_job {
    int kv_head, split, n_splits;
    int first, end, unit, unit_end;
    int32_t pages[UNITS_OF_A_SPLIT];
    float sinks[ATTN_HEADS];
};

/* Job of this block: split and head, so that blocks with little to multiply are first. */
static __device__ __forceinline__ int job_of_block(int n_split_blocks)
{
    const int b = (int)blockIdx.x;

    return b >= n_split_blocks ? b - n_split_blocks : b + (int)gridDim.x - n_split_blocks;
}

/* By one warp. */
static __device__ __forceinline__ void make_job(struct attn_job *job,
                                                const struct decode_attn_layer &f, int index)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int position = f.positions[0], end = position + 1;
    const int first = f.window > 0 ? max(end - f.window, 0) : 0;
    const struct batch_seq *seq = &f.seqs[f.row_seq[0]];
    const int32_t *pages =
        f.pages_of_batch + seq->table[f.qkv.group] - seq->first_page[f.qkv.group];
    const int n_units = attn_units(first, end), n_splits = attn_splits(n_units, ATTN_SPLITS_MAX);
    const int split = index / LAYER_KV_HEADS;
    const int unit = first / ATTN_UNIT_KEYS + split * ATTN_GROUP_UNITS;
    const int unit_end = first / ATTN_UNIT_KEYS + n_units;
    const int mine = unit + lane / WARPS * n_splits * ATTN_GROUP_UNITS + lane % WARPS;

    if (lane == 0) {
        job->kv_head = index % LAYER_KV_HEADS;
        job->split = split;
        job->n_splits = split < n_splits ? n_splits : 0;
        job->first = first, job->end = end;
        job->unit = unit, job->unit_end = unit_end;
    }
    if (lane < UNITS_OF_A_SPLIT)
        job->pages[lane] = pages[(unsigned)min(mine, unit_end - 1) / PAGE_UNITS];
    if (lane < ATTN_HEADS)
        job->sinks[lane] = f.sinks[index % LAYER_KV_HEADS * ATTN_HEADS + lane];
}

static __device__ __forceinline__ const char *keys_of(const struct decode_attn_layer &f, int page,
                                                      int kv_head)
{
    return f.qkv.pages + ((int64_t)page * 2 * f.qkv.n_kv + kv_head) * f.qkv.kv_half_bytes;
}

/* Unit i of warp `warp`: its number, or -1. */
static __device__ __forceinline__ int unit_of_warp(const struct attn_job &job, int warp, int i)
{
    const int index = job.unit + warp + i * job.n_splits * ATTN_GROUP_UNITS;

    return index < job.unit_end ? index : -1;
}

/* Prefetches the keys and values of the block's units, a line a thread. */
static __device__ __forceinline__ void
prefetch_keys(const struct attn_job &job, const struct decode_attn_layer &f, unsigned tid)
{
    enum {
        HALF_LINES = unit<DTYPE_BF16>::KV_HALF_BYTES / LINE_BYTES,
        TILE_LINES = unit<DTYPE_BF16>::TILE_BYTES / LINE_BYTES
    };
    const unsigned i = tid / WARP_LANES, line = tid % WARP_LANES;
    const int index = unit_of_warp(job, (int)(i % WARPS), (int)(i / WARPS));

    if (index < 0)
        return;
    const unsigned of_page = (unsigned)index % PAGE_UNITS, value = line - HALF_LINES;
    const char *keys = keys_of(f, job.pages[i], job.kv_head);

    if (line < HALF_LINES)
        prefetch_l2(keys + of_page * unit<DTYPE_BF16>::KV_HALF_BYTES + line * LINE_BYTES);
    else
        prefetch_l2(keys + f.qkv.n_kv * f.qkv.kv_half_bytes +
                    (of_page + value / TILE_LINES * PAGE_UNITS) * unit<DTYPE_BF16>::TILE_BYTES +
                    value % TILE_LINES * LINE_BYTES);
}

static __device__ __forceinline__ char *kv_slot(char *shared, int i)
{
    return shared + KV_AT + (i * WARPS + (int)threadIdx.x / WARP_LANES) * unit<DTYPE_BF16>::BYTES;
}

static __device__ __forceinline__ void copy_keys(char *shared, const struct attn_job &job,
                                                 const struct decode_attn_layer &f)
{
    const int warp = threadIdx.x / WARP_LANES;

#pragma unroll 1
    for (int i = 0; i < 2; i++) {
        const int index = unit_of_warp(job, warp, i), at = index % PAGE_UNITS;
        const char *keys = keys_of(f, job.pages[i * WARPS + warp], job.kv_head);

        if (index >= 0)
            unit<DTYPE_BF16>::copy(
                kv_slot(shared, i), keys + at * unit<DTYPE_BF16>::KV_HALF_BYTES,
                keys + f.qkv.n_kv * f.qkv.kv_half_bytes + at * unit<DTYPE_BF16>::TILE_BYTES, at);
    }
    copy_commit();
}

/* The warp that has the unit of this row's own key and value writes these into its copy. */
static __device__ __forceinline__ void put_own(char *shared, const struct attn_job &job,
                                               const struct decode_attn_layer &f)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int last = job.unit_end - 1, slot = (job.end - 1) % ATTN_UNIT_KEYS;
    int i = -1;

    if (unit_of_warp(job, warp, 0) == last)
        i = 0;
    if (unit_of_warp(job, warp, 1) == last)
        i = 1;
    if (i < 0)
        return;
    char *const to = kv_slot(shared, i);
    const int d = lane % 16 * 4;
    const uint4 v = await4(f.words + (lane < 16 ? (int)LAYER_K_AT : (int)LAYER_V_AT) +
                           job.kv_head * DECODE_HEAD_WIDTH + d);
    const uint32_t low = pair_bf16(__uint_as_float(v.x), __uint_as_float(v.y));
    const uint32_t high = pair_bf16(__uint_as_float(v.z), __uint_as_float(v.w));

    if (lane < 16) {
        *(uint32_t *)(to + piece_offset(d / 2, slot / 4) + slot % 4 * 4) = low;
        *(uint32_t *)(to + piece_offset(d / 2 + 1, slot / 4) + slot % 4 * 4) = high;
    } else {
        char *const at = to + unit<DTYPE_BF16>::KV_HALF_BYTES +
                         piece_offset(d / 16 * 8 + slot / 2, d % 16 / 4) + slot % 2 * 2;

        *(uint16_t *)at = (uint16_t)low;
        *(uint16_t *)(at + 4) = (uint16_t)(low >> 16);
        *(uint16_t *)(at + 8) = (uint16_t)high;
        *(uint16_t *)(at + 12) = (uint16_t)(high >> 16);
    }
    __syncwarp();
}

/* Receives four numbers of the head's queries, and stores them in terms where lanes read them. */
static __device__ __forceinline__ void put_queries(char *shared, const struct attn_job &job,
                                                   const struct decode_attn_layer &f, unsigned i)
{
    const unsigned head = i / 16, c = i % 16 * 4, step = c / 16, at = c % 16;
    const uint4 v = await4(f.words + job.kv_head * ATTN_HEADS * DECODE_HEAD_WIDTH + i * 4);
    float low[2] = {__uint_as_float(v.x), __uint_as_float(v.y)};
    float high[2] = {__uint_as_float(v.z), __uint_as_float(v.w)};
    char *to = shared + QUERY_AT + (step * WARP_LANES + head * 4 + at % 8 / 2) * 8 + at / 8 * 4;

#pragma unroll
    for (int part = 0; part < QUERY_TERMS; part++) {
        *(uint32_t *)(to + part * STEPS * WARP_LANES * 8) = round_to_bf16(low);
        *(uint32_t *)(to + part * STEPS * WARP_LANES * 8 + 8) = round_to_bf16(high);
    }
}

static __device__ __forceinline__ void scores(float s[4], const char *shared, const char *keys,
                                              int first, int end, float scale)
{
    const char *q = shared + QUERY_AT + threadIdx.x % WARP_LANES * 8;

    scores_by_words<DTYPE_BF16>(s, keys, [&](int part, int step) {
        return *(const uint2 *)(q + (part * STEPS + step) * WARP_LANES * 8);
    });
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = unit<DTYPE_BF16>::slot_of(i);

        s[i] = __fmul_rn(s[i], scale);
        s[i] = at >= first && at < end ? s[i] : -INFINITY;
    }
}

static __device__ __forceinline__ void add_weighted(struct state *st, const float s[4],
                                                    const char *values, int first, int end)
{
    uint32_t seen[2];

    unit<DTYPE_BF16>::visible_mask(seen, first, end);
    add_values<DTYPE_BF16>(st->out, s, values, seen);
}

/* Unit i of this warp and the slots of it that the row sees. The job is read again each time, which
 * takes fewer registers. */
struct seen_unit {
    bool is_there;
    int first, end;
};

static __device__ __forceinline__ struct seen_unit seen_unit_of(const volatile struct attn_job &job,
                                                                int i)
{
    const int warp = threadIdx.x / WARP_LANES;
    const int index = job.unit + warp + i * job.n_splits * ATTN_GROUP_UNITS;

    return {index < job.unit_end, job.first - index * ATTN_UNIT_KEYS,
            job.end - index * ATTN_UNIT_KEYS};
}

/* Scores of unit `group` of the warp. The second group stores its scores over the keys, for the
 * first group. */
static __device__ __forceinline__ void
score_unit(float s[4], char *shared, const struct attn_job &job, int group, float scale)
{
    const struct seen_unit u = seen_unit_of(job, group);
    char *const keys = kv_slot(shared, group);

    s[0] = s[1] = s[2] = s[3] = -INFINITY;
    if (!u.is_there)
        return;
    scores(s, shared, keys, u.first, u.end, scale);
    __syncwarp();
    if (group == 1)
        ((float4 *)keys)[threadIdx.x % WARP_LANES] = make_float4(s[0], s[1], s[2], s[3]);
}

/* The sums of the warp's units from their scores, by the first group. */
static __device__ __forceinline__ void attend(struct state *st, const float first[4], char *shared,
                                              const volatile struct attn_job &job)
{
    const bool has_second = seen_unit_of(job, 1).is_there;
    float s[2][4] = {{first[0], first[1], first[2], first[3]},
                     {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};

    *st = {{}, {-INFINITY, -INFINITY}, {}};
    if (!seen_unit_of(job, 0).is_there)
        return;
    if (has_second) {
        const float4 v = ((const float4 *)kv_slot(shared, 1))[threadIdx.x % WARP_LANES];

        s[1][0] = v.x, s[1][1] = v.y, s[1][2] = v.z, s[1][3] = v.w;
    }
    softmax_step<2>(st, s);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const struct seen_unit u = seen_unit_of(job, i);

        if (u.is_there)
            add_weighted(st, s[i], kv_slot(shared, i) + unit<DTYPE_BF16>::KV_HALF_BYTES, u.first,
                         u.end);
    }
}

/* Addresses of a split's partials of a head: two numbers, and the lanes' sums. */
static __device__ __forceinline__ char *numbers_at(const struct decode_attn_layer &f, int head,
                                                   int split)
{
    return f.partials + (head * LAYER_SPLITS + split) * 8;
}

static __device__ __forceinline__ char *sums_at(const struct decode_attn_layer &f, int head,
                                                int split)
{
    return f.partials + LAYER_NUMBERS_BYTES +
           ((head * LAYER_SPLITS + split) * WARP_LANES + threadIdx.x % WARP_LANES) * 8;
}

enum { SPLITS_EACH = 9 }; /* loads in flight of a merge */

/* Adds the partials of all splits of a head, in order; one warp. */
static __device__ __forceinline__ struct sums merge_head(const struct decode_attn_layer &f,
                                                         int head, int n_splits)
{
    const int lane = threadIdx.x % WARP_LANES;
    const char *const from = sums_at(f, head, 0);
    uint2 of_split = make_uint2(__float_as_uint(-INFINITY), 0);
    struct sums all = {};
    float add = 0.0f;
    int polls = 0;

#pragma unroll 1
    for (int first = 0; first < n_splits; first += SPLITS_EACH) {
        const char *const at = from + first * WARP_LANES * 8;
        const int n = n_splits - first;
        uint2 out[SPLITS_EACH];
        bool are_there;

#pragma unroll 1
        do {
            are_there = true;
#pragma unroll
            for (int i = 0; i < SPLITS_EACH; i++)
                if (i < n)
                    out[i] = load2(at + i * WARP_LANES * 8);
            if (first == 0 && lane < n_splits) {
                of_split = load2(numbers_at(f, head, lane));
                are_there = is_there(of_split);
            }
#pragma unroll
            for (int i = 0; i < SPLITS_EACH; i++)
                if (i < n)
                    are_there &= is_there(out[i]);
            if (++polls == POLLS_MAX)
                __trap();
        } while (!__all_sync(ALL_LANES, are_there));
        if (first == 0) {
            all.largest = warp_max(__uint_as_float(of_split.x));
            add = power_of_two(__fadd_rn(__uint_as_float(of_split.x), -all.largest));
            all.weights = warp_sum(__fmul_rn(__uint_as_float(of_split.y), add));
        }
#pragma unroll
        for (int i = 0; i < SPLITS_EACH; i++)
            if (i < n) {
                const float factor = __shfl_sync(ALL_LANES, add, first + i);

                all.out.x = __fmaf_rn(__uint_as_float(out[i].x), factor, all.out.x);
                all.out.y = __fmaf_rn(__uint_as_float(out[i].y), factor, all.out.y);
            }
    }
    return all;
}

static __device__ __forceinline__ void clear_partials(const struct decode_attn_layer &f, int head,
                                                      int n_splits)
{
    const int lane = threadIdx.x % WARP_LANES;

    if (lane < n_splits)
        store2(numbers_at(f, head, lane), make_uint2(EMPTY, EMPTY));
#pragma unroll 1
    for (int i = 0; i < n_splits; i++)
        store2(sums_at(f, head, i), make_uint2(EMPTY, EMPTY));
}

/* Sends a head's result, rounded to FP16. */
static __device__ __forceinline__ void send_att(const struct decode_attn_layer &f,
                                                const struct sums &sums, float sink, int head)
{
    const struct ending end = end_head(sums.largest, sums.weights, sink);
    const uint32_t pair = pair_f16(__fdiv_rn(__fmul_rn(sums.out.x, end.add), end.total),
                                   __fdiv_rn(__fmul_rn(sums.out.y, end.add), end.total));
    uint32_t *const to =
        f.words + LAYER_ATT_AT + head * (DECODE_HEAD_WIDTH / 2) + threadIdx.x % WARP_LANES;

    store1(to, pair);
}

/* Sends a split's partials of a head. */
static __device__ __forceinline__ void send_split(const struct decode_attn_layer &p,
                                                  const struct sums &sums, int head, int split)
{
    if (threadIdx.x % WARP_LANES == 0)
        store2(numbers_at(p, head, split),
               make_uint2(__float_as_uint(sums.largest), __float_as_uint(sums.weights)));
    store2(sums_at(p, head, split),
           make_uint2(__float_as_uint(sums.out.x), __float_as_uint(sums.out.y)));
}

/* The query head of a warp. */
static __device__ __forceinline__ int head_of_warp(const volatile struct attn_job &job)
{
    return job.kv_head * ATTN_HEADS + (int)threadIdx.x / WARP_LANES;
}

/* Attention of the block's split, by the first group. With several splits, the block of split i
 * adds those of heads i, i + splits, ... */
static __device__ __forceinline__ void attend_block(char *shared, const float scores[4],
                                                    const volatile struct attn_job &job,
                                                    const struct decode_attn_layer &p)
{
    const int warp = threadIdx.x / WARP_LANES;
    struct shared *s = (struct shared *)(shared + SUMS_AT);
    struct state st;

    attend(&st, scores, shared, job);
    __syncwarp();
    store_sums(s, kv_slot(shared, 0), &st, warp);
    sync_group(0);
    struct sums sums = sum_warps<DTYPE_BF16>(s, shared + KV_AT, unit<DTYPE_BF16>::BYTES, warp);

    if (job.n_splits > 1) {
        send_split(p, sums, head_of_warp(job), job.split);
        if (job.split != warp % job.n_splits)
            return;
        sums = merge_head(p, head_of_warp(job), job.n_splits);
    }
    send_att(p, sums, job.sinks[warp], head_of_warp(job));
    if (job.n_splits > 1)
        clear_partials(p, head_of_warp(job), job.n_splits);
}

/* Attention of a block that has a split. */
static __device__ __forceinline__ void attend_split(char *shared, const struct attn_job &job,
                                                    const struct decode_attn_layer &p,
                                                    const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();

    if (at.group == 0)
        copy_keys(shared, job, p);
    prefetch_end(p, plan);
    if (at.group == 0) {
        copy_wait<0>();
        __syncwarp();
        put_own(shared, job, p);
    } else if (at.warp >= 4) {
        put_queries(shared, job, p, (unsigned)((at.warp - 4) * WARP_LANES + at.lane));
    }
    float s[4];

    __syncthreads();
    score_unit(s, shared, job, at.group, p.scale * LOG2_E);
    __syncthreads();
    if (at.group == 0)
        attend_block(shared, s, job, p);
    __syncthreads(); /* project_out() uses the memory of keys and sums */
}

#endif
