/* QKV of attn_layer.cu: RMSNorm of the row, products, bias and RoPE. The results go to the
 * KV page, and as words to the blocks that attend. */
#ifndef CUDA_LAYER_LAYER_QKV_CUH
#define CUDA_LAYER_LAYER_QKV_CUH

#include "cuda/layer/chain.cuh"

/* A half-head: its first unit, and where its pairs of rows go. */
struct half_head {
    const unsigned char *units;
    int job, index, tile;
};

static __device__ __forceinline__ struct half_head half_head_of(const struct decode_qkv &p, int i)
{
    const int head = i / HALVES_OF_A_HEAD;
    struct half_head h;

    h.job = head < p.n_q ? 0 : head < p.n_q + p.n_kv ? 1 : 2;
    h.index = h.job == 0 ? head : h.job == 1 ? head - p.n_q : head - p.n_q - p.n_kv;
    h.tile = i % HALVES_OF_A_HEAD;
    h.units = p.units[h.job] + (int64_t)h.index * ROW_UNITS * MXFP4_UNIT_BYTES;
    return h;
}

/* A thread's pair of rows of a head: what is known before they are computed. */
struct qkv_pair {
    float bias_low, bias_high, cosine, sine;
    int at;            /* word of the exchange of the first one; -1: the thread has none */
    __nv_bfloat16 *kv; /* k and v: the first one's element of the page */
};

/* Elements from a pair's first row to its second one, in keys (which 0) or values. */
static __device__ __forceinline__ int pair_distance(int which)
{
    return (int)(kv_word(2, DECODE_HEAD_WIDTH, which, 0, HALF) * 2);
}

static __device__ __forceinline__ struct qkv_pair pair_of(const struct decode_attn_layer &f,
                                                          const struct half_head &h, int d)
{
    const struct decode_qkv &p = f.qkv;
    const int row = h.index * DECODE_HEAD_WIDTH + d, which = h.job - 1;
    struct qkv_pair pair = {};

    pair.bias_low = bf16_at(p.bias[h.job], row);
    pair.bias_high = bf16_at(p.bias[h.job], row + HALF);
    pair.cosine = 1.0f;
    pair.at = row + (h.job == 0 ? 0 : h.job == 1 ? (int)LAYER_K_AT : (int)LAYER_V_AT);
    if (h.job == 0)
        return pair;
    const int position = f.positions[0], slot = position % PAGE_TOKENS;
    const struct batch_seq *seq = &f.seqs[f.row_seq[0]];
    const int page =
        f.pages_of_batch[seq->table[p.group] + position / PAGE_TOKENS - seq->first_page[p.group]];

    pair.kv = (__nv_bfloat16 *)(p.pages + ((int64_t)(page * 2 + which) * p.n_kv + h.index) *
                                              p.kv_half_bytes) +
              kv_word(2, DECODE_HEAD_WIDTH, which, slot, d) * 2 + (which == 0 ? d : slot) % 2;
    return pair;
}

static __device__ __forceinline__ bool is_rotated(const struct qkv_pair &pair)
{
    return pair.at >= 0 && pair.at < LAYER_V_AT;
}

static __device__ __forceinline__ float sum_of_eighths(const float *sums)
{
    float sum = 0.0f;

#pragma unroll
    for (int warp = 0; warp < RING_WARPS; warp++)
        sum += sums[warp * TILE_ROWS];
    return sum * CODE_UNIT;
}

/* A thread's two vectors of four numbers of the row, `tid` and tid + LAYER_THREADS: what is known
 * before the row is there. */
struct norm_ready {
    const float4 *x;
    const int4 *sums; /* of the experts */
    float4 weights[2];
    uint2 units[2]; /* four BF16 each: powers of two */
    bool has_sums, has_second;
};

static __device__ __forceinline__ float low_of(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float high_of(uint32_t pair)
{
    return __uint_as_float(pair & 0xFFFF0000u);
}

/* Vector v of a norm's weights; ones without a norm. */
static __device__ __forceinline__ float4 weights_at(const struct decode_vector &norm, unsigned v)
{
    if (norm.kind == VECTOR_F32)
        return ((const float4 *)norm.data)[v];
    if (norm.kind == VECTOR_NONE)
        return make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    const uint2 bits = ((const uint2 *)norm.data)[v];

    return make_float4(low_of(bits.x), high_of(bits.x), low_of(bits.y), high_of(bits.y));
}

static __device__ __forceinline__ struct norm_ready ready_norm(const struct decode_rows &rows,
                                                               unsigned tid)
{
    struct norm_ready r = {(const float4 *)rows.x + tid, (const int4 *)rows.sums.sums + tid, {}, {},
                           rows.sums.unit != NULL,       tid + LAYER_THREADS < ROW_VECTORS};

#pragma unroll
    for (int i = 0; i < 2; i++)
        if (i == 0 || r.has_second) {
            const unsigned v = tid + i * LAYER_THREADS;

            r.weights[i] = weights_at(rows.norm, v);
            if (r.has_sums) {
                const uint4 u = ((const uint4 *)rows.sums.unit)[v];

                r.units[i] =
                    make_uint2(u.x >> 16 | (u.y & 0xFFFF0000u), u.z >> 16 | (u.w & 0xFFFF0000u));
            }
        }
    materialize(r.x);
    materialize(r.sums);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        materialize(r.weights[i]);
        materialize(r.units[i].x), materialize(r.units[i].y);
    }
    return r;
}

