/* MoE decode for few rows, second kernel: down projection, gates, and the sum over a token's
 * experts.
 *
 * Work division: a block has HALVES half tiles of 8 rows, all columns; half tiles give all SMs
 * equal work. Two ranks share a tile: lanes 0 to 15 have the rows of one expert, lanes 16 to 31
 * those of the next, and two columns of the MMA are their two inputs. Warp w takes units w, w + 8,
 * ... of SET ranks at once, then those of the next SET ranks. The partial sums of the warps are
 * added in warp order, as in all kernels (decode.cuh).
 *
 * A block executes its code twice. The first pass runs without inputs before griddepcontrol.wait,
 * to warm up the instruction cache: code that did not run in this layer is fetched from memory line
 * by line. Memory bound; the weights of each active expert are read once per entry. */
#include "cuda/decode/router.cuh"

enum {
    HALVES = 3,
    HALF_LANES = WARP_LANES / 2,
    HALF_ROWS = TILE_ROWS / 2,
    UNIT_HALVES = 2 * UNIT_TILES,
    HALF_BYTES = MXFP4_TILE_BYTES / 2,
    PAIR = 2,
    PAIRS = 2,
    SET = PAIR * PAIRS,
    BLOCK_ROWS = HALVES * HALF_ROWS,
    SCALE_LANES = 4, /* for the scales of a half; they are interleaved with other halves' */
    PAIR_SCALES_BYTES = PAIR * SCALE_LANES * LANE_BYTES,
    PAIR_BYTES = HALVES * (MXFP4_TILE_BYTES + PAIR_SCALES_BYTES),
    UNIT_FRAGMENTS_BYTES = UNIT_BLOCKS * SET * TOKEN_BLOCK_BYTES,
    DOWN_REGISTERS = 112
};
static_assert((int)BLOCK_ROWS * (int)DECODE_ACTIVE_MAX <= (int)RING_THREADS,
              "one thread per row and rank");
static_assert((int)HALVES * (int)SCALE_LANES <= (int)HALF_LANES,
              "one copy instruction for all scales");
static_assert((int)DECODE_ACTIVE_MAX % (int)SET == 0, "ranks in whole sets");
static_assert((int)SET * (int)BLOCK_ROWS * 4 <= (int)UNIT_FRAGMENTS_BYTES,
              "sums reuse the memory of the fragments");

/* Stores the result of stage router, and counts the experts that were read. */
static __device__ void store_topk(const struct decode_experts &p, int token, const int *ids,
                                  const float *gates)
{
    const int rank = threadIdx.x;

    if (rank < p.n_ranks) {
        p.ids[token * p.n_ranks + rank] = ids[rank];
        p.gates[token * p.n_ranks + rank] = gates[rank];
    }
    if (token == 0 && rank == 0)
        *p.n_read += (uint64_t)(p.n_tokens * p.n_ranks);
}

/* A token's logits, computed by one warp. */
template <bool HAS_SUMS>
static __device__ __forceinline__ struct candidates token_candidates(const struct decode_experts &p,
                                                                     int token)
{
    if constexpr (HAS_SUMS) {
        const uint64_t *from = p.topk_input.sums + token * ROUTER_ROW_SUMS;
        const struct router_sums sums = router_load(from);
        float biases[LOGITS_PER_LANE];

        router_biases(biases, p.topk_input.bias, p.n_experts);
        return router_candidates(sums,
                                 router_factor(from, 1.0f / (float)p.n_columns, p.topk_input.eps),
                                 biases, p.n_experts);
    }
    return candidates_of(p.router_logits + token * p.n_experts, p.n_experts);
}

/* Half tile i of the block; past the end of the matrix, its last one. */
static __device__ __forceinline__ int half_number(const struct decode_experts &p, int i)
{
    return min((int)blockIdx.x * HALVES + i, (p.down.n_rows - 1) / HALF_ROWS);
}

