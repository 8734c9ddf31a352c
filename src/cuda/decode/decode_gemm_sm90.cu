/* Dense GEMMs of a decode step with many rows, by wgmma: as decode_gemm.cu and decode_head.cu, with
 * the same bits. decode_sm90.cuh has the main loop.
 *
 * Work division: an item is three rows of units of the matrices, which are counted through, and 32
 * tokens. Persistent blocks, one per SM, split all items evenly; items of the same rows are
 * adjacent, so a block reads its weights from memory once and then from L2.
 *
 * Traffic: the weights once, and for each item its tokens, from L2. Bound by instruction issue. */
#include "cuda/decode/decode_sm90.cuh"
#include "cuda/decode/heads.cuh"
#include "cuda/decode/operand_piece.cuh"

enum {
    TOKENS = 32,
    GROUPS = 3,
    HALF_HEAD = DECODE_HEAD_WIDTH / 2,
    HALF_TILES = HALF_HEAD / TILE_ROWS,
    PAIRS = TOKENS / 8 /* of rows that a thread rotates, for each of its two rows */
};
typedef struct wide_shape<TOKENS, GROUPS> SHAPE;
/* Numbers that the warps of a group exchange: half of each thread's sums. */
enum { EXCHANGE_BYTES = GROUP_THREADS * SHAPE::SUMS / 2 * 4 };
static_assert((int)SHAPE::SHARED_BYTES + GROUPS * (int)EXCHANGE_BYTES <= (int)SHARED_BYTES_MAX,
              "a block fits on an SM");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Row of units `row` of all matrices: the matrix, and the row in it. */
struct row_of_jobs {
    int job, row;
};

static __device__ __forceinline__ struct row_of_jobs find_row(const struct decode_gemm &p, int row)
{
    int job = 0;

    while (job + 1 < p.n_jobs && row >= (int)units_of(p.w[job].n_rows, UNIT_ROWS))
        row -= (int)units_of(p.w[job++].n_rows, UNIT_ROWS);
    return {job, row};
}

/* Items of all matrices and tokens. */
struct gemm_items {
    const struct decode_gemm &p;
    int first, end, n_rows, n_tiles, n_live;
    int first_row, first_token;

    __device__ __forceinline__ explicit gemm_items(const struct decode_gemm &p_) : p(p_)
    {
        n_live = live_rows(p.n_live, p.n_tokens);
        n_tiles = (n_live + TOKENS - 1) / TOKENS;
        n_rows = 0;
        for (int i = 0; i < p.n_jobs; i++)
            n_rows += (int)units_of(p.w[i].n_rows, UNIT_ROWS);
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

/* ---- epilogue: a thread has rows 2 g and 2 g + 1 of its warp's tile, g = lane / 4, for tokens
 * 8 i + 2 t and 8 i + 2 t + 1, t = lane % 4 ---- */

static __device__ __forceinline__ void store_rows(const struct decode_gemm &p, int job, int row,
                                                  const float (&sums)[SHAPE::SUMS], int first_token,
                                                  int n_tokens, float2 bias)
{
    const int width = p.out_width[job];

    if (row >= p.w[job].n_rows)
        return;
#pragma unroll
    for (int i = 0; i < SHAPE::SUMS / 2; i++) {
        const int token = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;

        if (token < n_tokens)
            *(float2 *)(p.out[job] + (int64_t)(first_token + token) * width + row) =
                make_float2(sums[at] * CODE_UNIT + bias.x, sums[at + 2] * CODE_UNIT + bias.y);
    }
}

static __device__ __forceinline__ void group_sync(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"((int)GROUP_THREADS) : "memory");
}

/* Rows d and d + 32 of a head are in warps w and w + 2: the first rotates the even tokens, the
 * second the odd ones. low and high: (token / 8, row d or d + 1) */
static __device__ __forceinline__ void
exchange_halves(float (&low)[PAIRS][2], float (&high)[PAIRS][2], const float (&sums)[SHAPE::SUMS],
                float2 bias, uint32_t buffer, int group, int warp)
{
    const bool is_high = warp >= HALF_TILES;
    const uint32_t lane_at = threadIdx.x % WARP_LANES * 4;
    const uint32_t mine = buffer + warp * (EXCHANGE_BYTES / GROUP_WARPS) + lane_at;
    const uint32_t other =
        buffer + (warp ^ (int)HALF_TILES) * (EXCHANGE_BYTES / GROUP_WARPS) + lane_at;

    group_sync(group); /* the other warp has read the last item's */
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float *two = &sums[i * 4 + k * 2];
            const float of_row = k == 0 ? bias.x : bias.y;
            const float own = (is_high ? two[1] : two[0]) * CODE_UNIT + of_row;
            const float sent = (is_high ? two[0] : two[1]) * CODE_UNIT + of_row;

            low[i][k] = high[i][k] = own;
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(mine + (i * 2 + k) * WARP_LANES * 4),
                         "f"(sent)
                         : "memory");
        }
    group_sync(group);
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float got =
                __uint_as_float(load_shared_word<0>(other + (i * 2 + k) * WARP_LANES * 4));

            low[i][k] = is_high ? got : low[i][k];
            high[i][k] = is_high ? high[i][k] : got;
        }
}

/* What the epilogue loads for a thread's tokens. All of it is asked for before anything is stored. */
struct head_inputs {
    float2 cosine[PAIRS], sine[PAIRS]; /* of rows d and d + 1 */
    struct slot_of_token slots[PAIRS]; /* of keys and values */
};

