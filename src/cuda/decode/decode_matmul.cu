/* Decode GEMM of a few tokens with a BF16 or MXFP4 matrix: attn_out, router, LM head.
 *
 *     out[t][r] = or += sum over k of W[r][k] norm(x[t])[k] + b[r]
 *
 * Work division: a block takes items of 16 TILES rows, all columns, one after the other. It issues
 * the first item's weight copies before griddepcontrol.wait. Traffic: the weights, once. Memory
 * bound; for matrices with few rows bound by launch latency. */
#include "cuda/decode/decode.cuh"

enum { BLOCKS_OF_A_PROCESSOR = 2, BUFFERS = 2 };

/* Blocks per SM, which limits registers per thread. Where shared memory only fits one block of the
 * largest kernel, that block may use all registers. */
static constexpr int blocks_at_once(int n_sums)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
    return n_sums > 32 ? 1 : n_sums > 8 ? 2 : 3;
#else
    return n_sums > 16 ? 2 : 3;
#endif
}

/* The items of a block: every gridDim.x-th group of TILES tiles. */
template <class SHAPE> struct items {
    const unsigned char *weights;
    int n_units;
};

static __device__ __forceinline__ int item_of(int part)
{
    return blockIdx.x + part * gridDim.x;
}

template <class SHAPE>
static __device__ __forceinline__ int split_tile(const struct items<SHAPE> &, int part)
{
    return item_of(part) % (UNIT_TILES / SHAPE::TILES) * SHAPE::TILES;
}

template <class SHAPE>
static __device__ __forceinline__ const unsigned char *
split_weights(const struct items<SHAPE> &items, int part)
{
    return items.weights +
           (int64_t)(item_of(part) / (UNIT_TILES / SHAPE::TILES) * items.n_units) *
               SHAPE::UNIT_BYTES +
           split_tile(items, part) * SHAPE::TILE_BYTES;
}

/* What a thread stores of an item: sum number `sum` of a row and token; NULL: it stores nothing. */
struct out_pos {
    float *out;
    int row;
};

template <class SHAPE>
static __device__ __forceinline__ struct out_pos out_pos_at(const struct decode_matmul &p, int sum,
                                                            int part, int first, int n_tokens)
{
    const int at = sum / TILE_ROWS, tile = at / n_tokens, token = at - tile * n_tokens;
    const int row = (item_of(part) * SHAPE::TILES + tile) * TILE_ROWS + sum % TILE_ROWS;

    if (tile >= SHAPE::TILES || row >= p.w.n_rows)
        return out_pos{NULL, 0};
    return out_pos{p.out + (int64_t)(first + token) * p.out_width + row, row};
}

/* Stores element i of attn_out as words, if it is for other ranks to add to. */
template <class SHAPE>
static __device__ __forceinline__ bool
stored_words(const struct decode_matmul &p, const float *sums, int i, float *to, int n_tokens)
{
    if constexpr (SHAPE::IS_SLICED)
        if (p.low != NULL) {
            store_words(p.out, p.low, to - p.out,
                        out_sum_of_slices<SHAPE::IS_MXFP4>(sums, i, SHAPE::TILES, n_tokens),
                        RING_WARPS);
            return true;
        }
    return false;
}

