/* Stages attn_out and router of a few rows: output projection with bias and residual add, then the
 * router's matrix multiplication for the columns that the block has computed (router.cuh), and
 * their squares (partial_norm.cuh). The block adds both to the row's sums.
 *
 * Work division: a group of eight warps has one 16-row tile of the output matrix, a slice of the
 * columns a warp (out_sums.h), as in decode_matmul.cu and with the same bits. Then each warp has 16
 * experts. A block has one or two groups. All weight copies are issued before griddepcontrol.wait.
 * Bound by latency. */
#include "cuda/decode/out_column.cuh"

#include "cuda/common/rank_wait.cuh"

enum { LANE_TOKENS = WARP_LANES / TILE_ROWS, GROUPS_MXFP4 = 2 };
static_assert((int)SPLIT_COLUMNS == (int)TILE_ROWS,
              "a tile of the output matrix is a part of the router's");
static_assert((int)DECODE_EXPERTS_MAX == RING_WARPS * TILE_ROWS, "one warp per tile of experts");
static_assert((int)DECODE_FUSED_MAX == 4, "lanes 4 g to 4 g + 3 add the sums of four rows");

/* A lane's numbers of the computed rows: column lane % 16 of token lane / 16, then of the next
 * tokens. */
template <int KIND> struct lane_values {
    enum { N = KIND == ROWS_ANY ? DECODE_FUSED_MAX / LANE_TOKENS : 1 };
    float at[N];
};

/* The walk of a block: one tile. */
struct out_tile {
    const unsigned char *weights;
    int tile;
};

static __device__ __forceinline__ int split_tile(const struct out_tile &t, int)
{
    return t.tile;
}

static __device__ __forceinline__ const unsigned char *split_weights(const struct out_tile &t, int)
{
    return t.weights;
}

/* The router weights of this warp's 16 experts for the group's columns, as fragments. */
static __device__ __forceinline__ uint4 router_weights(const struct decode_matrix &w, int n_units,
                                                       int part)
{
    const int tile = threadIdx.x / WARP_LANES;
    const int unit = tile / UNIT_TILES * n_units + part / TILE_PARTS;
    const int in_unit = tile % UNIT_TILES * BF16_TILE_BYTES +
                        part % TILE_PARTS / 2 * BF16_BLOCK_BYTES +
                        router_piece(part % 2) * LANE_BYTES;

    return *(const uint4 *)(w.units + (int64_t)unit * BF16_UNIT_BYTES + in_unit);
}

/* Four columns of the lane's token, split into terms; z are the block's numbers. */
template <int KIND>
static __device__ __forceinline__ void fragment_of(uint2 out[ROUTER_TERMS],
                                                   const struct lane_values<KIND> &z, int n_tokens)
{
    const int lane = threadIdx.x % WARP_LANES, token = lane / 4;
    float v[4];

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int from = token % LANE_TOKENS * TILE_ROWS + lane % 4 * 4 + i;

        v[i] = 0.0f;
#pragma unroll
        for (int k = 0; k < lane_values<KIND>::N; k++) {
            const float there = __shfl_sync(ALL_LANES, z.at[k], from);

            v[i] = token / LANE_TOKENS == k && token < n_tokens ? there : v[i];
        }
    }
#pragma unroll
    for (int term = 0; term < ROUTER_TERMS; term++) {
        const uint32_t low = round_to_bf16(v);

        out[term] = make_uint2(low, round_to_bf16(v + 2));
    }
}

/* Squares of the block's numbers, by one warp. */
template <int KIND>
static __device__ __forceinline__ void add_squares(uint64_t *sums,
                                                   const struct lane_values<KIND> &x, int n_tokens)
{
    const int lane = threadIdx.x % WARP_LANES;

#pragma unroll
    for (int k = 0; k < lane_values<KIND>::N; k++) {
        const struct squares s = partial_squares(partial_of_lanes(x.at[k]));
        const int token = k * LANE_TOKENS + lane / TILE_ROWS;
        uint64_t *to = sums + token * ROUTER_ROW_SUMS +
                       blockIdx.x % ROUTER_COPIES * ROUTER_COPY_SUMS + ROUTER_SQUARES_AT;

        if (token < n_tokens && lane % TILE_ROWS < 2) /* two adjacent words in one transaction */
            add_to(to + lane % TILE_ROWS, lane % TILE_ROWS == 0 ? s.whole : s.rest);
    }
}

