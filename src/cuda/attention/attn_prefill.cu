/* Paged attention for prefill rows by mma.sync (flash attention). For query row t and head h, over
 * the keys j that the row sees,
 *     s_j = scale q.k_j,  M = max(sink, max s),  att = sum exp(s_j - M) v_j
 *                                                      / (exp(sink - M) + sum exp(s_j - M)).
 *
 * Work division: a block has 16 tokens of a sequence and up to eight query heads of one key/value
 * head: 128 rows that share keys and values. It loops over the pages that any of the rows sees and
 * copies them into a ring in shared memory. A warp has four tokens, 32 rows, as operand A; keys,
 * then values, are B. Pages in shared memory keep their layout except for the order of 16-byte
 * pieces, so that a lane's 16 bytes are registers of four fragments: keys 8 t to 8 t + 7 of 32 in
 * one row (t = lane % 4), and likewise columns. So softmax weights become A fragments without a
 * shuffle. Softmax is online: a running maximum is kept for each row, and the sums are rescaled
 * when it grows. The sink is added last.
 *
 * Precision: queries and weights are rounded to bf16; sums are float32. An F8 code is used as a
 * bf16 number 2^-120 times its value; KV scales are applied to scores and weights. A row's result
 * depends only on its own keys, in pages at absolute positions: pages that only other rows of the
 * block see add nothing to it.
 *
 * Traffic: a page once per 16 tokens, mostly from L2. Flops: 4 D per row, head and key; bound by
 * the MMAs and by the softmax. H200, 2026-11-22, before the pieces of values were rotated: 256
 * Tflop/s at 8,192 tokens, 41 % of peak mma.sync throughput; 0.23 ms with a window of 128. */
#include "cuda/attention/attn_page.cuh"
#include "cuda/attention/attn_weights.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"

enum {
    WARPS = 4,
    THREADS = WARPS * WARP_LANES,
    BLOCKS_PER_SM = 2,
    TILES = 2, /* of 16 rows per warp: two tokens each */
    TILE_TOKENS = 16 / ATTN_HEADS,
    WARP_TOKENS = TILES * TILE_TOKENS,
    STAGES = 3
};
static_assert((int)WARPS * (int)WARP_TOKENS == (int)ATTN_PREFILL_TOKENS, "tokens of a block");
static_assert((int)THREADS == (int)PAGE_THREADS, "all threads copy");

/* ---- a warp ---- */

/* With g = lane / 4 and t = lane % 4, in tile m: head g; its first token is at [0], [1], its second
 * at [2], [3]. scores[4 i + j] has keys 32 i + 8 t + j at [0], [2] and 32 i + 8 t + 4 + j at [1],
 * [3]. `out` has the same layout, with columns in place of keys. */
struct warp {
    uint32_t query[TILES][STEPS][4];
    float out[TILES][SCORES][4];
    float largest[TILES][2];
    float weights[TILES][2]; /* their sum over this lane's keys */
    int position;            /* of its first token */
};

static __device__ __forceinline__ int token_of(int tile, int which)
{
    return (int)threadIdx.x / WARP_LANES * WARP_TOKENS + tile * TILE_TOKENS + which;
}

/* A query's columns in the order of key_fragments(). */
template <int DTYPE>
static __device__ __forceinline__ void load_head(struct warp *w, const float *head, float factor,
                                                 int tile, int which)
{
    const int t = threadIdx.x % 4;

#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        if (DTYPE == DTYPE_F8) {
            const float4 x = *(const float4 *)(head + 16 * step + 4 * t);

            w->query[tile][step][which] = pair_bf16(x.x * factor, x.z * factor);
            w->query[tile][step][2 + which] = pair_bf16(x.y * factor, x.w * factor);
        } else {
            const float2 low = *(const float2 *)(head + 16 * step + 2 * t);
            const float2 high = *(const float2 *)(head + 16 * step + 2 * t + 8);

            w->query[tile][step][which] = pair_bf16(low.x * factor, low.y * factor);
            w->query[tile][step][2 + which] = pair_bf16(high.x * factor, high.y * factor);
        }
    }
}

/* Tokens and heads past the end are loaded as the last ones and multiplied by zero. */
template <int DTYPE>
static __device__ __forceinline__ void begin(struct warp *w, const struct attn_launch &l,
                                             const struct block &k)
{
    const int g = threadIdx.x % WARP_LANES / 4;

#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int which = 0; which < TILE_TOKENS; which++) {
            const int token = token_of(tile, which), row = k.first_row + min(token, k.n_tokens - 1);
            const bool is_here = token < k.n_tokens && g < k.n_heads;
            const float *head = (const float *)l.args.q.data + row * l.args.q.dim[1] +
                                (k.first_head + min(g, k.n_heads - 1)) * ATTN_HEAD_DIM;

            load_head<DTYPE>(w, head, is_here ? operand_scale<DTYPE>() : 0.0f, tile, which);
            w->largest[tile][which] = -INFINITY;
            w->weights[tile][which] = 0.0f;
        }
    w->position = k.position + token_of(0, 0);
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < SCORES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                w->out[tile][i][j] = 0.0f;
}

