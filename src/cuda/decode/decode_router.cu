/* Stage router for decode rows whose router sums were not computed by the output projection: the
 * router's BF16 matrix times rows in three terms, by columns (router.cuh), and top-k, in one
 * kernel. The bits are those of decode_out.cu and of the other top-k kernels.
 *
 * Work division: clusters of eight blocks. A block has an eighth of the columns, all experts and
 * TOKENS tokens; it reduces one of these tokens and selects that token's experts. A warp has a tile
 * of 16 experts. With HAS_RMSNORM the block also does the residual add of its token, and sends the
 * row's columns to the shared memory of the blocks that multiply them; it computes the norm's
 * factor and stores the row while these stores are in flight. Partial sums are sent to the block
 * that reduces them. Weight copies are issued before griddepcontrol.wait. Bound by latency.
 *
 * If the step has one cluster, the blocks can send the experts that they selected to the first
 * block, which lists the jobs of the grouped kernels, in place of a kernel of its own. */
#include "cuda/common/fixed.h"
#include "cuda/decode/few_jobs.cuh"
#include "cuda/decode/router_rows.cuh"

enum { TILE_PIECES = BF16_TILE_BYTES / (WARP_LANES * LANE_BYTES) };
static_assert((int)DECODE_EXPERTS_MAX == RING_WARPS * TILE_ROWS, "one warp per tile");
static_assert((int)DECODE_EXPERTS_MAX <= (int)RING_THREADS - (int)ROW_THREADS,
              "reducing threads hold no row");

static inline HOST_DEVICE int tiles_of(const struct decode_router &p)
{
    return (p.n_experts + TILE_ROWS - 1) / TILE_ROWS;
}

/* Weights (warp, unit), then tokens (router_rows.cuh). */
static inline HOST_DEVICE int weights_bytes(const struct decode_router &p)
{
    return tiles_of(p) * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
}

static inline HOST_DEVICE int tokens_bytes(const struct decode_router &p)
{
    return units_of_eighth(p.w.n_units, 0) * UNIT_TERMS_BYTES;
}

/* Position of a piece in a tile's block, such that the eight pieces that a part reads for two rows
 * of lanes are in eight different banks. */
static __device__ __forceinline__ int piece_place(int piece)
{
    return piece ^ (piece / WARP_LANES % 2 * 2);
}

/* Copies a tile of all units of the eighth. */
static __device__ __forceinline__ void fill_tile(uint32_t to, const struct decode_router &p,
                                                 int tile, int rank, int n_units)
{
    const int lane = threadIdx.x % WARP_LANES;
    const unsigned char *from =
        p.w.units + (int64_t)(tile / UNIT_TILES * p.w.n_units + rank) * BF16_UNIT_BYTES +
        tile % UNIT_TILES * BF16_TILE_BYTES + lane * LANE_BYTES;

    to += tile * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
#pragma unroll 1
    for (int unit = 0; unit < n_units; unit++) {
#pragma unroll
        for (int i = 0; i < TILE_PIECES; i++)
            copy_at(to + piece_place(i * WARP_LANES + lane) * LANE_BYTES,
                    from + i * WARP_LANES * LANE_BYTES);
        to += BF16_TILE_BYTES;
        from += EIGHTHS * BF16_UNIT_BYTES;
    }
}

/* ---- MMAs and sums ---- */

enum {
    UNIT_HALVES = 2 * UNIT_BLOCKS,
    SUMS_BYTES = EIGHTHS * DECODE_EXPERTS_MAX * (int)sizeof(long long) /* that a block receives */
};

/* The warp's tile of a unit times the tokens, 16 columns per result. */
static __device__ __forceinline__ void multiply_unit(float parts[UNIT_HALVES][4], uint32_t words,
                                                     uint32_t tokens)
{
    const uint32_t at = tokens + threadIdx.x % WARP_LANES * (LANE_BYTES / 2);

#pragma unroll
    for (int i = 0; i < UNIT_HALVES; i++) {
        const uint4 w = load_shared<0>(words + i / 2 * BF16_BLOCK_BYTES +
                                       piece_place(router_piece(i % 2)) * LANE_BYTES);
        uint2 z[TERMS];

#pragma unroll
        for (int term = 0; term < TERMS; term++)
            z[term] = load_shared_pair<0>(at + term * UNIT_TERM_BYTES + i * HALF_BLOCK_BYTES);
        router_partial(parts[i], w, z);
    }
}

