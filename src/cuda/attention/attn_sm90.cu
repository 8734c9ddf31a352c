/* Paged attention for prefill rows on Hopper by wgmma; the formula is that of attn_prefill.cu.
 *
 * Work division: a block has 24 tokens of a sequence and up to eight query heads of one key/value
 * head. Three consumer warpgroups have eight tokens each: 64 rows of operand A in registers, first
 * queries, then softmax weights. A producer warpgroup loads the pages that any of the rows sees
 * into a ring in shared memory, as operand B (attn_transpose.cuh). A consumer loops over the pages
 * that its own tokens see. Its softmax overlaps with the wgmmas of the previous page and of the
 * other warpgroups. Softmax is online: a running maximum is kept for each row, and the sums are
 * rescaled when it grows. The sink is added last.
 *
 * Precision: queries and weights are rounded to bf16; sums are float32. An F8 code is used as a
 * bf16 number 2^-120 times its value; KV scales are applied to scores and weights. A row's result
 * depends only on its own keys, in pages at absolute positions: pages that only other rows of the
 * block see add nothing to it.
 *
 * Traffic: a page once per 24 tokens, mostly from L2. Flops: 4 D per row, head and key; bound by
 * the MMAs and by exponentials, of which an SM computes 16 a cycle. */
#include "cuda/attention/attn_transpose.cuh"
#include "cuda/attention/attn_weights.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"

enum {
    CONSUMERS = 3,
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * WARP_LANES,
    THREADS = (CONSUMERS + 1) * GROUP_THREADS,
    GROUP_TOKENS = 64 / ATTN_HEADS,
    WARP_TOKENS = GROUP_TOKENS / GROUP_WARPS, /* rows lane / 4 and lane / 4 + 8 */
    TOKENS = CONSUMERS * GROUP_TOKENS,
    PRODUCER_REGISTERS = 80,
    CONSUMER_REGISTERS = 144,
    STAGES = 6 /* pages */
};
static_assert((int)WARP_TOKENS == 2, "one token per register row of D");
static_assert((int)GROUP_WARPS == (int)TRANSPOSE_WARPS, "one warpgroup transposes a page");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- the ring ---- */

/* Addresses in shared memory. */
struct ring {
    uint32_t pages, full, empty; /* mbarriers. full: one for keys and one for values */
    int stage;
    uint32_t parity;
};

template <int DTYPE>
static __device__ __forceinline__ uint32_t keys_at(const struct ring &r, int stage)
{
    return r.pages + stage * 2 * transpose<DTYPE>::KV_HALF_BYTES;
}

template <int DTYPE>
static __device__ __forceinline__ uint32_t values_at(const struct ring &r, int stage)
{
    return keys_at<DTYPE>(r, stage) + transpose<DTYPE>::KV_HALF_BYTES;
}

static __device__ __forceinline__ uint32_t keys_full(const struct ring &r, int stage)
{
    return r.full + stage * 16;
}

static __device__ __forceinline__ uint32_t values_full(const struct ring &r, int stage)
{
    return r.full + stage * 16 + 8;
}

static __device__ __forceinline__ void advance(struct ring *r)
{
    if (++r->stage == STAGES) {
        r->stage = 0;
        r->parity ^= 1;
    }
}

