/* Dense GEMMs of a decode step with many rows, by wgmma: as decode_gemm.cu and decode_head.cu, with
 * the same bits, and stage attn_qkv, with RoPE and the KV page write in the epilogue.
 * decode_tile_sm90.cuh has the main loop.
 *
 * Work division: an item is two to five rows of units of the matrices, which are counted through,
 * and 32, 64 or 128 tokens, whichever leaves the busiest block least to do. Persistent blocks, one
 * per SM, split all items evenly; items of the same rows are adjacent, so a block reads its weights
 * from memory once and then from L2.
 *
 * Traffic: the weights once, and for each item its weights and tokens, from L2. Bound by wgmmas and
 * instructions, which overlap in part. */
#include "cuda/decode/decode_tile_sm90.cuh"
#include "cuda/decode/heads.cuh"
#include "cuda/common/operand_piece.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Row of units `row` of all matrices: the matrix, and the row in it. */
struct row_of_jobs {
    int job, row;
};

static __device__ __forceinline__ int rows_of(const struct decode_gemm &p, int job)
{
    return (int)units_of(p.w[job].n_rows, UNIT_ROWS);
}

/* Heads: keys and values are spread evenly among the rows, because a block that stores them in
 * their pages, two bytes at a time, ends late. */
static __device__ __forceinline__ int spread_row(const struct decode_gemm &p, int row)
{
    const int n_q = rows_of(p, 0), n_kv = rows_of(p, 1) + rows_of(p, 2);
    const int every = (n_q + n_kv) / n_kv, n_before = min(row / every, n_kv);
    const bool is_kv = row % every == every - 1 && row / every < n_kv;

    return is_kv ? n_q + n_before : row - n_before;
}

static __device__ __forceinline__ struct row_of_jobs find_row(const struct decode_gemm &p, int row)
{
    int job = 0;

    if (p.heads.pages != NULL)
        row = spread_row(p, row);
    while (job + 1 < p.n_jobs && row >= rows_of(p, job))
        row -= rows_of(p, job++);
    return {job, row};
}

