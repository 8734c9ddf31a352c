/* Paged attention without tensor cores, for F32 pages and for head widths that the other kernels do
 * not support. For query row t and head h, over the keys j that the row sees,
 *     s_j = scale q.k_j,  M = max(sink, max s),  att = sum exp(s_j - M) v_j
 *                                                      / (exp(sink - M) + sum exp(s_j - M)).
 *
 * Work division: a block has one row, one key/value head and up to eight of its query heads, so
 * that a key is read once for all of them. Keys are processed in splits of 256 at absolute
 * positions. Each thread computes the scores of one key; then the threads share the columns of the
 * values. The sums of a split are merged into the running total in order. The total starts with the
 * sink (M = sink, denominator 1). With few rows each split has its own block, and a second kernel
 * merges the split-K partials with the same operations and the same bits. All arithmetic is
 * float32.
 *
 * Traffic: the keys and values that a row sees, once. Flops: 4 D per row, head and key. */
#include <cuda_fp16.h>

#include "backend/kv_page.h"
#include "cuda/attention/attn_needed.cuh"
#include "cuda/attention/attn_tree.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/sums.cuh"

enum {
    THREADS = ATTN_PLAIN_SPLIT_TOKENS,
    WARPS = THREADS / WARP_LANES,
    HEAD_DIM_MAX = 256,
    COLUMNS = 64,                   /* of values, processed together */
    KEY_SHARES = THREADS / COLUMNS, /* threads that share a column: one page each */
    OUTPUTS = ATTN_HEADS * COLUMNS / THREADS
};
static_assert(KEY_SHARES * PAGE_TOKENS == ATTN_PLAIN_SPLIT_TOKENS, "one page per key share");

/* The row, heads and keys of a block. */
struct block {
    int row, kv_head, first_head, n_heads;
    int first, end;       /* visible keys */
    const int32_t *pages; /* page of position p: pages[p / P] */
    struct attn_path path;
};

/* In shared memory. */
struct shared {
    float q[ATTN_HEADS][HEAD_DIM_MAX];
    float weights[ATTN_HEADS][THREADS];
    float partials[KEY_SHARES][ATTN_HEADS][COLUMNS];
    float total[ATTN_HEADS][HEAD_DIM_MAX];
    float scratch[WARPS][ATTN_HEADS];
    float largest[ATTN_HEADS], denominator[ATTN_HEADS];             /* of the total, */
    float split_largest[ATTN_HEADS], split_denominator[ATTN_HEADS]; /* and of the current split */
};

static __device__ struct block block_of(const struct attn_args &a, const struct batch *b, int row,
                                        int index)
{
    const int n_group = (int)(a.q.dim[1] / a.kv.dim[4] / a.kv.dim[2]);
    const int n_parts = (n_group + ATTN_HEADS - 1) / ATTN_HEADS, part = index % n_parts;
    const struct batch_seq *seq = &BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    struct block k;

    k.row = row;
    k.kv_head = index / n_parts;
    k.first_head = k.kv_head * n_group + part * ATTN_HEADS;
    k.n_heads =
        n_group - part * ATTN_HEADS < ATTN_HEADS ? n_group - part * ATTN_HEADS : (int)ATTN_HEADS;
    k.end = BATCH_POSITIONS(b)[row] + 1;
    k.first = a.window_tokens > 0 && k.end > a.window_tokens ? k.end - a.window_tokens : 0;
    k.pages = BATCH_PAGES(b) + seq->table[a.group] - seq->first_page[a.group];
    return k;
}

/* ---- elements of pages, n to a word ---- */

template <int DTYPE> struct words {
};
template <> struct words<DTYPE_F32> {
    enum { N = 1 };
    static __device__ float at(uint32_t word, int)
    {
        return __uint_as_float(word);
    }
};
template <> struct words<DTYPE_BF16> {
    enum { N = 2 };
    static __device__ float at(uint32_t word, int i)
    {
        return __uint_as_float(i == 0 ? word << 16 : word & 0xFFFF0000u);
    }
};
/* E4M3 bits are an FP16 number that is 2^-8 times the value. */
template <> struct words<DTYPE_F8> {
    enum { N = 4 };
    static __device__ float at(uint32_t word, int i)
    {
        const uint32_t code = word >> 8 * i & 255;
        const __half_raw half = {(unsigned short)((code & 128) << 8 | (code & 127) << 7)};

        return __half2float(__half(half)) * 256.0f;
    }
};