/* Grid: blocks that share the items, groups of TOKENS tokens. */
template <class SHAPE, int TOKENS, int TERMS, int KIND>
static __global__ void __launch_bounds__(RING_THREADS, blocks_at_once(SHAPE::TILES *TOKENS))
    decode_matmul_kernel(const __grid_constant__ struct decode_matmul p, int n_items)
{
    enum { COLS = (TOKENS + COLUMN_TOKENS - 1) / COLUMN_TOKENS };
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ __align__(16) float smem[NORM_SCRATCH];
    const int n_units = p.w.n_units;
    const int first = (int)blockIdx.y * TOKENS;
    const int n_tokens =
        KIND == ROWS_ANY ? min((int)TOKENS, live_rows(p.n_live, p.n_tokens) - first) : 1;
    const int term_bytes = fragments_bytes(n_units, n_tokens);
    char *fragments = (char *)shared + SHAPE::BYTES;
    float *sums = (float *)(fragments + TERMS * term_bytes);
    const struct items<SHAPE> items = {
        p.w.units, n_units
    };
    const int n_parts = (n_items - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    struct ring<SHAPE> ring;

    if (KIND == ROWS_ANY && n_tokens <= 0) /* all tokens of the group are padding */
        return;
    ring_begin(&ring, (char *)shared, items, n_parts, n_units, p.slice_units);
    struct rows_ready ready = ready_rows(p.rows, first, n_tokens, n_units);
    /* The previous value of this thread's first output. */
    const struct out_pos mine = out_pos_at<SHAPE>(p, threadIdx.x, 0, first, n_tokens);
    const float bias = mine.out != NULL ? vector_at(p.bias, 0, mine.row) : 0.0f;
    float before = 0.0f;

    materialize_rows<KIND>(&ready);
    pdl_wait();
    pdl_launch_dependents();
    store_norm_rows<SHAPE::IS_MXFP4, TERMS, KIND>(fragments, p.rows, ready, first, n_tokens,
                                                  n_units, smem);
    if (p.adds && mine.out != NULL)
        before = __ldcg(mine.out); /* overlaps with the MMAs */
    for (int part = 0; part < n_parts; part++) {
        float *sums_of_split = sums + part % BUFFERS * split_sums(SHAPE::TILES, n_tokens);
        float acc[SHAPE::TILES][COLS][4];

        multiply_split<SHAPE, COLS, TERMS>(acc, &ring, items, split_tile(items, part), fragments,
                                           term_bytes, n_tokens);
        store_sums<SHAPE::TILES, COLS>(sums_of_split, acc, n_tokens);
        __syncthreads();
        for (int i = threadIdx.x; i < SHAPE::TILES * n_tokens * TILE_ROWS; i += RING_THREADS) {
            const bool is_mine = part == 0 && i == (int)threadIdx.x;
            const struct out_pos to =
                KIND != ROWS_ANY && is_mine ? mine : out_pos_at<SHAPE>(p, i, part, first, n_tokens);
            float sum;

            if (to.out == NULL || stored_words<SHAPE>(p, sums_of_split, i, to.out, n_tokens))
                continue;
            sum = sum_of_split<SHAPE>(sums_of_split, i, SHAPE::TILES, n_tokens) +
                  (is_mine ? bias : vector_at(p.bias, 0, to.row));
            if (p.adds)
                sum = (is_mine ? before : __ldcg(to.out)) + sum;
            *to.out = sum;
        }
    }
    copy_wait<0>();
}

template <class SHAPE, int TOKENS, int TERMS, int KIND>
static bool launch_kind(struct launch_list *list, const struct decode_matmul *p)
{
    const int n_processors = list->gpu->n_sms;
    const int n_units = p->w.n_units;
    const int n_items = (int)units_of(p->w.n_rows, SHAPE::TILES * TILE_ROWS);
    const int n_blocks_max = BLOCKS_OF_A_PROCESSOR * n_processors;
    const int n_tokens = p->n_tokens < TOKENS ? p->n_tokens : TOKENS;
    const int64_t shared_bytes =
        SHAPE::BYTES + TERMS * fragments_bytes(n_units, n_tokens) +
        BUFFERS * split_sums(SHAPE::TILES, n_tokens) * (int64_t)sizeof(float);

    return decode_launch<decode_matmul_kernel<SHAPE, TOKENS, TERMS, KIND>>(
        list,
        dim3((unsigned)(n_items < n_blocks_max ? n_items : n_blocks_max),
             (unsigned)units_of(p->n_tokens, TOKENS)),
        shared_bytes, *p, n_items);
}

template <class SHAPE, int TOKENS, int TERMS>
static bool launch_tokens(struct launch_list *list, const struct decode_matmul *p)
{
    if constexpr (TOKENS <= COLUMN_TOKENS) {
        if constexpr (!SHAPE::IS_SLICED)
            if (p->n_tokens == 1 && p->rows.norm.kind != VECTOR_NONE)
                return launch_kind<SHAPE, TOKENS, TERMS, ONE_NORMED_ROW>(list, p);
        if (TERMS == 1 && p->n_tokens == 1)
            return launch_kind < SHAPE, TOKENS, TERMS,
                   TERMS == 1 ? ONE_PLAIN_ROW : ROWS_ANY > (list, p);
    }
    return launch_kind<SHAPE, TOKENS, TERMS, ROWS_ANY>(list, p);
}

template <class SHAPE>
static bool launch_shape(struct launch_list *list, const struct decode_matmul *p)
{
    return p->n_tokens <= COLUMN_TOKENS ? launch_tokens<SHAPE, COLUMN_TOKENS, 1>(list, p)
                                        : launch_tokens<SHAPE, 2 * COLUMN_TOKENS, 1>(list, p);
}

/* Matrices of many rows are read by whole units. attn_out has slices, and one plain row or a few
 * rows. */
static bool launch(struct launch_list *list, const struct decode_matmul *p)
{
    enum { ROWS_OF_WHOLE_UNITS = 16384, EXACT_TOKENS = 4, EXACT_TERMS = 3 };
    const bool is_long = p->w.n_rows >= ROWS_OF_WHOLE_UNITS;

    if (p->slice_units > 0)
        return p->is_mxfp4
                   ? launch_tokens<sliced_shape<DTYPE_MXFP4, 1, 1, 8>, COLUMN_TOKENS, 1>(list, p)
                   : launch_tokens<sliced_shape<DTYPE_BF16, 1, 1, 4>, COLUMN_TOKENS, 1>(list, p);
    if (p->is_mxfp4)
        return is_long ? launch_shape<ring_shape<DTYPE_MXFP4, 4, 1, 3>>(list, p)
                       : launch_shape<ring_shape<DTYPE_MXFP4, 1, 1, 8>>(list, p);
    if (p->is_exact)
        return launch_tokens<ring_shape<DTYPE_BF16, 1, 1, 6>, EXACT_TOKENS, EXACT_TERMS>(list, p);
    return is_long ? launch_shape<ring_shape<DTYPE_BF16, 2, 1, 3>>(list, p)
                   : launch_shape<ring_shape<DTYPE_BF16, 1, 1, 4>>(list, p);
}

bool launch_decode_matmul(struct launch_list *list, const struct decode_matmul *p)
{
    return launch(list, p);
}

bool decode_matmul_fits(struct launch_list *list, const struct decode_matmul *p)
{
    bool fits;

    list->is_query = true;
    fits = launch(list, p);
    list->is_query = false;
    return fits;
}