/* Items of all matrices and tokens. */
template <class SHAPE> struct gemm_items {
    enum { TOKENS = SHAPE::TOKENS, GROUPS = SHAPE::GROUPS };
    const struct decode_gemm &p;
    int first, end, n_rows, n_tiles, n_live;
    int first_row, first_token;

    __device__ __forceinline__ explicit gemm_items(const struct decode_gemm &p_) : p(p_)
    {
        n_live = live_rows(p.n_live, p.n_tokens);
        n_tiles = (n_live + TOKENS - 1) / TOKENS;
        n_rows = 0;
        for (int i = 0; i < p.n_jobs; i++)
            n_rows += rows_of(p, i);
        const int64_t n = (int64_t)((n_rows + GROUPS - 1) / GROUPS) * n_tiles;

        first = (int)(n * blockIdx.x / gridDim.x);
        end = (int)(n * (blockIdx.x + 1) / gridDim.x);
    }
    /* Finds the first row and token of an item. */
    __device__ __forceinline__ void begin(int item)
    {
        first_row = item / n_tiles * GROUPS;
        first_token = item % n_tiles * TOKENS;
    }
    /* A group without a row repeats the last, and stores nothing. */
    __device__ __forceinline__ int row(int group) const
    {
        return min(first_row + group, n_rows - 1);
    }
    __device__ __forceinline__ const unsigned char *units(int group) const
    {
        const struct row_of_jobs at = find_row(p, row(group));

        return p.w[at.job].units + (int64_t)at.row * p.w[at.job].n_units * MXFP4_UNIT_BYTES;
    }
    __device__ __forceinline__ const char *tokens() const
    {
        return p.operand + (int64_t)first_token * OPERAND_ROW_BYTES;
    }
    __device__ __forceinline__ int n_tokens() const
    {
        return min((int)TOKENS, n_live - first_token);
    }
    __device__ __forceinline__ uint32_t tokens_bytes() const
    {
        return (uint32_t)units_of(n_tokens(), OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS *
               OPERAND_ROW_BYTES;
    }
};

/* ---- epilogues: a thread has rows 2 g and 2 g + 1 of its warp's tile, g = lane / 4, for tokens
 * 8 i + 2 t and 8 i + 2 t + 1, t = lane % 4; of its four sums the first two are of the first
 * row ---- */

/* A group's threads, behind its part of the shared memory: at of this thread. */
struct group_part {
    uint32_t sums, biases, slots;
    int barrier;
};

template <class SHAPE>
static __device__ __forceinline__ struct group_part group_part_of(uint32_t at, int group)
{
    return {at + threadIdx.x % GROUP_THREADS * LANE_BYTES, at + SHAPE::ASIDE::BIASES_AT,
            at + SHAPE::ASIDE::SLOTS_AT, 1 + group};
}

static __device__ __forceinline__ void group_sync(const struct group_part &part)
{
    asm volatile("bar.sync %0, %1;" ::"r"(part.barrier), "n"((int)GROUP_THREADS) : "memory");
}

static __device__ __forceinline__ float2 load_pair(uint32_t at)
{
    const uint2 bits = load_shared_pair<0>(at);

    return make_float2(__uint_as_float(bits.x), __uint_as_float(bits.y));
}

/* Stores the biases of the rows and, of keys and values, the slots of the tokens. */
template <class SHAPE>
static __device__ __forceinline__ void
begin_tile(const struct decode_gemm &p, const struct group_part &part, const struct row_of_jobs &at,
           const struct gemm_items<SHAPE> &items)
{
    const int i = threadIdx.x % GROUP_THREADS, row = at.row * UNIT_ROWS + i;

    if (i < UNIT_ROWS)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(part.biases + i * 4),
                     "f"(row < p.w[at.job].n_rows ? vector_at(p.bias[at.job], 0, row) : 0.0f)
                     : "memory");
    if (p.heads.pages != NULL && at.job > 0 && i < items.n_tokens()) {
        const struct slot_of_token slot = slot_of(p.heads, items.first_token + i);

        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(part.slots + i * HEAD_SLOT_BYTES),
                     "r"(slot.page), "r"(slot.slot)
                     : "memory");
    }
}

/* The struct out_sum of number k of an octet. */
static __device__ __forceinline__ struct out_sum slices_of(const uint4 &high, const uint4 &low,
                                                           uint32_t overflows, int i, int k)
{
    const uint32_t highs[4] = {high.x, high.y, high.z, high.w};
    const uint32_t lows[4] = {low.x, low.y, low.z, low.w};

    return {highs[k], lows[k], overflows >> (i * 4 + k) & 1 ? FIXED_OVERFLOW : 0};
}

/* Stores a thread's numbers of attn_out, or the words of their sums. */
template <class SHAPE>
static __device__ __forceinline__ void
store_slices(const struct decode_gemm &p, const struct group_part &part, uint32_t overflows,
             int row, const struct gemm_items<SHAPE> &items, float2 bias)
{
    const int n_slices = (int)units_of(p.w[0].n_units, p.slice_units), width = p.out_width[0];

#pragma unroll 1
    for (int i = 0; i < SHAPE::OCTETS; i++) {
        const uint4 high = load_shared<0>(part.sums + i * OCTET_BYTES);
        const uint4 low = load_shared<0>(part.sums + SHAPE::ASIDE::PLANE_BYTES + i * OCTET_BYTES);

#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int token = i * 8 + (int)threadIdx.x % 4 * 2 + k;
            const int64_t to = (int64_t)(items.first_token + token) * width + row;
            const struct out_sum first = slices_of(high, low, overflows, i, k);
            const struct out_sum second = slices_of(high, low, overflows, i, k + 2);

            if (token >= items.n_tokens())
                continue;
            if (p.low != NULL) {
                store_words(p.out[0], p.low, to, first, n_slices);
                store_words(p.out[0], p.low, to + 1, second, n_slices);
            } else {
                *(float2 *)(p.out[0] + to) = make_float2(out_sum_value(first, n_slices) + bias.x,
                                                         out_sum_value(second, n_slices) + bias.y);
            }
        }
    }
}