/* The sums of a warp's tile in the fixed-point format of fixed_of(), or, if that overflows, of
 * router_fixed(). */
struct tile_sums {
    uint32_t high[4], low[4], overflow;
};

static __device__ __forceinline__ void add_parts(struct tile_sums *sums,
                                                 const float parts[UNIT_HALVES][4])
{
#pragma unroll
    for (int i = 0; i < UNIT_HALVES * 4; i++) {
        const struct fixed_float fixed = fixed_of(parts[i / 4][i % 4]);

        sums->high[i % 4] += fixed.high;
        sums->low[i % 4] += fixed.low;
        sums->overflow |= fixed.overflow;
    }
}

/* sums = the warp's tile times the tokens. */
static __device__ __forceinline__ void multiply_eighth(long long sums[4], uint32_t tiles,
                                                       uint32_t tokens, int n_units)
{
    struct tile_sums of_tile = {};

#pragma unroll 1 /* smaller code is faster: code that runs once is fetched from memory line by
                  * line */
    for (int unit = 0; unit < n_units; unit++) {
        float parts[UNIT_HALVES][4];

        multiply_unit(parts, tiles + unit * BF16_TILE_BYTES, tokens + unit * UNIT_TERMS_BYTES);
        add_parts(&of_tile, parts);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[i] = fixed_sum(of_tile.high[i], of_tile.low[i], n_units * UNIT_HALVES);
    if (!__any_sync(ALL_LANES, (of_tile.overflow & FIXED_OVERFLOW) != 0))
        return;
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[i] = 0;
#pragma unroll 1
    for (int unit = 0; unit < n_units; unit++) {
        float parts[UNIT_HALVES][4];

        multiply_unit(parts, tiles + unit * BF16_TILE_BYTES, tokens + unit * UNIT_TERMS_BYTES);
#pragma unroll
        for (int i = 0; i < UNIT_HALVES * 4; i++)
            sums[i % 4] += router_fixed(parts[i / 4][i % 4]);
    }
}

/* Remote destination of a lane's partial sums: the block of their token, in this block's eighth.
 * Layout: (eighth, expert). */
struct sums_plan {
    uint32_t to[2], barrier[2];
};

static __device__ __forceinline__ struct sums_plan plan_sums(uint32_t sums, uint32_t barrier)
{
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int row = warp * TILE_ROWS + lane / 4 * 2;
    struct sums_plan plan;

#pragma unroll
    for (int k = 0; k < 2; k++) {
        plan.to[k] = mapa_address(sums + (cluster_rank() * DECODE_EXPERTS_MAX + row) *
                                             (int)sizeof(long long),
                                  lane % 4 * 2 + k);
        plan.barrier[k] = mapa_address(barrier, lane % 4 * 2 + k);
    }
    return plan;
}

/* buffer: of the receiving block. */
static __device__ __forceinline__ void send_sums(const struct sums_plan &plan,
                                                 const long long sums[4], int buffer = 0)
{
#pragma unroll
    for (int k = 0; k < 2; k++)
        send(plan.to[k] + buffer * SUMS_BYTES, plan.barrier[k] + buffer * (int)sizeof(uint64_t),
             sums[k], sums[k + 2]);
}

/* Reduces the logits of the block's token and stores their sort keys; one thread per expert. */
static __device__ __forceinline__ void add_sums(uint32_t *orders, const struct decode_router &p,
                                                const long long *sums, uint32_t bias_bits,
                                                float factor, int token)
{
    const int e = threadIdx.x;
    const bool is_expert = e < p.n_experts;
    long long sum = 0;
    float logit;

#pragma unroll
    for (int i = 0; i < EIGHTHS; i++)
        sum += is_expert ? sums[i * DECODE_EXPERTS_MAX + e] : 0;
    logit = router_logit(sum, factor,
                         __uint_as_float(p.bias.kind == VECTOR_F32 ? bias_bits : bias_bits << 16));
    orders[e] = is_expert ? order_of(logit) : 0;
    if (is_expert)
        p.router_logits[token * p.n_experts + e] = logit;
}

/* An expert of a token, by the lane of its rank. */
struct pick {
    int id;
    float gate;
};

static __device__ __forceinline__ struct pick pick_of(const uint32_t *orders, int n_ranks)
{
    const int lane = threadIdx.x;
    struct candidates c;

#pragma unroll
    for (int i = 0; i < LOGITS_PER_LANE; i++)
        c.orders[i] = orders[i * WARP_LANES + lane];
    const struct by_lane mine = topk_by_lane(c, n_ranks);

    return {mine.id, gate_of_lane(mine, n_ranks)};
}

/* Top-k of the token, by one warp. Not inlined, so that the warm-up call, which stores nothing,
 * fetches the same code into the instruction cache: warp 0 makes it while other warps add the
 * residual. */
static __device__ __noinline__ void select_experts(const uint32_t *orders, int32_t *ids,
                                                   float *gates, int n_ranks, bool is_real)
{
    const int lane = threadIdx.x;
    const struct pick pick = pick_of(orders, n_ranks);

    if (lane < n_ranks && is_real) {
        ids[lane] = pick.id;
        gates[lane] = pick.gate;
    }
}

/* ---- the jobs of all tokens, by the first block of the only cluster ---- */

/* The experts of the tokens: (token, rank). */
struct picks {
    uint64_t arrived;
    __align__(16) longlong2 at[FEW_ENTRIES_MAX];
};

static __device__ __forceinline__ void begin_picks(struct picks *picks,
                                                   const struct decode_router &p)
{
    if (threadIdx.x == 0)
        arrivals_init((uint32_t)__cvta_generic_to_shared(&picks->arrived),
                      p.n_tokens * p.n_ranks * (int)sizeof(picks->at[0]));
}

/* Sends the lane's expert of the block's token to the first block; also for padded tokens. */
static __device__ __forceinline__ void send_pick(struct picks *picks, const struct decode_router &p,
                                                 const struct pick &pick, int token)
{
    const int lane = threadIdx.x, at = token * p.n_ranks + lane;

    if (lane < p.n_ranks && token < p.n_tokens)
        send(mapa_address((uint32_t)__cvta_generic_to_shared(&picks->at[at]), 0),
             mapa_address((uint32_t)__cvta_generic_to_shared(&picks->arrived), 0),
             (long long)pick.id, (long long)__float_as_int(pick.gate));
}

static __device__ __forceinline__ void list_picks(struct picks *picks,
                                                  const struct decode_grouped &jobs, int n)
{
    const int lane = threadIdx.x;
    longlong2 mine = {0, 0};

    arrivals_wait((uint32_t)__cvta_generic_to_shared(&picks->arrived));
    if (lane < n)
        mine = picks->at[lane];
    list_few_jobs(jobs, (int)mine.x, __int_as_float((int)mine.y), n);
}

/* select_experts(), with `picks`. */
static __device__ __noinline__ struct pick pick_experts(const uint32_t *orders, int n_ranks)
{
    return pick_of(orders, n_ranks);
}

static __device__ __forceinline__ void list_experts(const uint32_t *orders, struct picks *picks,
                                                    const struct decode_router &p,
                                                    const struct decode_grouped &jobs, int token,
                                                    int n_live)
{
    const int lane = threadIdx.x, at = token * p.n_ranks + lane;
    struct pick pick = {};

    if (token < n_live)
        pick = pick_experts(orders, p.n_ranks);
    send_pick(picks, p, pick, token);
    if (token < n_live && lane < p.n_ranks) {
        p.ids[at] = pick.id;
        p.gates[at] = pick.gate;
    }
    if (cluster_rank() == 0)
        list_picks(picks, jobs, n_live * p.n_ranks);
}

/* Barrier over the first threads, one per expert. */
static __device__ __forceinline__ void experts_sync(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"((int)DECODE_EXPERTS_MAX) : "memory");
}

/* ---- the kernel. Grid: clusters, TOKENS tokens each ---- */

/* Barriers for data from the blocks of the cluster. */
struct arrivals {
    uint64_t tokens, sums;
};

/* Sets the number of bytes that the barriers wait for, before other blocks may send any. */
static __device__ __forceinline__ void begin_arrivals(uint32_t tokens_arrived,
                                                      uint32_t sums_arrived,
                                                      const struct decode_router &p, int n_units)
{
    if (threadIdx.x == 0) {
        arrivals_init(tokens_arrived, n_units * UNIT_TERMS_BYTES);
        arrivals_init(sums_arrived, tiles_of(p) * TILE_ROWS * EIGHTHS * (int)sizeof(long long));
    }
    cluster_begin(); /* this block has started: others may send to it */
}

/* Bytes of all sums of a token. */
static __device__ __forceinline__ int sums_sent(const struct decode_router &p)
{
    return tiles_of(p) * TILE_ROWS * EIGHTHS * (int)sizeof(long long);
}

static __device__ __forceinline__ uint32_t bias_bits_of(const struct decode_router &p)
{
    return (int)threadIdx.x < p.n_experts ? vector_bits(p.bias, 0, threadIdx.x) : 0;
}

/* With the residual add and norm, one group of tokens a cluster. jobs: with HAS_JOBS. */
template <bool HAS_JOBS>
static __device__ __forceinline__ void
route_normed(const struct decode_router &p, const struct decode_rmsnorm &rmsnorm, float inverse_n,
             const struct decode_grouped &jobs, struct picks *picks)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ __align__(16) long long sums_of_token[EIGHTHS * DECODE_EXPERTS_MAX];
    __shared__ struct squares smem[NORM_SPLITS];
    __shared__ struct arrivals arrivals;
    __shared__ uint32_t orders[DECODE_EXPERTS_MAX];
    const int rank = cluster_rank(), warp = threadIdx.x / WARP_LANES;
    const int n_units = units_of_eighth(p.w.n_units, rank);
    const int token = (int)blockIdx.x / EIGHTHS * TOKENS + rank;
    const int n_live = live_rows(p.n_live, p.n_tokens);
    const bool is_there = token < n_live;
    const uint32_t weights = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t tokens = weights + weights_bytes(p);
    const uint32_t tiles = weights + warp * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
    const bool has_row = (int)threadIdx.x >= RING_THREADS - ROW_THREADS;
    const uint32_t tokens_arrived = (uint32_t)__cvta_generic_to_shared(&arrivals.tokens);
    const uint32_t sums_arrived = (uint32_t)__cvta_generic_to_shared(&arrivals.sums);
    const struct sums_plan to_sums =
        plan_sums((uint32_t)__cvta_generic_to_shared(sums_of_token), sums_arrived);
    long long sums[4] = {};
    struct squares squares = {0, 0};
    struct row_plan plan;
    struct row_regs row = {}, norm = {};

    if (HAS_JOBS)
        begin_picks(picks, p);
    begin_arrivals(tokens_arrived, sums_arrived, p, n_units);
    if (has_row)
        plan = plan_row(p, rmsnorm, token, is_there, tokens, tokens_arrived);
    else
        for (int tile = warp; tile < tiles_of(p); tile += (RING_THREADS - ROW_THREADS) / WARP_LANES)
            fill_tile(weights, p, tile, rank, n_units);
    copy_commit();
    const uint32_t bias_bits = bias_bits_of(p);
    pdl_wait();
    pdl_launch_dependents();
    if (has_row) {
        row = rmsnorm_row(plan, rmsnorm);
#pragma unroll
        for (int i = 0; i < PIECES_PER_THREAD; i++)
            weights_of(norm.at[i], plan.norm[i], rmsnorm.norm.kind);
    } else if (warp == 0) {
        if (HAS_JOBS)
            (void)pick_experts(orders, p.n_ranks);
        else
            select_experts(orders, p.ids, p.gates, p.n_ranks, false);
    }
    cluster_wait();
    if (has_row) {
        send_row(row, norm, plan, p.w.n_units);
        squares = squares_of_row(row);
    }
    copy_wait<0>();
    const float factor = factor_of_squares(squares, inverse_n, rmsnorm.eps, smem);
    arrivals_wait(tokens_arrived);
    if (warp < tiles_of(p)) {
        multiply_eighth(sums, tiles, tokens, n_units);
        send_sums(to_sums, sums);
    }
    if (has_row && is_there)
        store_row(row, norm, plan, rmsnorm, factor, p.w.n_units, token);
    if (threadIdx.x < DECODE_EXPERTS_MAX) {
        /* blocks without a token wait, too: their shared memory must exist until all sums have
         * arrived */
        arrivals_wait(sums_arrived);
        if (is_there)
            add_sums(orders, p, sums_of_token, bias_bits, factor, token);
        experts_sync();
    }
    if (HAS_JOBS && warp == 0)
        list_experts(orders, picks, p, jobs, token, n_live);
    else if (is_there && warp == 0)
        select_experts(orders, p.ids + token * p.n_ranks, p.gates + token * p.n_ranks, p.n_ranks,
                       true);
}

