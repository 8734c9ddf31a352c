/* Grouped MoE GEMMs (up and down) of a decode step with many rows, by mma.sync with the ring of
 * decode_sm90.cuh: as decode_grouped.cu, with the same bits, for jobs of up to 24 tokens.
 *
 * Work division: an item is six rows of units of a job; each of 12 consumer warps has two tiles,
 * half a row of units, so that a fragment of the tokens is loaded once for two tiles. Only the
 * groups of eight tokens that a job has are multiplied. Persistent blocks, one per SM, have shares
 * of all items whose costs are equal (job_shares.h).
 *
 * Not by wgmma: the sums of each block of 32 columns are two instructions, whose time does not
 * become shorter below 24 columns, and experts have about eight tokens in a step of 256 rows.
 *
 * Traffic: the weights of the active experts, once per job, and a job's tokens once per item, from
 * L2. Instructions of a warp for each unit of 64 columns of a tile: 57, and 14 for each eight
 * tokens. */
#include "cuda/common/ldmatrix.cuh"
#include "cuda/decode/grouped_items.cuh"
#include "cuda/decode/job_shares.h"

enum {
    JOB_TOKENS = 24,
    CONSUMER_GROUPS = 3,
    ROWS_OF_GROUP = 2, /* of units */
    STAGE_UNITS = 4,
    TILES = 2, /* of a warp */
    ROW_WARPS = UNIT_TILES / TILES,
    MATRIX_BYTES = OPERAND_ALIGN_ROWS * OPERAND_ROW_BYTES /* eight tokens of a unit */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

typedef struct wide_shape<JOB_TOKENS, CONSUMER_GROUPS, STAGE_UNITS, ROWS_OF_GROUP> SHAPE;

/* What is constant in the loop over units: addresses of this lane in a stage. */
struct wide_lane {
    uint32_t words_at, codes_at;     /* of its tiles */
    uint32_t tokens_at[UNIT_BLOCKS]; /* its row of the matrices of a block (operand.h) */
    uint32_t shifts[TILES];          /* of down: of the item's row */
};

/* consumer: index of the warp. */
static __device__ __forceinline__ struct wide_lane lane_of(int consumer)
{
    const int lane = threadIdx.x % WARP_LANES, row = lane % OPERAND_ALIGN_ROWS;
    const int first_tile = consumer % ROW_WARPS * TILES;
    const uint32_t unit = SHAPE::UNITS_AT + consumer / ROW_WARPS * MXFP4_UNIT_BYTES;
    struct wide_lane at = {.words_at = unit + first_tile * MXFP4_TILE_BYTES + lane * LANE_BYTES,
                           .codes_at = unit + MXFP4_SCALES_OFFSET +
                                       (lane / 4 * UNIT_TILES + first_tile) * 4,
                           .tokens_at = {},
                           .shifts = {}};

#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++)
        at.tokens_at[block] = row * OPERAND_ROW_BYTES +
                              ((block * 4 + lane / OPERAND_ALIGN_ROWS) ^ row) * OPERAND_PIECE_BYTES;
    return at;
}

/* A lane's words and block scales of a unit. */
struct unit_words {
    uint4 words[TILES];
    uint32_t codes[TILES];
};

/* Of unit i of a stage that is there. */
static __device__ __forceinline__ void load_words(struct unit_words *out, const struct stages &s,
                                                  int i, const struct wide_lane &at)
{
    const uint32_t unit = s.at + i * SHAPE::UNITS_BYTES;
    const uint2 codes = load_shared_pair<0>(at.codes_at + unit);

    out->words[0] = load_shared<0>(at.words_at + unit);
    out->words[1] = load_shared<MXFP4_TILE_BYTES>(at.words_at + unit);
    out->codes[0] = codes.x + at.shifts[0];
    out->codes[1] = codes.y + at.shifts[1];
}

/* The sums of two tiles and 8 N tokens. */
template <int KIND, int N> struct tile_sums {
    float acc[TILES][N][4];                                    /* of the current eighth or slice, */
    float eighths[KIND == SUMS_OF_EIGHTHS ? TILES : 1][N * 4]; /* and of those before it */
    int32_t slices[KIND == SUMS_OF_EXPERT_SLICES ? TILES : 1][N * 4];
};

template <int KIND, int N>
static __device__ __forceinline__ void clear_tiles(struct tile_sums<KIND, N> *sums)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < N * 4; i++) {
            sums->acc[tile][i / 4][i % 4] = 0.0f;
            if constexpr (KIND == SUMS_OF_EIGHTHS)
                sums->eighths[tile][i] = 0.0f;
            else
                sums->slices[tile][i] = 0;
        }
}

