/* Stage attn_qkv of a few rows in one kernel: RMSNorm, Q, K and V projections, RoPE, and the KV
 * page write.
 *
 * Work division: a head is the 64 rows of one row of units. A block has two of its four tiles, a
 * half-head: 16 rows and the 16 rows 32 further on, which RoPE rotates together. For one row of a
 * model with more half-heads than SMs there is one block per SM, and the remaining half-heads are
 * split between two blocks each. Memory bound; with few rows bound by launch latency. */
#include <cuda_bf16.h>

#include "cuda/decode/decode.cuh"
#include "cuda/common/cluster.cuh"
#include "cuda/decode/peer_rows.cuh"
#include "cuda/common/rope_cache.cuh"

enum { HALF = DECODE_HEAD_WIDTH / 2, HALVES_OF_A_HEAD = HALF / TILE_ROWS };
static_assert(2 * (int)COLUMN_TOKENS * (int)TILE_ROWS <= (int)RING_THREADS, "one thread per pair");
static_assert((int)DECODE_HEAD_WIDTH == (int)UNIT_ROWS, "a head is a row of units");

/* The head of q, k or v that a block computes. */
struct head {
    const unsigned char *weights;
    int job, index, tile;
};

/* Half-head `half_head` of those of q, k and v. */
template <class SHAPE>
static __device__ __forceinline__ struct head head_of(const struct decode_qkv &p, int n_units,
                                                      int half_head)
{
    const int i = half_head / HALVES_OF_A_HEAD;
    struct head h;

    h.job = i < p.n_q ? 0 : i < p.n_q + p.n_kv ? 1 : 2;
    h.index = h.job == 0 ? i : h.job == 1 ? i - p.n_q : i - p.n_q - p.n_kv;
    h.tile = half_head % HALVES_OF_A_HEAD;
    h.weights = p.units[h.job] + (int64_t)(h.index * n_units) * SHAPE::UNIT_BYTES +
                h.tile * SHAPE::TILE_BYTES;
    return h;
}

static __device__ __forceinline__ const unsigned char *split_weights(const struct head &h, int)
{
    return h.weights;
}

static __device__ __forceinline__ int split_tile(const struct head &h, int)
{
    return h.tile;
}

/* A thread's pair of rows of a token: destination and rotation. */
struct pair {
    float bias_low, bias_high, cosine, sine;
    int low, high; /* element offsets from `to` */
    void *to;
};

static __device__ __forceinline__ int element_of(bool is_bf16, int which, int slot, int d)
{
    return (int)(is_bf16 ? kv_word(2, DECODE_HEAD_WIDTH, which, slot, d) * 2 +
                               (which == 0 ? d : slot) % 2
                         : kv_word(1, DECODE_HEAD_WIDTH, which, slot, d));
}

/* Depends only on weights and the batch, so it is loaded before pdl_wait(). */
static __device__ __forceinline__ struct pair pair_of(const struct decode_qkv &p,
                                                      const struct head &h, int token, int d)
{
    const int row = h.index * DECODE_HEAD_WIDTH + d, which = h.job - 1;
    struct pair pair = {vector_at(p.bias[h.job], 0, row), vector_at(p.bias[h.job], 0, row + HALF),
                        1.0f, 0.0f};

    if (h.job == 0) {
        pair.to = p.q + (int64_t)token * p.n_q * DECODE_HEAD_WIDTH;
        pair.low = row;
        pair.high = row + HALF;
        return pair;
    }
    const int position = BATCH_SLOTS(p.batch)[token], slot = position % PAGE_TOKENS;
    const struct batch_seq *seq = &BATCH_SEQS(p.batch)[BATCH_ROW_SEQ(p.batch)[token]];
    const int page = BATCH_PAGES(
        p.batch)[seq->table[p.group] + position / PAGE_TOKENS - seq->first_page[p.group]];

    pair.to = p.pages + ((int64_t)(page * 2 + which) * p.n_kv + h.index) * p.kv_half_bytes;
    pair.low = element_of(p.is_cache_bf16, which, slot, d);
    pair.high = element_of(p.is_cache_bf16, which, slot, d + HALF);
    return pair;
}

