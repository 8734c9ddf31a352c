/* Stage attn for generated rows: for query row t and head h, over the keys j that the row sees,
 *     s_j = scale q.k_j,  M = max(sink, max s),  att = sum exp(s_j - M) v_j
 *                                                      / (exp(sink - M) + sum exp(s_j - M)).
 *
 * A block takes one row, one key/value head with up to eight of its query heads, and one split of the keys.
 * Its warps take units of 16 keys in turns. A unit's keys are the 16-row operand A of the matrix
 * instruction and the query heads its eight columns; then its values, turned, are A, and the weights the
 * columns: a weight's register comes from the score's by a transpose between lanes. Words of pages are
 * fragment registers as they lie there. Each warp copies the units that it will need into a ring of its
 * own, those of earlier steps before it waits for the kernel before it.
 *
 * Queries are sums of three bf16 numbers and weights of two, keys and values are exact: float32 but for the
 * last bits. A code of F8 is a bf16 number 2^-120 times its value.
 *
 * The warps' sums are added in order of the warps. Where a row has several splits, each leaves its sums, and
 * the block that comes last adds them in order of the splits, and the sink. All of it depends on the row's
 * position alone.
 *
 * Bytes: the keys and values that a row sees, once. */
#include "cuda/attn.cuh"
#include "cuda/pdl.cuh"
#include "cuda/sums.cuh"

enum {
    WARPS = ATTN_SPLIT_UNITS,
    THREADS = WARPS * WARP_LANES,
    BLOCKS_PER_SM = 2,
    SPLITS_AT_ONCE = 16, /* loads under way where splits are merged */
    QUERY_PARTS = 3,
    HEAD_STRIDE = ATTN_WIDTH + 4, /* floats; 4: lanes of a warp write to different banks */
    RING_BYTES = 16 << 10,        /* of a warp, at most, where it has more than one unit */
    PAGE_UNITS = PAGE_TOKENS / ATTN_UNIT_KEYS
};
static_assert((int)WARPS == (int)ATTN_HEADS, "a warp merges a head");
static_assert((int)ATTN_SPLITS_MAX <= (int)WARP_LANES, "a lane has a split");

/* Which row, heads and keys a block works on. */
struct block {
    int row, first_head, n_heads;
    int first, end;       /* keys seen */
    int unit, step;       /* the first of this split, and from there to its next group */
    int unit_end;         /* of the row */
    int n_splits;         /* of the row */
    int written;          /* keys from this position on are written in this step */
    const int32_t *pages; /* page of position p: pages[p / P] */
    const char *keys;     /* of this head in page 0, */
    int64_t values_bytes; /* from there to its values, */
    int64_t page_bytes;   /* and to the next page */
};

/* false: there is nothing to do. */
static __device__ __forceinline__ bool block_of(struct block *k, const struct attn_launch &l)
{
    const struct attn_args &a = l.args;
    const int n_group = l.n_group, n_parts = (n_group + ATTN_HEADS - 1) / ATTN_HEADS;
    const int part = blockIdx.y % n_parts;
    const int row = l.first_row + blockIdx.z, position = l.rows.positions[row];
    const int kind = l.rows.kinds[row], kv_head = (int)blockIdx.y / n_parts;
    const struct batch_seq *seq = &l.rows.seqs[l.rows.row_seq[row]];
    int n_units;

    k->row = row;
    k->first_head = kv_head * n_group + part * ATTN_HEADS;
    k->n_heads = min(n_group - part * ATTN_HEADS, (int)ATTN_HEADS);
    k->end = position + 1;
    k->first = a.window_tokens > 0 ? max(k->end - a.window_tokens, 0) : 0;
    n_units = attn_units(k->first, k->end);
    k->n_splits = attn_splits(&a, n_units);
    k->unit = k->first / ATTN_UNIT_KEYS + blockIdx.x * ATTN_SPLIT_UNITS;
    k->unit_end = k->first / ATTN_UNIT_KEYS + n_units;
    k->step = k->n_splits * ATTN_SPLIT_UNITS;
    if (kind != ROW_GENERATED || (int)blockIdx.x >= k->n_splits)
        return false;
    k->written = position - (row - seq->first_row); /* its rows follow each other */
    k->pages = l.rows.pages + seq->table[a.group] - seq->first_page[a.group];
    k->keys = kv_side(&a.kv, 0, 0, kv_head);
    k->values_bytes = kv_side(&a.kv, 0, 1, kv_head) - k->keys;
    k->page_bytes = kv_side(&a.kv, 1, 0, kv_head) - k->keys;
    return true;
}