/* Offset in a matrix of half tile i of the block, in the first unit. */
static __device__ __forceinline__ int half_offset(const struct decode_experts &p, int i)
{
    const int half = half_number(p, i);

    return half / UNIT_HALVES * p.down.n_units * MXFP4_UNIT_BYTES + half % UNIT_HALVES * HALF_BYTES;
}

/* A warp's ring, and this lane's next copies. */
template <int STAGES> struct down_walk {
    char *slots;
    const unsigned char *at[PAIRS]; /* the lane's codes of its rank, of half tile 0 */
    int slot, rank, unit;           /* rank: the first of the set */
    int scales_offset;              /* from `at` to the scales that this lane copies */
};

template <int STAGES>
static __device__ __forceinline__ void
walk_to(struct down_walk<STAGES> *walk, const struct decode_experts &p, const int *ids, int rank)
{
    const int lane = threadIdx.x % WARP_LANES, w = threadIdx.x / WARP_LANES;

    walk->rank = w < p.down.n_units ? rank : p.n_ranks;
    walk->unit = w;
    if (walk->rank < p.n_ranks)
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
            walk->at[i] =
                p.down.units +
                ids[min(rank + i * PAIR + lane / HALF_LANES, p.n_ranks - 1)] * p.down.matrix_bytes +
                w * MXFP4_UNIT_BYTES + lane % HALF_LANES * LANE_BYTES;
}

template <int STAGES>
static __device__ __forceinline__ void walk_fill(struct down_walk<STAGES> *walk,
                                                 const struct decode_experts &p, const int *ids,
                                                 char *slot)
{
    const int lane = threadIdx.x % WARP_LANES, of_half = lane % HALF_LANES;
    const uint32_t to =
        opaque_address((uint32_t)__cvta_generic_to_shared(slot) + lane * LANE_BYTES);
    const uint32_t scales = to + HALVES * MXFP4_TILE_BYTES - lane * LANE_BYTES +
                            of_half / SCALE_LANES * PAIR_SCALES_BYTES +
                            (lane / HALF_LANES * SCALE_LANES + lane % SCALE_LANES) * LANE_BYTES;

    if (walk->rank < p.n_ranks) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
#pragma unroll
            for (int j = 0; j < HALVES; j++)
                copy_evict_first(to + i * PAIR_BYTES + j * WARP_LANES * LANE_BYTES,
                                 walk->at[i] + half_offset(p, j));
            if (of_half < HALVES * SCALE_LANES)
                copy_evict_first(scales + i * PAIR_BYTES, walk->at[i] + walk->scales_offset);
            walk->at[i] += RING_WARPS * MXFP4_UNIT_BYTES;
        }
        walk->unit += RING_WARPS;
        if (walk->unit >= p.down.n_units)
            walk_to(walk, p, ids, walk->rank + SET);
    }
    copy_commit();
}

template <int STAGES>
static __device__ __forceinline__ void walk_begin(struct down_walk<STAGES> *walk,
                                                  const struct decode_experts &p, const int *ids,
                                                  char *slots)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int half = half_number(p, lane % HALF_LANES / SCALE_LANES);

    walk->slots = slots + threadIdx.x / WARP_LANES * STAGES * PAIRS * PAIR_BYTES;
    walk->slot = 0;
    walk->scales_offset =
        half / UNIT_HALVES * p.down.n_units * MXFP4_UNIT_BYTES + MXFP4_SCALES_OFFSET +
        (half % 2 * SCALE_LANES + lane % SCALE_LANES - lane % HALF_LANES) * LANE_BYTES;
    walk_to(walk, p, ids, 0);
}

/* Loads a warp's units of the gated activations of SET entries as MMA fragments. Missing entries
 * are zeros. */