static __device__ __forceinline__ void store_pair(const struct decode_qkv &p, const struct head &h,
                                                  const struct pair &pair, float low, float high)
{
    low += pair.bias_low;
    high += pair.bias_high;
    if (h.job < 2)
        rotate_pair(&low, &high, pair.cosine, pair.sine);
    if (h.job > 0 && p.is_cache_bf16) {
        ((__nv_bfloat16 *)pair.to)[pair.low] = __float2bfloat16_rn(low);
        ((__nv_bfloat16 *)pair.to)[pair.high] = __float2bfloat16_rn(high);
        return;
    }
    ((float *)pair.to)[pair.low] = low;
    ((float *)pair.to)[pair.high] = high;
}

/* Registers per thread with an exchange: as many as fit beside a block of the down kernel. */
enum { RANKS_REGISTERS = 144 };

/* Registers per thread. Beside a block of the down kernel (256 threads of 112 registers) an SM then
 * has registers for two blocks of the one-row kernel, so that all of its blocks start early. */
static constexpr int registers_of(int kind, bool is_small)
{
    return !is_small ? 128 : kind == ROWS_ANY ? 88 : 72;
}

/* Safe without further synchronization: the sums are added to by kernels after attention, and were
 * last read by a kernel before this one. */
static __device__ __forceinline__ void clear_router_sums(const struct decode_qkv &p)
{
    uint4 *to = (uint4 *)p.router_sums;

    if (to != NULL && blockIdx.x == gridDim.x - 1 && blockIdx.y == 0)
        for (int i = threadIdx.x; i < p.n_tokens * ROUTER_ROW_SUMS / 2; i += RING_THREADS)
            to[i] = make_uint4(0, 0, 0, 0);
}

/* The other ranks of a kernel with and without an exchange. The upload sets what it reads, so that
 * it may run before pdl_wait(). */
template <bool HAS_RANKS, int AT_ONCE> struct peers_of_kernel {
    typedef struct no_peers type;
    static __device__ __forceinline__ type of(const struct decode_qkv &)
    {
        return {};
    }
};

template <int AT_ONCE> struct peers_of_kernel<true, AT_ONCE> {
    typedef struct peer_rows<AT_ONCE> type;
    static __device__ __forceinline__ type of(const struct decode_qkv &p)
    {
        return {p.peers, pair_slot_of(*p.peers, p.exchange), p.totals, p.rows.sums.poison};
    }
};

static __device__ __forceinline__ void push_sums(const struct no_peers &, const struct decode_qkv &)
{
}

template <int AT_ONCE>
static __device__ __forceinline__ void push_sums(const struct peer_rows<AT_ONCE> &peers,
                                                 const struct decode_qkv &p)
{
    push_expert_sums(peers, p.rows.sums, p.n_tokens, p.rows.n);
}

