/* Stage route of 17 and more generated rows: the router's BF16 matrix times rows in three terms, and the choice of
 * each row's experts, in one kernel, with the bits of decode_product.cu and of the choice elsewhere.
 *
 * By clusters of eight blocks: a block has an eighth of the columns, all experts and TOKENS
 * tokens, of which it adds up one, whose experts it then chooses. Where the join in front is left to this kernel, it does
 * that for its token, too, and puts the row's columns where they are multiplied, into the shared memory of all eight.
 * A warp has a tile of 16 experts. The weights are asked for before the kernel in front has ended. Bound by latency. */
#include "cuda/choose.cuh"
#include "cuda/cluster.cuh"
#include "cuda/columns.cuh"
#include "cuda/norm_weights.cuh"

enum {
    EIGHTHS = RING_WARPS,
    TOKENS = EIGHTHS, /* of a cluster: one a block */
    TERMS = 3,
    TILE_PIECES = BF16_TILE_BYTES / (WARP_LANES * LANE_BYTES),
    TERM_BLOCK_BYTES = TOKENS * TOKEN_BLOCK_BYTES,
    UNIT_TERM_BYTES = UNIT_BLOCKS * TERM_BLOCK_BYTES,
    UNIT_TERMS_BYTES = TERMS * UNIT_TERM_BYTES
};
static_assert((int)TOKENS == (int)COLUMN_TOKENS, "a column of products");
static_assert((int)DECODE_EXPERTS_MAX == RING_WARPS * TILE_ROWS, "a warp a tile");

static inline HOST_DEVICE int units_of_eighth(int n_units, int rank)
{
    return (n_units - rank + EIGHTHS - 1) / EIGHTHS;
}

static inline HOST_DEVICE int tiles_of(const struct decode_route &p)
{
    return (p.n_experts + TILE_ROWS - 1) / TILE_ROWS;
}

/* Weights (warp, unit), then tokens (unit, term, block, token, 32 numbers). */
static inline HOST_DEVICE int weights_bytes(const struct decode_route &p)
{
    return tiles_of(p) * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
}

static inline HOST_DEVICE int shared_bytes(const struct decode_route &p)
{
    return weights_bytes(p) + units_of_eighth(p.w.n_units, 0) * UNIT_TERMS_BYTES;
}

/* ---- weights and tokens ---- */

/* Asks for this warp's tile of all units of the eighth. */
static __device__ __forceinline__ void fill_tiles(uint32_t to, const struct decode_route &p,
                                                  int rank, int n_units)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const unsigned char *from =
        p.w.units + (int64_t)(warp / UNIT_TILES * p.w.n_units + rank) * BF16_UNIT_BYTES +
        warp % UNIT_TILES * BF16_TILE_BYTES + lane * LANE_BYTES;

    for (int unit = 0; unit < n_units; unit++) {
#pragma unroll
        for (int i = 0; i < TILE_PIECES; i++)
            copy_at(to + (i * WARP_LANES + lane) * LANE_BYTES, from + i * WARP_LANES * LANE_BYTES);
        to += BF16_TILE_BYTES;
        from += EIGHTHS * BF16_UNIT_BYTES;
    }
}

/* The tokens' columns of the eighth, each number as the sum of three; zeros where there is none. */
static __device__ __forceinline__ void split_tokens(char *to, const struct decode_route &p,
                                                    int rank, int n_units)
{
    enum { AT_ONCE = 2, UNIT_ITEMS = UNIT_PIECES * TOKENS };
    const int first = (int)blockIdx.x / EIGHTHS * TOKENS, n = n_units * UNIT_ITEMS;

    for (int i0 = threadIdx.x; i0 < n; i0 += RING_THREADS * AT_ONCE) {
        float v[AT_ONCE][PIECE];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, token = first + i % UNIT_ITEMS / UNIT_PIECES;
            const int k =
                (rank + i / UNIT_ITEMS * EIGHTHS) * UNIT_COLUMNS + i % UNIT_PIECES * PIECE;
            const bool is_there = i < n && token < p.n_tokens && k < p.rows.n;
            const float4 *from =
                (const float4 *)(p.rows.x + (is_there ? (int64_t)token * p.rows.n + k : 0));

            ((float4 *)v[j])[0] = is_there ? __ldcg(from) : make_float4(0, 0, 0, 0);
            ((float4 *)v[j])[1] = is_there ? __ldcg(from + 1) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, piece = i % UNIT_PIECES;
            char *at = to + i / UNIT_ITEMS * UNIT_TERMS_BYTES +
                       piece / BLOCK_PIECES * TERM_BLOCK_BYTES +
                       i % UNIT_ITEMS / UNIT_PIECES * TOKEN_BLOCK_BYTES +
                       piece % BLOCK_PIECES * LANE_BYTES;

#pragma unroll
            for (int term = 0; term < TERMS && i < n; term++)
                *(uint4 *)(at + term * UNIT_TERM_BYTES) = make_uint4(
                    take_bf16(v[j]), take_bf16(v[j] + 2), take_bf16(v[j] + 4), take_bf16(v[j] + 6));
        }
    }
}