/* Numbers k and k + 2 of an octet, with their biases. */
static __device__ __forceinline__ float2 pair_of(const float4 &sums, int k, float2 bias)
{
    return make_float2((k == 0 ? sums.x : sums.y) * CODE_UNIT + bias.x,
                       (k == 0 ? sums.z : sums.w) * CODE_UNIT + bias.y);
}

template <class SHAPE>
static __device__ __forceinline__ void
store_eighths(const struct decode_gemm &p, const struct group_part &part, int job, int row,
              const struct gemm_items<SHAPE> &items, float2 bias)
{
    const int width = p.out_width[job];

#pragma unroll 2
    for (int i = 0; i < SHAPE::OCTETS; i++) {
        const float4 sums = load_sums(part.sums + i * OCTET_BYTES);

#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int token = i * 8 + (int)threadIdx.x % 4 * 2 + k;

            if (token < items.n_tokens())
                *(float2 *)(p.out[job] + (int64_t)(items.first_token + token) * width + row) =
                    pair_of(sums, k, bias);
        }
    }
}

/* Cos and sin of two pairs of numbers, (d, d + HALF) and (d + 1, d + 1 + HALF). */
struct rotation {
    float2 cosine, sine;
};

static __device__ __forceinline__ struct rotation rotation_at(const struct decode_heads &h,
                                                              int token, int d)
{
    const float *at = h.cos_sin + (int64_t)token * DECODE_HEAD_WIDTH + d;

    return {__ldcg((const float2 *)at), __ldcg((const float2 *)(at + DECODE_HEAD_WIDTH / 2))};
}

static __device__ __forceinline__ void rotate_pairs(float2 *low, float2 *high,
                                                    const struct rotation &r)
{
    rotate_pair(&low->x, &high->x, r.cosine.x, r.sine.x);
    rotate_pair(&low->y, &high->y, r.cosine.y, r.sine.y);
}

static __device__ __forceinline__ float float_at(uint32_t at)
{
    return __uint_as_float(load_shared_word<0>(at));
}

/* Stores numbers d, d + 1, d + HALF and d + HALF + 1 of k or v. */
static __device__ __forceinline__ void store_pairs(const struct decode_heads &h,
                                                   const struct slot_of_token &slot,
                                                   const struct row_of_jobs &at, int d, float low0,
                                                   float low1, float high0, float high1)
{
    enum { HALF = DECODE_HEAD_WIDTH / 2 };

    if (h.is_cache_bf16 && at.job == 1) {
        /* adjacent numbers of a key are a word */
        uint32_t *const side =
            (uint32_t *)(h.pages + ((int64_t)slot.page * 2 * h.n_kv + at.row) * h.kv_half_bytes);

        side[kv_word(2, DECODE_HEAD_WIDTH, 0, slot.slot, d)] = pair_bf16(low0, low1);
        side[kv_word(2, DECODE_HEAD_WIDTH, 0, slot.slot, d + HALF)] = pair_bf16(high0, high1);
        return;
    }
    store_rotated(h, slot, at.job, at.row, d, NULL, low0, high0);
    store_rotated(h, slot, at.job, at.row, d + 1, NULL, low1, high1);
}

/* A row of units is a head. Warps w and w + 2 have its halves; each of them stores both halves, of
 * half of the tokens. */