template <int DTYPE>
static __device__ __forceinline__ void qk_scores(float s[TILES][SCORES][4], const struct warp &w,
                                                 const struct read_offsets &p)
{
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            struct fragments f;

            key_fragments<DTYPE>(&f, p, i, step);
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int tile = 0; tile < TILES; tile++)
                    mma_bf16(s[tile][4 * i + j], w.query[tile][step], f.b[0][j], f.b[1][j]);
        }
}

/* The key of scores[i][j], relative to its page. */
static __device__ __forceinline__ int slot_of(int i, int j)
{
    return i / 4 * 32 + (int)threadIdx.x % 4 * 8 + j % 2 * 4 + i % 4;
}

static __device__ __forceinline__ void mask_scores(float s[TILES][SCORES][4], const struct warp &w,
                                                   const struct attn_args &a, int page_start)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int last = w.position + tile * TILE_TOKENS + j / 2 - page_start;
            const int first = first_visible(a, page_start + last) - page_start;

#pragma unroll
            for (int i = 0; i < SCORES; i++)
                if (slot_of(i, j) > last || slot_of(i, j) < first)
                    s[tile][i][j] = -INFINITY;
        }
}

/* Multiplies by one number per slot of the page. */
static __device__ __forceinline__ void apply_scales(float s[TILES][SCORES][4], const float *numbers,
                                                    float factor)
{
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float4 four = *(const float4 *)(numbers + slot_of(4 * i, half));
            const float all[4] = {four.x * factor, four.y * factor, four.z * factor,
                                  four.w * factor};

#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) {
                    s[tile][4 * i + j][half] = __fmul_rn(s[tile][4 * i + j][half], all[j]);
                    s[tile][4 * i + j][2 + half] = __fmul_rn(s[tile][4 * i + j][2 + half], all[j]);
                }
        }
}

/* Softmax weights of one step of keys as operand A. */
template <int DTYPE>
static __device__ __forceinline__ void weight_fragment(uint32_t a[4], const float s[4][4], int step)
{
    const int second = DTYPE == DTYPE_F8 ? 2 : 1, third = 3 - second;

    a[0] = pair_bf16(s[0][step], s[second][step]);
    a[1] = pair_bf16(s[0][2 + step], s[second][2 + step]);
    a[2] = pair_bf16(s[third][step], s[3][step]);
    a[3] = pair_bf16(s[third][2 + step], s[3][2 + step]);
}

template <int DTYPE>
static __device__ __forceinline__ void add_values(struct warp *w, const float s[TILES][SCORES][4],
                                                  const struct read_offsets &p)
{
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int step = 0; step < 2; step++) {
            uint32_t a[TILES][4];

#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
                weight_fragment<DTYPE>(a[tile], &s[tile][4 * group], step);
#pragma unroll
            for (int i = 0; i < GROUPS; i++) {
                struct fragments f;

                value_fragments<DTYPE>(&f, p, i, group, step);
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int tile = 0; tile < TILES; tile++)
                        mma_bf16(w->out[tile][4 * i + j], a[tile], f.b[0][j], f.b[1][j]);
            }
        }
}

template <int DTYPE>
static __device__ __forceinline__ void add_page(struct warp *w, const struct attn_args &a,
                                                const char *stage, int page_start)
{
    const float scale = a.scale * LOG2_E * result_scale<DTYPE>();
    const float *scales = (const float *)(stage + page<DTYPE>::KV_HALF_BYTES);
    const int last = w->position + WARP_TOKENS - 1;
    float s[TILES][SCORES][4] = {};
    struct read_offsets p;

    if (page_start > last || page_start + PAGE_TOKENS <= first_visible(a, w->position))
        return;
    page_offsets<DTYPE>(&p, stage);
    qk_scores<DTYPE>(s, *w, p);
    if (DTYPE == DTYPE_F8)
        apply_scales(s, scales, 1.0f);
    if (page_start + PAGE_TOKENS - 1 > w->position || page_start < first_visible(a, last))
        mask_scores(s, *w, a, page_start);
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        float keep[2];

#pragma unroll
        for (int which = 0; which < TILE_TOKENS; which++)
            keep[which] = softmax_step(s[tile], which, &w->largest[tile][which],
                                       &w->weights[tile][which], scale);
        rescale_output(w->out[tile], keep);
    }
    if (DTYPE == DTYPE_F8)
        apply_scales(s, scales + (page<DTYPE>::KV_HALF_BYTES + page<DTYPE>::SCALES_BYTES) / 4,
                     operand_scale<DTYPE>());
    add_values<DTYPE>(w, s, p);
}