/* ---- units: how they lie in pages and rings, and their words as fragments ---- */

/* The words of two slots (of keys) or columns (of values): pair g of a row of words. */
static __device__ __forceinline__ uint2 words_at(const char *side, int row)
{
    const int g = threadIdx.x % WARP_LANES / 4;

    return *(const uint2 *)(side + row * WORDS_ROW_BYTES + g * 8);
}

template <int DTYPE> struct unit {
};

/* Words of two. Of the values' eight rows of words the even ones come first in the ring. */
template <> struct unit<DTYPE_BF16> {
    enum { SIDE_BYTES = ATTN_UNIT_KEYS * ATTN_WIDTH * 2, BYTES = 2 * SIDE_BYTES };

    static __device__ __forceinline__ void copy(char *ring, const char *keys, const char *values,
                                                int unit)
    {
        const int lane = threadIdx.x % WARP_LANES, row = lane / 4;
        const int tile_bytes = SIDE_BYTES / STEPS;

#pragma unroll
        for (int i = 0; i < SIDE_BYTES / COPY_BYTES / WARP_LANES; i++) {
            const int at = (i * WARP_LANES + lane) * COPY_BYTES;

            copy_async(ring + at, keys + unit * SIDE_BYTES + at);
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            copy_async(ring + SIDE_BYTES + i * tile_bytes +
                           (row % 2 * 4 + row / 2) * WORDS_ROW_BYTES + lane % 4 * COPY_BYTES,
                       values + (i * PAGE_UNITS + unit) * tile_bytes + lane * COPY_BYTES);
    }
    static __device__ __forceinline__ void key_fragment(uint32_t a[4], const char *ring, int step)
    {
        const int t = threadIdx.x % 4;
        const uint2 low = words_at(ring, 8 * step + t), high = words_at(ring, 8 * step + t + 4);

        a[0] = low.x, a[1] = low.y, a[2] = high.x, a[3] = high.y;
    }
    /* The columns of a query that meet key_fragment(): 16 step + 2 t + {0, 1}, and + {8, 9}. */
    static __device__ __forceinline__ void query_columns(float x[2][2], const float *head, int step)
    {
        const int t = threadIdx.x % 4;
        const float2 low = *(const float2 *)(head + 16 * step + 2 * t);
        const float2 high = *(const float2 *)(head + 16 * step + 2 * t + 8);

        x[0][0] = low.x, x[0][1] = low.y, x[1][0] = high.x, x[1][1] = high.y;
    }
    /* Slots 4 t + {0, 1} and 4 t + {2, 3}. */
    static __device__ __forceinline__ void value_fragment(uint32_t a[4], const char *ring, int tile,
                                                          const uint32_t seen[2])
    {
        const int t = threadIdx.x % 4;
        const char *side = ring + SIDE_BYTES;
        const uint2 low = words_at(side, 8 * tile + t), high = words_at(side, 8 * tile + t + 4);

        a[0] = low.x & seen[0], a[1] = low.y & seen[0];
        a[2] = high.x & seen[1], a[3] = high.y & seen[1];
    }
    static __device__ __forceinline__ void seen_mask(uint32_t seen[2], int first, int end)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int slot = 4 * (threadIdx.x % 4) + 2 * i;

            seen[i] = (slot >= first && slot < end ? 0xFFFFu : 0) |
                      (slot + 1 >= first && slot + 1 < end ? 0xFFFF0000u : 0);
        }
    }
    /* even: weights of slots 4 t and 4 t + 2, odd: of 4 t + 1 and 4 t + 3. */
    static __device__ __forceinline__ void weight_fragment(uint32_t b[2], uint32_t even,
                                                           uint32_t odd)
    {
        b[0] = __byte_perm(even, odd, 0x5410);
        b[1] = __byte_perm(even, odd, 0x7632);
    }
    static __device__ __forceinline__ float key_scale(const char *, int)
    {
        return 1.0f;
    }
    static __device__ __forceinline__ float value_scale(const char *, int)
    {
        return 1.0f;
    }
};