/* Adds a warp's products to the rows' sums. */
template <int KIND>
static __device__ __forceinline__ void add_part(uint64_t *sums, const float part[4], int n_tokens)
{
    const int lane = threadIdx.x % WARP_LANES, t = lane % 4;
    uint64_t *to = sums + blockIdx.x % ROUTER_COPIES * ROUTER_COPY_SUMS +
                   threadIdx.x / WARP_LANES * TILE_ROWS + lane / 4 * 2;

    if constexpr (KIND == ROWS_ANY) { /* lines of two rows in one instruction */
        const int from = lane - t + t / 2;

#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float even = __shfl_sync(ALL_LANES, part[k], from);
            const float odd = __shfl_sync(ALL_LANES, part[k + 2], from);
            const int token = t / 2 * 2 + k;

            if (token < n_tokens)
                add_to(to + token * ROUTER_ROW_SUMS + t % 2, router_fixed(t % 2 == 0 ? even : odd));
        }
    } else { /* a cache line of sums in one transaction */
        const float odd = __shfl_up_sync(ALL_LANES, part[2], 1);

        if (t < 2)
            add_to(to + t, router_fixed(t == 0 ? part[0] : odd));
    }
}

template <bool IS_MXFP4>
static __device__ __forceinline__ float sum_of_slices_by_half(const float *sums)
{
    return out_sum_value(out_sum_by_half<IS_MXFP4>(sums), RING_WARPS);
}

/* The lane's sums over all ranks; one warp of those with the same numbers pushes them. All lanes
 * call it. */
template <class SHAPE, int KIND>
static __device__ __forceinline__ struct lane_values<KIND>
lane_sums_of_ranks(const float *sums, const struct decode_out &o, const struct pair_slot &slot,
                   int n_tokens, int column) {
    const int lane = threadIdx.x % WARP_LANES, n_rows = o.p.w.n_rows;
    struct lane_values<KIND> out = {
    };

#pragma unroll
    for (int k = 0; k < lane_values<KIND>::N; k++) {
        const int token = k * LANE_TOKENS + lane / TILE_ROWS;
        struct out_sum sum = {};

        if (KIND != ROWS_ANY)
            sum = out_sum_by_half<SHAPE::IS_MXFP4>(sums);
        else if (token < n_tokens)
            sum = out_sum_of_slices<SHAPE::IS_MXFP4>(sums, k * WARP_LANES + lane, 1, n_tokens);
        if (token < n_tokens && column < n_rows)
            out.at[k] = out_words_value(sum_of_pairs(
                *o.peers, slot, RANK_PAIR_ROWS * n_rows, token * n_rows + column,
                out_sum_words(sum, RING_WARPS), threadIdx.x / WARP_LANES == RING_WARPS - 1));
    }
    return out;
}

/* The sums of the lane's column in its tokens. All lanes call it. */
template <class SHAPE, int KIND>
static __device__ __forceinline__ struct lane_values<KIND> lane_sums(const float *sums,
                                                                     int n_tokens) {
    const int lane = threadIdx.x % WARP_LANES;
    struct lane_values<KIND> out = {
    };

#pragma unroll
    for (int k = 0; k < lane_values<KIND>::N; k++)
        if (KIND != ROWS_ANY)
            out.at[k] = sum_of_slices_by_half<SHAPE::IS_MXFP4>(sums);
        else if (k * LANE_TOKENS + lane / TILE_ROWS < n_tokens)
            out.at[k] = sum_of_slices<SHAPE::IS_MXFP4>(sums, k *WARP_LANES + lane, 1, n_tokens);
    return out;
}