/* Of the kernels below. HAS_RANKS: one group of tokens, whose sums ranks exchange. */
template <class SHAPE, int COLS, int KIND, bool HAS_RANKS>
static __device__ __forceinline__ void project(const struct decode_qkv &p)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ __align__(16) float smem[NORM_SCRATCH];
    const int n_units = (p.rows.n + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
    const int first = (int)blockIdx.y * COLS * COLUMN_TOKENS;
    const int n_tokens = KIND == ROWS_ANY ? min(COLS * (int)COLUMN_TOKENS, p.n_tokens - first) : 1;
    const int n = n_tokens * TILE_ROWS, i = threadIdx.x;
    char *fragments = (char *)shared + SHAPE::BYTES;
    float *sums = (float *)(fragments + fragments_bytes(n_units, n_tokens));
    const struct head h = head_of<SHAPE>(p, n_units, (int)blockIdx.x);
    const int token = first + i / TILE_ROWS, d = h.tile * TILE_ROWS + i % TILE_ROWS;
    const auto peers = peers_of_kernel < HAS_RANKS,
               KIND == ROWS_ANY ? NORM_PER_THREAD / 2 : NORM_PER_THREAD > ::of(p);
    struct ring<SHAPE> ring;
    float acc[SHAPE::TILES][COLS][4];
    struct pair pair = {};

    ring_begin(&ring, (char *)shared, h, 1, n_units);
    struct rows_ready ready = ready_rows(p.rows, first, n_tokens, n_units);

    if (i < n)
        pair = pair_of(p, h, token, d);
    if (KIND != ONE_PLAIN_ROW)
        ready_expert_units(&ready, p.rows.sums);
    materialize_rows<KIND>(&ready);
    if (KIND != ROWS_ANY) /* else early blocks of attention take this kernel's SMs */
        pdl_launch_dependents();
    pdl_wait();
    push_sums(peers, p);
    if (KIND == ROWS_ANY)
        pdl_launch_dependents();
    store_norm_rows<SHAPE::IS_MXFP4, 1, KIND>(fragments, p.rows, ready, first, n_tokens, n_units,
                                              smem, peers);
    if (i < n && h.job < 2) {
        const float *rotation = p.cos_sin + token * DECODE_HEAD_WIDTH;

        pair.cosine = __ldcg(rotation + d);
        pair.sine = __ldcg(rotation + HALF + d);
    }
    multiply_split<SHAPE, COLS, 1>(acc, &ring, h, h.tile, fragments, 0, n_tokens);
    store_sums<SHAPE::TILES, COLS>(sums, acc, n_tokens);
    __syncthreads();
    if (i < n)
        store_pair(p, h, pair, sum_of_warps<SHAPE::IS_MXFP4>(sums, i, SHAPE::TILES, n_tokens),
                   sum_of_warps<SHAPE::IS_MXFP4>(sums, n + i, SHAPE::TILES, n_tokens));
    clear_router_sums(p);
    copy_wait<0>();
}

/* Grid: halves of heads, groups of 8 COLS tokens. */
template <class SHAPE, int COLS, int KIND>
static __global__ void __maxnreg__(registers_of(KIND, COLS == 1 && SHAPE::IS_MXFP4))
    qkv_kernel(const __grid_constant__ struct decode_qkv p)
{
    project<SHAPE, COLS, KIND, false>(p);
}

/* The same with an exchange between ranks within it. */
template <class SHAPE, int KIND>
static __global__ void __maxnreg__(RANKS_REGISTERS)
    qkv_ranks_kernel(const __grid_constant__ struct decode_qkv p)
{
    project<SHAPE, 1, KIND, true>(p);
}

/* With peers: all blocks must be active at once, and each has all tokens. */
static bool are_blocks_active(const struct launch_list *list, dim3 grid)
{
    return (int64_t)grid.x * grid.y <= list->gpu->n_sms && grid.y == 1;
}

template <class SHAPE, int COLS, int KIND>
static bool launch_columns(struct launch_list *list, const struct decode_qkv *p)
{
    const int n_units = (int)units_of(p->rows.n, UNIT_COLUMNS), n_max = COLS * COLUMN_TOKENS;
    const int n_tokens = p->n_tokens < n_max ? p->n_tokens : n_max;
    const int64_t shared_bytes = SHAPE::BYTES + fragments_bytes(n_units, n_tokens) +
                                 split_sums(SHAPE::TILES, n_tokens) * (int64_t)sizeof(float);

    const dim3 grid((unsigned)((p->n_q + 2 * p->n_kv) * HALVES_OF_A_HEAD),
                    (unsigned)units_of(p->n_tokens, n_max));

    const int64_t even_bytes = even_share_bytes(list->gpu, shared_bytes, (int)(grid.x * grid.y));

    if (p->peers == NULL)
        return decode_launch<qkv_kernel<SHAPE, COLS, KIND>>(list, grid, even_bytes, *p);
    if constexpr (COLS == 1)
        return are_blocks_active(list, grid) &&
               decode_launch<qkv_ranks_kernel<SHAPE, KIND>>(list, grid, even_bytes, *p);
    return false;
}

/* ---- two to four rows: a block of a cluster normalizes one of them ---- */

