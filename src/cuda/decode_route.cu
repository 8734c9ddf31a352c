/* Stage route of generated rows where the output product has not done it: the router's BF16 matrix times rows in three
 * terms, by columns (router.cuh), and the choice of each row's experts, in one kernel, with the bits of decode_out.cu
 * and of the choice elsewhere.
 *
 * By clusters of eight blocks: a block has an eighth of the columns, all experts and TOKENS
 * tokens, of which it adds up one, whose experts it then chooses. Where the join in front is left to this kernel, it does
 * that for its token, too, and puts the row's columns where they are multiplied, into the shared memory of all eight.
 * A warp has a tile of 16 experts. The weights are asked for before the kernel in front has ended. Bound by latency. */
#include "cuda/cluster.cuh"
#include "cuda/columns.cuh"
#include "cuda/norm_weights.cuh"
#include "cuda/router.cuh"

enum {
    EIGHTHS = RING_WARPS,
    TOKENS = EIGHTHS, /* of a cluster: one a block */
    TERMS = ROUTER_TERMS,
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

/* Weights (warp, unit), then tokens (unit, term, block, token, lane of four, half of the block, four numbers). */
static inline HOST_DEVICE int weights_bytes(const struct decode_route &p)
{
    return tiles_of(p) * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
}

static inline HOST_DEVICE int shared_bytes(const struct decode_route &p)
{
    return weights_bytes(p) + units_of_eighth(p.w.n_units, 0) * UNIT_TERMS_BYTES;
}

/* ---- weights and tokens ---- */

/* Where a piece of a tile's block lies, so that a part's eight pieces for two rows of lanes are in eight banks. */
static __device__ __forceinline__ int piece_place(int piece)
{
    return piece ^ (piece / WARP_LANES % 2 * 2);
}

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
            copy_at(to + piece_place(i * WARP_LANES + lane) * LANE_BYTES,
                    from + i * WARP_LANES * LANE_BYTES);
        to += BF16_TILE_BYTES;
        from += EIGHTHS * BF16_UNIT_BYTES;
    }
}

/* The next term of four numbers. */
static __device__ __forceinline__ uint2 pairs_of(float v[4])
{
    const uint32_t low = take_bf16(v);

    return make_uint2(low, take_bf16(v + 2));
}

/* Eight columns of a row from k on, times the norm's weights and ROUTER_UNITS. */
static __device__ __forceinline__ void weigh(float v[PIECE], const struct decode_vector &norm,
                                             int k)
{
    float g[PIECE];

    if (norm.kind == VECTOR_F32) {
        ((float4 *)g)[0] = ((const float4 *)((const float *)norm.data + k))[0];
        ((float4 *)g)[1] = ((const float4 *)((const float *)norm.data + k))[1];
    } else if (norm.kind == VECTOR_BF16) {
        const uint4 from = *(const uint4 *)((const uint16_t *)norm.data + k);
        const uint32_t words[PIECE / 2] = {from.x, from.y, from.z, from.w};

#pragma unroll
        for (int i = 0; i < PIECE; i++)
            g[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
    } else {
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            g[i] = 1.0f;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        v[i] *= g[i] * ROUTER_UNITS;
}

/* Where eight columns, piece `piece` of a unit, lie of a token behind the unit's beginning: the first four. The others
 * are a lane further on. */
static __device__ __forceinline__ int piece_at(int piece, int token)
{
    return piece / BLOCK_PIECES * TERM_BLOCK_BYTES + token * TOKEN_BLOCK_BYTES +
           piece % 2 * (2 * LANE_BYTES) + piece % BLOCK_PIECES / 2 * (LANE_BYTES / 2);
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
            const bool is_there = i < n && token < p.n_tokens && k < p.n;
            const float4 *from = (const float4 *)(p.x + (is_there ? (int64_t)token * p.n + k : 0));

            ((float4 *)v[j])[0] = is_there ? __ldcg(from) : make_float4(0, 0, 0, 0);
            ((float4 *)v[j])[1] = is_there ? __ldcg(from + 1) : make_float4(0, 0, 0, 0);
            if (is_there)
                weigh(v[j], p.norm, k);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * RING_THREADS, piece = i % UNIT_PIECES;
            char *at = to + i / UNIT_ITEMS * UNIT_TERMS_BYTES +
                       piece_at(piece, i % UNIT_ITEMS / UNIT_PIECES);

#pragma unroll
            for (int term = 0; term < TERMS && i < n; term++) {
                uint2 *first_four = (uint2 *)(at + term * UNIT_TERM_BYTES);

                *first_four = pairs_of(v[j]);
                first_four[LANE_BYTES / sizeof(*first_four)] = pairs_of(v[j] + 4);
            }
        }
    }
}