/* ---- rows that are normed already, or factors of their norm; any number of groups ---- */

/* What a block keeps. The sums of a group are received while those of the group
 * before are added; a block sends sums of a group only when all blocks have added those of the
 * second one before it, because it has received their sums of the first one. */
struct turns {
    uint32_t arrived, sums; /* barriers and buffers, two of each */
    const long long *sums_of_token;
    uint32_t *orders;
    uint32_t bias_bits;
};

/* Adds the sums of the block's token of turn `turn` and selects its experts; by the first
 * DECODE_EXPERTS_MAX threads. */
static __device__ __forceinline__ void end_turn(const struct turns &t,
                                                const struct decode_router &p, int turn, int token,
                                                bool is_there, float factor)
{
    const int buffer = turn % 2;
    const uint32_t arrived = t.arrived + buffer * (int)sizeof(uint64_t);

    arrivals_wait(arrived, turn / 2 % 2);
    if (threadIdx.x == 0)
        arrivals_expect(arrived, sums_sent(p));
    if (is_there)
        add_sums(t.orders, p, t.sums_of_token + buffer * EIGHTHS * DECODE_EXPERTS_MAX, t.bias_bits,
                 factor, token);
    experts_sync();
    if (is_there && threadIdx.x < WARP_LANES)
        select_experts(t.orders, p.ids + token * p.n_ranks, p.gates + token * p.n_ranks, p.n_ranks,
                       true);
}