/* Words of four; the scales of the keys, then of the values, behind both sides. */
template <> struct unit<DTYPE_F8> {
    enum {
        SIDE_BYTES = ATTN_UNIT_KEYS * ATTN_WIDTH,
        SCALES_BYTES = ATTN_UNIT_KEYS * 4,
        BYTES = 2 * SIDE_BYTES + 2 * SCALES_BYTES
    };

    static __device__ __forceinline__ void copy(char *ring, const char *keys, const char *values,
                                                int unit)
    {
        const int lane = threadIdx.x % WARP_LANES, tile_bytes = SIDE_BYTES / STEPS;
        const int page_bytes = SIDE_BYTES * PAGE_UNITS;

#pragma unroll
        for (int i = 0; i < SIDE_BYTES / COPY_BYTES / WARP_LANES; i++) {
            const int at = (i * WARP_LANES + lane) * COPY_BYTES;

            copy_async(ring + at, keys + unit * SIDE_BYTES + at);
            copy_async(ring + SIDE_BYTES + at,
                       values + (at / tile_bytes * PAGE_UNITS + unit) * tile_bytes +
                           at % tile_bytes);
        }
        if (lane < 2 * SCALES_BYTES / COPY_BYTES)
            copy_async(ring + 2 * SIDE_BYTES + lane * COPY_BYTES,
                       (lane < 4 ? keys : values) + page_bytes + unit * SCALES_BYTES +
                           lane % 4 * COPY_BYTES);
    }
    static __device__ __forceinline__ void fragment(uint32_t a[4], uint2 words)
    {
        a[0] = even_codes(words.x), a[1] = even_codes(words.y);
        a[2] = odd_codes(words.x), a[3] = odd_codes(words.y);
    }
    static __device__ __forceinline__ void key_fragment(uint32_t a[4], const char *ring, int step)
    {
        fragment(a, words_at(ring, 4 * step + threadIdx.x % 4));
    }
    /* 16 step + 4 t + {0, 2}, and + {1, 3}. */
    static __device__ __forceinline__ void query_columns(float x[2][2], const float *head, int step)
    {
        const float4 all = *(const float4 *)(head + 16 * step + 4 * (threadIdx.x % 4));

        x[0][0] = all.x, x[0][1] = all.z, x[1][0] = all.y, x[1][1] = all.w;
    }
    /* Slots 4 t + {0, 2} and 4 t + {1, 3}. */
    static __device__ __forceinline__ void value_fragment(uint32_t a[4], const char *ring, int tile,
                                                          const uint32_t seen[2])
    {
        uint2 words = words_at(ring + SIDE_BYTES, 4 * tile + threadIdx.x % 4);

        words.x &= seen[0], words.y &= seen[0];
        fragment(a, words);
    }
    static __device__ __forceinline__ void seen_mask(uint32_t seen[2], int first, int end)
    {
        seen[0] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int slot = 4 * (threadIdx.x % 4) + i;

            seen[0] |= slot >= first && slot < end ? 0xFFu << 8 * i : 0;
        }
        seen[1] = seen[0];
    }
    static __device__ __forceinline__ void weight_fragment(uint32_t b[2], uint32_t even,
                                                           uint32_t odd)
    {
        b[0] = even, b[1] = odd;
    }
    static __device__ __forceinline__ float key_scale(const char *ring, int slot)
    {
        return ((const float *)(ring + 2 * SIDE_BYTES))[slot];
    }
    static __device__ __forceinline__ float value_scale(const char *ring, int slot)
    {
        return ((const float *)(ring + 2 * SIDE_BYTES + SCALES_BYTES))[slot];
    }
};

/* ---- a warp over its units ---- */

/* With g = lane / 4 and t = lane % 4: of heads 2 t and 2 t + 1, columns 16 i + 2 g and 16 i + 2 g + 1 of
 * sums at out[i][0], [2] and out[i][1], [3]. Scores count in powers of two. */
struct state {
    float out[STEPS][4];
    float largest[2];
    float weights[2]; /* their sum over this lane's slots */
};

