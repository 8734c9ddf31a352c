/* MoE decode for few rows, second kernel: down projection and the sum over a token's experts, in
 * integers (expert_sums.h).
 *
 * Work division: a block has HALVES half tiles of 8 rows, all columns; half tiles give all SMs
 * equal work. Two ranks share a tile: lanes 0 to 15 have the rows of one expert, lanes 16 to 31
 * those of the next, and two columns of the MMA are their two inputs. Warp w takes the units of
 * slice w of SET ranks at once, then those of the next SET ranks.
 *
 * A block executes its code twice. The first pass runs without inputs before griddepcontrol.wait,
 * to warm up the instruction cache: code that did not run in this layer is fetched from memory line
 * by line. Memory bound; the weights of each active expert are read once per entry. */
#include "cuda/common/expert_sums.cuh"
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
static_assert((int)EXPERT_SLICES == (int)RING_WARPS, "a warp has a slice");

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

/* The units of a warp. */
struct slice {
    int first, n;
};

static __device__ __forceinline__ struct slice slice_of(int n_units, int width, int w)
{
    return {min(w * width, n_units - 1), expert_slice_units(n_units, width, w)};
}

/* A warp's ring, and this lane's next copies. */
template <int STAGES> struct down_walk {
    char *slots;
    const unsigned char *at[PAIRS]; /* the lane's codes of its rank, of half tile 0 */
    int slot, rank, n_left;         /* rank: the first of the set; n_left: its units */
    int scales_offset;              /* from `at` to the scales that this lane copies */
};