static __device__ __forceinline__ float factor_at(const struct decode_router &p, int token,
                                                  bool is_there)
{
    return p.factors != NULL && is_there ? __ldcg(p.factors + token) : 1.0f;
}

/* A cluster takes every n-th group of tokens, and reads its weights once. While half of the threads
 * end a turn, the others split the next group's columns into terms. */
static __device__ __forceinline__ void
run_turns(const struct turns &t, const struct decode_router &p, char *tokens, uint32_t weights)
{
    const int rank = cluster_rank(), warp = threadIdx.x / WARP_LANES;
    const int n_units = units_of_eighth(p.w.n_units, rank);
    const int n_live = live_rows(p.n_live, p.n_tokens);
    const int first = (int)blockIdx.x / EIGHTHS * TOKENS;
    const int step = (int)gridDim.x / EIGHTHS * TOKENS;
    const int splitter = (int)threadIdx.x - ((int)RING_THREADS - (int)SPLIT_THREADS);
    const uint32_t tiles = weights + warp * units_of_eighth(p.w.n_units, 0) * BF16_TILE_BYTES;
    const uint32_t tokens_at = weights + weights_bytes(p);
    const struct sums_plan to_sums = plan_sums(t.sums, t.arrived);

    if (splitter >= 0)
        split_tokens(tokens, p, first, rank, n_units, n_live, splitter);
    copy_wait<0>();
    cluster_wait();
    for (int turn = 0, at = first; at < n_live; turn++, at += step) {
        const int buffer = turn % 2, token = at + rank;
        const bool is_there = token < n_live;
        const float factor = factor_at(p, token, is_there);
        long long sums[4] = {};

        __syncthreads(); /* the group's terms are there */
        if (warp < tiles_of(p)) {
            multiply_eighth(sums, tiles, tokens_at + buffer * tokens_bytes(p), n_units);
            send_sums(to_sums, sums, buffer);
        }
        if (splitter < 0)
            end_turn(t, p, turn, token, is_there, factor);
        else if (at + step < n_live)
            split_tokens(tokens + (1 - buffer) * tokens_bytes(p), p, at + step, rank, n_units,
                         n_live, splitter);
    }
}