/* ---- the join ---- */

/* Where piece `piece` of unit `unit` lies in its block, behind the tokens' beginning. */
static __device__ __forceinline__ uint32_t piece_at(int unit, int piece, int token)
{
    return (uint32_t)(unit / EIGHTHS * UNIT_TERMS_BYTES + piece / BLOCK_PIECES * TERM_BLOCK_BYTES +
                      token * TOKEN_BLOCK_BYTES + piece % BLOCK_PIECES * LANE_BYTES);
}

/* The block's token, joined and normed, to `row`; zeros behind it, and where there is no such token. */
static __device__ __forceinline__ void join_token(float *row, const struct decode_join &j,
                                                  const struct norm_held &weights, int n, int token,
                                                  bool is_there, float *room)
{
    const int n_rounded = (int)units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS, n_there = is_there ? n : 0;
    struct norm_held held = norm_hold(j.x + (int64_t)token * n, n_there);
    const struct norm_held added = norm_hold(j.h + (int64_t)token * n, n_there);
    float factor;

#pragma unroll
    for (int i = 0; i < NORM_HELD; i++)
        held.at[i] += added.at[i];
    factor = norm_factor(&held, NULL, n, j.eps, room);
#pragma unroll
    for (int i = 0; i < NORM_HELD; i++) {
        const int at = threadIdx.x + i * NORM_THREADS;
        const float y = at < n_there ? normed(held.at[i], factor, weights.at[i]) : 0.0f;

        if (at < n_rounded)
            row[at] = y;
        if (at < n_there) {
            j.x[(int64_t)token * n + at] = held.at[i];
            j.y[(int64_t)token * n + at] = y;
        }
        if (is_there && j.normed != NULL && at < n_rounded)
            j.normed[(int64_t)token * n_rounded + at] = half_bits(y);
    }
}

/* A row's pieces, each number as the sum of three, to the blocks whose columns they are. */
static __device__ __forceinline__ void send_row(const float *row, uint32_t tokens, int n_units,
                                                int token)
{
    for (int i = threadIdx.x; i < n_units * UNIT_PIECES; i += RING_THREADS) {
        const int unit = i / UNIT_PIECES, piece = i % UNIT_PIECES;
        const uint32_t to = tokens + piece_at(unit, piece, token);
        float v[PIECE];

        ((float4 *)v)[0] = ((const float4 *)row)[i * 2];
        ((float4 *)v)[1] = ((const float4 *)row)[i * 2 + 1];
#pragma unroll
        for (int term = 0; term < TERMS; term++) {
            const uint32_t a = take_bf16(v), b = take_bf16(v + 2), c = take_bf16(v + 4);
            const uint32_t d = take_bf16(v + 6);

            store_to_block(to + term * UNIT_TERM_BYTES, unit % EIGHTHS, make_uint4(a, b, c, d));
        }
    }
}

/* ---- products and sums ---- */

/* acc = the warp's tile times the tokens, term by term. */
static __device__ __forceinline__ void multiply_eighth(float acc[TERMS][4], uint32_t tiles,
                                                       uint32_t tokens, int n_units)
{
    const int lane = threadIdx.x % WARP_LANES;

    for (int unit = 0; unit < n_units; unit++)
#pragma unroll
        for (int block = 0; block < UNIT_BLOCKS; block++) {
            const uint32_t words =
                tiles + unit * BF16_TILE_BYTES + block * BF16_BLOCK_BYTES + lane * LANE_BYTES;
            const uint4 w0 = load_shared<0>(words);
            const uint4 w1 = load_shared<WARP_LANES * LANE_BYTES>(words);

#pragma unroll
            for (int term = 0; term < TERMS; term++)
                multiply_bf16(acc[term], w0, w1,
                              load_shared<0>(tokens + unit * UNIT_TERMS_BYTES +
                                             term * UNIT_TERM_BYTES + block * TERM_BLOCK_BYTES +
                                             lane * LANE_BYTES));
        }
}

/* Sums: (token, expert). The terms of an eighth, the smallest first. */
static __device__ __forceinline__ void put_eighth(float *sums, const float acc[TERMS][4])
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int row = warp * TILE_ROWS + lane / 4 * 2;

#pragma unroll
    for (int k = 0; k < 2; k++)
        *(float2 *)(sums + (lane % 4 * 2 + k) * DECODE_EXPERTS_MAX + row) =
            make_float2(sum_of_terms<TERMS>(acc, k), sum_of_terms<TERMS>(acc, k + 2));
}