template <class SHAPE> struct heads_of_warp {
    enum { OCTETS = SHAPE::OCTETS / 2 };
    int first, d; /* its first eight tokens; the numbers of its lanes are d and d + 1 */
    struct rotation rotations[OCTETS][2];

    __device__ __forceinline__ int token(int octet, int k) const
    {
        return (first + octet) * 8 + (int)threadIdx.x % 4 * 2 + k;
    }
    __device__ __forceinline__ explicit heads_of_warp(int warp)
        : first(warp / 2 * OCTETS), d(warp % 2 * TILE_ROWS + (int)threadIdx.x % WARP_LANES / 4 * 2),
          rotations()
    {
    }
    /* Loads of all tokens are under way at once, before the group's sums are complete. */
    __device__ __forceinline__ void load(const struct decode_gemm &p,
                                         const struct gemm_items<SHAPE> &items)
    {
#pragma unroll
        for (int i = 0; i < OCTETS * 2; i++)
            rotations[i / 2][i % 2] = rotation_at(
                p.heads, items.first_token + min(token(i / 2, i % 2), items.n_tokens() - 1), d);
    }
    /* The sums become numbers of q, which are stored, or of k or v. */
    __device__ __forceinline__ void finish(const struct decode_gemm &p,
                                           const struct group_part &part,
                                           const struct row_of_jobs &at,
                                           const struct gemm_items<SHAPE> &items) const
    {
        const uint32_t sums = sums_at(part);
        const float2 low_bias = load_pair(part.biases + d * 4);
        const float2 high_bias = load_pair(part.biases + (d + HALF) * 4);
        const int64_t width = p.out_width[0];
        float *const q =
            p.out[0] + items.first_token * width + at.row * (int64_t)DECODE_HEAD_WIDTH + d;

#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            const float4 low_sums = load_sums(sums + i * OCTET_BYTES);
            const float4 high_sums = load_sums(sums + i * OCTET_BYTES + HALF_BYTES);
            float2 low[2], high[2];

#pragma unroll
            for (int k = 0; k < 2; k++) {
                low[k] = pair_of(low_sums, k, low_bias);
                high[k] = pair_of(high_sums, k, high_bias);
                if (at.job < 2)
                    rotate_pairs(&low[k], &high[k], rotations[i][k]);
                if (at.job == 0 && token(i, k) < items.n_tokens()) {
                    *(float2 *)(q + token(i, k) * width) = low[k];
                    *(float2 *)(q + token(i, k) * width + HALF) = high[k];
                }
            }
            if (at.job > 0) {
                store_shared(sums + i * OCTET_BYTES,
                             make_float4(low[0].x, low[1].x, low[0].y, low[1].y));
                store_shared(sums + i * OCTET_BYTES + HALF_BYTES,
                             make_float4(high[0].x, high[1].x, high[0].y, high[1].y));
            }
        }
    }
    /* Stores numbers of k or v in their pages. */
    __device__ __forceinline__ void store(const struct decode_gemm &p,
                                          const struct group_part &part,
                                          const struct row_of_jobs &at,
                                          const struct gemm_items<SHAPE> &items) const
    {
#pragma unroll 1 /* code that runs once is fetched from memory line by line */
        for (int i = 0; i < OCTETS * 2; i++) {
            const int t = token(i / 2, i % 2);
            const uint32_t from = sums_at(part) + i / 2 * OCTET_BYTES + i % 2 * 4;

            if (t >= items.n_tokens())
                continue;
            const uint2 words = load_shared_pair<0>(part.slots + t * HEAD_SLOT_BYTES);
            const struct slot_of_token slot = {(int)words.x, (int)words.y};

            store_pairs(p.heads, slot, at, d, float_at(from), float_at(from + 8),
                        float_at(from + HALF_BYTES), float_at(from + HALF_BYTES + 8));
        }
    }

  private:
    enum { HALF_BYTES = GROUP_THREADS / 2 * LANE_BYTES, HALF = DECODE_HEAD_WIDTH / 2 };

    __device__ __forceinline__ uint32_t sums_at(const struct group_part &part) const
    {
        const int half = (int)threadIdx.x % GROUP_THREADS / (GROUP_THREADS / 2);

        return part.sums - half * HALF_BYTES + first * OCTET_BYTES;
    }
};

/* Equal in all lanes: the compiler then keeps it in a uniform register. */
static __device__ __forceinline__ int uniform(int i)
{
    return __shfl_sync(ALL_LANES, i, 0);
}

/* i, which the compiler cannot compute again for each unit. */
static __device__ __forceinline__ uint32_t kept(uint32_t i)
{
    return __shfl_sync(ALL_LANES, i, (int)threadIdx.x % WARP_LANES);
}