static __device__ __forceinline__ void prefetch_set(char *fragments, const uint16_t *units, int n,
                                                    int n_entries, int n_units)
{
    enum { PIECES = UNIT_COLUMNS / 8, SET_PIECES = SET * PIECES, AT_ONCE = 6 };
    const int w = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int entry = lane / PIECES; /* a warp loads SET_PIECES pieces */
    const int k0 = w * UNIT_COLUMNS + lane % PIECES * 8;
    static_assert((int)SET_PIECES == (int)WARP_LANES, "one unit per iteration");

    for (int unit0 = w; unit0 < n_units; unit0 += RING_WARPS * AT_ONCE) {
        uint4 regs[AT_ONCE];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int k = (unit0 - w + j * RING_WARPS) * UNIT_COLUMNS + k0;

            regs[j] = make_uint4(0, 0, 0, 0);
            if (k < n && entry < n_entries)
                regs[j] = __ldcg((const uint4 *)(units + entry * n + k));
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (unit0 + j * RING_WARPS < n_units)
                *(uint4 *)(fragments + fragment_at((unit0 - w + j * RING_WARPS) * UNIT_COLUMNS + k0,
                                                   entry, SET)) = regs[j];
    }
    __syncwarp();
}

/* acc += a unit of a set times its inputs. */
static __device__ __forceinline__ void multiply_set(float acc[PAIRS][HALVES][4],
                                                    const uint4 words[PAIRS][HALVES],
                                                    const uint32_t scales[PAIRS][HALVES],
                                                    const char *inputs)
{
    const int lane = threadIdx.x % WARP_LANES, group = lane / 4, t = lane % 4;

#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            uint4 b = make_uint4(0, 0, 0, 0);

            if (group < PAIR)
                b = *(const uint4 *)(inputs + (block * SET + i * PAIR + group) * TOKEN_BLOCK_BYTES +
                                     t * LANE_BYTES);
#pragma unroll
            for (int j = 0; j < HALVES; j++)
                multiply_mxfp4(acc[i][j], block == 0 ? words[i][j].x : words[i][j].z,
                               block == 0 ? words[i][j].y : words[i][j].w,
                               scale_at(scales[i][j], block * 2),
                               scale_at(scales[i][j], block * 2 + 1), b);
        }
}

/* Stores a warp's partial sums: (rank of the set, row of the block). */
static __device__ __forceinline__ void store_halves(float *sums, const float acc[PAIRS][HALVES][4])
{
    const int lane = threadIdx.x % WARP_LANES, which = lane / HALF_LANES;

    __syncwarp();
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
#pragma unroll
        for (int j = 0; j < HALVES; j++)
            if (lane % 4 == 0)
                *(float2 *)(sums + (i * PAIR + which) * BLOCK_ROWS + j * HALF_ROWS +
                            lane % HALF_LANES / 4 * 2) =
                    which == 0 ? make_float2(acc[i][j][0], acc[i][j][2])
                               : make_float2(acc[i][j][1], acc[i][j][3]);
}

static inline HOST_DEVICE int down_set_bytes(int n_units)
{
    return (n_units > RING_WARPS ? n_units : (int)RING_WARPS) * UNIT_FRAGMENTS_BYTES;
}

/* The sum of row i of the block at a rank. */
static __device__ __forceinline__ float sum_of_row(const char *fragments, int set_bytes, int rank,
                                                   int i)
{
    const char *from = fragments + rank / SET * set_bytes;
    float sum = 0.0f;

#pragma unroll
    for (int w = 0; w < RING_WARPS; w++)
        sum += ((const float *)(from + w * UNIT_FRAGMENTS_BYTES))[rank % SET * BLOCK_ROWS + i];
    return sum * CODE_UNIT;
}

/* The gated sum of a row over ranks, a set at a time. */
static __device__ __forceinline__ float
gated_sum(const float *gates, const float of_rank[DECODE_ACTIVE_MAX][BLOCK_ROWS], int n_ranks,
          int row)
{
    float sum = 0.0f;

#pragma unroll 1
    for (int first = 0; first < n_ranks; first += SET) {
        float gate[SET], number[SET];

#pragma unroll
        for (int i = 0; i < SET; i++) { /* arrays are padded to whole sets */
            gate[i] = gates[first + i];
            number[i] = of_rank[first + i][row];
        }
#pragma unroll
        for (int i = 0; i < SET; i++)
            sum = first + i < n_ranks ? __fmaf_rn(gate[i], number[i], sum) : sum;
    }
    return sum;
}