static __device__ __forceinline__ void load_head_inputs(struct head_inputs *in,
                                                        const struct decode_heads &h, int job,
                                                        int first_row, int n_tokens, int token,
                                                        int d)
{
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const int row = first_row + min(i * 8 + token, n_tokens - 1);
        const float *rotation = h.cos_sin + row * DECODE_HEAD_WIDTH + d;

        in->cosine[i] = __ldcg((const float2 *)rotation);
        in->sine[i] = __ldcg((const float2 *)(rotation + HALF_HEAD));
        if (job > 0)
            in->slots[i] = slot_of(h, row);
    }
}

/* RoPE and KV page write of a head. */
static __device__ __forceinline__ void store_heads(const struct decode_gemm &p,
                                                   const struct row_of_jobs &at,
                                                   const float (&sums)[SHAPE::SUMS],
                                                   int first_token, int n_tokens, float2 bias,
                                                   uint32_t buffer, int group, int warp)
{
    const int lane = threadIdx.x % WARP_LANES, first = lane % 4 * 2 + warp / HALF_TILES;
    const int d = warp % HALF_TILES * TILE_ROWS + lane / 4 * 2;
    float low[PAIRS][2], high[PAIRS][2];
    struct head_inputs in;

    load_head_inputs(&in, p.heads, at.job, first_token, n_tokens, first, d);
    exchange_halves(low, high, sums, bias, buffer, group, warp);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const int token = i * 8 + first;
        float *q = p.out[0] + (int64_t)(first_token + token) * p.out_width[0] +
                   at.row * DECODE_HEAD_WIDTH + d;

        if (token >= n_tokens)
            continue;
        if (at.job < 2) {
            rotate_pair(&low[i][0], &high[i][0], in.cosine[i].x, in.sine[i].x);
            rotate_pair(&low[i][1], &high[i][1], in.cosine[i].y, in.sine[i].y);
        }
        if (at.job == 0) {
            *(float2 *)q = make_float2(low[i][0], low[i][1]);
            *(float2 *)(q + HALF_HEAD) = make_float2(high[i][0], high[i][1]);
            continue;
        }
        store_rotated(p.heads, in.slots[i], at.job, at.row, d, NULL, low[i][0], high[i][0]);
        store_rotated(p.heads, in.slots[i], at.job, at.row, d + 1, NULL, low[i][1], high[i][1]);
    }
}

template <bool IS_HEADS>
static __device__ __forceinline__ void consume(const struct decode_gemm &p, struct stages s,
                                               int group, int warp)
{
    const int tile_row = warp * TILE_ROWS + (int)threadIdx.x % WARP_LANES / 4 * 2;
    const struct consumer c = consumer_of<SHAPE>(s, group, warp, p.w[0].n_units);
    const uint32_t buffer = s.shared + SHAPE::SHARED_BYTES + group * EXCHANGE_BYTES;
    struct gemm_items items(p);

    for (int item = items.first; item < items.end; item++) {
        items.begin(item);
        const struct row_of_jobs at = find_row(p, items.row(group));
        const int row = at.row * UNIT_ROWS + tile_row;
        const struct decode_vector &biases = p.bias[at.job];
        const uint2 bits =
            row < p.w[at.job].n_rows ? vector_pair_bits(biases, 0, row) : make_uint2(0, 0);
        struct item_sums<true, SHAPE> sums;

        multiply_row<true, SHAPE>(&sums, c, &s);
        if (items.first_row + group >= items.n_rows)
            continue;
        const float2 bias = pair_of_bits(biases, bits);

        if (IS_HEADS)
            store_heads(p, at, sums.up, items.first_token, items.n_tokens(), bias, buffer, group,
                        warp);
        else
            store_rows(p, at.job, row, sums.up, items.first_token, items.n_tokens(), bias);
    }
}

#endif

template <bool IS_HEADS>
static __global__ void __launch_bounds__(SHAPE::THREADS, 1)
    gemm_wide_kernel(const __grid_constant__ struct decode_gemm p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char smem[];
    const int warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP_LANES, 0) % GROUP_WARPS;
    const int group = __shfl_sync(ALL_LANES, threadIdx.x / GROUP_THREADS, 0);
    const struct stages s = {shared_address(smem)};

    init_barriers<SHAPE>(s.shared);
    if (group == 0) {
        warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
        if (warp == TOKENS_WARP)
            pdl_wait();
        if (threadIdx.x % WARP_LANES == 0)
            produce<true, SHAPE>(gemm_items(p),
                                 {p.w[0].n_units, 0, p.n_operand_rows * (int64_t)OPERAND_ROW_BYTES,
                                  EVICT_NORMAL_POLICY},
                                 s, warp);
    } else {
        warpgroup_reg_alloc<SHAPE::REGISTERS>();
        pdl_wait();
        pdl_launch_dependents();
        consume<IS_HEADS>(p, s, group - 1, warp);
    }
#else
    (void)p; /* other architectures have no wgmma */
    __trap();
#endif
}

template <bool IS_HEADS> static bool launch(struct launch_list *list, const struct decode_gemm *p)
{
    return decode_launch_of<gemm_wide_kernel<IS_HEADS>>(
        list, (unsigned)list->gpu->n_sms, SHAPE::THREADS,
        SHAPE::SHARED_BYTES + (IS_HEADS ? GROUPS * EXCHANGE_BYTES : 0), *p);
}

bool launch_decode_gemm_sm90(struct launch_list *list, const struct decode_gemm *p)
{
    if (!p->is_mxfp4)
        return false;
    for (int i = 0; i < p->n_jobs; i++)
        if (p->w[i].n_rows % 2 != 0 || p->out_width[i] % 2 != 0 ||
            (p->heads.pages != NULL && p->w[i].n_rows % DECODE_HEAD_WIDTH != 0))
            return false;
    return p->heads.pages != NULL ? launch<true>(list, p) : launch<false>(list, p);
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