/* The thread's squares, in the order of all norms, are those of numbers tid + i NORM_THREADS. */
static __device__ __forceinline__ float factor_of_row(const float *row, float *scratch,
                                                      unsigned tid, float eps)
{
    if (tid < NORM_THREADS) {
        float squares = 0.0f;

#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const bool has = (i + 1) * NORM_THREADS <= ROW_UNITS * UNIT_COLUMNS ||
                             tid < ROW_UNITS * UNIT_COLUMNS % NORM_THREADS;
            const float v = has ? row[i * NORM_THREADS + tid] : 0.0f;

            squares = __fmaf_rn(v, v, squares);
        }
        squares = warp_sum(squares);
        if (tid % WARP_LANES == 0)
            scratch[tid / WARP_LANES] = squares;
    }
    __syncthreads();
    const float4 a = ((const float4 *)scratch)[0], b = ((const float4 *)scratch)[1];

    return factor_of(((a.x + b.x) + (a.z + b.z)) + ((a.y + b.y) + (a.w + b.w)),
                     1.0f / (float)(ROW_UNITS * UNIT_COLUMNS), eps);
}

/* A thread's numbers of the row, and the experts' sums for them. */
struct row_loads {
    float4 x[2];
    int4 sums[2];
    int poison;
};

static __device__ __forceinline__ struct row_loads
load_row(const struct decode_rows &rows, const struct norm_ready &ready, unsigned tid)
{
    struct row_loads r = {};

#pragma unroll
    for (int i = 0; i < 2; i++)
        if (i == 0 || ready.has_second) {
            r.x[i] = __ldcg(ready.x + i * LAYER_THREADS);
            if (ready.has_sums)
                r.sums[i] = __ldcg(ready.sums + i * LAYER_THREADS);
        }
    if (ready.has_sums && tid < NORM_THREADS / 4)
        r.poison = __ldcg(rows.sums.poison);
    return r;
}

static __device__ __forceinline__ void norm_row(char *shared, const struct decode_rows &rows,
                                                const struct norm_ready &ready,
                                                const struct row_loads &loads, unsigned tid,
                                                float *y)
{
    float *const row = (float *)(shared + X_AT);
    float4 x[2] = {loads.x[0], loads.x[1]};
    const int4 *const add = loads.sums;

#pragma unroll
    for (int i = 0; i < 2; i++)
        if (i == 0 || ready.has_second) {
            if (ready.has_sums) {
                x[i].x += value_of_partials(add[i].x, low_of(ready.units[i].x));
                x[i].y += value_of_partials(add[i].y, high_of(ready.units[i].x));
                x[i].z += value_of_partials(add[i].z, low_of(ready.units[i].y));
                x[i].w += value_of_partials(add[i].w, high_of(ready.units[i].y));
            }
            if (i == 0 && loads.poison != 0)
                x[i].x = x[i].y = x[i].z = x[i].w = poison_term(loads.poison);
            ((float4 *)row)[tid + i * LAYER_THREADS] = x[i];
        }
    __syncthreads();
    const float of_row = factor_of_row(row, (float *)(shared + NORM_AT), tid, rows.eps);
    const float factor = rows.norm.kind == VECTOR_NONE ? 1.0f : of_row; /* x is normalized */

#pragma unroll
    for (int i = 0; i < 2; i++)
        if (i == 0 || ready.has_second) {
            const float4 w = ready.weights[i];

            x[i] = make_float4(normed(x[i].x, factor, w.x), normed(x[i].y, factor, w.y),
                               normed(x[i].z, factor, w.z), normed(x[i].w, factor, w.w));
            ((uint2 *)(shared + ROW_AT))[tid + i * LAYER_THREADS] =
                make_uint2(pair_f16(x[i].x, x[i].y), pair_f16(x[i].z, x[i].w));
            if (y != NULL)
                ((float4 *)y)[tid + i * LAYER_THREADS] = x[i];
        }
    __syncthreads();
}

/* Number of units of eighth `warp`, and of those of eighths before it. */
static __device__ __forceinline__ int eighth_units(int warp)
{
    return ROW_UNITS / RING_WARPS + (warp < ROW_UNITS % RING_WARPS ? 1 : 0);
}

