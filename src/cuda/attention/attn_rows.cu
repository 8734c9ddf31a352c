/* Paged attention for the decode rows of steps in which a sequence has several: a token and drafts
 * that are verified. A block has a tile of rows of one sequence (attn_tiles.h), one key/value head
 * and one split of the keys. It copies its keys and values once, and processes one row after the
 * other with the operations of attn_decode.cu in the same order, so the bits of a row depend
 * neither on the other rows of its tile nor on where the tile begins.
 *
 * Each warp converts one row's query for all warps. Two buffers for the partial sums of the warps,
 * so that one barrier a row is enough. The splits of a row are merged in global memory
 * (attn_merge.cuh), by the block of another split for each row of the tile, so that the merges run
 * at the same time.
 *
 * Only for rows with at most two units a warp (ATTN_TILED_UNITS_MAX, 8,192 keys): these stay in
 * shared memory for all rows.
 *
 * Traffic: the keys and values that a tile sees, once. Bound by latency and by instructions. An SM
 * has room for two blocks, or for one beside a block of out_kernel. A block needs 110,592 bytes of
 * shared memory with BF16 pages: sm_120 and sm_121 have 101,376, and use attn_decode.cu. */
#include "cuda/attention/attn_merge.cuh"
#include "cuda/attention/attn_tiles.h"

enum {
    PAIR = 2,    /* units of a warp, which share a softmax step */
    BUFFERS = 2, /* of partial sums */
    SCRATCH_BYTES = ATTN_HEADS * HEAD_STRIDE * (int)sizeof(float),
    BUFFER_BYTES = WARPS * SCRATCH_BYTES,
    QUERY_PIECES = QUERY_TERMS * STEPS * 2 / 4, /* of 16 bytes, per lane */
    QUERY_BYTES = QUERY_PIECES * WARP_LANES * (int)sizeof(uint4)
};
static_assert((int)QUERY_BYTES <= (int)BUFFER_BYTES, "the first query lies in the last buffer");

/* The rows of a block. */
struct tile {
    int first_row, n_rows;
};

/* Tile `blockIdx.z` of the launch. Returns false if there are fewer. */
static __device__ __forceinline__ bool tile_of_block(struct tile *t, const struct attn_launch &l)
{
    const int lane = threadIdx.x % WARP_LANES;
    const bool is_row = lane < l.n_rows;
    const int row = is_row ? lane : 0;
    const struct batch_seq *seq = &l.rows.seqs[l.rows.row_seq[row]];
    /* the lane behind the last row ends the last tile */
    const unsigned begins =
        __ballot_sync(ALL_LANES, !is_row || attn_begins_tile(row - seq->first_row, seq->n_rows,
                                                             l.tile_rows, l.rows.positions[row]));
    const bool is_mine = is_row && (begins >> lane & 1) != 0 &&
                         __popc(begins & ((1u << lane) - 1)) == (int)blockIdx.z;
    const unsigned mine = __ballot_sync(ALL_LANES, is_mine);

    if (mine == 0)
        return false;
    t->first_row = __ffs((int)mine) - 1;
    t->n_rows = __ffs((int)(begins >> (t->first_row + 1)));
    return true;
}

/* Moves to row n of the tile, of which k has the first. */
static __device__ __forceinline__ struct block row_of_tile(struct block k, int n)
{
    k.row += n;
    k.end += n;
    k.unit_end = attn_units(0, k.end);
    return k;
}

template <int DTYPE> static __device__ __forceinline__ char *ring_of(char *rings, int i)
{
    return rings + (i * WARPS + (int)threadIdx.x / WARP_LANES) * unit<DTYPE>::BYTES;
}

/* Copies the warp's units that earlier steps wrote, or those that this step writes. */
template <int DTYPE>
static __device__ __forceinline__ void copy_units(char *rings, const struct source &from,
                                                  const struct block &k, int first,
                                                  const int32_t pages[PAIR], bool are_written)
{
#pragma unroll
    for (int i = 0; i < PAIR; i++)
        if (is_written(k, first + i * k.step) == are_written)
            copy_unit<DTYPE>(ring_of<DTYPE>(rings, i), from, pages[i],
                             first + i * k.step < k.unit_end);
}

/* ---- queries in shared memory: that of row 0 in the second buffer of sums, which is written when
 * all warps have processed row 0; the others behind it ---- */