/* ---- one split ---- */

/* Scores of this thread's key for all heads. */
template <int DTYPE>
static __device__ void qk_score(float scores[ATTN_HEADS], const struct attn_args &a,
                                const struct shared *s, const char *kv_half, int slot)
{
    const int D = (int)a.kv.dim[4];
    const uint32_t *column =
        (const uint32_t *)kv_half + kv_word(words<DTYPE>::N, a.kv.dim[4], 0, slot, 0);
    const float *scales = kv_scales(&a.kv, kv_half);

#pragma unroll
    for (int h = 0; h < ATTN_HEADS; h++)
        scores[h] = 0.0f;
#pragma unroll 8
    for (int d0 = 0; d0 < D; d0 += words<DTYPE>::N) {
        const uint32_t word = column[d0 / words<DTYPE>::N * KV_COLUMNS];

#pragma unroll
        for (int i = 0; i < words<DTYPE>::N; i++) {
            const float key = words<DTYPE>::at(word, i);

#pragma unroll
            for (int h = 0; h < ATTN_HEADS; h++)
                if (d0 + i < D)
                    scores[h] = __fmaf_rn(s->q[h][d0 + i], key, scores[h]);
        }
    }
#pragma unroll
    for (int h = 0; h < ATTN_HEADS; h++)
        scores[h] *= scales == NULL ? a.scale : a.scale * scales[slot];
}

/* Maximum score and sum of weights of every head; stores the weights in shared memory. */
static __device__ void softmax_split(struct shared *s, const float scores[ATTN_HEADS],
                                     bool is_visible)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;

    for (int h = 0; h < ATTN_HEADS; h++) {
        const float largest = warp_max(is_visible ? scores[h] : -INFINITY);

        if (lane == 0)
            s->scratch[warp][h] = largest;
    }
    __syncthreads();
    if (threadIdx.x < ATTN_HEADS) {
        float largest = -INFINITY;

        for (int w = 0; w < WARPS; w++)
            largest = fmaxf(largest, s->scratch[w][threadIdx.x]);
        s->split_largest[threadIdx.x] = largest;
    }
    __syncthreads();
    for (int h = 0; h < ATTN_HEADS; h++) {
        const float weight = is_visible ? expf(scores[h] - s->split_largest[h]) : 0.0f;
        const float sum = warp_sum(weight);

        s->weights[h][threadIdx.x] = weight;
        if (lane == 0)
            s->scratch[warp][h] = sum;
    }
    __syncthreads();
    if (threadIdx.x < ATTN_HEADS) {
        float sum = 0.0f;

        for (int w = 0; w < WARPS; w++)
            sum += s->scratch[w][threadIdx.x];
        s->split_denominator[threadIdx.x] = sum;
    }
    __syncthreads();
}

/* The word of column d that has the value of a position, and which of its elements that is. */
template <int DTYPE>
static __device__ uint32_t word_of_path(const struct attn_args &a, const struct block &k,
                                        int position, int d, int *part)
{
    enum { N = words<DTYPE>::N };
    const int at = attn_path_slot(&k.path, position), slot = at % PAGE_TOKENS;

    *part = slot % N;
    return ((const uint32_t *)kv_side(&a.kv, k.pages[at / PAGE_TOKENS], 1,
                                      k.kv_head))[kv_word(N, a.kv.dim[4], 1, slot, d)];
}

static __device__ float scale_of_path(const struct attn_args &a, const struct block &k,
                                      int position)
{
    const int at = attn_path_slot(&k.path, position);
    const float *scales = kv_scales(&a.kv, kv_side(&a.kv, k.pages[at / PAGE_TOKENS], 1, k.kv_head));

    return scales == NULL ? 1.0f : scales[at % PAGE_TOKENS];
}