/* One warp: the scores of the block's token, and its experts. */
static __device__ __forceinline__ void choose_experts(const struct decode_route &p, uint32_t sums,
                                                      const float bias[SCORES_HELD], int token,
                                                      int rank)
{
    const int lane = threadIdx.x;
    float parts[SCORES_HELD][EIGHTHS];
    struct candidates c;
    struct chosen chosen;

#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++)
#pragma unroll
        for (int eighth = 0; eighth < EIGHTHS; eighth++)
            parts[i][eighth] = load_of_block(
                sums + (rank * DECODE_EXPERTS_MAX + i * WARP_LANES + lane) * (int)sizeof(float),
                eighth);
#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++) {
        const int e = i * WARP_LANES + lane;
        float sum = 0.0f;

#pragma unroll
        for (int eighth = 0; eighth < EIGHTHS; eighth++)
            sum += parts[i][eighth];
        sum += bias[i];
        c.orders[i] = e < p.n_experts ? order_of(sum) : 0;
        if (e < p.n_experts && token < p.n_tokens)
            p.scores[token * p.n_experts + e] = sum;
    }
    if (token >= p.n_tokens)
        return;
    choose(&chosen, c, p.n_ranks);
    if (lane < p.n_ranks) {
        p.ids[token * p.n_ranks + lane] = id_of(chosen, lane);
        p.gates[token * p.n_ranks + lane] = gate_of(chosen, lane, p.n_ranks);
    }
}

/* ---- the kernel. Grid: clusters, TOKENS tokens each ---- */

template <bool JOINS>
static __global__ void __launch_bounds__(RING_THREADS, 1)
    route_kernel(const __grid_constant__ struct decode_route p,
                 const __grid_constant__ struct decode_join join)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ float sums[TOKENS * DECODE_EXPERTS_MAX];
    __shared__ float row[JOINS ? (int)DECODE_WIDTH_MAX : 1], room[NORM_THREADS / WARP_LANES];
    const int rank = cluster_rank(), warp = threadIdx.x / WARP_LANES;
    const int n_units = units_of_eighth(p.w.n_units, rank);
    const int token = (int)blockIdx.x / EIGHTHS * TOKENS + rank;
    const uint32_t weights = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t tiles = weights + warp * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
    const bool is_busy = warp < tiles_of(p);
    float acc[TERMS][4] = {}, bias[SCORES_HELD] = {};
    struct norm_held weights_of_norm = {};

    if (JOINS)
        cluster_arrive(); /* who writes to others' shared memory knows that they have begun */
    if (is_busy)
        fill_tiles(tiles, p, rank, n_units);
    copy_commit();
    if (warp == 0)
#pragma unroll
        for (int i = 0; i < SCORES_HELD; i++)
            if (i * WARP_LANES + (int)threadIdx.x < p.n_experts)
                bias[i] = vector_at(p.bias, 0, i * WARP_LANES + threadIdx.x);
    if (JOINS)
        weights_of_norm = hold_weights(join.norm, p.rows.n);
    pdl_wait();
    pdl_launch_dependents();
    if (JOINS) {
        join_token(row, join, weights_of_norm, p.rows.n, token, token < p.n_tokens, room);
        __syncthreads();
        cluster_wait();
        send_row(row, weights + weights_bytes(p), p.w.n_units, rank);
        copy_wait<0>();
        cluster_arrive();
        cluster_wait();
    } else {
        split_tokens((char *)shared + weights_bytes(p), p, rank, n_units);
        copy_wait<0>();
        __syncthreads();
    }
    if (is_busy)
        multiply_eighth(acc, tiles, weights + weights_bytes(p), n_units);
    put_eighth(sums, acc);
    cluster_arrive();
    cluster_wait();
    if (warp == 0)
        choose_experts(p, (uint32_t)__cvta_generic_to_shared(sums), bias, token, rank);
    __syncwarp();
    cluster_arrive(); /* the shared memory stays until all have read it */
    cluster_wait();
}

template <bool JOINS>
static bool launch(const cudaStream_t *stream, const struct decode_route *p,
                   const struct decode_join *join)
{
    static const int n_at_once = clusters_at_once<route_kernel<JOINS>>(
        RING_THREADS, EIGHTHS,
        DECODE_WIDTH_MAX / UNIT_COLUMNS / EIGHTHS *
            (RING_WARPS * BF16_TILE_BYTES + UNIT_TERMS_BYTES));

    if (n_at_once == 0 || p->w.n_units > DECODE_WIDTH_MAX / UNIT_COLUMNS ||
        p->n_experts > DECODE_EXPERTS_MAX || p->n_ranks > DECODE_ACTIVE_MAX)
        return false;
    if (stream != NULL)
        pdl_launch_clusters(route_kernel<JOINS>,
                            dim3((unsigned)units_of(p->n_tokens, TOKENS) * EIGHTHS), RING_THREADS,
                            (size_t)shared_bytes(*p), *stream, EIGHTHS, *p, *join);
    return true;
}

bool launch_decode_route(const cudaStream_t *stream, const struct decode_route *p)
{
    const struct decode_join none = {};

    /* both, as what is asked for now may be launched with a join */
    return stream == NULL ? launch<false>(NULL, p, &none) && launch<true>(NULL, p, &none)
                          : launch<false>(stream, p, &none);
}

void launch_decode_join_route(cudaStream_t stream, const struct decode_route *p,
                              const struct decode_join *join)
{
    (void)launch<true>(&stream, p, join);
}