/* The group's tile of the output matrix. */
template <class SHAPE>
static __device__ __forceinline__ struct out_tile out_tile_of(const struct decode_matrix &w,
                                                              int part_of_row)
{
    const int tile = part_of_row % UNIT_TILES;

    return {w.units + (int64_t)(part_of_row / UNIT_TILES * w.n_units) * SHAPE::UNIT_BYTES +
                tile * SHAPE::TILE_BYTES,
            tile};
}

/* Registers per thread. With the one-row kernel (two tiles, 512 threads) an SM then has registers
 * for a block of the up kernel, which starts while this kernel runs. With blocks of one tile it did
 * not: some SMs had two of them and others none. */
static constexpr int registers_of(int kind)
{
    return kind == ROWS_ANY ? 80 : 56;
}

/* Loads rounded rows as fragments; all threads of a block of GROUPS groups. */
template <int GROUPS>
static __device__ __forceinline__ void load_rounded(char *fragments, const uint16_t *rows,
                                                    int n_tokens, int n_units)
{
    enum { AT_ONCE = 4, PIECE_NUMBERS = 8, THREADS = GROUPS * RING_THREADS };
    const int n_pieces = n_units * UNIT_COLUMNS / PIECE_NUMBERS, n = n_tokens * n_pieces;
    const int first = (int)(threadIdx.y * RING_THREADS + threadIdx.x);

#pragma unroll 1
    for (int i0 = first; i0 < n; i0 += THREADS * AT_ONCE) {
        uint4 v[AT_ONCE];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            v[j] = i0 + j * THREADS < n ? __ldcg((const uint4 *)rows + i0 + j * THREADS)
                                        : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * THREADS, token = i / n_pieces;
            const int k = (i - token * n_pieces) * PIECE_NUMBERS;

            if (i < n)
                *(uint4 *)(fragments + fragment_at(k, token, n_tokens)) = v[j];
        }
    }
}

/* Loads the rows as fragments. */
template <class SHAPE, int KIND, int GROUPS>
static __device__ __forceinline__ void load_rows(char *fragments, const struct decode_out &o)
{
    const struct decode_matmul &p = o.p;

    if (KIND != ROWS_ANY)
        copy_row<SHAPE::IS_MXFP4, GROUPS>(fragments, p.rows.x, p.rows.n, p.w.n_units);
    else if (SHAPE::IS_MXFP4 && o.rounded != NULL)
        load_rounded<GROUPS>(fragments, o.rounded, p.n_tokens, p.w.n_units);
    else if (GROUPS == 1 || threadIdx.y == 0)
        copy_rows<SHAPE::IS_MXFP4, 4>(fragments, p.rows, 0, p.n_tokens, p.w.n_units);
}