struct query {
    uint32_t parts[QUERY_PARTS][STEPS][2];
};

/* Head g of the block; heads that it has not are zeros. */
template <int DTYPE>
static __device__ __forceinline__ void load_query(struct query *q, const struct attn_launch &l,
                                                  const struct block &k)
{
    const int g = threadIdx.x % WARP_LANES / 4;
    const float *head = (const float *)l.args.q.data + k.row * l.args.q.dim[1] +
                        (k.first_head + min(g, k.n_heads - 1)) * ATTN_WIDTH;
    const float factor = g < k.n_heads ? meet_factor<DTYPE>() : 0.0f;

#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        float x[2][2];

        unit<DTYPE>::query_columns(x, head, step);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            x[i][0] *= factor, x[i][1] *= factor;
#pragma unroll
            for (int part = 0; part < QUERY_PARTS; part++)
                q->parts[part][step][i] = take_bf16(x[i]);
        }
    }
}

/* Slots 2 g at s[0], s[1] and 2 g + 1 at s[2], s[3], of heads 2 t and 2 t + 1. */
template <int DTYPE>
static __device__ __forceinline__ void scores_of(float s[4], const struct query &q,
                                                 const char *ring)
{
    float sums[QUERY_PARTS][4] = {};

#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        uint32_t a[4];

        unit<DTYPE>::key_fragment(a, ring, step);
#pragma unroll
        for (int part = 0; part < QUERY_PARTS; part++)
            mma_bf16(sums[part], a, q.parts[part][step][0], q.parts[part][step][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = __fadd_rn(__fadd_rn(sums[2][i], sums[1][i]), sums[0][i]);
}

/* Largest over the lanes that have the same heads. */
static __device__ __forceinline__ float heads_max(float x)
{
#pragma unroll
    for (int step = 4; step < WARP_LANES; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

static __device__ __forceinline__ float heads_sum(float x)
{
#pragma unroll
    for (int step = 4; step < WARP_LANES; step *= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

/* An 8 x 8 matrix of 16-bit numbers, rows and columns changed. */
static __device__ __forceinline__ uint32_t turned(uint32_t x)
{
    uint32_t y;

    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* s: scores of N units to weights; sums so far are brought to the new largest scores. */
template <int N> static __device__ __forceinline__ void weigh(struct state *st, float s[N][4])
{
    float keep[2];

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = st->largest[h], sum = 0.0f;

#pragma unroll
        for (int i = 0; i < N; i++)
            most = fmaxf(most, fmaxf(s[i][h], s[i][2 + h]));
        most = heads_max(most);
        keep[h] = power_of_two(__fadd_rn(st->largest[h], -most));
#pragma unroll
        for (int i = 0; i < N; i++) {
            s[i][h] = power_of_two(__fadd_rn(s[i][h], -most));
            s[i][2 + h] = power_of_two(__fadd_rn(s[i][2 + h], -most));
            sum = __fadd_rn(sum, __fadd_rn(s[i][h], s[i][2 + h]));
        }
        st->weights[h] = __fmaf_rn(st->weights[h], keep[h], sum);
        st->largest[h] = most;
    }
    if (!__any_sync(ALL_LANES, keep[0] != 1.0f || keep[1] != 1.0f))
        return;
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        st->out[i][0] = __fmul_rn(st->out[i][0], keep[0]);
        st->out[i][1] = __fmul_rn(st->out[i][1], keep[1]);
        st->out[i][2] = __fmul_rn(st->out[i][2], keep[0]);
        st->out[i][3] = __fmul_rn(st->out[i][3], keep[1]);
    }
}

template <int DTYPE>
static __device__ __forceinline__ void add_values(struct state *st, const float s[4],
                                                  const char *ring, const uint32_t seen[2])
{
    float pairs[2][2] = {{s[0], s[1]}, {s[2], s[3]}};
    uint32_t b[2][2];

#pragma unroll
    for (int part = 0; part < 2; part++) {
        const uint32_t even = turned(take_bf16(pairs[0]));
        const uint32_t odd = turned(take_bf16(pairs[1]));

        unit<DTYPE>::weight_fragment(b[part], even, odd);
    }
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        uint32_t a[4];

        unit<DTYPE>::value_fragment(a, ring, i, seen);
        mma_bf16(st->out[i], a, b[1][0], b[1][1]);
        mma_bf16(st->out[i], a, b[0][0], b[0][1]);
    }
}

/* Scores of a unit in powers of two; of keys that the row does not see: none. */
template <int DTYPE>
static __device__ __forceinline__ void seen_scores(float s[4], const struct query &q,
                                                   const char *ring, const struct block &k,
                                                   int index, float scale)
{
    const int slot = threadIdx.x % WARP_LANES / 4 * 2;
    const int first = k.first - index * ATTN_UNIT_KEYS, end = k.end - index * ATTN_UNIT_KEYS;

    scores_of<DTYPE>(s, q, ring);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = slot + i / 2;

        s[i] = __fmul_rn(s[i], __fmul_rn(scale, unit<DTYPE>::key_scale(ring, at)));
        s[i] = at >= first && at < end ? s[i] : -INFINITY;
    }
}

template <int DTYPE>
static __device__ __forceinline__ void add_unit(struct state *st, float s[4], const char *ring,
                                                const struct block &k, int index)
{
    const int slot = threadIdx.x % WARP_LANES / 4 * 2;
    const int first = k.first - index * ATTN_UNIT_KEYS, end = k.end - index * ATTN_UNIT_KEYS;
    uint32_t seen[2] = {0xFFFFFFFFu, 0xFFFFFFFFu};

    if (first > 0 || end < ATTN_UNIT_KEYS)
        unit<DTYPE>::seen_mask(seen, first, end);
#pragma unroll
    for (int i = 0; i < 4 && DTYPE == DTYPE_F8; i++) {
        const int at = slot + i / 2;
        const float factor = unit<DTYPE>::value_scale(ring, at) * meet_factor<DTYPE>();

        s[i] = at >= first && at < end ? __fmul_rn(s[i], factor) : 0.0f;
    }
    add_values<DTYPE>(st, s, ring, seen);
}

/* N units, of which the last may be missing. */
template <int DTYPE, int N>
static __device__ __forceinline__ void add_units(struct state *st, const struct query &q,
                                                 char *const rings[N], const struct block &k,
                                                 int index, float scale)
{
    const bool has_last = N == 1 || index + (N - 1) * k.step < k.unit_end;
    float s[N][4];

    seen_scores<DTYPE>(s[0], q, rings[0], k, index, scale);
    s[N - 1][0] = N > 1 ? -INFINITY : s[0][0];
    s[N - 1][1] = N > 1 ? -INFINITY : s[0][1];
    s[N - 1][2] = N > 1 ? -INFINITY : s[0][2];
    s[N - 1][3] = N > 1 ? -INFINITY : s[0][3];
    if (N > 1 && has_last)
        seen_scores<DTYPE>(s[N - 1], q, rings[N - 1], k, index + (N - 1) * k.step, scale);
    weigh<N>(st, s);
    add_unit<DTYPE>(st, s[0], rings[0], k, index);
    if (N > 1 && has_last)
        add_unit<DTYPE>(st, s[N - 1], rings[N - 1], k, index + (N - 1) * k.step);
}

template <int DTYPE>
static __device__ __forceinline__ void copy_unit(char *ring, const struct block &k, int index)
{
    if (index < k.unit_end) {
        const char *keys = k.keys + k.pages[index / PAGE_UNITS] * k.page_bytes;

        unit<DTYPE>::copy(ring, keys, keys + k.values_bytes, index % PAGE_UNITS);
    }
    copies_commit();
}

/* Stage i of this warp's ring. */
template <int DTYPE> static __device__ __forceinline__ char *stage_of(char *rings, int i)
{
    return rings + (i * WARPS + (int)threadIdx.x / WARP_LANES) * unit<DTYPE>::BYTES;
}

/* AT_ONCE units in turn; it divides STAGES. */
template <int DTYPE, int STAGES, int AT_ONCE>
static __device__ __forceinline__ void run_warp(struct state *st, char *rings,
                                                const struct attn_launch &l, const struct block &k)
{
    const int first = k.unit + (int)threadIdx.x / WARP_LANES;
    const float scale = l.args.scale * LOG2_E * inverse_factor<DTYPE>();
    struct query q;
    int stage = 0;

#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        if ((first + i * k.step + 1) * ATTN_UNIT_KEYS > k.written)
            pdl_wait();
        copy_unit<DTYPE>(stage_of<DTYPE>(rings, i), k, first + i * k.step);
    }
    pdl_wait();
    load_query<DTYPE>(&q, l, k);
    for (int index = first; index < k.unit_end; index += AT_ONCE * k.step) {
        char *at[AT_ONCE];

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            at[i] = stage_of<DTYPE>(rings, stage + i);
        copies_wait<STAGES - AT_ONCE>();
        __syncwarp();
        add_units<DTYPE, AT_ONCE>(st, q, at, k, index, scale);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            copy_unit<DTYPE>(at[i], k, index + (STAGES + i) * k.step);
        stage = stage + AT_ONCE < STAGES ? stage + AT_ONCE : 0;
    }
    copies_wait<0>();
    __syncwarp();
}

/* ---- a block, and the row ---- */

/* Shared by all threads, beside the rings. */
struct shared {
    float largest[WARPS][ATTN_HEADS], weights[WARPS][ATTN_HEADS];
    bool is_last;
};

/* This thread's two columns of head `warp`, with the largest score and the sum of weights. */
struct sums {
    float2 out;
    float largest, weights;
};

/* A warp's sums to the first stage of its ring. */
template <int DTYPE>
static __device__ void put_sums(struct shared *s, char *rings, struct state *st)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int g = lane / 4, t = lane % 4;
    float *out = (float *)stage_of<DTYPE>(rings, 0);

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

template <int DTYPE>
static __device__ struct sums sum_warps(const struct shared *s, const char *rings)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    struct sums all = {{0.0f, 0.0f}, s->largest[0][head], 0.0f};

#pragma unroll
    for (int w = 1; w < WARPS; w++)
        all.largest = fmaxf(all.largest, s->largest[w][head]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const float add = power_of_two(s->largest[w][head] - all.largest);
        const float2 out =
            ((const float2 *)(rings + w * unit<DTYPE>::BYTES))[head * HEAD_STRIDE / 2 + lane];

        all.weights = __fmaf_rn(s->weights[w][head], add, all.weights);
        all.out.x = __fmaf_rn(out.x, add, all.out.x);
        all.out.y = __fmaf_rn(out.y, add, all.out.y);
    }
    all.out.x = __fmul_rn(all.out.x, inverse_factor<DTYPE>());
    all.out.y = __fmul_rn(all.out.y, inverse_factor<DTYPE>());
    return all;
}

static __device__ void finish(const struct attn_launch &l, const struct block &k, struct sums sums)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    float *att = (float *)l.args.att.data + k.row * l.args.att.dim[1];
    float sink, largest, add, total;

    if (head >= k.n_heads)
        return;
    sink = ((const float *)l.args.sinks.data)[k.first_head + head] * LOG2_E;
    largest = fmaxf(sink, sums.largest);
    add = power_of_two(sums.largest - largest);
    total = __fmaf_rn(sums.weights, add, power_of_two(sink - largest));
    *(float2 *)(att + (k.first_head + head) * ATTN_WIDTH + 2 * lane) = make_float2(
        __fdiv_rn(__fmul_rn(sums.out.x, add), total), __fdiv_rn(__fmul_rn(sums.out.y, add), total));
}