static __device__ __forceinline__ uint4 *query_at(char *buffers, int row)
{
    char *at = row == 0 ? buffers + (BUFFERS - 1) * BUFFER_BYTES
                        : buffers + BUFFERS * BUFFER_BYTES + (row - 1) * QUERY_BYTES;

    return (uint4 *)at + threadIdx.x % WARP_LANES;
}

static __device__ __forceinline__ void keep_query(uint4 *to, const struct query &q)
{
    const uint32_t *words = &q.partials[0][0][0];

#pragma unroll
    for (int i = 0; i < QUERY_PIECES; i++)
        to[i * WARP_LANES] =
            make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
}

static __device__ __forceinline__ void read_query(struct query *q, const uint4 *from)
{
    uint32_t *words = &q->partials[0][0][0];

#pragma unroll
    for (int i = 0; i < QUERY_PIECES; i++) {
        const uint4 v = from[i * WARP_LANES];

        words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
    }
}

/* ---- merging: attn_merge.cuh, for all rows of a tile ---- */

/* Lane n has the header of row n's buffer. */
static __device__ __forceinline__ struct attn_merge_header
headers_of_lanes(const struct attn_launch &l, const struct tile &t)
{
    const int lane = threadIdx.x % WARP_LANES;
    const uint4 words =
        __ldcg((const uint4 *)merge_buf_of(l, t.first_row + min(lane, t.n_rows - 1)));

    return {words.x, words.y, words.z, words.w};
}

/* The split whose block merges row n of a tile. */
static __device__ __forceinline__ bool is_merger(const struct block &k, int n)
{
    return (int)blockIdx.x == k.n_splits - 1 - n % k.n_splits;
}

/* Merges row n if all its partials arrive within n_polls reads. */
static __device__ __forceinline__ bool merge_row(const struct attn_launch &l,
                                                 const struct block &first, int n, uint32_t tag,
                                                 int n_polls, float sink)
{
    const struct block k = row_of_tile(first, n);
    char *buf = merge_buf_of(l, k.row);
    struct sums sums;

    if (!__syncthreads_and(sum_splits(&sums, buf, k.n_splits, tag, n_polls)))
        return false;
    finish(l, k, sums, sink, threadIdx.x / WARP_LANES);
    merge_end(buf, tag);
    return true;
}

/* Merges the rows that are this block's, and deferred ones whose last partials are this block's:
 * merge_splits(), where thread n reads and writes the header of row n. */
static __device__ __forceinline__ void merge_tile(const struct attn_launch &l,
                                                  const struct block &k, const struct tile &t,
                                                  struct attn_merge_header headers, float sink)
{
    const int thread = threadIdx.x;
    unsigned missing = 0; /* rows of this block that were not merged */
    bool is_deferred = false;

#pragma unroll 1
    for (int n = k.n_splits - 1 - (int)blockIdx.x; n < t.n_rows; n += k.n_splits) {
        const uint32_t tag = merge_tag(__shfl_sync(ALL_LANES, headers.n_uses, n));
        const bool is_impatient = __shfl_sync(ALL_LANES, headers.is_impatient, n) != 0;

        if (is_impatient || !merge_row(l, k, n, tag, MERGE_POLLS_MAX, sink))
            missing |= 1u << n;
    }
    __syncthreads(); /* all threads have published */
    if (thread < t.n_rows) {
        char *buf = merge_buf_of(l, k.row + thread);
        const uint32_t tag = merge_tag(headers.n_uses);

        if ((missing >> thread & 1) != 0)
            *deferred_of(buf) = tag;
        __threadfence();
        is_deferred =
            is_merger(k, thread) ? (missing >> thread & 1) != 0 : *deferred_of(buf) == tag;
    }
    if (!__syncthreads_or(is_deferred))
        return;
#pragma unroll 1
    for (int n = 0; n < t.n_rows; n++)
        if (__syncthreads_or(is_deferred && thread == n))
            (void)merge_row(l, k, n, merge_tag(__shfl_sync(ALL_LANES, headers.n_uses, n)), 1, sink);
}

/* ---- the kernel ---- */