/* Stores an item's row of units; waits for the group's sums. */
template <class SHAPE>
static __device__ __forceinline__ void
end_tile(const struct decode_gemm &p, const struct group_part &part,
         const struct gemm_items<SHAPE> &items, int group, int warp, uint32_t overflows)
{
    const int tile_row = warp * TILE_ROWS + (int)threadIdx.x % WARP_LANES / 4 * 2;
    const struct row_of_jobs at = find_row(p, items.row(group));
    const int row = at.row * UNIT_ROWS + tile_row;
    const bool has_row = items.first_row + group < items.n_rows && row < p.w[at.job].n_rows;

    if (SHAPE::KIND == SUMS_OF_EIGHTHS && p.heads.pages != NULL) {
        struct heads_of_warp<SHAPE> heads(warp);

        if (at.job < 2)
            heads.load(p, items);
        group_sync(part);
        if (has_row)
            heads.finish(p, part, at, items);
        if (has_row && at.job > 0)
            heads.store(p, part, at, items);
        return;
    }
    group_sync(part);
    if (!has_row)
        return;
    const float2 bias = load_pair(part.biases + tile_row * 4);

    if constexpr (SHAPE::KIND == SUMS_OF_OUT_SLICES)
        store_slices<SHAPE>(p, part, overflows, row, items, bias);
    else
        store_eighths<SHAPE>(p, part, at.job, row, items, bias);
}

template <class SHAPE>
static __device__ __forceinline__ void consume(const struct decode_gemm &p, struct stages s,
                                               int group, int warp)
{
    const uint32_t aside = s.at + SHAPE::RING_BYTES + group * SHAPE::ASIDE_BYTES;
    const struct tile_consumer c = {kept(threadIdx.x % GROUP_THREADS * LANE_BYTES),
                                    MXFP4_SCALES_OFFSET + (uint32_t)scales_word(warp) * 4,
                                    SHAPE::UNITS_AT + (uint32_t)group * MXFP4_UNIT_BYTES,
                                    aside,
                                    p.w[0].n_units,
                                    p.slice_units};
    struct gemm_items<SHAPE> items(p);
    const int end = uniform(items.end);

    for (int item = uniform(items.first); item < end; item++) {
        const struct group_part part = group_part_of<SHAPE>(aside, group);

        items.begin(item);
        group_sync(part); /* the sums of the item before have been read */
        begin_tile<SHAPE>(p, part, find_row(p, items.row(group)), items);
        clear_tile<SHAPE>(c.sums_at + c.lane_at);
        const uint32_t overflows = multiply_tile<SHAPE>(c, &s);

        end_tile<SHAPE>(p, part, items, group, warp, overflows);
    }
}

#endif

/* ---- the kernel ---- */

template <int KIND, int TOKENS, int GROUPS>
static __global__ void __launch_bounds__((1 + GROUPS) * GROUP_THREADS, 1)
    gemm_wide_kernel(const __grid_constant__ struct decode_gemm p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef struct tile_shape<KIND, TOKENS, GROUPS> SHAPE;

    run_block<SHAPE, false>(
        [&](const struct stages &s, int warp) {
            produce<KIND, SHAPE>(gemm_items<SHAPE>(p),
                                 {p.w[0].n_units, p.slice_units,
                                  p.n_operand_rows * (int64_t)OPERAND_ROW_BYTES,
                                  EVICT_NORMAL_POLICY},
                                 s, warp);
        },
        [&](const struct stages &s, int group, int warp) { consume<SHAPE>(p, s, group, warp); });
#else
    (void)p; /* other architectures have no wgmma */
    __trap();
#endif
}

template <int KIND, int TOKENS, int GROUPS>
static bool launch_shape(struct launch_list *list, const struct decode_gemm *p)
{
    typedef struct tile_shape<KIND, TOKENS, GROUPS> SHAPE;

    return decode_launch_of<gemm_wide_kernel<KIND, TOKENS, GROUPS>>(
        list, (unsigned)list->gpu->n_sms, SHAPE::THREADS, SHAPE::SHARED_BYTES, *p);
}