/* Sends row `token` of the fragments to the other blocks of the cluster, of n_blocks. */
static __device__ __forceinline__ void send_row(const char *fragments, uint32_t arrived, int token,
                                                int n_tokens, int n_units, int n_blocks)
{
    enum { PIECES = TOKEN_BLOCK_BYTES / LANE_BYTES };
    const uint32_t first = (uint32_t)__cvta_generic_to_shared(fragments);

#pragma unroll 1
    for (int i = threadIdx.x; i < n_units * UNIT_BLOCKS * PIECES; i += RING_THREADS) {
        const int at =
            (i / PIECES * n_tokens + token) * TOKEN_BLOCK_BYTES + i % PIECES * LANE_BYTES;
        const uint4 piece = *(const uint4 *)(fragments + at);

#pragma unroll
        for (int k = 1; k < DECODE_FUSED_MAX; k++)
            if (k < n_blocks) {
                const int to = (token + k) % n_blocks;

                send(mapa_address(first + at, to), mapa_address(arrived, to), piece);
            }
    }
}

/* qkv_kernel() for two to DECODE_FUSED_MAX rows with their norm, with the same bits: block r of a
 * cluster reads and normalizes row r, and sends it to the others. If each block normalized all
 * rows, one after another, this would take longer than the products. Grid: halves of heads, in
 * clusters of at least as many blocks as there are rows. */
template <class SHAPE>
static __global__ void __maxnreg__(registers_of(ROWS_ANY, SHAPE::IS_MXFP4))
    qkv_rows_kernel(const __grid_constant__ struct decode_qkv p, int n_blocks)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ __align__(16) float smem[NORM_SCRATCH];
    __shared__ uint64_t arrived_at;
    const int n_units = (p.rows.n + UNIT_COLUMNS - 1) / UNIT_COLUMNS, n_tokens = p.n_tokens;
    const int n = n_tokens * TILE_ROWS, i = threadIdx.x, row = cluster_rank();
    const bool has_row = row < n_tokens;
    const uint32_t arrived = (uint32_t)__cvta_generic_to_shared(&arrived_at);
    char *fragments = (char *)shared + SHAPE::BYTES;
    float *sums = (float *)(fragments + fragments_bytes(n_units, n_tokens));
    const struct head h = head_of<SHAPE>(p, n_units, (int)blockIdx.x);
    const int token = i / TILE_ROWS, d = h.tile * TILE_ROWS + i % TILE_ROWS;
    struct ring<SHAPE> ring;
    float acc[SHAPE::TILES][1][4];
    struct pair pair = {};

    if (i == 0)
        arrivals_init(arrived, fragments_bytes(n_units, has_row ? n_tokens - 1 : n_tokens));
    cluster_begin();
    ring_begin(&ring, (char *)shared, h, 1, n_units);
    struct rows_ready ready = ready_rows(p.rows, has_row ? row : 0, n_tokens, n_units);

    ready.y = (int)blockIdx.x < n_tokens && p.rows.y != NULL ? p.rows.y + row * p.rows.n + i : NULL;
    if (i < n)
        pair = pair_of(p, h, token, d);
    ready_expert_units(&ready, p.rows.sums);
    materialize_rows<ONE_NORMED_ROW>(&ready);
    pdl_wait();
    pdl_launch_dependents(); /* not before: blocks of attention would take this kernel's SMs */
    if (has_row)
        norm_rows<SHAPE::IS_MXFP4, 1, ROWS_ANY>(fragments + row * TOKEN_BLOCK_BYTES, p.rows, ready,
                                                row, 1, n_units, smem, no_peers());
    __syncthreads();
    cluster_wait(); /* all blocks of the cluster have started */
    if (has_row)
        send_row(fragments, arrived, row, n_tokens, n_units, n_blocks);
    if (i < n && h.job < 2) {
        const float *rotation = p.cos_sin + token * DECODE_HEAD_WIDTH;

        pair.cosine = __ldcg(rotation + d);
        pair.sine = __ldcg(rotation + HALF + d);
    }
    arrivals_wait(arrived);
    multiply_split<SHAPE, 1, 1>(acc, &ring, h, h.tile, fragments, 0, n_tokens);
    store_sums<SHAPE::TILES, 1>(sums, acc, n_tokens);
    __syncthreads();
    if (i < n)
        store_pair(p, h, pair, sum_of_warps<SHAPE::IS_MXFP4>(sums, i, SHAPE::TILES, n_tokens),
                   sum_of_warps<SHAPE::IS_MXFP4>(sums, n + i, SHAPE::TILES, n_tokens));
    clear_router_sums(p);
    copy_wait<0>();
}