/* acc = a warp's units of a set times its inputs. In the warm-up pass (not is_real) the loop issues
 * STAGES copies and multiplies whatever the last slot holds. */
template <int STAGES>
static __device__ __forceinline__ void
multiply_units(float acc[PAIRS][HALVES][4], struct down_walk<STAGES> *walk,
               const struct decode_experts &p, const int *ids, bool is_real,
               const int tile_scales[HALVES], const char *inputs)
{
    const int w = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int first = is_real ? w : w - (STAGES - 1) * RING_WARPS;
    const int end = is_real ? p.down.n_units : w + 1;

#pragma unroll
    for (int i = 0; i < PAIRS * HALVES * 4; i++)
        acc[i / 4 / HALVES][i / 4 % HALVES][i % 4] = 0.0f;
#pragma unroll 1
    for (int unit = first; unit < end; unit += RING_WARPS) {
        char *slot = walk->slots + walk->slot * PAIRS * PAIR_BYTES;
        uint4 words[PAIRS][HALVES];
        uint32_t scales[PAIRS][HALVES];

        if (unit >= 0) {
            if (is_real)
                copy_wait<STAGES - 1>();
            __syncwarp();
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
#pragma unroll
                for (int j = 0; j < HALVES; j++) {
                    const char *from = slot + i * PAIR_BYTES;

                    words[i][j] = ((const uint4 *)from)[j * WARP_LANES + lane];
                    scales[i][j] = *(const uint32_t *)(from + tile_scales[j]);
                }
            __syncwarp();
        }
        walk_fill(walk, p, ids, slot);
        walk->slot = walk->slot + 1 == STAGES ? 0 : walk->slot + 1;
        if (unit >= 0)
            multiply_set(acc, words, scales, inputs + unit * UNIT_FRAGMENTS_BYTES);
    }
}

/* Multiplies the token's sets. The warp's sums of a set overwrite the set's inputs. */
template <int STAGES>
static __device__ __forceinline__ void multiply_sets(char *fragments, int set_bytes, int n_sets,
                                                     int w, struct down_walk<STAGES> *walk,
                                                     const struct decode_experts &p, const int *ids,
                                                     bool is_real, const int tile_scales[HALVES])
{
#pragma unroll 1
    for (int set = 0; set < n_sets; set++) {
        char *inputs = fragments + set * set_bytes;
        float acc[PAIRS][HALVES][4];

        multiply_units(acc, walk, p, ids, is_real, tile_scales, inputs);
        store_halves((float *)(inputs + w * UNIT_FRAGMENTS_BYTES), acc);
    }
}

/* Loads the inputs of the token's sets; in the warm-up pass (not is_real) it loads no inputs. */
static __device__ __forceinline__ void prefetch_sets(char *fragments, int set_bytes, int n_sets,
                                                     const struct decode_experts &p, int token,
                                                     int n_ranks, bool is_real)
{
#pragma unroll 1
    for (int set = 0; set < n_sets; set++)
        prefetch_set(fragments + set * set_bytes,
                     p.units + (token * n_ranks + set * SET) * p.n_units, p.n_units,
                     is_real ? n_ranks - set * SET : 0, p.down.n_units);
}

/* Offset of a lane's scales of half tile j in a pair's slot. */
static __device__ __forceinline__ int scales_offset(const struct decode_experts &p, int j, int lane)
{
    return HALVES * MXFP4_TILE_BYTES + j * PAIR_SCALES_BYTES + lane / 4 * LANE_BYTES +
           half_number(p, j) % UNIT_HALVES / 2 * UNIT_BLOCKS * 2;
}

/* The gates of the token's experts, by one warp. */
static __device__ __forceinline__ void store_gates(float *gates, const struct by_lane &mine,
                                                   int lane, int n_ranks)
{
    const float gate = gate_of_lane(mine, n_ranks);

    if (lane < n_ranks)
        gates[lane] = gate;
}