static __device__ __forceinline__ int units_before(int warp)
{
    return ROW_UNITS / RING_WARPS * warp + min(warp, (int)(ROW_UNITS % RING_WARPS));
}

static __device__ __forceinline__ bool has_split(const struct layer_plan &plan)
{
    return (int)blockIdx.x < 2 * plan.n_split;
}

/* Four warps of each group have the eighths of the split half-head. */
static __device__ __forceinline__ bool does_split(const struct layer_plan &plan,
                                                  const struct thread_index &at)
{
    return has_split(plan) && at.warp / 4 == at.group;
}

static __device__ __forceinline__ char *qkv_slots(char *shared, const struct thread_index &at)
{
    return shared + QKV_AT + at.group * QKV_BYTES + units_before(at.warp) * CHAIN_UNIT_BYTES;
}

static __device__ __forceinline__ char *split_slots(char *shared, const struct thread_index &at)
{
    return shared + SECOND_AT + units_before(at.warp) * CHAIN_UNIT_BYTES;
}

static __device__ __forceinline__ void copy_qkv(char *shared, const struct decode_attn_layer &p,
                                                const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();
    const struct half_head first = half_head_of(p.qkv, (int)blockIdx.x);

    copy_chain<EIGHTH_UNITS, RING_WARPS>(qkv_slots(shared, at),
                                         tile_source(first.units + at.warp * MXFP4_UNIT_BYTES,
                                                     first.tile + at.group * HALVES_OF_A_HEAD,
                                                     RING_WARPS),
                                         eighth_units(at.warp));
    if (does_split(plan, at)) {
        const struct half_head second = half_head_of(p.qkv, (int)(gridDim.x + blockIdx.x / 2));

        copy_chain<EIGHTH_UNITS, RING_WARPS>(split_slots(shared, at),
                                             split_source(second.units + at.warp * MXFP4_UNIT_BYTES,
                                                          second.tile, (int)blockIdx.x % 2),
                                             eighth_units(at.warp));
    }
    copy_commit();
}

/* The pair of rows of the thread: 16 lanes of the second group's first warp have one, and 8 lanes
 * of its second warp. */
static __device__ __forceinline__ struct qkv_pair pair_of_thread(const struct decode_attn_layer &p,
                                                                 const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();
    const bool is_split = at.warp == 1;
    struct qkv_pair none = {};

    none.at = -1;
    if (at.group == 0 || at.warp > 1 || at.lane >= (is_split ? TILE_ROWS / 2 : (int)TILE_ROWS) ||
        (is_split && !has_split(plan)))
        return none;
    const struct half_head h =
        half_head_of(p.qkv, (int)(is_split ? gridDim.x + blockIdx.x / 2 : blockIdx.x));

    return pair_of(p, h, h.tile * TILE_ROWS + (is_split ? (int)blockIdx.x % 2 * 8 : 0) + at.lane);
}

static __device__ __forceinline__ void multiply_qkv(char *shared, const struct layer_plan &plan)
{
    const struct thread_index at = index_of_thread();
    const char *const row = shared + ROW_AT + at.warp * UNIT_BLOCKS * TOKEN_BLOCK_BYTES;
    float *const sums = (float *)(shared + SUMS_AT) + at.warp * TILE_ROWS;

    multiply_chain(sums + at.group * RING_WARPS * TILE_ROWS, qkv_slots(shared, at),
                   eighth_units(at.warp), row, RING_WARPS, shared + ZEROS_AT);
    if (does_split(plan, at))
        multiply_chain(sums + 2 * RING_WARPS * TILE_ROWS, split_slots(shared, at),
                       eighth_units(at.warp), row, RING_WARPS, shared + ZEROS_AT);
}

static __device__ __forceinline__ void
send_pair(const char *shared, const struct decode_attn_layer &p, const struct qkv_pair &pair)
{
    enum { A_TILE = RING_WARPS * TILE_ROWS };
    const struct thread_index at = index_of_thread();
    const float *from = (const float *)(shared + SUMS_AT) + at.lane + at.warp * 2 * A_TILE;
    float low = sum_of_eighths(from);
    float high = sum_of_eighths(from + (at.warp == 0 ? (int)A_TILE : TILE_ROWS / 2));

    low += pair.bias_low;
    high += pair.bias_high;
    if (is_rotated(pair))
        rotate_pair(&low, &high, pair.cosine, pair.sine);
    store1(p.words + pair.at, __float_as_uint(low));
    store1(p.words + pair.at + HALF, __float_as_uint(high));
    if (pair.at >= LAYER_K_AT) {
        pair.kv[0] = __float2bfloat16_rn(low);
        pair.kv[pair_distance(pair.at < LAYER_V_AT ? 0 : 1)] = __float2bfloat16_rn(high);
    }
}

#endif