/* Where a split of this block's row leaves its sums: (heads, D), then (heads, 2) numbers. */
static __device__ float *part_of(const struct attn_launch &l, int split)
{
    const int64_t i = ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * l.n_splits + split;

    return l.parts + i * attn_part_floats(&l.args);
}

static __device__ void put_part(const struct attn_launch &l, struct sums sums)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    float *part = part_of(l, blockIdx.x);

    ((float2 *)part)[threadIdx.x] = sums.out;
    if (lane == 0)
        ((float2 *)(part + ATTN_HEADS * ATTN_WIDTH))[head] =
            make_float2(sums.largest, sums.weights);
}

/* Whether all other splits of the row have left their sums, which can be seen then; the count is zero again. */
static __device__ bool is_last(const struct attn_launch &l, const struct block &k, struct shared *s)
{
    int *count = l.counts + blockIdx.z * gridDim.y + blockIdx.y, n;

    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                     : "=r"(n)
                     : "l"(count)
                     : "memory");
        s->is_last = n == k.n_splits - 1;
        if (s->is_last)
            *count = 0;
    }
    __syncthreads();
    return s->is_last;
}

static __device__ struct sums sum_parts(const struct attn_launch &l, int n_splits)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int64_t stride = attn_part_floats(&l.args);
    const float *parts = part_of(l, 0);
    float2 of_split = {-INFINITY, 0.0f};
    struct sums all = {};
    float add;

    if (lane < n_splits)
        of_split = __ldcg((const float2 *)(parts + lane * stride + ATTN_HEADS * ATTN_WIDTH) + head);
    for (int first = 0; first < n_splits; first += SPLITS_AT_ONCE) {
        float2 out[SPLITS_AT_ONCE];

#pragma unroll
        for (int i = 0; i < SPLITS_AT_ONCE; i++)
            out[i] = first + i < n_splits
                         ? __ldcg((const float2 *)(parts + (first + i) * stride) + threadIdx.x)
                         : make_float2(0.0f, 0.0f);
        if (first == 0) {
            all.largest = warp_max(of_split.x);
            add = power_of_two(__fadd_rn(of_split.x, -all.largest));
            all.weights = warp_sum(__fmul_rn(of_split.y, add));
        }
#pragma unroll
        for (int i = 0; i < SPLITS_AT_ONCE; i++) {
            const float factor = __shfl_sync(ALL_LANES, add, first + i);

            all.out.x = __fmaf_rn(out[i].x, factor, all.out.x);
            all.out.y = __fmaf_rn(out[i].y, factor, all.out.y);
        }
    }
    return all;
}