/* X(sums, tokens of an item, its rows of units) */
#define TILE_SHAPES(X)                                                                             \
    X(SUMS_OF_EIGHTHS, 64, 2)                                                                      \
    X(SUMS_OF_EIGHTHS, 64, 3)                                                                      \
    X(SUMS_OF_EIGHTHS, 64, 4)                                                                      \
    X(SUMS_OF_EIGHTHS, 64, 5)                                                                      \
    X(SUMS_OF_EIGHTHS, 128, 3)                                                                     \
    X(SUMS_OF_OUT_SLICES, 32, 3)                                                                   \
    X(SUMS_OF_OUT_SLICES, 64, 2)                                                                   \
    X(SUMS_OF_OUT_SLICES, 64, 3)

struct tile_choice {
    enum row_sums kind;
    int n_tokens, n_groups;
    bool (*launch)(struct launch_list *list, const struct decode_gemm *p);
};

static const struct tile_choice tile_choices[] = {
#define TILE_CHOICE(kind, tokens, groups)                                                          \
    {kind, tokens, groups, launch_shape<kind, tokens, groups>},
    TILE_SHAPES(TILE_CHOICE)
#undef TILE_CHOICE
};

/* The time that the block with most items takes, in thousandths of the time of a row of units and
 * 64 tokens. The rows of an item wait for its tokens together: as long as for TOKENS_COST more. In
 * wider tiles a word of weights is expanded less often, in narrow ones more often. By
 * bench/decode_gemm_cuda.cu. */
static int64_t cost_of(const struct launch_list *list, const struct decode_gemm *p,
                       const struct tile_choice *c)
{
    enum { NARROW_COST = 600, TILE_COST = 1000, WIDE_COST = 1760, TOKENS_COST = 1000 };
    const int64_t n_tiles = units_of(p->n_tokens, c->n_tokens);
    const int tile_cost = c->n_tokens == 32   ? (int)NARROW_COST
                          : c->n_tokens == 64 ? (int)TILE_COST
                                              : (int)WIDE_COST;
    int64_t n_rows = 0;

    for (int i = 0; i < p->n_jobs; i++)
        n_rows += units_of(p->w[i].n_rows, UNIT_ROWS);
    return units_of(units_of(n_rows, c->n_groups) * n_tiles, list->gpu->n_sms) *
           (c->n_groups * tile_cost + TOKENS_COST);
}

bool launch_decode_gemm_sm90(struct launch_list *list, const struct decode_gemm *p)
{
    const enum row_sums kind = p->slice_units > 0 ? SUMS_OF_OUT_SLICES : SUMS_OF_EIGHTHS;
    const struct tile_choice *best = NULL;

    if (!p->is_mxfp4)
        return false;
    for (int i = 0; i < p->n_jobs; i++)
        if (p->w[i].n_rows % 2 != 0 || p->out_width[i] % 2 != 0)
            return false;
    for (const struct tile_choice &c : tile_choices)
        if (c.kind == kind && (best == NULL || cost_of(list, p, &c) < cost_of(list, p, best)))
            best = &c;
    return best->launch(list, p);
}

/* ---- the operand ---- */

enum {
    OPERAND_THREADS = 256, /* one piece of 16 bytes each */
    PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES
};

static __global__ void __launch_bounds__(OPERAND_THREADS)
    rows_operand_kernel(const __grid_constant__ struct decode_gemm p)
{
    const int token = blockIdx.x, n_units = p.w[0].n_units;
    const uint32_t *row =
        (const uint32_t *)p.rows + (int64_t)token * n_units * (OPERAND_ROW_BYTES / 4);

    if (token >= live_rows(p.n_live, (int)gridDim.x))
        return;
    pdl_wait();
    pdl_launch_dependents();
    for (int i = threadIdx.x; i < n_units * PIECES; i += OPERAND_THREADS)
        *(uint4 *)(p.operand +
                   operand_piece_offset(p.n_operand_rows, token, i / PIECES, i % PIECES)) =
            piece_of_row(row, i / PIECES, i % PIECES);
}

void launch_decode_operand(struct launch_list *list, const struct decode_gemm *p)
{
    add_dependent<rows_operand_kernel>(list, (unsigned)p->n_tokens, OPERAND_THREADS, 0, *p);
}