template <int DTYPE> static __device__ __forceinline__ void ring_init(struct ring *r, char *scratch)
{
    *r = {.pages = shared_address(scratch), .full = 0, .empty = 0, .stage = 0, .parity = 0};
    r->full = r->pages + STAGES * 2 * transpose<DTYPE>::KV_HALF_BYTES;
    r->empty = r->full + STAGES * 16;
    if (r->pages % 1024 != 0)
        __trap();
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(keys_full(*r, i), GROUP_THREADS);
            mbarrier_init(values_full(*r, i), GROUP_THREADS);
            mbarrier_init(r->empty + i * 8, CONSUMERS * GROUP_THREADS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
}

/* Producer, all threads: loads the pages in order; the next page's loads are in flight while one is
 * stored. */
template <int DTYPE>
static __device__ __forceinline__ void produce(const struct attn_launch &l, const struct block &k,
                                               struct ring r)
{
    const int first = k.first_key / PAGE_TOKENS, last = k.last_key / PAGE_TOKENS;
    struct transpose<DTYPE> keys, values;
    int32_t number = k.pages[first], next = k.pages[min(first + 1, last)];

    transpose_load<DTYPE>(&keys, kv_side(&l.args.kv, number, 0, k.kv_head));
    transpose_load<DTYPE>(&values, kv_side(&l.args.kv, number, 1, k.kv_head));
    for (int index = first; index <= last; index++) {
        const int begin = k.first_key - index * PAGE_TOKENS,
                  end = begin + k.last_key + 1 - k.first_key;

        number = next;
        next = k.pages[min(index + 2, last)];
        mbarrier_wait(r.empty + r.stage * 8, r.parity ^ 1);
        transpose_store<DTYPE>(keys, keys_at<DTYPE>(r, r.stage), 0, PAGE_TOKENS);
        fence_proxy_async();
        mbarrier_arrive(keys_full(r, r.stage));
        transpose_load<DTYPE>(&keys, kv_side(&l.args.kv, number, 0, k.kv_head));
        transpose_store<DTYPE>(values, values_at<DTYPE>(r, r.stage), begin, end);
        fence_proxy_async();
        mbarrier_arrive(values_full(r, r.stage));
        transpose_load<DTYPE>(&values, kv_side(&l.args.kv, number, 1, k.kv_head));
        advance(&r);
    }
}

/* ---- a consumer warpgroup ---- */

/* A lane's two rows: tokens `position` and the next, head lane / 4. Keys and columns 8 i + 2 (lane
 * % 4) and the next one are in s[i] and out[i]. */
struct rows {
    uint32_t query[STEPS][4], weight[STEPS][4];
    float s[SCORES][4], out[SCORES][4];
    float largest[WARP_TOKENS];
    float weights[WARP_TOKENS]; /* their sum over this lane's keys */
    int position;
};

static __device__ __forceinline__ int slot_of(int i, int j)
{
    return i * 8 + (int)threadIdx.x % 4 * 2 + j % 2;
}

/* Tokens and heads past the end are loaded as the last ones and multiplied by zero. */
template <int DTYPE>
static __device__ __forceinline__ void begin(struct rows *w, const struct attn_launch &l,
                                             const struct block &k, int first_token)
{
    const int g = threadIdx.x % WARP_LANES / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int which = 0; which < WARP_TOKENS; which++) {
        const int token = first_token + which, row = k.first_row + min(token, k.n_tokens - 1);
        const float factor = token < k.n_tokens && g < k.n_heads ? operand_scale<DTYPE>() : 0.0f;
        const float *head = (const float *)l.args.q.data + row * l.args.q.dim[1] +
                            (k.first_head + min(g, k.n_heads - 1)) * ATTN_HEAD_DIM;

#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int high = 0; high < 2; high++) {
                const float2 x = *(const float2 *)(head + 16 * step + 8 * high + 2 * t);

                w->query[step][2 * high + which] = pair_bf16(x.x * factor, x.y * factor);
            }
        w->largest[which] = -INFINITY;
        w->weights[which] = 0.0f;
    }
    w->position = k.position + first_token;
#pragma unroll
    for (int i = 0; i < SCORES; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            w->out[i][j] = 0.0f;
}

/* Issues Q K^T of a page. */
static __device__ __forceinline__ void issue_qk(struct rows *w, uint32_t keys)
{
    const uint64_t b = wgmma_descriptor(keys);
    float *s = &w->s[0][0];

    wgmma_fence();
    wgmma_first(s, w->query[0], b);
#pragma unroll
    for (int step = 1; step < STEPS; step++)
        wgmma<false, PAGE_TOKENS>(s, w->query[step], b + step * 2);
    wgmma_commit();
}

/* Issues P V of a page. */
static __device__ __forceinline__ void issue_pv(struct rows *w, uint32_t values)
{
    const uint64_t b = wgmma_descriptor(values);

    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; step++)
        wgmma<false, ATTN_HEAD_DIM>(&w->out[0][0], w->weight[step], b + step * 2);
    wgmma_commit();
}

template <int N> static __device__ __forceinline__ void fence_operands(float (&d)[N][4])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        wgmma_fence_operand(d[i]);
}

static __device__ __forceinline__ void mask_scores(struct rows *w, const struct attn_args &a,
                                                   int page_start)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int last = w->position + j / 2 - page_start;
        const int first = first_visible(a, page_start + last) - page_start;