/* Of the kernels below. HAS_RANKS: other ranks have the other columns of the rows. */
template <class SHAPE, int KIND, int GROUPS, bool HAS_RANKS>
static __device__ __forceinline__ void project(const struct decode_out &o)
{
    enum { N = lane_values<KIND>::N };
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    const struct decode_matmul &p = o.p;
    const int group = GROUPS == 1 ? 0 : (int)threadIdx.y;
    const int part_of_row = (int)blockIdx.x * GROUPS + group;
    const int n_units = p.w.n_units, tile = part_of_row % UNIT_TILES;
    const int n_tokens = KIND == ROWS_ANY ? p.n_tokens : 1;
    const int lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES;
    const int column = part_of_row * TILE_ROWS + lane % TILE_ROWS;
    const bool has_column = column < p.w.n_rows, is_routing = warp * TILE_ROWS < o.router.n_rows;
    const struct out_tile walk = out_tile_of<SHAPE>(p.w, part_of_row);
    char *fragments = (char *)shared + GROUPS * SHAPE::BYTES;
    float *sums =
        (float *)(fragments + fragments_bytes(n_units, n_tokens)) + group * split_sums(1, n_tokens);
    int at = lane / TILE_ROWS * p.out_width + column; /* in x; a pointer has one register more */
    struct lane_values<KIND> before = {}, updated = {}, z = {
    };
    struct ring<SHAPE> ring;
    float acc[1][1][4], bias = 0.0f, weight = 0.0f, expert_unit = 0.0f;
    struct expert_part expert[N] = {};
    uint4 router = make_uint4(0, 0, 0, 0);

    ring_begin(&ring, (char *)shared + group * SHAPE::BYTES, walk, 1, n_units, p.slice_units);
    struct rows_ready ready = ready_rows(p.rows, 0, n_tokens, n_units);

    if (is_routing)
        router = router_weights(o.router, o.router.n_units, part_of_row);
    if (has_column) {
        bias = vector_at(p.bias, 0, column);
        weight = plain_at(o.norm, column) * ROUTER_UNITS;
        if (o.expert.unit != NULL)
            expert_unit = o.expert.unit[column];
    }
    struct pair_slot slot = {};
    struct expert_sums expert_sums = o.expert;

    if (HAS_RANKS) {
        slot = pair_slot_of(*o.peers, o.exchange);
        if (o.expert_totals != NULL)
            expert_sums.sums = (int32_t *)o.expert_totals;
    }
    materialize_rows<KIND>(&ready);
    materialize(at);
    materialize(bias);
    materialize(weight);
    pdl_wait();
    pdl_launch_dependents();
    load_rows<SHAPE, KIND, GROUPS>(fragments, o);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++)
        if (has_column && k * LANE_TOKENS + lane / TILE_ROWS < n_tokens) {
            before.at[k] =
                __ldcg(p.out + at + k * LANE_TOKENS * p.out_width); /* overlaps with the MMAs */
            load_expert_part(&expert[k], expert_sums, k * LANE_TOKENS + lane / TILE_ROWS, column,
                             p.w.n_rows);
        }
    multiply_split<SHAPE, 1, 1>(acc, &ring, walk, tile, fragments, 0, n_tokens);
    store_sums<1, 1>(sums, acc, n_tokens);
    __syncthreads();
    /* Every warp computes all of the block's sums: each needs them, and a barrier takes longer. */
    struct lane_values<KIND> sum;

    if constexpr (HAS_RANKS)
        sum = lane_sums_of_ranks<SHAPE, KIND>(sums, o, slot, n_tokens, column);
    else
        sum = lane_sums<SHAPE, KIND>(sums, n_tokens);

#pragma unroll
    for (int k = 0; k < N; k++)
        if (has_column && k * LANE_TOKENS + lane / TILE_ROWS < n_tokens) {
            before.at[k] = with_expert_part(before.at[k], expert[k], expert_unit);
            updated.at[k] = before.at[k] + (sum.at[k] + bias);
            if (warp == RING_WARPS - 1)
                p.out[at + k * LANE_TOKENS * p.out_width] = updated.at[k];
            if (warp == RING_WARPS - 1 && o.expert.sums != NULL) /* the block has read it */
                clear_expert_sum(o.expert, k * LANE_TOKENS + lane / TILE_ROWS, column, p.w.n_rows);
            z.at[k] = updated.at[k] * weight;
        }
    if (is_routing) {
        uint2 terms[ROUTER_TERMS];
        float part[4];

        fragment_of<KIND>(terms, z, n_tokens);
        router_partial(part, router, terms);
        add_part<KIND>(o.sums, part, n_tokens);
    }
    if (warp == RING_WARPS - 1)
        add_squares<KIND>(o.sums, updated, n_tokens);
    copy_wait<0>();
}

/* Grid: GROUPS tiles of 16 rows. A block: RING_THREADS, groups. */
template <class SHAPE, int KIND, int GROUPS>
static __global__ void __maxnreg__(registers_of(KIND))
    out_kernel(const __grid_constant__ struct decode_out o)
{
    project<SHAPE, KIND, GROUPS, false>(o);
}