/* sum_values() of a page in which keys of the row's path live in other slots. */
template <int DTYPE>
static __device__ void sum_path_values(float acc[ATTN_HEADS], const struct attn_args &a,
                                       const struct shared *s, const struct block &k, int page,
                                       int first, int end, int share, int d)
{
    enum { N = words<DTYPE>::N };

#pragma unroll 1
    for (int slot = first / N * N; slot < (end + N - 1) / N * N; slot++) {
        const int position = page * PAGE_TOKENS + slot;
        float value = 0.0f;

        if (slot >= first && slot < end) {
            int part;
            const uint32_t word = word_of_path<DTYPE>(a, k, position, d, &part);

            value = words<DTYPE>::at(word, part) * scale_of_path(a, k, position);
        }
#pragma unroll
        for (int h = 0; h < ATTN_HEADS; h++)
            acc[h] = __fmaf_rn(s->weights[h][share * PAGE_TOKENS + slot], value, acc[h]);
    }
}

/* Weighted sum of column d over the slots [first, end) of a page. */
template <int DTYPE>
static __device__ void sum_values(float acc[ATTN_HEADS], const struct attn_args &a,
                                  const struct shared *s, const char *kv_half, int first, int end,
                                  int share, int d)
{
    enum { N = words<DTYPE>::N };
    const uint32_t *column = (const uint32_t *)kv_half + kv_word(N, a.kv.dim[4], 1, 0, d);
    const float *scales = kv_scales(&a.kv, kv_half);

#pragma unroll 8
    for (int slot0 = first / N * N; slot0 < end; slot0 += N) {
        const uint32_t word = column[slot0 / N * KV_COLUMNS];

#pragma unroll
        for (int i = 0; i < N; i++) {
            const int slot = slot0 + i;
            const float scale = scales == NULL ? 1.0f : scales[slot];
            const bool is_visible = slot >= first && slot < end; /* other slots may hold anything */
            const float value = is_visible ? words<DTYPE>::at(word, i) * scale : 0.0f;

#pragma unroll
            for (int h = 0; h < ATTN_HEADS; h++)
                acc[h] = __fmaf_rn(s->weights[h][share * PAGE_TOKENS + slot], value, acc[h]);
        }
    }
}

/* ---- merging of splits ---- */

static __device__ float merged(float total, float keep, float part, float add)
{
    return __fmaf_rn(total, keep, __fmul_rn(part, add));
}

/* Running maximum and denominator of a head, of the total or of one split. */
struct state {
    float largest, denominator;
};

/* Merges a split's state into the total's. *keep and *add are the factors of the total's and of the
 * split's sums. */
static __device__ struct state merge_states(struct state total, struct state split, float *keep,
                                            float *add)
{
    const float largest = split.largest > total.largest ? split.largest : total.largest;

    *keep = expf(total.largest - largest);
    *add = expf(split.largest - largest);
    return state{largest, merged(total.denominator, *keep, split.denominator, *add)};
}

static __device__ struct state begin_state(float sink)
{
    return state{sink, sink == -INFINITY ? 0.0f : 1.0f};
}

/* Computes columns [d0, d0 + COLUMNS) of the split's sums. Returns this thread's outputs, (head,
 * column) at threadIdx.x + i * THREADS. */
template <int DTYPE, bool IS_TREE>
static __device__ void split_columns(float out[OUTPUTS], const struct attn_args &a,
                                     const struct block &k, struct shared *s, int split, int d0)
{
    const int share = threadIdx.x / COLUMNS, d = d0 + threadIdx.x % COLUMNS;
    const int page = split * KEY_SHARES + share, start = page * PAGE_TOKENS;
    const int first = k.first > start ? k.first - start : 0;
    const int end = k.end - start < PAGE_TOKENS ? k.end - start : (int)PAGE_TOKENS;
    float acc[ATTN_HEADS] = {};

    if (IS_TREE && first < end && d < a.kv.dim[4] && attn_path_moves(&k.path, start, PAGE_TOKENS))
        sum_path_values<DTYPE>(acc, a, s, k, page, first, end, share, d);
    else if (first < end && d < a.kv.dim[4])
        sum_values<DTYPE>(acc, a, s, kv_side(&a.kv, k.pages[page], 1, k.kv_head), first, end, share,
                          d);
    __syncthreads();
#pragma unroll
    for (int h = 0; h < ATTN_HEADS; h++)
        s->partials[share][h][threadIdx.x % COLUMNS] = acc[h];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++) {
        const int at = threadIdx.x + i * THREADS;

        out[i] = 0.0f;
        for (int part = 0; part < KEY_SHARES; part++)
            out[i] += s->partials[part][at / COLUMNS][at % COLUMNS];
    }
}