template <int KIND, int N>
static __device__ __forceinline__ void end_tiles(struct tile_sums<KIND, N> *sums)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < N * 4; i++) {
            float *acc = &sums->acc[tile][i / 4][i % 4];

            if constexpr (KIND == SUMS_OF_EIGHTHS)
                sums->eighths[tile][i] += *acc;
            else
                sums->slices[tile][i] += shifted_partial(*acc);
            *acc = 0.0f;
        }
}

/* acc += the tiles of a unit times 8 N tokens; tokens: of the unit. */
template <int N>
static __device__ __forceinline__ void multiply_unit(float (&acc)[TILES][N][4],
                                                     const struct unit_words &x,
                                                     const struct wide_lane &at, uint32_t tokens)
{
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        uint4 columns[N];

#pragma unroll
        for (int n = 0; n < N; n++)
            columns[n] = load_matrices(tokens + at.tokens_at[block] + n * MATRIX_BYTES);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const uint4 words = x.words[tile];
            const uint32_t codes = x.codes[tile];

            multiply_columns<N>(acc[tile], block == 0 ? words.x : words.z,
                                block == 0 ? words.y : words.w, scale_at(codes, block * 2),
                                scale_at(codes, block * 2 + 1), columns);
        }
    }
}

/* Units of the current eighth or slice that are left, and the eighth's index. */
struct part_walk {
    int left, eighth;
};

template <int KIND>
static __device__ __forceinline__ void begin_part(struct part_walk *w, int n_units, int width)
{
    w->left = KIND == SUMS_OF_EIGHTHS ? (n_units - w->eighth++ + EIGHTHS - 1) / EIGHTHS : width;
}

/* sums = the warp's tiles times the tokens of an item. The words of a unit are loaded before the
 * unit in front of it is multiplied. */
template <int KIND, int N>
static __device__ __forceinline__ void multiply_tiles_of(struct tile_sums<KIND, N> *sums,
                                                         const struct wide_lane &at,
                                                         struct stages *s, int n_units, int width)
{
    struct part_walk part = {};
    struct unit_words next;

    begin_part<KIND>(&part, n_units, width);
    clear_tiles<KIND, N>(sums);
    wait_stage<SHAPE>(*s);
    load_words(&next, *s, 0, at);
    for (int left = n_units;; left -= STAGE_UNITS) {
        const struct stages now = *s;

        next_stage<SHAPE>(s);
#pragma unroll
        for (int i = 0; i < STAGE_UNITS; i++) {
            const struct unit_words x = next;
            const bool is_last = i + 1 == STAGE_UNITS;

            if (left > i + 1) {
                if (is_last)
                    wait_stage<SHAPE>(*s);
                load_words(&next, is_last ? *s : now, (i + 1) % STAGE_UNITS, at);
            }
            multiply_unit<N>(sums->acc, x, at, now.at + i * SHAPE::TILE_BYTES);
            if (--part.left == 0 || left == i + 1) {
                end_tiles<KIND, N>(sums);
                begin_part<KIND>(&part, n_units, width);
            }
            if (is_last || left == i + 1)
                release_stage<SHAPE>(now);
            if (left == i + 1)
                return;
        }
    }
}

/* An item without a row for this warp: releases its stages. */
static __device__ __forceinline__ void skip_units(int n_units, struct stages *s)
{
    for (int left = n_units; left > 0; left -= STAGE_UNITS) {
        wait_stage<SHAPE>(*s);
        release_stage<SHAPE>(*s);
        next_stage<SHAPE>(s);
    }
}

/* The warp's part of an item: half a row of units. */
struct wide_part {
    int4 head; /* of the job: expert, first entry, number of entries, first operand row */
    int row, first_tile;
};

/* The lane's index, which the compiler does not know to be constant: what depends on it is computed
 * where it is used, and does not take registers in the loop over units. */
static __device__ __forceinline__ int lane_here(void)
{
    int lane;

    asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
    return lane;
}

template <bool IS_UP, int N>
static __device__ __forceinline__ void compute_part(const struct decode_grouped &p,
                                                    const struct wide_part &part,
                                                    const struct wide_lane &at, struct stages *s)
{
    const struct decode_vector &biases = IS_UP ? p.e.bias_up : p.e.bias_down;
    const int column =
        part.row * UNIT_ROWS + part.first_tile * TILE_ROWS + (int)threadIdx.x % WARP_LANES / 4 * 2;
    struct tile_sums<sums_of<IS_UP>::KIND, N> sums;
    uint2 bits[TILES];

#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        bits[tile] = vector_pair_bits(biases, part.head.x, column + tile * TILE_ROWS);
    multiply_tiles_of<sums_of<IS_UP>::KIND, N>(
        &sums, at, s, IS_UP ? p.e.up.n_units : p.e.down.n_units, p.e.slice_units);
    const int lane = lane_here();
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        const float2 bias = pair_of_bits(biases, bits[tile]);

        if constexpr (IS_UP)
            store_up<8 * N>(p, sums.eighths[tile], part.head, part.row, part.first_tile + tile,
                            bias, lane);
        else
            store_down<8 * N>(p, sums.slices[tile], part.head, column + tile * TILE_ROWS, bias,
                              lane);
    }
}