/* Grid: splits, blocks of a row, rows. */
template <int DTYPE, int STAGES>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    attn_decode(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char rings[];
    __shared__ struct shared s;
    struct state st = {{}, {-INFINITY, -INFINITY}, {}};
    struct block k;
    struct sums sums;

    pdl_launch_dependents();
    if (!block_of(&k, l)) {
        if (blockIdx.x + blockIdx.y + blockIdx.z == 0)
            pdl_wait(); /* who waits for this kernel waits for those before it */
        return;
    }
    run_warp<DTYPE, STAGES, STAGES == 1 ? 1 : 2>(&st, rings, l, k);
    put_sums<DTYPE>(&s, rings, &st);
    __syncthreads();
    sums = sum_warps<DTYPE>(&s, rings);
    if (k.n_splits > 1) {
        put_part(l, sums);
        if (!is_last(l, k, &s))
            return;
        sums = sum_parts(l, k.n_splits);
    }
    finish(l, k, sums);
}

/* Gives whether the card has the shared memory for it. */
template <int DTYPE, int STAGES>
static bool launch_stages(cudaStream_t stream, const struct attn_launch *l)
{
    const size_t shared_bytes = (size_t)STAGES * WARPS * unit<DTYPE>::BYTES;
    static const cudaError_t is_set =
        cudaFuncSetAttribute((const void *)attn_decode<DTYPE, STAGES>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);

    if (is_set != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    pdl_launch(
        attn_decode<DTYPE, STAGES>,
        dim3((unsigned)l->n_splits, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_rows),
        dim3(THREADS), shared_bytes, stream, *l);
    return true;
}

template <int DTYPE> static void launch_dtype(cudaStream_t stream, const struct attn_launch *l)
{
    enum { STAGES = RING_BYTES / unit<DTYPE>::BYTES / 2 * 2 };

    /* Rows with one unit a warp may be in either, with the same bits; others have pairs. Cards with 99 KB a
     * block, those of sm_86, 120 and 121, have room for the short ring. */
    if (l->args.window_tokens <= 0 && l->n_units <= l->n_splits * WARPS)
        (void)launch_stages<DTYPE, 1>(stream, l);
    else if (!launch_stages<DTYPE, STAGES>(stream, l))
        (void)launch_stages<DTYPE, 2>(stream, l);
}

void launch_attn_decode(cudaStream_t stream, const struct attn_launch *l)
{
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(stream, l);
    else
        launch_dtype<DTYPE_BF16>(stream, l);
}