/* false: there are no such rows, ranks exchange sums, or the GPU has no such clusters. */
template <class SHAPE>
static bool launch_cluster_rows(struct launch_list *list, const struct decode_qkv *p)
{
    const int n_units = (int)units_of(p->rows.n, UNIT_COLUMNS), n_tokens = p->n_tokens;
    const int n_half_heads = (p->n_q + 2 * p->n_kv) * HALVES_OF_A_HEAD;
    const int n_blocks = n_tokens <= 2 ? 2 : (int)DECODE_FUSED_MAX; /* of a cluster */
    const int64_t shared_bytes =
        even_share_bytes(list->gpu,
                         SHAPE::BYTES + fragments_bytes(n_units, n_tokens) +
                             split_sums(SHAPE::TILES, n_tokens) * (int64_t)sizeof(float),
                         n_half_heads);

    if (n_tokens < 2 || n_tokens > DECODE_FUSED_MAX || p->rows.norm.kind == VECTOR_NONE ||
        p->rows.gather != NULL || p->peers != NULL || n_half_heads % n_blocks != 0 ||
        clusters_at_once<qkv_rows_kernel<SHAPE>>(list->gpu, RING_THREADS, (unsigned)n_blocks,
                                                 shared_bytes) == 0)
        return false;
    add_dependent_clusters<qkv_rows_kernel<SHAPE>>(list, dim3((unsigned)n_half_heads), RING_THREADS,
                                                   shared_bytes, (unsigned)n_blocks, *p, n_blocks);
    if (!list->is_query && list->n > 0)
        list->launches[list->n - 1].has_max_carveout = true;
    return true;
}

/* ---- one row, one block per SM ---- */

/* Half-heads are divided evenly among the SMs: a block has one half-head, and some have half of
 * another one's rows besides: rows 2 g + half of its two tiles. All weights are resident. */
typedef ring_shape<DTYPE_MXFP4, 2, 2, WHOLE_STAGES> row_shape;

enum {
    ROW_REGISTERS = 96,        /* beside a block of decode_experts.cu */
    ROW_RANKS_REGISTERS = 112, /* the same */
    ROWS_OF_A_SPLIT = TILE_ROWS / 2,
    SPLIT_WARP = 1, /* stores the results of the split half-head */
    ROW_SUMS = RING_WARPS * row_shape::TILES * TILE_ROWS,
    SPLIT_SUMS = RING_WARPS * TILE_ROWS
};

/* Starts the copies of this warp's units. */
static __device__ __forceinline__ void copy_half_head(char *slots, const struct head &h,
                                                      int n_units)
{
#pragma unroll 1
    for (int unit = threadIdx.x / WARP_LANES; unit < n_units; unit += RING_WARPS) {
        copy_tiles<row_shape>(slots, h.weights + (int64_t)unit * row_shape::UNIT_BYTES, h.tile);
        slots += row_shape::STAGE_BYTES;
    }
}

/* acc += rows 2 g + half of both tiles of a unit times the row: rows of the first tile are rows 0
 * to 7 of the MMA. */
static __device__ __forceinline__ void multiply_half(float acc[4],
                                                     const struct unit_regs<row_shape> &unit,
                                                     const char *fragments, int half)
{
    const int group = threadIdx.x % WARP_LANES / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        uint4 b = make_uint4(0, 0, 0, 0);
        uint32_t words[row_shape::TILES];

        if (group == 0)
            b = *(const uint4 *)(fragments + block * TOKEN_BLOCK_BYTES + t * LANE_BYTES);
#pragma unroll
        for (int i = 0; i < row_shape::TILES; i++)
            words[i] = half == 0 ? (block == 0 ? unit.words[i].x : unit.words[i].z)
                                 : (block == 0 ? unit.words[i].y : unit.words[i].w);
        multiply_mxfp4(acc, words[0], words[1], scale_at(unit.scales[0] >> half * 8, block * 2),
                       scale_at(unit.scales[1] >> half * 8, block * 2), b);
    }
}