template <bool IS_UP>
static __device__ __forceinline__ void consume(const struct decode_grouped &p, struct stages s,
                                               int consumer)
{
    struct job_items<IS_UP, SHAPE, true> items(p);
    struct wide_lane at = lane_of(consumer);
    const int first_tile = consumer % ROW_WARPS * TILES;

    for (int item = items.first; item < items.end; item++) {
        const struct wide_part part = {items.head_of(item),
                                       item % items.n_parts * SHAPE::ROWS + consumer / ROW_WARPS,
                                       first_tile};
        /* by a shuffle: the compiler then knows that all lanes agree */
        const int n_tokens = __shfl_sync(ALL_LANES, part.head.z, 0);

        if (part.row >= items.n_rows) {
            skip_units(items.w.n_units, &s);
            continue;
        }
        if (!IS_UP) {
            const uint32_t *shifts = expert_shifts(p.e.grid, p.e.n_columns) +
                                     part.row * WARP_LANES + scales_word(first_tile);

            at.shifts[0] = shifts[0];
            at.shifts[1] = shifts[1];
        }
        if (n_tokens <= 8)
            compute_part<IS_UP, 1>(p, part, at, &s);
        else if (n_tokens <= 16)
            compute_part<IS_UP, 2>(p, part, at, &s);
        else
            compute_part<IS_UP, 3>(p, part, at, &s);
    }
}

#endif

/* Jobs and shares are read before pdl_wait() by down: the kernel that lists them has completed
 * before up starts this one. */
template <bool IS_UP>
static __global__ void __launch_bounds__((1 + CONSUMER_GROUPS) * GROUP_THREADS, 1)
    grouped_wide_kernel(const __grid_constant__ struct decode_grouped p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    run_block<SHAPE, IS_UP>(
        [&](const struct stages &s, int warp) {
            const struct decode_matrix &w = IS_UP ? p.e.up : p.e.down;

            produce<sums_of<IS_UP>::KIND, SHAPE>(job_items<IS_UP, SHAPE, true>(p),
                                                 {w.n_units, p.e.slice_units,
                                                  (int64_t)p.n_operand_rows * OPERAND_ROW_BYTES,
                                                  EVICT_FIRST_POLICY},
                                                 s, warp);
        },
        [&](const struct stages &s, int group, int warp) {
            consume<IS_UP>(p, s, group * GROUP_WARPS + warp);
        });
#else
    (void)p; /* bulk copies and setmaxnreg: Hopper only */
    __trap();
#endif
}

/* ---- host ---- */

static bool launch(struct launch_list *list, const struct decode_grouped *p, bool is_up)
{
    typedef struct wide_shape<JOB_TOKENS, CONSUMER_GROUPS, STAGE_UNITS, ROWS_OF_GROUP> SHAPE;
    const unsigned n_blocks = (unsigned)p->n_shares;

    return is_up ? decode_launch_of<grouped_wide_kernel<true>>(list, n_blocks, SHAPE::THREADS,
                                                               SHAPE::SHARED_BYTES, *p)
                 : decode_launch_of<grouped_wide_kernel<false>>(list, n_blocks, SHAPE::THREADS,
                                                                SHAPE::SHARED_BYTES, *p);
}

void launch_decode_grouped_wide(struct launch_list *list, const struct decode_grouped *p,
                                bool is_up)
{
    (void)launch(list, p, is_up);
}

static int parts_of(const struct decode_matrix *w)
{
    return (int)units_of(units_of(w->n_rows, UNIT_ROWS), CONSUMER_GROUPS * ROWS_OF_GROUP);
}

bool decode_grouped_wide_fits(struct launch_list *list, struct decode_grouped *p)
{
    const bool is_whole = p->e.n_columns % UNIT_COLUMNS == 0 && p->e.n_units % UNIT_COLUMNS == 0;
    bool fits;

    p->job_tokens = JOB_TOKENS;
    p->n_shares = list->gpu->n_sms;
    p->n_parts[0] = parts_of(&p->e.up);
    p->n_parts[1] = parts_of(&p->e.down);
    list->is_query = true;
    fits = is_whole && p->n_shares <= DECODE_SHARES_MAX && launch(list, p, true) &&
           launch(list, p, false);
    list->is_query = false;
    return fits;
}