/* The partial sums of a row's split: the warp's head. */
template <int DTYPE>
static __device__ __forceinline__ struct sums sum_row(struct shared *s, char *rings, char *buffer,
                                                      const uint4 *query, const struct block &k,
                                                      float scale)
{
    const int warp = threadIdx.x / WARP_LANES, first = k.unit + warp;
    char *const at[PAIR] = {ring_of<DTYPE>(rings, 0), ring_of<DTYPE>(rings, 1)};
    struct state st = {{}, {-INFINITY, -INFINITY}, {}};
    struct query q;

    read_query(&q, query);
    if (first < k.unit_end)
        add_units<DTYPE, PAIR>(&st, q, at, k, first, scale);
    store_sums(s, buffer + warp * SCRATCH_BYTES, &st, warp);
    __syncthreads();
    return sum_warps<DTYPE>(s, buffer, SCRATCH_BYTES, warp);
}

/* Grid: splits, blocks per row, tiles. The kernel report identifies decode attention by this
 * function name, and this kernel by ROWS, the rows of a tile at most. */
template <int DTYPE, int ROWS>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    attn_decode(const __grid_constant__ struct attn_launch l)
{
    extern __shared__ __align__(16) char rings[];
    __shared__ struct shared s[BUFFERS];
    char *const buffers = rings + PAIR * WARPS * unit<DTYPE>::BYTES;
    const int warp = threadIdx.x / WARP_LANES;
    const float scale = l.args.scale * LOG2_E * result_scale<DTYPE>();
    int32_t pages[PAIR];
    struct attn_merge_header headers = {};
    struct block k;
    struct tile t;

    pdl_launch_dependents();
    if (!tile_of_block(&t, l) || !block_of_row(&k, l, t.first_row, blockIdx.y % head_parts(l))) {
        if (blockIdx.x + blockIdx.y + blockIdx.z == 0)
            pdl_wait(); /* a kernel that waits for this one must also wait for the earlier ones */
        return;
    }
    const float sink = load_sink(l, k, warp);
    const int first = k.unit + warp;
    const struct block last = row_of_tile(k, t.n_rows - 1), mine = row_of_tile(k, warp);
    const struct source from = source_of<DTYPE>(k, first);
    const float *head = query_of_block(l, mine);

#pragma unroll
    for (int i = 0; i < PAIR; i++)
        pages[i] = page_of(last, first + i * k.step);
    copy_units<DTYPE>(rings, from, last, first, pages, false);
    materialize(head);
    pdl_wait();
    copy_units<DTYPE>(rings, from, last, first, pages, true);
    if (k.n_splits > 1)
        headers = headers_of_lanes(l, t);
    if (warp < t.n_rows) {
        struct query q;

        load_query<DTYPE>(&q, head, mine);
        keep_query(query_at(buffers, warp), q);
    }
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll 1
    for (int n = 0; n < t.n_rows; n++) {
        const struct block row = row_of_tile(k, n);
        const struct sums sums =
            sum_row<DTYPE>(&s[n % BUFFERS], rings, buffers + n % BUFFERS * BUFFER_BYTES,
                           query_at(buffers, n), row, scale);

        if (k.n_splits > 1)
            publish_split(merge_buf_of(l, row.row), sums,
                          merge_tag(__shfl_sync(ALL_LANES, headers.n_uses, n)));
        else
            finish(l, row, sums, sink, warp);
    }
    if (k.n_splits > 1)
        merge_tile(l, k, t, headers, sink);
}

template <int DTYPE> static bool launch_dtype(struct launch_list *list, const struct attn_launch *l)
{
    const int shared_bytes = PAIR * WARPS * unit<DTYPE>::BYTES + BUFFERS * BUFFER_BYTES +
                             (l->tile_rows - 1) * QUERY_BYTES;

    if (shared_bytes + BUFFERS * (int)sizeof(struct shared) > list->gpu->shared_per_block)
        return false;
    add_dependent<attn_decode<DTYPE, ATTN_TILE_ROWS>>(
        list,
        dim3((unsigned)l->n_splits, (unsigned)attn_row_blocks(&l->args), (unsigned)l->n_tiles),
        dim3(THREADS), shared_bytes, *l);
    return true;
}

bool launch_attn_rows(struct launch_list *list, const struct attn_launch *l)
{
    if (l->n_tiles == 0 || l->n_scanned > 0 || l->n_splits == 1 || l->args.window_tokens > 0 ||
        l->n_units > ATTN_TILED_UNITS_MAX)
        return false;
    return l->args.kv.dtype == DTYPE_F8 ? launch_dtype<DTYPE_F8>(list, l)
                                        : launch_dtype<DTYPE_BF16>(list, l);
}