/* ---- a block ---- */

template <int DTYPE>
static __device__ __forceinline__ void copy_page(char *stage, const struct attn_launch &l,
                                                 const struct block &k, int index)
{
    if (index <= k.last_key / PAGE_TOKENS) {
        const int32_t number = k.pages[index];

        page<DTYPE>::copy(stage, kv_side(&l.args.kv, number, 0, k.kv_head),
                          kv_side(&l.args.kv, number, 1, k.kv_head));
    }
    cp_async_commit();
}

template <int DTYPE>
static __device__ __forceinline__ void walk(struct warp *w, char *ring, const struct attn_launch &l,
                                            const struct block &k)
{
    const int first = k.first_key / PAGE_TOKENS, last = k.last_key / PAGE_TOKENS;

#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        copy_page<DTYPE>(ring + i * page<DTYPE>::BYTES, l, k, first + i);
    for (int index = first; index <= last; index++) {
        const int start = index * PAGE_TOKENS, ahead = index + STAGES - 1;
        char *stage = ring + (index - first) % STAGES * page<DTYPE>::BYTES;

        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* the page has arrived, and no thread reads the previous one any more */
        if (k.first_key > start || k.last_key < start + PAGE_TOKENS - 1) {
            page<DTYPE>::clear(stage, k.first_key - start, k.last_key + 1 - start);
            __syncthreads();
        }
        copy_page<DTYPE>(ring + (ahead - first) % STAGES * page<DTYPE>::BYTES, l, k, ahead);
        add_page<DTYPE>(w, l.args, stage, start);
    }
    cp_async_wait<0>();
}

/* Stores one token and head: eight columns of each half. */
static __device__ __forceinline__ void store_row(float *att, const float out[SCORES][4], int which,
                                                 float factor, float total)
{
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int j = 2 * which + half;
            const float4 four = {__fdiv_rn(out[4 * i][j] * factor, total),
                                 __fdiv_rn(out[4 * i + 1][j] * factor, total),
                                 __fdiv_rn(out[4 * i + 2][j] * factor, total),
                                 __fdiv_rn(out[4 * i + 3][j] * factor, total)};

            *(float4 *)(att + slot_of(4 * i, half)) = four;
        }
}

template <int DTYPE>
static __device__ void finish(const struct warp &w, const struct attn_launch &l,
                              const struct block &k)
{
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    const int g = threadIdx.x % WARP_LANES / 4;
    const float sink = sink_of(l.args, k.first_head + min(g, k.n_heads - 1));

#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int which = 0; which < TILE_TOKENS; which++) {
            const int token = token_of(tile, which), row = k.first_row + token;
            const struct attn_end end =
                end_of(w.largest[tile][which], w.weights[tile][which], scale, sink);

            if (token < k.n_tokens && g < k.n_heads && l.rows.phases[row] == PHASE_PREFILL)
                store_row((float *)l.args.att.data + row * l.args.att.dim[1] +
                              (k.first_head + g) * ATTN_HEAD_DIM,
                          w.out[tile], which, end.factor * result_scale<DTYPE>(), end.total);
        }
}

/* Grid: tiles of all sequences or more, blocks per row. */
template <int DTYPE>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    attn_prefill(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char ring[];
    struct block k;
    struct warp w;

    pdl_launch_dependents();
    pdl_wait();
    /* tiles with the most keys start first */
    if (!block_of<ATTN_PREFILL_TOKENS>(&k, l, gridDim.x - 1 - blockIdx.x, blockIdx.y))
        return;
    begin<DTYPE>(&w, l, k);
    walk<DTYPE>(&w, ring, l, k);
    finish<DTYPE>(w, l, k);
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const size_t shared_bytes = (size_t)STAGES * page<DTYPE>::BYTES;
    const int n_tiles = l->n_rows / ATTN_PREFILL_TOKENS + l->n_seqs;

    add_dependent<attn_prefill<DTYPE>>(list,
                                       dim3((unsigned)n_tiles, (unsigned)attn_row_blocks(&l->args)),
                                       dim3(THREADS), shared_bytes, *l);
}

void launch_attn_prefill(struct launch_list *list, const struct attn_launch *l)
{
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
}