/* A warp's sums: of its block's half-head, and of the split one. */
struct row_acc {
    float at[row_shape::TILES][1][4], split[1][1][4];
};

/* This warp's units of the half-head times the row. */
static __device__ __forceinline__ void multiply_row(struct row_acc *acc, const char *slot, int tile,
                                                    const char *fragments, int n_units)
{
#pragma unroll 1
    for (int unit = threadIdx.x / WARP_LANES; unit < n_units; unit += RING_WARPS) {
        struct unit_regs<row_shape> regs;

        load_unit_regs<row_shape>(&regs, slot, tile);
        multiply_unit<row_shape, 1, 1>(acc->at, regs,
                                       fragments + unit * UNIT_BLOCKS * TOKEN_BLOCK_BYTES, 0, 1);
        slot += row_shape::STAGE_BYTES;
    }
}

/* The same of the split half-head. */
static __device__ __forceinline__ void multiply_split_rows(struct row_acc *acc, const char *slot,
                                                           int tile, int half,
                                                           const char *fragments, int n_units)
{
#pragma unroll 1
    for (int unit = threadIdx.x / WARP_LANES; unit < n_units; unit += RING_WARPS) {
        struct unit_regs<row_shape> regs;

        load_unit_regs<row_shape>(&regs, slot, tile);
        multiply_half(acc->split[0][0], regs, fragments + unit * UNIT_BLOCKS * TOKEN_BLOCK_BYTES,
                      half);
        slot += row_shape::STAGE_BYTES;
    }
}

/* Where a thread finds the sums of its pair of rows. */
struct pair_sums {
    const float *sums;
    int low, high, n_tiles;
};

/* Of the kernels below. */
template <bool HAS_RANKS>
static __device__ __forceinline__ void project_row(const struct decode_qkv &p, int n_split)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ __align__(16) float smem[NORM_SCRATCH];
    const int n_units = (p.rows.n + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
    const int block = (int)blockIdx.x, half = block % 2, i = threadIdx.x;
    const int warp = i / WARP_LANES, lane = i % WARP_LANES;
    const bool has_split = block < 2 * n_split;
    char *slots = (char *)shared + warp * row_shape::WARP_BYTES;
    char *fragments = (char *)shared + 2 * row_shape::BYTES;
    float *sums = (float *)(fragments + fragments_bytes(n_units, 1));
    const struct head first = head_of<row_shape>(p, n_units, block);
    const struct head second = head_of<row_shape>(p, n_units, (int)gridDim.x + block / 2);
    const bool is_second = warp == SPLIT_WARP;
    const bool stores = is_second ? has_split && lane < ROWS_OF_A_SPLIT : i < TILE_ROWS;
    const struct head h = is_second ? second : first;
    const int d = h.tile * TILE_ROWS + (is_second ? 2 * lane + half : lane);
    const struct pair_sums from = {is_second ? sums + ROW_SUMS : sums, is_second ? 2 * lane : lane,
                                   is_second ? 2 * lane + 1 : TILE_ROWS + lane, is_second ? 1 : 2};
    const auto peers = peers_of_kernel<HAS_RANKS, NORM_PER_THREAD>::of(p);
    struct row_acc acc = {};
    struct pair pair = {};

    copy_half_head(slots, first, n_units);
    if (has_split)
        copy_half_head(slots + row_shape::BYTES, second, n_units);
    copy_commit();
    struct rows_ready ready = ready_rows(p.rows, 0, 1, n_units);

    if (stores)
        pair = pair_of(p, h, 0, d);
    ready_expert_units(&ready, p.rows.sums);
    materialize_rows<ONE_NORMED_ROW>(&ready);
    pdl_launch_dependents();
    pdl_wait();
    push_sums(peers, p);
    store_norm_rows<true, 1, ONE_NORMED_ROW>(fragments, p.rows, ready, 0, 1, n_units, smem, peers);
    if (stores && h.job < 2) {
        pair.cosine = __ldcg(p.cos_sin + d);
        pair.sine = __ldcg(p.cos_sin + HALF + d);
    }
    copy_wait<0>();
    __syncwarp();
    multiply_row(&acc, slots, first.tile, fragments, n_units);
    if (has_split)
        multiply_split_rows(&acc, slots + row_shape::BYTES, second.tile, half, fragments, n_units);
    store_sums<row_shape::TILES, 1>(sums, acc.at, 1);
    if (has_split)
        store_sums<1, 1>(sums + ROW_SUMS, acc.split, 1);
    __syncthreads();
    if (stores)
        store_pair(p, h, pair, sum_of_warps<true>(from.sums, from.low, from.n_tiles, 1),
                   sum_of_warps<true>(from.sums, from.high, from.n_tiles, 1));
    clear_router_sums(p);
}