/* ---- the join ---- */

/* The block's token, joined, to `row`, times the norm's weights and ROUTER_UNITS; zeros behind it, and where there is no such token. Gives
 * the norm's factor. */
static __device__ __forceinline__ float join_token(float *row, const struct decode_join &j,
                                                   const struct norm_held &weights, int n,
                                                   int token, bool is_there, struct squares *room)
{
    const int n_rounded = (int)units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS, n_there = is_there ? n : 0;
    struct norm_held held = norm_hold(j.x + (int64_t)token * n, n_there);
    const struct norm_held added = norm_hold(j.h + (int64_t)token * n, n_there);
    float factor;

#pragma unroll
    for (int i = 0; i < NORM_HELD; i++)
        held.at[i] += added.at[i];
    factor = factor_by_parts(held, n, j.eps, room);
#pragma unroll
    for (int i = 0; i < NORM_HELD; i++) {
        const int at = threadIdx.x + i * NORM_THREADS;
        const float y = at < n_there ? normed(held.at[i], factor, weights.at[i]) : 0.0f;

        if (at < n_rounded)
            row[at] = at < n_there ? held.at[i] * (weights.at[i] * ROUTER_UNITS) : 0.0f;
        if (at < n_there) {
            j.x[(int64_t)token * n + at] = held.at[i];
            j.y[(int64_t)token * n + at] = y;
        }
        if (is_there && j.normed != NULL && at < n_rounded)
            j.normed[(int64_t)token * n_rounded + at] = half_bits(y);
    }
    return factor;
}

/* A row's pieces, each number as the sum of three, to the blocks whose columns they are. */
static __device__ __forceinline__ void send_row(const float *row, uint32_t tokens, int n_units,
                                                int token)
{
    for (int i = threadIdx.x; i < n_units * UNIT_PIECES; i += RING_THREADS) {
        const int unit = i / UNIT_PIECES, piece = i % UNIT_PIECES;
        const uint32_t to = tokens + unit / EIGHTHS * UNIT_TERMS_BYTES + piece_at(piece, token);
        float v[PIECE];

        ((float4 *)v)[0] = ((const float4 *)row)[i * 2];
        ((float4 *)v)[1] = ((const float4 *)row)[i * 2 + 1];
#pragma unroll
        for (int term = 0; term < TERMS; term++) {
            store_to_block(to + term * UNIT_TERM_BYTES, unit % EIGHTHS, pairs_of(v));
            store_to_block(to + term * UNIT_TERM_BYTES + LANE_BYTES, unit % EIGHTHS,
                           pairs_of(v + 4));
        }
    }
}

/* ---- products and sums ---- */

/* sums = those of the warp's tile times the tokens. */
static __device__ __forceinline__ void multiply_eighth(long long sums[4], uint32_t tiles,
                                                       uint32_t tokens, int n_units)
{
    const int lane = threadIdx.x % WARP_LANES;

    for (int unit = 0; unit < n_units; unit++)
#pragma unroll
        for (int block = 0; block < UNIT_BLOCKS; block++) {
            const uint32_t words = tiles + unit * BF16_TILE_BYTES + block * BF16_BLOCK_BYTES;
            uint4 z[TERMS];

#pragma unroll
            for (int term = 0; term < TERMS; term++)
                z[term] = load_shared<0>(tokens + unit * UNIT_TERMS_BYTES + term * UNIT_TERM_BYTES +
                                         block * TERM_BLOCK_BYTES + lane * LANE_BYTES);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint4 w =
                    load_shared<0>(words + piece_place(router_piece(half)) * LANE_BYTES);
                uint2 of_half[TERMS];
                float part[4];

#pragma unroll
                for (int term = 0; term < TERMS; term++)
                    of_half[term] = half == 0 ? make_uint2(z[term].x, z[term].y)
                                              : make_uint2(z[term].z, z[term].w);
                router_part(part, w, of_half);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sums[i] += router_fixed(part[i]);
            }
        }
}