#pragma unroll
        for (int i = 0; i < SCORES; i++)
            if (slot_of(i, j) > last || slot_of(i, j) < first)
                w->s[i][j] = -INFINITY;
    }
}

/* Multiplies by one number per slot. */
static __device__ __forceinline__ void apply_scales(struct rows *w, uint32_t numbers, float factor)
{
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        float two[2];

        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(two[0]), "=f"(two[1])
                     : "r"(numbers + slot_of(i, 0) * 4));
#pragma unroll
        for (int j = 0; j < 4; j++)
            w->s[i][j] = __fmul_rn(w->s[i][j], two[j % 2] * factor);
    }
}

/* Packs the softmax weights as operand A. */
static __device__ __forceinline__ void pack_weights(struct rows *w)
{
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            w->weight[step][i] =
                pair_bf16(w->s[2 * step + i / 2][i % 2 * 2], w->s[2 * step + i / 2][i % 2 * 2 + 1]);
}

/* Softmax of the page in the ring's current stage; `keep` receives the factors that rescale the
 * sums. */
template <int DTYPE>
static __device__ __forceinline__ void softmax_page(struct rows *w, const struct attn_args &a,
                                                    const struct ring &r, int page_start,
                                                    float keep[WARP_TOKENS])
{
    const float scale = a.scale * LOG2_E * result_scale<DTYPE>();
    const int last = w->position + WARP_TOKENS - 1;

    if (DTYPE == DTYPE_F8)
        apply_scales(w, keys_at<DTYPE>(r, r.stage) + TRANSPOSED_BYTES, 1.0f);
    if (page_start + PAGE_TOKENS - 1 > w->position || page_start < first_visible(a, last))
        mask_scores(w, a, page_start);
#pragma unroll
    for (int which = 0; which < WARP_TOKENS; which++)
        keep[which] = softmax_step(w->s, which, &w->largest[which], &w->weights[which], scale);
}

/* The same, then packs the weights as operand A. */
template <int DTYPE>
static __device__ __forceinline__ void read_weights(struct rows *w, const struct ring &r)
{
    if (DTYPE == DTYPE_F8) {
        mbarrier_wait(values_full(r, r.stage), r.parity);
        apply_scales(w, values_at<DTYPE>(r, r.stage) + TRANSPOSED_BYTES, operand_scale<DTYPE>());
    }
    pack_weights(w);
}

/* Releases pages that the group does not need as they arrive. */
static __device__ __forceinline__ void skip_pages(struct ring *r, int n)
{
    for (; n > 0; n--) {
        mbarrier_wait(keys_full(*r, r->stage), r->parity);
        mbarrier_wait(values_full(*r, r->stage), r->parity);
        mbarrier_arrive(r->empty + r->stage * 8);
        advance(r);
    }
}

/* Pages first to last, at least one. The softmax of a page overlaps with P V of the previous page.
 * No wgmma is pending across iterations of the loop: otherwise the compiler serializes all of
 * them. */
template <int DTYPE>
static __device__ __forceinline__ void walk(struct rows *w, const struct attn_args &a,
                                            struct ring *r, int first, int last)
{
    float keep[WARP_TOKENS];

    mbarrier_wait(keys_full(*r, r->stage), r->parity);
    issue_qk(w, keys_at<DTYPE>(*r, r->stage));
    wgmma_wait<0>();
    fence_operands(w->s);
    softmax_page<DTYPE>(w, a, *r, first * PAGE_TOKENS, keep);
    read_weights<DTYPE>(w, *r);
    for (int index = first + 1; index <= last; index++) {
        const struct ring before = *r;

        advance(r);
        mbarrier_wait(values_full(before, before.stage), before.parity);
        mbarrier_wait(keys_full(*r, r->stage), r->parity);
        issue_qk(w, keys_at<DTYPE>(*r, r->stage));
        issue_pv(w, values_at<DTYPE>(before, before.stage));
        wgmma_wait<1>();
        fence_operands(w->s);
        softmax_page<DTYPE>(w, a, *r, index * PAGE_TOKENS, keep);
        wgmma_wait<0>();
        fence_operands(w->out);
        mbarrier_arrive(before.empty + before.stage * 8);
        rescale_output(w->out, keep);
        read_weights<DTYPE>(w, *r);
    }
    mbarrier_wait(values_full(*r, r->stage), r->parity);
    issue_pv(w, values_at<DTYPE>(*r, r->stage));
    wgmma_wait<0>();
    fence_operands(w->out);
    mbarrier_arrive(r->empty + r->stage * 8);
    advance(r);
}