/* Grid: blocks b have half-head b; those below 2 n_split also have half b % 2 of half-head
 * gridDim.x + b / 2. */
static __global__ void __maxnreg__(ROW_REGISTERS)
    qkv_row_kernel(const __grid_constant__ struct decode_qkv p, int n_split)
{
    project_row<false>(p, n_split);
}

/* The same with an exchange between ranks within it. */
static __global__ void __maxnreg__(ROW_RANKS_REGISTERS)
    qkv_row_ranks_kernel(const __grid_constant__ struct decode_qkv p, int n_split)
{
    project_row<true>(p, n_split);
}

/* false: the half-heads cannot be divided so. */
static bool launch_row(struct launch_list *list, const struct decode_qkv *p)
{
    const int n_units = (int)units_of(p->rows.n, UNIT_COLUMNS), n_sms = list->gpu->n_sms;
    const int n_half_heads = (p->n_q + 2 * p->n_kv) * HALVES_OF_A_HEAD;
    const int n_blocks = n_half_heads < n_sms ? n_half_heads : n_sms;
    const int n_split = n_half_heads - n_blocks;
    const int64_t shared_bytes = 2 * row_shape::BYTES + fragments_bytes(n_units, 1) +
                                 (ROW_SUMS + SPLIT_SUMS) * (int64_t)sizeof(float);

    if (!gpu_has_pdl(list->gpu) || 2 * n_split > n_blocks || n_units > WHOLE_STAGES * RING_WARPS)
        return false;
    const dim3 grid((unsigned)n_blocks);
    const int64_t even_bytes = even_share_bytes(list->gpu, shared_bytes, n_blocks);

    return p->peers == NULL
               ? decode_launch<qkv_row_kernel>(list, grid, even_bytes, *p, n_split)
               : decode_launch<qkv_row_ranks_kernel>(list, grid, even_bytes, *p, n_split);
}

template <class SHAPE>
static bool launch_shape(struct launch_list *list, const struct decode_qkv *p)
{
    if (p->n_tokens == 1 && p->rows.norm.kind != VECTOR_NONE)
        return launch_columns<SHAPE, 1, ONE_NORMED_ROW>(list, p);
    if (launch_cluster_rows<SHAPE>(list, p))
        return true;
    return p->n_tokens <= COLUMN_TOKENS ? launch_columns<SHAPE, 1, ROWS_ANY>(list, p)
                                        : launch_columns<SHAPE, 2, ROWS_ANY>(list, p);
}

bool launch_decode_qkv(struct launch_list *list, const struct decode_qkv *p)
{
    if (p->is_mxfp4 && p->n_tokens == 1 && p->rows.norm.kind != VECTOR_NONE && launch_row(list, p))
        return true;
    return p->is_mxfp4 ? launch_shape<ring_shape<DTYPE_MXFP4, 2, 2, 6>>(list, p)
                       : launch_shape<ring_shape<DTYPE_BF16, 2, 2, 3>>(list, p);
}