/* Grid: blocks of HALVES half tiles, tokens. */
template <int STAGES, bool HAS_SUMS>
static __global__ void __maxnreg__(DOWN_REGISTERS)
    down_kernel(const __grid_constant__ struct decode_experts p)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ int ids[DECODE_ACTIVE_MAX];
    __shared__ float of_rank[DECODE_ACTIVE_MAX][BLOCK_ROWS], gates[DECODE_ACTIVE_MAX];
    const int n_ranks = p.n_ranks, token = blockIdx.y, n_units = p.down.n_units;
    const int w = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int set_bytes = down_set_bytes(n_units);
    const int rank_of_thread = (int)threadIdx.x / BLOCK_ROWS;
    const int row_of_thread = (int)threadIdx.x % BLOCK_ROWS;
    const int row = (int)blockIdx.x * BLOCK_ROWS + row_of_thread, at = token * p.n_columns + row;
    const bool is_summed = rank_of_thread < n_ranks && row < p.down.n_rows;
    char *fragments = (char *)shared + RING_WARPS * STAGES * PAIRS * PAIR_BYTES;
    float bias = 0.0f, before = 0.0f;
    struct down_walk<STAGES> walk;
    int tile_scales[HALVES];

    if (w == 0)
        store_gates(gates, block_topk(ids, token_candidates<HAS_SUMS>(p, token), n_ranks), lane,
                    n_ranks);
    __syncthreads();
    walk_begin(&walk, p, ids, (char *)shared);
    if (is_summed)
        bias = vector_at(p.bias_down, ids[rank_of_thread], row);
#pragma unroll
    for (int j = 0; j < HALVES; j++)
        tile_scales[j] = scales_offset(p, j, lane);
#pragma unroll 1
    for (int pass = WARMUP_PASS; pass < N_PASSES; pass++) {
        const bool is_real = pass == FINAL_PASS;
        const int n_sets = is_real ? (n_ranks + SET - 1) / SET : 1;

        if (is_real) {
            pdl_wait();
            pdl_launch_dependents();
        }
        if (is_real && p.x != NULL && is_summed && rank_of_thread == 0)
            before = __ldcg(p.x + at);
        prefetch_sets(fragments, set_bytes, n_sets, p, token, n_ranks, is_real);
        multiply_sets(fragments, set_bytes, n_sets, w, &walk, p, ids, is_real, tile_scales);
        __syncthreads();
        if (is_summed)
            of_rank[rank_of_thread][row_of_thread] =
                sum_of_row(fragments, set_bytes, rank_of_thread, row_of_thread) + bias;
        __syncthreads();
        if (is_summed && rank_of_thread == 0) {
            const float sum = gated_sum(gates, of_rank, n_ranks, row_of_thread);

            if (is_real && p.x != NULL)
                p.x[at] = before + sum;
            else if (is_real)
                p.h[at] = sum;
        }
    }
    if (blockIdx.x == 0)
        store_topk(p, token, ids, gates);
    copy_wait<0>();
}

enum { DOWN_STAGES = 2 }; /* three leave no space for two QKV blocks of the next layer */

template <bool HAS_SUMS>
static bool down_of(struct launch_list *list, const struct decode_experts *p)
{
    const int64_t shared_bytes =
        RING_WARPS * DOWN_STAGES * PAIRS * PAIR_BYTES +
        (p->n_ranks + SET - 1) / SET * (int64_t)down_set_bytes(p->down.n_units);

    return decode_launch<down_kernel<DOWN_STAGES, HAS_SUMS>>(
        list, dim3((unsigned)units_of(p->down.n_rows, BLOCK_ROWS), (unsigned)p->n_tokens),
        shared_bytes, *p);
}

static bool down(struct launch_list *list, const struct decode_experts *p)
{
    return p->topk_input.sums != NULL ? down_of<true>(list, p) : down_of<false>(list, p);
}

bool launch_decode_down(struct launch_list *list, const struct decode_experts *p)
{
    return down(list, p);
}

bool decode_down_fits(struct launch_list *list, const struct decode_experts *p)
{
    bool fits;

    list->is_query = true;
    fits = down(list, p);
    list->is_query = false;
    return fits;
}