template <int DTYPE>
static __device__ __forceinline__ void finish(const struct rows &w, const struct attn_launch &l,
                                              const struct block &k, int first_token)
{
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    const int g = threadIdx.x % WARP_LANES / 4;
    const float sink = sink_of(l.args, k.first_head + min(g, k.n_heads - 1));

#pragma unroll
    for (int which = 0; which < WARP_TOKENS; which++) {
        const int token = first_token + which, row = k.first_row + token;
        const struct attn_end end = end_of(w.largest[which], w.weights[which], scale, sink);
        const float factor = end.factor * result_scale<DTYPE>();
        float *att =
            (float *)l.args.att.data + row * l.args.att.dim[1] + (k.first_head + g) * ATTN_HEAD_DIM;

        if (token < k.n_tokens && g < k.n_heads && l.rows.phases[row] == PHASE_PREFILL)
#pragma unroll
            for (int i = 0; i < SCORES; i++)
                *(float2 *)(att + slot_of(i, 0)) =
                    make_float2(__fdiv_rn(w.out[i][2 * which] * factor, end.total),
                                __fdiv_rn(w.out[i][2 * which + 1] * factor, end.total));
    }
}

/* The group's tokens over all pages of the block. */
template <int DTYPE>
static __device__ __forceinline__ void consume(const struct attn_launch &l, const struct block &k,
                                               struct ring r, int group)
{
    const int warp = threadIdx.x / WARP_LANES % GROUP_WARPS;
    const int first_token = group * GROUP_TOKENS, first_page = k.first_key / PAGE_TOKENS;
    const int n_pages = k.last_key / PAGE_TOKENS + 1 - first_page;
    const int n_tokens = min(k.n_tokens - first_token, (int)GROUP_TOKENS);
    const int position = k.position + first_token;
    const int first = first_visible(l.args, position) / PAGE_TOKENS;
    const int last = (position + n_tokens - 1) / PAGE_TOKENS;
    struct rows w;

    if (n_tokens <= 0) {
        skip_pages(&r, n_pages);
        return;
    }
    begin<DTYPE>(&w, l, k, first_token + warp * WARP_TOKENS);
    skip_pages(&r, first - first_page);
    walk<DTYPE>(&w, l.args, &r, first, last);
    finish<DTYPE>(w, l, k, first_token + warp * WARP_TOKENS);
    skip_pages(&r, first_page + n_pages - 1 - last);
}

#endif

/* Grid: blocks per row, tiles of all sequences or more; tiles with the most keys start first. */
template <int DTYPE>
static __global__ void __launch_bounds__(THREADS, 1)
    attn_sm90(const __grid_constant__ struct attn_launch l)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char scratch[];
    const int group = threadIdx.x / GROUP_THREADS;
    struct block k;
    struct ring r;

    pdl_launch_dependents();
    pdl_wait();
    if (!block_of<TOKENS>(&k, l, gridDim.y - 1 - blockIdx.y, blockIdx.x))
        return;
    ring_init<DTYPE>(&r, scratch);
    if (group == CONSUMERS) {
        warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
        produce<DTYPE>(l, k, r);
    } else {
        warpgroup_reg_alloc<CONSUMER_REGISTERS>();
        consume<DTYPE>(l, k, r, group);
    }
#else
    (void)l; /* other architectures have no wgmma, and the tuning table has no such kernel for
              * them */
    __trap();
#endif
}

template <int DTYPE> static void launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const size_t shared_bytes =
        (size_t)STAGES * (2 * transpose<DTYPE>::KV_HALF_BYTES + 3 * sizeof(uint64_t));
    const int n_tiles = l->n_rows / TOKENS + l->n_seqs;

    add_dependent<attn_sm90<DTYPE>>(list,
                                    dim3((unsigned)attn_row_blocks(&l->args), (unsigned)n_tiles),
                                    dim3(THREADS), shared_bytes, *l);
}

void launch_attn_sm90(struct launch_list *list, const struct attn_launch *l)
{
    if (l->args.kv.dtype == DTYPE_F8)
        launch_dtype<DTYPE_F8>(list, l);
    else
        launch_dtype<DTYPE_BF16>(list, l);
}