/* Address of the partial result of a split: sums (heads, D), maxima (heads), denominators
 * (heads). */
static __device__ float *part_of(const struct attn_launch &l, int row, int index, int split)
{
    const int64_t i = ((int64_t)row * attn_row_blocks(&l.args) + index) * l.n_splits + split;

    return l.partials + i * attn_partial_floats(&l.args);
}

template <int DTYPE, bool IS_TREE>
static __device__ void run_split(const struct attn_launch &l, const struct block &k,
                                 struct shared *s, int split, float *part)
{
    const struct attn_args &a = l.args;
    const int key = split * ATTN_PLAIN_SPLIT_TOKENS + threadIdx.x, D = (int)a.kv.dim[4];
    const bool is_visible = key >= k.first && key < k.end;
    const int slot = IS_TREE ? attn_path_slot(&k.path, key) : key;
    float scores[ATTN_HEADS];

    if (is_visible)
        qk_score<DTYPE>(scores, a, s, kv_side(&a.kv, k.pages[slot / PAGE_TOKENS], 0, k.kv_head),
                        slot % PAGE_TOKENS);
    softmax_split(s, scores, is_visible);
    for (int d0 = 0; d0 < D; d0 += COLUMNS) {
        float out[OUTPUTS];

        split_columns<DTYPE, IS_TREE>(out, a, k, s, split, d0);
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++) {
            const int at = threadIdx.x + i * THREADS, h = at / COLUMNS, d = d0 + at % COLUMNS;
            float keep, add;

            if (d >= D)
                continue;
            if (part != NULL) {
                part[h * D + d] = out[i];
                continue;
            }
            (void)merge_states(state{s->largest[h], s->denominator[h]},
                               state{s->split_largest[h], s->split_denominator[h]}, &keep, &add);
            s->total[h][d] = merged(s->total[h][d], keep, out[i], add);
        }
    }
    __syncthreads();
    if (threadIdx.x < ATTN_HEADS) {
        const int h = threadIdx.x;
        const struct state of_split = {s->split_largest[h], s->split_denominator[h]};
        float keep, add;

        if (part != NULL) {
            part[ATTN_HEADS * D + h] = of_split.largest;
            part[ATTN_HEADS * (D + 1) + h] = of_split.denominator;
        } else {
            const struct state total =
                merge_states(state{s->largest[h], s->denominator[h]}, of_split, &keep, &add);

            s->largest[h] = total.largest;
            s->denominator[h] = total.denominator;
        }
    }
    __syncthreads();
}

/* ---- a block ---- */

static __device__ void begin(const struct attn_args &a, const struct block &k, struct shared *s)
{
    const int D = (int)a.kv.dim[4];
    const float *q = (const float *)a.q.data + k.row * a.q.dim[1] + k.first_head * D;

    for (int i = threadIdx.x; i < ATTN_HEADS * D; i += THREADS) {
        s->q[i / D][i % D] = i / D < k.n_heads ? q[i] : 0.0f;
        s->total[i / D][i % D] = 0.0f;
    }
    if (threadIdx.x < ATTN_HEADS) {
        const int h = (int)threadIdx.x < k.n_heads ? threadIdx.x : 0;
        const struct state total = begin_state(((const float *)a.sinks.data)[k.first_head + h]);

        s->largest[threadIdx.x] = total.largest;
        s->denominator[threadIdx.x] = total.denominator;
    }
    __syncthreads();
}

static __device__ void finish(const struct attn_args &a, const struct block &k, int head, int d,
                              float sum, float denominator)
{
    float *att = (float *)a.att.data + k.row * a.att.dim[1];

    if (head < k.n_heads)
        att[(k.first_head + head) * a.kv.dim[4] + d] = __fdiv_rn(sum, denominator);
}

/* Whether the row is one of the batch, no padding, and is needed. */
static __device__ bool is_row(const struct attn_launch &l, int row)
{
    return row < l.batch->n_rows && is_needed(l, row, 1);
}

