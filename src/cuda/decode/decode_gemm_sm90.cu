/* Dense GEMMs of a decode step with many rows, by wgmma: as decode_gemm.cu and decode_head.cu, with
 * the same bits. decode_sm90.cuh has the main loop.
 *
 * Work division: an item is three rows of units of the matrices, which are counted through, and 32
 * tokens, or two rows and 64 tokens. Persistent blocks, one per SM, split all items evenly; items
 * of the same rows are adjacent, so a block reads its weights from memory once and then from L2.
 *
 * Traffic: the weights once, and for each item its tokens, from L2. Bound by the wgmmas and, with
 * 32 tokens, by the expansion of the weights. */
#include "cuda/decode/decode_sm90.cuh"
#include "cuda/decode/operand_piece.cuh"

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

template <int KIND, class SHAPE>
static __device__ __forceinline__ float value_of(const struct item_sums<KIND, SHAPE> &sums, int i,
                                                 int n_slices)
{
    if constexpr (KIND == SUMS_OF_OUT_SLICES)
        return out_sum_value(sums.out_slices[i], n_slices);
    else
        return sums.eighths[i] * CODE_UNIT;
}

template <int KIND, class SHAPE>
static __device__ __forceinline__ void store_rows(const struct decode_gemm &p, int job, int row,
                                                  const struct item_sums<KIND, SHAPE> &sums,
                                                  int first_token, int n_tokens, float2 bias)
{
    const int width = p.out_width[job];
    const int n_slices =
        KIND == SUMS_OF_OUT_SLICES ? (int)units_of(p.w[0].n_units, p.slice_units) : 0;

    if (row >= p.w[job].n_rows)
        return;
#pragma unroll
    for (int i = 0; i < SHAPE::SUMS / 2; i++) {
        const int token = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;

        if (token >= n_tokens)
            continue;
        if constexpr (KIND == SUMS_OF_OUT_SLICES)
            if (p.low != NULL) {
                const int64_t to = (int64_t)(first_token + token) * width + row;

                store_words(p.out[0], p.low, to, sums.out_slices[at], n_slices);
                store_words(p.out[0], p.low, to + 1, sums.out_slices[at + 2], n_slices);
                continue;
            }
        *(float2 *)(p.out[job] + (int64_t)(first_token + token) * width + row) =
            make_float2(value_of<KIND, SHAPE>(sums, at, n_slices) + bias.x,
                        value_of<KIND, SHAPE>(sums, at + 2, n_slices) + bias.y);
    }
}

template <int KIND, class SHAPE>
static __device__ __forceinline__ void consume(const struct decode_gemm &p, struct stages s,
                                               int group, int warp)
{
    const int tile_row = warp * TILE_ROWS + (int)threadIdx.x % WARP_LANES / 4 * 2;
    const struct consumer c = consumer_of<SHAPE>(group, warp, p.w[0].n_units, p.slice_units);
    struct gemm_items<SHAPE> items(p);

    for (int item = items.first; item < items.end; item++) {
        items.begin(item);
        const struct row_of_jobs at = find_row(p, items.row(group));
        const int row = at.row * UNIT_ROWS + tile_row;
        const struct decode_vector &biases = p.bias[at.job];
        const uint2 bits =
            row < p.w[at.job].n_rows ? vector_pair_bits(biases, 0, row) : make_uint2(0, 0);
        struct item_sums<KIND, SHAPE> sums;

        multiply_row<KIND, SHAPE>(&sums, c, &s, true);
        if (items.first_row + group >= items.n_rows)
            continue;
        store_rows<KIND, SHAPE>(p, at.job, row, sums, items.first_token, items.n_tokens(),
                                pair_of_bits(biases, bits));
    }
}

#endif

template <int KIND, int TOKENS, int GROUPS, int STAGE_UNITS>
static __global__ void __launch_bounds__((1 + GROUPS) * GROUP_THREADS, 1)
    gemm_wide_kernel(const __grid_constant__ struct decode_gemm p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef struct wide_shape<TOKENS, GROUPS, STAGE_UNITS> SHAPE;

    run_block<SHAPE, false>(
        [&](const struct stages &s, int warp) {
            produce<KIND, SHAPE>(gemm_items<SHAPE>(p),
                                 {p.w[0].n_units, p.slice_units,
                                  p.n_operand_rows * (int64_t)OPERAND_ROW_BYTES,
                                  EVICT_NORMAL_POLICY},
                                 s, warp);
        },
        [&](const struct stages &s, int group, int warp) {
            consume<KIND, SHAPE>(p, s, group, warp);
        });
#else
    (void)p; /* other architectures have no wgmma */
    __trap();
#endif
}

template <int KIND, int TOKENS, int GROUPS, int STAGE_UNITS>
static bool launch_shape(struct launch_list *list, const struct decode_gemm *p)
{
    typedef struct wide_shape<TOKENS, GROUPS, STAGE_UNITS> SHAPE;

    return decode_launch_of<gemm_wide_kernel<KIND, TOKENS, GROUPS, STAGE_UNITS>>(
        list, (unsigned)list->gpu->n_sms, SHAPE::THREADS, SHAPE::SHARED_BYTES, *p);
}

bool launch_decode_gemm_sm90(struct launch_list *list, const struct decode_gemm *p)
{
    if (!p->is_mxfp4 || p->heads.pages != NULL)
        return false;
    for (int i = 0; i < p->n_jobs; i++)
        if (p->w[i].n_rows % 2 != 0 || p->out_width[i] % 2 != 0)
            return false;
    /* 64 tokens halve the expansions of the LM head. The output projection has 45 rows of units: of
     * 256 tokens these would be 92 items, fewer than an H100 has SMs. */
    return p->slice_units > 0 ? launch_shape<SUMS_OF_OUT_SLICES, 32, 3, 4>(list, p)
                              : launch_shape<SUMS_OF_EIGHTHS, 64, 2, 2>(list, p);
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