static __device__ __forceinline__ void route_groups(const struct decode_router &p)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ __align__(16) long long sums_of_token[2 * EIGHTHS * DECODE_EXPERTS_MAX];
    __shared__ uint64_t arrived[2];
    __shared__ uint32_t orders[DECODE_EXPERTS_MAX];
    const int rank = cluster_rank(), warp = threadIdx.x / WARP_LANES;
    const uint32_t weights = (uint32_t)__cvta_generic_to_shared(shared);
    const struct turns turns = {(uint32_t)__cvta_generic_to_shared(arrived),
                                (uint32_t)__cvta_generic_to_shared(sums_of_token), sums_of_token,
                                orders, bias_bits_of(p)};

    if (threadIdx.x == 0) {
        arrivals_init(turns.arrived, sums_sent(p));
        arrivals_init(turns.arrived + (int)sizeof(uint64_t), sums_sent(p));
    }
    cluster_begin(); /* this block has started: others may send to it */
    for (int tile = warp; tile < tiles_of(p); tile += RING_WARPS)
        fill_tile(weights, p, tile, rank, units_of_eighth(p.w.n_units, rank));
    copy_commit();
    pdl_wait();
    pdl_launch_dependents();
    run_turns(turns, p, (char *)shared + weights_bytes(p), weights);
}