template <int DTYPE, bool IS_TREE>
static __device__ __forceinline__ void run_block(const struct attn_launch &l, struct shared *s)
{
    struct block k = block_of(l.args, l.batch, l.first_row + blockIdx.z, blockIdx.y);
    const int D = (int)l.args.kv.dim[4], end = (k.end - 1) / ATTN_PLAIN_SPLIT_TOKENS + 1;
    const int first = k.first / ATTN_PLAIN_SPLIT_TOKENS;

    if (l.partials != NULL && first + (int)blockIdx.x >= end)
        return;
    if (IS_TREE)
        k.path = attn_path_of(k.end - 1, BATCH_TREE_MASKS(l.batch)[k.row]);
    begin(l.args, k, s);
    if (l.partials != NULL) {
        run_split<DTYPE, IS_TREE>(l, k, s, first + blockIdx.x,
                                  part_of(l, blockIdx.z, blockIdx.y, blockIdx.x));
        return;
    }
    for (int split = first; split < end; split++)
        run_split<DTYPE, IS_TREE>(l, k, s, split, NULL);
    for (int i = threadIdx.x; i < ATTN_HEADS * D; i += THREADS)
        finish(l.args, k, i / D, i % D, s->total[i / D][i % D], s->denominator[i / D]);
}

/* Grid: splits (1 if a block processes all of them), blocks per row, rows. */
template <int DTYPE>
static __global__ void __launch_bounds__(THREADS)
    attn_kernel(const __grid_constant__ struct attn_launch l)
{
    __shared__ struct shared s;

    if (is_row(l, l.first_row + (int)blockIdx.z))
        run_block<DTYPE, false>(l, &s);
}

/* The same for a batch with tree masks. */
template <int DTYPE>
static __global__ void __launch_bounds__(THREADS)
    attn_kernel_tree(const __grid_constant__ struct attn_launch l)
{
    __shared__ struct shared s;

    if (is_row(l, l.first_row + (int)blockIdx.z))
        run_block<DTYPE, true>(l, &s);
}

/* Merges the split-K partials of a row. Grid: blocks per row, rows. */
static __global__ void __launch_bounds__(THREADS)
    merge_kernel(const __grid_constant__ struct attn_launch l)
{
    if (!is_row(l, l.first_row + (int)blockIdx.y))
        return;
    const struct block k = block_of(l.args, l.batch, l.first_row + blockIdx.y, blockIdx.x);
    const int D = (int)l.args.kv.dim[4], first = k.first / ATTN_PLAIN_SPLIT_TOKENS;
    const int n = (k.end - 1) / ATTN_PLAIN_SPLIT_TOKENS + 1 - first;

    for (int i = threadIdx.x; i < k.n_heads * D; i += THREADS) {
        struct state total = begin_state(((const float *)l.args.sinks.data)[k.first_head + i / D]);
        float sum = 0.0f;

        for (int split = 0; split < n; split++) {
            const float *part = part_of(l, blockIdx.y, blockIdx.x, split);
            const struct state of_split = {part[ATTN_HEADS * D + i / D],
                                           part[ATTN_HEADS * (D + 1) + i / D]};
            float keep, add;

            total = merge_states(total, of_split, &keep, &add);
            sum = merged(sum, keep, part[i], add);
        }
        finish(l.args, k, i / D, i % D, sum, total.denominator);
    }
}

template <int DTYPE, bool IS_TREE>
static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const unsigned n_blocks = (unsigned)attn_row_blocks(&l->args);
    const unsigned n_splits = l->partials == NULL ? 1 : (unsigned)l->n_splits;
    const dim3 grid(n_splits, n_blocks, (unsigned)l->n_rows);

    if (IS_TREE)
        add_kernel<attn_kernel_tree<DTYPE>>(list, grid, THREADS, 0, *l);
    else
        add_kernel<attn_kernel<DTYPE>>(list, grid, THREADS, 0, *l);
    if (l->partials != NULL)
        add_kernel<merge_kernel>(list, dim3(n_blocks, (unsigned)l->n_rows), THREADS, 0, *l);
}

template <bool IS_TREE>
static void launch_rows(struct launch_list *list, const struct attn_launch *l)
{
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8, IS_TREE>(list, l);
    else if (l->args.kv.dtype == DTYPE_BF16)
        launch_dtype<DTYPE_BF16, IS_TREE>(list, l);
    else
        launch_dtype<DTYPE_F32, IS_TREE>(list, l);
}

void launch_attn_plain(struct launch_list *list, const struct attn_launch *l)
{
    launch_rows<false>(list, l);
}

void launch_attn_plain_tree(struct launch_list *list, const struct attn_launch *l)
{
    launch_rows<true>(list, l);
}