/* Sums: (token, expert). */
static __device__ __forceinline__ void put_eighth(long long *to, const long long sums[4])
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int row = warp * TILE_ROWS + lane / 4 * 2;

#pragma unroll
    for (int k = 0; k < 2; k++)
        *(longlong2 *)(to + (lane % 4 * 2 + k) * DECODE_EXPERTS_MAX + row) =
            make_longlong2(sums[k], sums[k + 2]);
}

/* One warp: the scores of the block's token, and its experts. */
static __device__ __forceinline__ void choose_experts(const struct decode_route &p, uint32_t sums,
                                                      const float bias[SCORES_HELD], float factor,
                                                      int token, int rank)
{
    const int lane = threadIdx.x;
    long long parts[SCORES_HELD][EIGHTHS];
    struct candidates c;
    struct chosen chosen;

#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++)
#pragma unroll
        for (int eighth = 0; eighth < EIGHTHS; eighth++)
            parts[i][eighth] = load_of_block(
                sums + (rank * DECODE_EXPERTS_MAX + i * WARP_LANES + lane) * (int)sizeof(long long),
                eighth);
#pragma unroll
    for (int i = 0; i < SCORES_HELD; i++) {
        const int e = i * WARP_LANES + lane;
        long long sum = 0;
        float logit;

#pragma unroll
        for (int eighth = 0; eighth < EIGHTHS; eighth++)
            sum += parts[i][eighth];
        logit = router_logit(sum, factor, bias[i]);
        c.orders[i] = e < p.n_experts ? order_of(logit) : 0;
        if (e < p.n_experts && token < p.n_tokens)
            p.scores[token * p.n_experts + e] = logit;
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
    __shared__ __align__(16) long long sums_of_block[TOKENS * DECODE_EXPERTS_MAX];
    __shared__ __align__(16) float row[JOINS ? (int)DECODE_WIDTH_MAX : 4];
    __shared__ struct squares room[NORM_PARTS];
    const int rank = cluster_rank(), warp = threadIdx.x / WARP_LANES;
    const int n_units = units_of_eighth(p.w.n_units, rank);
    const int token = (int)blockIdx.x / EIGHTHS * TOKENS + rank;
    const uint32_t weights = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t tiles = weights + warp * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
    const bool is_busy = warp < tiles_of(p);
    long long sums[4] = {};
    float bias[SCORES_HELD] = {}, factor = 1.0f;
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
        weights_of_norm = hold_weights(join.norm, p.n);
    pdl_wait();
    pdl_launch_dependents();
    if (JOINS) {
        factor = join_token(row, join, weights_of_norm, p.n, token, token < p.n_tokens, room);
        __syncthreads();
        cluster_wait();
        send_row(row, weights + weights_bytes(p), p.w.n_units, rank);
        copy_wait<0>();
        cluster_arrive();
        cluster_wait();
    } else {
        if (p.factors != NULL && token < p.n_tokens)
            factor = __ldcg(p.factors + token);
        split_tokens((char *)shared + weights_bytes(p), p, rank, n_units);
        copy_wait<0>();
        __syncthreads();
    }
    if (is_busy)
        multiply_eighth(sums, tiles, weights + weights_bytes(p), n_units);
    put_eighth(sums_of_block, sums);
    cluster_arrive();
    cluster_wait();
    if (warp == 0)
        choose_experts(p, (uint32_t)__cvta_generic_to_shared(sums_of_block), bias, factor, token,
                       rank);
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