/* ---- the kernels ---- */

template <bool HAS_RMSNORM>
static __global__ void __launch_bounds__(RING_THREADS, 1)
    route_kernel(const __grid_constant__ struct decode_router p,
                 const __grid_constant__ struct decode_rmsnorm rmsnorm, float inverse_n)
{
    if constexpr (HAS_RMSNORM)
        route_normed<false>(p, rmsnorm, inverse_n, {}, NULL);
    else
        route_groups(p);
}

/* One cluster, which also lists the jobs. */
static __global__ void __launch_bounds__(RING_THREADS, 1)
    route_jobs_kernel(const __grid_constant__ struct decode_router p,
                      const __grid_constant__ struct decode_rmsnorm rmsnorm, float inverse_n,
                      const __grid_constant__ struct decode_grouped jobs)
{
    __shared__ struct picks picks;

    route_normed<true>(p, rmsnorm, inverse_n, jobs, &picks);
}

/* ---- launches ---- */

/* HAS_RMSNORM: one buffer of tokens, otherwise two. */
template <bool HAS_RMSNORM> static int64_t shared_bytes(const struct decode_router *p)
{
    return weights_bytes(*p) + (HAS_RMSNORM ? 1 : 2) * tokens_bytes(*p);
}

/* Clusters that run at once with the largest matrix; 0: p is not supported. */
template <bool HAS_RMSNORM>
static int clusters_of(const struct launch_list *list, const struct decode_router *p)
{
    struct decode_router largest = *p;

    largest.w.n_units = DECODE_WIDTH_MAX / UNIT_COLUMNS;
    largest.n_experts = DECODE_EXPERTS_MAX;
    if (p->w.n_units > largest.w.n_units || p->n_experts > largest.n_experts ||
        p->n_ranks > DECODE_ACTIVE_MAX)
        return 0;
    return clusters_at_once<route_kernel<HAS_RMSNORM>>(list->gpu, RING_THREADS, EIGHTHS,
                                                       shared_bytes<HAS_RMSNORM>(&largest));
}

template <bool HAS_RMSNORM>
static bool launch(struct launch_list *list, const struct decode_router *p,
                   const struct decode_rmsnorm *rmsnorm)
{
    const int n_groups = (int)units_of(p->n_tokens, TOKENS);
    const int n_at_once = clusters_of<HAS_RMSNORM>(list, p);
    const int n_clusters = HAS_RMSNORM || n_groups < n_at_once ? n_groups : n_at_once;

    if (n_at_once == 0)
        return false;
    add_dependent_clusters<route_kernel<HAS_RMSNORM>>(list, dim3((unsigned)n_clusters * EIGHTHS),
                                                      RING_THREADS, shared_bytes<HAS_RMSNORM>(p),
                                                      EIGHTHS, *p, *rmsnorm, 1.0f / (float)p->n);
    return true;
}

bool launch_decode_router(struct launch_list *list, const struct decode_router *p)
{
    const struct decode_rmsnorm none = {};

    return launch<false>(list, p, &none);
}

bool decode_router_fits(struct launch_list *list, const struct decode_router *p)
{
    return clusters_of<true>(list, p) > 0 && clusters_of<false>(list, p) > 0;
}

void launch_decode_rmsnorm_router(struct launch_list *list, const struct decode_router *p,
                                  const struct decode_rmsnorm *rmsnorm)
{
    (void)launch<true>(list, p, rmsnorm);
}

bool launch_decode_router_jobs(struct launch_list *list, const struct decode_router *p,
                               const struct decode_rmsnorm *rmsnorm,
                               const struct decode_grouped *jobs)
{
    if (p->n_tokens > TOKENS || p->n_tokens * p->n_ranks > FEW_ENTRIES_MAX ||
        p->n_tokens > jobs->job_tokens || jobs->place != NULL)
        return false;
    add_dependent_clusters<route_jobs_kernel>(list, dim3(EIGHTHS), RING_THREADS,
                                              shared_bytes<true>(p), EIGHTHS, *p, *rmsnorm,
                                              1.0f / (float)p->n, *jobs);
    return true;
}