/* The same with an exchange between ranks within it. */
template <class SHAPE, int KIND, int GROUPS>
static __global__ void __maxnreg__(registers_of(KIND))
    out_ranks_kernel(const __grid_constant__ struct decode_out o)
{
    project<SHAPE, KIND, GROUPS, true>(o);
}

template <class SHAPE, int KIND, int GROUPS, bool HAS_RANKS>
static bool launch_kind(struct launch_list *list, const struct decode_out *o)
{
    const struct decode_matmul *p = &o->p;
    const int n_blocks = (int)units_of(p->w.n_rows, GROUPS * TILE_ROWS);
    const int64_t shared_bytes = GROUPS * SHAPE::BYTES +
                                 fragments_bytes(p->w.n_units, p->n_tokens) +
                                 GROUPS * split_sums(1, p->n_tokens) * (int64_t)sizeof(float);

    const dim3 grid((unsigned)n_blocks), block(RING_THREADS, GROUPS);
    const int64_t even_bytes = even_share_bytes(list->gpu, shared_bytes, n_blocks);

    if constexpr (HAS_RANKS)
        return decode_launch_of<out_ranks_kernel<SHAPE, KIND, GROUPS>>(list, grid, block,
                                                                       even_bytes, *o);
    else
        return decode_launch_of<out_kernel<SHAPE, KIND, GROUPS>>(list, grid, block, even_bytes, *o);
}

template <class SHAPE, int GROUPS, bool HAS_RANKS>
static bool launch_rows(struct launch_list *list, const struct decode_out *o)
{
    return o->p.n_tokens == 1 ? launch_kind<SHAPE, ONE_PLAIN_ROW, GROUPS, HAS_RANKS>(list, o)
                              : launch_kind<SHAPE, ROWS_ANY, GROUPS, HAS_RANKS>(list, o);
}

template <class SHAPE, int GROUPS>
static bool launch_shape(struct launch_list *list, const struct decode_out *o)
{
    return o->peers != NULL ? launch_rows<SHAPE, GROUPS, true>(list, o)
                            : launch_rows<SHAPE, GROUPS, false>(list, o);
}

bool launch_decode_out(struct launch_list *list, const struct decode_out *o)
{
    return o->p.is_mxfp4 ? launch_shape<sliced_shape<DTYPE_MXFP4, 1, 1, 8>, GROUPS_MXFP4>(list, o)
                         : launch_shape<sliced_shape<DTYPE_BF16, 1, 1, 4>, 1>(list, o);
}

/* ---- x += the sums of the experts, if no other kernel adds them ---- */

/* Grid: blocks of columns, rows. */
static __global__ void add_sums_kernel(float *x, int n, struct expert_sums from)
{
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), row = (int)blockIdx.y;
    const float unit = column < n ? from.unit[column] : 0.0f;
    struct expert_part part = {};

    pdl_wait();
    pdl_launch_dependents();
    if (column >= n)
        return;
    load_expert_part(&part, from, row, column, n);
    x[row * n + column] = with_expert_part(x[row * n + column], part, unit);
    if (part.poison != 0)
        from.poison[row] = 0;
}

void launch_add_expert_sums(struct launch_list *list, float *x, int n_rows, int n,
                            const struct expert_sums *sums)
{
    add_dependent<add_sums_kernel>(list,
                                   dim3((unsigned)units_of(n, RING_THREADS), (unsigned)n_rows),
                                   RING_THREADS, 0, x, n, *sums);
}

/* ---- clearing the sums, if no earlier kernel has done it ---- */

static __global__ void clear_sums(uint4 *sums, int n)
{
    pdl_wait();
    pdl_launch_dependents();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sums[i] = make_uint4(0, 0, 0, 0);
}

void launch_clear_sums(struct launch_list *list, uint64_t *sums)
{
    add_dependent<clear_sums>(
        list, 1, RING_THREADS, 0, (uint4 *)sums,
        (int)(DECODE_FUSED_MAX * ROUTER_ROW_SUMS * sizeof(*sums) / sizeof(uint4)));
}