template <int STAGES>
static __device__ __forceinline__ void
walk_to(struct down_walk<STAGES> *walk, const struct decode_experts &p, const int *ids, int rank)
{
    const int lane = threadIdx.x % WARP_LANES, w = threadIdx.x / WARP_LANES;
    const struct slice slice = slice_of(p.down.n_units, p.slice_units, w);

    walk->rank = slice.n > 0 ? rank : p.n_ranks;
    walk->n_left = slice.n;
    if (walk->rank < p.n_ranks)
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
            walk->at[i] =
                p.down.units +
                ids[min(rank + i * PAIR + lane / HALF_LANES, p.n_ranks - 1)] * p.down.matrix_bytes +
                slice.first * MXFP4_UNIT_BYTES + lane % HALF_LANES * LANE_BYTES;
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
            walk->at[i] += MXFP4_UNIT_BYTES;
        }
        if (--walk->n_left == 0)
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
                                                    int n_entries, const struct slice &slice)
{
    enum { PIECES = UNIT_COLUMNS / 8, SET_PIECES = SET * PIECES, AT_ONCE = 6 };
    const int lane = threadIdx.x % WARP_LANES;
    const int entry = lane / PIECES; /* a warp loads SET_PIECES pieces */
    const int k0 = slice.first * UNIT_COLUMNS + lane % PIECES * 8;
    static_assert((int)SET_PIECES == (int)WARP_LANES, "one unit per iteration");

    for (int first = 0; first < slice.n; first += AT_ONCE) {
        uint4 regs[AT_ONCE];

#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int k = (first + j) * UNIT_COLUMNS + k0;

            regs[j] = make_uint4(0, 0, 0, 0);
            if (first + j < slice.n && k < n && entry < n_entries)
                regs[j] = __ldcg((const uint4 *)(units + entry * n + k));
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (first + j < slice.n)
                *(uint4 *)(fragments + fragment_at((first + j) * UNIT_COLUMNS + k0, entry, SET)) =
                    regs[j];
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

/* Stores the partials of a warp's slice: (rank of the set, row of the block). */
static __device__ __forceinline__ void
store_halves(int32_t *sums, const float acc[PAIRS][HALVES][4], const float scales[BLOCK_ROWS])
{
    const int lane = threadIdx.x % WARP_LANES, which = lane / HALF_LANES;
    const int first = lane % HALF_LANES / 4 * 2;

    __syncwarp();
#pragma unroll
    for (int j = 0; j < HALVES; j++) {
        const float2 scale = *(const float2 *)(scales + j * HALF_ROWS + first);
        const float2 factor = make_float2(slice_factor(scale.x), slice_factor(scale.y));

#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const float even = which == 0 ? acc[i][j][0] : acc[i][j][1];
            const float odd = which == 0 ? acc[i][j][2] : acc[i][j][3];

            if (lane % 4 == 0)
                *(int2 *)(sums + (i * PAIR + which) * BLOCK_ROWS + j * HALF_ROWS + first) =
                    make_int2(slice_partial(even, factor.x), slice_partial(odd, factor.y));
        }
    }
}

static inline HOST_DEVICE int down_set_bytes(int n_units)
{
    return n_units * UNIT_FRAGMENTS_BYTES;
}

/* A thread's row of the block at its rank: (rank, row) of the block, in the order of threads. */
enum { SET_ROWS = SET * BLOCK_ROWS };

/* Adds the slices of that row to its bias. They lie where the inputs of their first units were: a
 * slice's bytes apart. */
static __device__ __forceinline__ void add_slices(int32_t *sums, const char *fragments,
                                                  int slice_bytes, int set_bytes, int32_t bias)
{
    const char *from = fragments + (int)threadIdx.x / SET_ROWS * set_bytes +
                       (int)threadIdx.x % SET_ROWS * (int)sizeof(int32_t);
    int32_t sum = bias;

#pragma unroll
    for (int w = 0; w < RING_WARPS; w++)
        if (w * slice_bytes < set_bytes)
            sum += *(const int32_t *)(from + w * slice_bytes);
    sums[threadIdx.x] = sum;
}

/* The sum of a row over ranks, a set at a time. */
static __device__ __forceinline__ int32_t sum_of_ranks(const int32_t *sums, int n_ranks)
{
    int32_t sum = 0;

#pragma unroll 1
    for (int first = 0; first < n_ranks; first += SET)
#pragma unroll
        for (int i = 0; i < SET; i++) /* the array is padded to whole sets */
            sum += first + i < n_ranks ? sums[(first + i) * BLOCK_ROWS] : 0;
    return sum;
}

/* acc = a warp's units of a set times its inputs. In the warm-up pass (not is_real) the loop issues
 * STAGES copies and multiplies whatever the last slot holds. */
template <int STAGES>
static __device__ __forceinline__ void
multiply_units(float acc[PAIRS][HALVES][4], struct down_walk<STAGES> *walk,
               const struct decode_experts &p, const int *ids, bool is_real,
               const int tile_scales[HALVES], const char *inputs, const struct slice &slice)
{
    const int lane = threadIdx.x % WARP_LANES;
    const int first = is_real ? 0 : 1 - STAGES, end = is_real ? slice.n : 1;

#pragma unroll
    for (int i = 0; i < PAIRS * HALVES * 4; i++)
        acc[i / 4 / HALVES][i / 4 % HALVES][i % 4] = 0.0f;
#pragma unroll 1
    for (int unit = first; unit < end; unit++) {
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
        if (unit >= 0 && slice.n > 0 && (is_real || blockIdx.y == 0))
            multiply_set(acc, words, scales, inputs + unit * UNIT_FRAGMENTS_BYTES);
    }
}

/* Multiplies the token's sets. The warp's partials of a set overwrite the inputs of its first
 * unit; a warp without units has none. */
template <int STAGES>
static __device__ __forceinline__ void
multiply_sets(char *fragments, int n_sets, struct down_walk<STAGES> *walk,
              const struct decode_experts &p, const int *ids, bool is_real,
              const int tile_scales[HALVES], const float scales[BLOCK_ROWS],
              const struct slice &slice)
{
#pragma unroll 1
    for (int set = 0; set < n_sets; set++) {
        char *inputs =
            fragments + set * down_set_bytes(p.down.n_units) + slice.first * UNIT_FRAGMENTS_BYTES;
        float acc[PAIRS][HALVES][4];

        multiply_units(acc, walk, p, ids, is_real, tile_scales, inputs, slice);
        if (!is_real)
            continue; /* one set */
        if (set ==
            0) { /* for the copies of begin_rows(), older than those of units, of all threads */
            copy_wait<STAGES>();
            __syncthreads();
        }
        if (slice.n > 0)
            store_halves((int32_t *)inputs, acc, scales);
    }
}

/* Loads the inputs of the token's sets; in the warm-up pass (not is_real) it loads no inputs. */
static __device__ __forceinline__ void prefetch_sets(char *fragments, int n_sets,
                                                     const struct decode_experts &p, int token,
                                                     bool is_real, const struct slice &slice)
{
#pragma unroll 1
    for (int set = 0; set < n_sets; set++)
        prefetch_set(fragments + set * down_set_bytes(p.down.n_units),
                     p.units + (token * p.n_ranks + set * SET) * p.n_units, p.n_units,
                     is_real ? p.n_ranks - set * SET : 0, slice);
}

/* Offset of a lane's scales of half tile j in a pair's slot. */
static __device__ __forceinline__ int scales_offset(const struct decode_experts &p, int j, int lane)
{
    return HALVES * MXFP4_TILE_BYTES + j * PAIR_SCALES_BYTES + lane / 4 * LANE_BYTES +
           half_number(p, j) % UNIT_HALVES / 2 * UNIT_BLOCKS * 2;
}

/* What the block's rows need besides their slices. In shared memory: the kernel has no registers
 * for it, and addresses that it computes are not moved in front of its passes. */
struct down_rows {
    float scales[BLOCK_ROWS], units[BLOCK_ROWS];         /* static */
    uint32_t bias_words[DECODE_ACTIVE_MAX * BLOCK_ROWS]; /* (rank, row): words that have the bias */
    float before[BLOCK_ROWS];                            /* x, or 0 */
    float *out;                                          /* of the first row */
    int slice_bytes;                                     /* of the inputs of a set */
    int32_t poison;
};

static __device__ __forceinline__ void copy_word(void *to, const void *from)
{
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

/* The aligned word with element i of vector `matrix`, which is not VECTOR_NONE. */
static __device__ __forceinline__ const uint32_t *word_with(const struct decode_vector &v,
                                                            int matrix, int i)
{
    return v.kind == VECTOR_F32 ? (const uint32_t *)v.data + matrix * v.n + i
                                : (const uint32_t *)v.data + upper_at(v, matrix, i) / 2;
}

static __device__ __forceinline__ float value_in_word(const struct decode_vector &v, uint32_t word,
                                                      int matrix, int i)
{
    if (v.kind == VECTOR_NONE)
        return 0.0f;
    return __uint_as_float(v.kind == VECTOR_F32              ? word
                           : upper_at(v, matrix, i) % 2 == 0 ? word << 16
                                                             : word & 0xFFFF0000u);
}

/* The row of the thread's rank and row, or past the end of the matrix. */
static __device__ __forceinline__ int row_of_thread(void)
{
    return (int)(blockIdx.x * BLOCK_ROWS + threadIdx.x % BLOCK_ROWS);
}

/* Starts to load these, without waiting for them: the first weights are asked for next. */
static __device__ __forceinline__ void begin_rows(struct down_rows *rows,
                                                  const struct decode_experts &p, const int *ids)
{
    const int rank = (int)threadIdx.x / BLOCK_ROWS, i = (int)threadIdx.x % BLOCK_ROWS;
    const int row = row_of_thread();

    if (threadIdx.x == 0) {
        rows->out = (p.x == NULL ? p.h : p.x) + (int)blockIdx.y * p.n_columns + row;
        rows->slice_bytes = p.slice_units * UNIT_FRAGMENTS_BYTES;
    }
    if (rank < p.n_ranks && row < p.down.n_rows) {
        if (p.bias_down.kind != VECTOR_NONE)
            copy_word(&rows->bias_words[threadIdx.x], word_with(p.bias_down, ids[rank], row));
        if (rank == 0) {
            copy_word(&rows->scales[i], p.grid + row);
            copy_word(&rows->units[i], p.grid + p.n_columns + row);
        }
    }
    copy_commit();
}

/* The bias partial of the thread's rank and row. */
static __device__ __forceinline__ int32_t bias_of_thread(const struct down_rows &rows,
                                                         const struct decode_experts &p,
                                                         const int *ids, const float *gates)
{
    const int rank = (int)threadIdx.x / BLOCK_ROWS, row = row_of_thread();

    if (row >= p.down.n_rows)
        return 0;
    return bias_partial(gates[rank],
                        value_in_word(p.bias_down, rows.bias_words[threadIdx.x], ids[rank], row),
                        rows.scales[threadIdx.x % BLOCK_ROWS]);
}

/* Stores the result of the thread's row. */
static __device__ __forceinline__ void store_result(const struct down_rows &rows,
                                                    const int32_t *sums, int n_ranks, bool is_raw)
{
    const int32_t sum = sum_of_ranks(sums + threadIdx.x, n_ranks);

    if (is_raw) {
        __stcg((int32_t *)rows.out + threadIdx.x,
               rows.poison == 0 ? sum : (int32_t)EXPERT_SUM_POISONED);
        return;
    }
    __stcg(rows.out + threadIdx.x, rows.before[threadIdx.x] + poison_term(rows.poison) +
                                       value_of_partials(sum, rows.units[threadIdx.x]));
}

static __device__ __forceinline__ void store_before(struct down_rows *rows, float before,
                                                    int32_t poison)
{
    rows->before[threadIdx.x] = before;
    if (threadIdx.x == 0)
        rows->poison = poison;
}

static __device__ __forceinline__ int rows_of_block(const struct decode_experts &p)
{
    return min((int)BLOCK_ROWS, p.down.n_rows - (int)(blockIdx.x * BLOCK_ROWS));
}

/* Grid: blocks of HALVES half tiles, tokens. */
template <int STAGES, bool HAS_SUMS>
static __global__ void __maxnreg__(DOWN_REGISTERS)
    down_kernel(const __grid_constant__ struct decode_experts p)
{
    extern __shared__ __align__(LINE_BYTES) uint4 shared[];
    __shared__ int ids[DECODE_ACTIVE_MAX], sums[DECODE_ACTIVE_MAX * BLOCK_ROWS];
    __shared__ float gates[DECODE_ACTIVE_MAX];
    __shared__ __align__(8) struct down_rows rows;
    const int n_ranks = p.n_ranks, token = blockIdx.y;
    const int w = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const bool has_row = (int)threadIdx.x < rows_of_block(p);
    const struct slice slice = slice_of(p.down.n_units, p.slice_units, w);
    char *fragments = (char *)shared + RING_WARPS * STAGES * PAIRS * PAIR_BYTES;
    struct down_walk<STAGES> walk;
    int tile_scales[HALVES];

    if (w == 0)
        store_gates(gates, block_topk(ids, token_candidates<HAS_SUMS>(p, token), n_ranks), lane,
                    n_ranks);
    __syncthreads();
    walk_begin(&walk, p, ids, (char *)shared);
    begin_rows(&rows, p, ids);
#pragma unroll
    for (int j = 0; j < HALVES; j++)
        tile_scales[j] = scales_offset(p, j, lane);
    __syncthreads(); /* rows.out, rows.slice_bytes */
#pragma unroll 1
    for (int pass = WARMUP_PASS; pass < N_PASSES; pass++) {
        const bool is_real = pass == FINAL_PASS;
        const int n_sets = is_real ? (n_ranks + SET - 1) / SET : 1;

        if (is_real) {
            pdl_wait();
            pdl_launch_dependents();
        }
        const int32_t poison = is_real && has_row ? __ldcg(p.poison + token) : 0;
        const float before =
            is_real && has_row && p.x != NULL ? __ldcg(rows.out + threadIdx.x) : 0.0f;

        prefetch_sets(fragments, n_sets, p, token, is_real, slice);
        if (has_row)
            store_before(&rows, before, poison);
        multiply_sets(fragments, n_sets, &walk, p, ids, is_real, tile_scales, rows.scales, slice);
        const int slice_bytes = rows.slice_bytes;

        __syncthreads();
        if (threadIdx.x < n_ranks * BLOCK_ROWS)
            add_slices(sums, fragments, slice_bytes, down_set_bytes(p.down.n_units),
                       is_real ? bias_of_thread(rows, p, ids, gates) : 0);
        __syncthreads();
        if (is_real && has_row)
            store_result(rows, sums, n_ranks, p.is_raw);
    }
    if (threadIdx.x == 0 && rows.poison != 0)
        reset_poison(p.poison + token, (int)gridDim.x);
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
