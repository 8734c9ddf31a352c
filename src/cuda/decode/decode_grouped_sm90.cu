/* Grouped MoE GEMMs (up and down) of a decode step with many rows, by wgmma: as decode_grouped.cu,
 * with the same bits, for jobs of up to 16, 32 or 48 tokens.
 *
 * Work division: an item is GROUPS rows of units of a job. Persistent blocks, one per SM, split all
 * items evenly. A producer warpgroup fills a ring of stages: a unit of 64 columns of each row, and
 * the same columns of the job's tokens, which are adjacent rows of an operand (prefill/gemm.h).
 * Each consumer warpgroup multiplies one row of units: its warp w has tile w of each unit as operand
 * A in registers, and expands the next unit while the wgmmas of this one run.
 *
 * Order of sums: that of decode_grouped.cu. A block of 32 columns is a sum of its own, from zero: two
 * wgmmas, which give the bits of two mma.sync.m16n8k16. It is multiplied by the block scale and added
 * to the sum of an eighth (up: units e, e + 8, ...) or of a slice (down) in order. A group walks all
 * units of its row, eighth by eighth, so the sums of an item are complete in registers.
 *
 * Traffic: the weights of the active experts, once per job, and a job's tokens once per item, from
 * L2. Memory bound up to some 300 rows; above that by instruction issue. */
#include "cuda/common/expert_sums.cuh"
#include "cuda/common/evict_first.cuh"
#include "cuda/common/swiglu.cuh"
#include "cuda/common/wgmma.cuh"
#include "cuda/decode/columns.cuh"
#include "cuda/prefill/gemm.h"

enum {
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * WARP_LANES,
    K_STEPS = UNIT_COLUMNS / 16,
    SHARED_BYTES_MAX = 227 << 10,
    STAGES_MAX = 20,
    PRODUCER_REGISTERS = 24,
    EIGHTHS = 8,
    TOKENS_WARP = GROUP_WARPS - 1 /* of the producer: it also copies the tokens */
};

/* TOKENS: of a job, at most. GROUPS: consumer warpgroups. */
template <int TOKENS_, int GROUPS_> struct wide_shape {
    enum {
        TOKENS = TOKENS_,
        GROUPS = GROUPS_,
        SUMS = TOKENS / 2, /* of a thread */
        THREADS = (1 + GROUPS) * GROUP_THREADS,
        /* all registers of the block, as launched, without those that the producer gives up */
        LAUNCH_REGISTERS = (64 << 10) / THREADS / 8 * 8,
        REGISTERS = (LAUNCH_REGISTERS * THREADS - PRODUCER_REGISTERS * GROUP_THREADS) /
                    (GROUPS * GROUP_THREADS) / 8 * 8,
        TILE_BYTES = TOKENS * OPERAND_ROW_BYTES,
        UNITS_BYTES = GROUPS * MXFP4_UNIT_BYTES,
        STAGES_THAT_FIT = (SHARED_BYTES_MAX - 2 * STAGES_MAX * 8) / (TILE_BYTES + UNITS_BYTES),
        STAGES = STAGES_THAT_FIT < STAGES_MAX ? STAGES_THAT_FIT : STAGES_MAX,
        UNITS_AT = STAGES * TILE_BYTES,
        FULL_AT = UNITS_AT + STAGES * UNITS_BYTES,
        EMPTY_AT = FULL_AT + STAGES * 8,
        SHARED_BYTES = EMPTY_AT + STAGES * 8
    };
};

/* What is common to all items. */
struct items {
    int first, end;    /* of this block */
    int n_parts, step; /* items of a job; rows of units of an item */
    int n_rows;        /* rows of units */
};

template <class SHAPE>
static __device__ __forceinline__ struct items items_of(const struct decode_matrix &w, int n_jobs)
{
    const int n_rows = (w.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    const int n_parts = (n_rows + SHAPE::GROUPS - 1) / SHAPE::GROUPS;
    const int64_t n = (int64_t)n_jobs * n_parts;

    return {(int)(n * blockIdx.x / gridDim.x), (int)(n * (blockIdx.x + 1) / gridDim.x), n_parts,
            SHAPE::GROUPS, n_rows};
}

/* The head of an item's job: expert, first entry, number of entries, first operand row. */
static __device__ __forceinline__ int4 head_of(const struct decode_grouped &p,
                                               const struct items &items, int item)
{
    return __ldcg((const int4 *)(p.jobs + item / items.n_parts));
}

/* The group's row of units. A group without one repeats the last, and stores nothing. */
static __device__ __forceinline__ int row_of(const struct items &items, int item, int group)
{
    return min(item % items.n_parts * items.step + group, items.n_rows - 1);
}

struct stages {
    uint32_t shared;
    int at;
    uint32_t parity;
};

template <class SHAPE> static __device__ __forceinline__ void next_stage(struct stages *s)
{
    if (++s->at == SHAPE::STAGES) {
        s->at = 0;
        s->parity ^= 1;
    }
}

/* ---- the order of units: up by eighths (e, e + 8, ...), down in order ---- */

struct unit_walk {
    int unit, first, left; /* left: units of the eighth or slice, including this one */
};

template <bool IS_UP>
static __device__ __forceinline__ void begin_part(struct unit_walk *w, int n_units, int width)
{
    w->left = IS_UP ? (n_units - w->first + EIGHTHS - 1) / EIGHTHS : min(width, n_units - w->unit);
}

template <bool IS_UP>
static __device__ __forceinline__ struct unit_walk begin_units(int n_units, int width)
{
    struct unit_walk w = {};

    begin_part<IS_UP>(&w, n_units, width);
    return w;
}

/* Advances by a unit; returns whether a part ended with the last one. */
template <bool IS_UP>
static __device__ __forceinline__ bool next_unit(struct unit_walk *w, int n_units, int width)
{
    const bool is_end = --w->left == 0;

    w->unit += IS_UP ? (int)EIGHTHS : 1;
    if (is_end) {
        w->unit = IS_UP ? ++w->first : w->unit;
        begin_part<IS_UP>(w, n_units, width);
    }
    return is_end;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- producer: one thread of each warp ---- */

static __device__ __forceinline__ void bulk_load_evict_first(uint32_t to, const void *from,
                                                             uint32_t n_bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(barrier), "l"(EVICT_FIRST_POLICY)
                 : "memory");
}

/* Warp w copies the units of rows w, w + 4, ... of an item. */
template <bool IS_UP, class SHAPE>
static __device__ void produce(const struct decode_grouped &p, struct stages s, int warp)
{
    const struct decode_matrix &w = IS_UP ? p.e.up : p.e.down;
    const char *operand = IS_UP ? p.operand : p.units_operand;
    const int64_t chunk_bytes = (int64_t)p.n_operand_rows * OPERAND_ROW_BYTES;
    const int width = expert_slice_width(w.n_units);
    const uint32_t units_bytes =
        (SHAPE::GROUPS - warp + GROUP_WARPS - 1) / GROUP_WARPS * (uint32_t)MXFP4_UNIT_BYTES;
    const struct items items = items_of<SHAPE>(w, __ldcg(p.n_jobs));

    for (int item = items.first; item < items.end; item++) {
        const int4 head = head_of(p, items, item);
        const unsigned char *matrix = w.units + head.x * w.matrix_bytes;
        const uint32_t tokens_bytes =
            warp == TOKENS_WARP
                ? units_of(head.z, OPERAND_ALIGN_ROWS) * OPERAND_ALIGN_ROWS * OPERAND_ROW_BYTES
                : 0;
        struct unit_walk walk = begin_units<IS_UP>(w.n_units, width);

        for (int i = 0; i < w.n_units; i++) {
            const uint32_t full = s.shared + SHAPE::FULL_AT + s.at * 8;
            const uint32_t to = s.shared + SHAPE::UNITS_AT + s.at * SHAPE::UNITS_BYTES;

            mbarrier_wait(s.shared + SHAPE::EMPTY_AT + s.at * 8, s.parity ^ 1);
            mbarrier_expect_tx(full, units_bytes + tokens_bytes);
            if (tokens_bytes > 0)
                bulk_load(s.shared + s.at * SHAPE::TILE_BYTES,
                          operand + walk.unit * chunk_bytes + (int64_t)head.w * OPERAND_ROW_BYTES,
                          tokens_bytes, full);
            for (int group = warp; group < SHAPE::GROUPS; group += GROUP_WARPS)
                bulk_load_evict_first(
                    to + group * MXFP4_UNIT_BYTES,
                    matrix + (int64_t)(row_of(items, item, group) * w.n_units + walk.unit) *
                                 MXFP4_UNIT_BYTES,
                    MXFP4_UNIT_BYTES, full);
            next_stage<SHAPE>(&s);
            (void)next_unit<IS_UP>(&walk, w.n_units, width);
        }
    }
}

/* ---- consumers ---- */

/* A lane's part of a unit: operand A of its wgmmas, and the codes of its four scales. */
struct expanded {
    uint32_t a[K_STEPS][4];
    uint32_t codes;
};

/* Waits for the stage, and expands this warp's tile of the group's unit. */
template <class SHAPE>
static __device__ __forceinline__ void expand_unit(struct expanded *out, const struct stages &s,
                                                   uint32_t words_at, uint32_t codes_at,
                                                   uint32_t shifts)
{
    const uint32_t unit = s.at * SHAPE::UNITS_BYTES;
    uint32_t low[4], high[4];

    mbarrier_wait(s.shared + SHAPE::FULL_AT + s.at * 8, s.parity);
    const uint4 words = load_shared<0>(words_at + unit);

    out->codes = load_shared_word<0>(codes_at + unit) + shifts;
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        decode_word(low, block == 0 ? words.x : words.z);
        decode_word(high, block == 0 ? words.y : words.w);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out->a[block * 2 + i / 2][i % 2 * 2] = low[i];
            out->a[block * 2 + i / 2][i % 2 * 2 + 1] = high[i];
        }
    }
}

/* Sums of a block of 32 columns, for each block of a unit. */
template <class SHAPE> struct block_sums {
    float of[UNIT_BLOCKS][SHAPE::SUMS];
};

/* Starts the wgmmas of a unit. */
template <class SHAPE>
static __device__ __forceinline__ void start_unit(struct block_sums<SHAPE> *d,
                                                  const struct expanded &x, const struct stages &s)
{
    const uint64_t b = wgmma_descriptor(s.shared + s.at * SHAPE::TILE_BYTES);

    wgmma_fence();
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        wgmma_of_zero<SHAPE::TOKENS>(d->of[block], x.a[block * 2], b + block * 4);
        wgmma<true, SHAPE::TOKENS>(d->of[block], x.a[block * 2 + 1], b + block * 4 + 2);
        wgmma_commit();
    }
}

template <int N>
static __device__ __forceinline__ void add_block(float (&acc)[N], const float (&d)[N],
                                                 uint32_t codes, int block)
{
    const float low = scale_at(codes, block * 2), high = scale_at(codes, block * 2 + 1);

#pragma unroll
    for (int i = 0; i < N; i++)
        acc[i] = __fmaf_rn(d[i], i % 4 < 2 ? low : high, acc[i]);
}

/* Waits for the wgmmas of a unit, releases its stage, and adds its sums. */
template <class SHAPE>
static __device__ __forceinline__ void
end_unit(float (&acc)[SHAPE::SUMS], struct block_sums<SHAPE> *d, uint32_t codes, uint32_t empty)
{
    wgmma_wait<1>();
    wgmma_fence_operand(d->of[0]);
    add_block(acc, d->of[0], codes, 0);
    wgmma_wait<0>();
    wgmma_fence_operand(d->of[1]);
    __syncwarp();
    if (threadIdx.x % WARP_LANES == 0)
        mbarrier_arrive(empty);
    add_block(acc, d->of[1], codes, 1);
}

/* The sums of an item: floats of up, integers of down. */
template <bool IS_UP, class SHAPE> struct item_sums {
    float acc[SHAPE::SUMS];            /* of the current eighth or slice */
    float up[IS_UP ? SHAPE::SUMS : 1]; /* of those before it */
    int32_t down[IS_UP ? 1 : SHAPE::SUMS];
};

template <bool IS_UP, class SHAPE>
static __device__ __forceinline__ void end_part(struct item_sums<IS_UP, SHAPE> *sums)
{
#pragma unroll
    for (int i = 0; i < SHAPE::SUMS; i++) {
        if constexpr (IS_UP)
            sums->up[i] += sums->acc[i];
        else
            sums->down[i] += shifted_partial(sums->acc[i]);
        sums->acc[i] = 0.0f;
    }
}

template <bool IS_UP, class SHAPE>
static __device__ __forceinline__ void clear_sums(struct item_sums<IS_UP, SHAPE> *sums)
{
#pragma unroll
    for (int i = 0; i < SHAPE::SUMS; i++) {
        sums->acc[i] = 0.0f;
        if constexpr (IS_UP)
            sums->up[i] = 0.0f;
        else
            sums->down[i] = 0;
    }
}

/* What is constant in the loop over units. */
struct consumer {
    uint32_t words_at, codes_at; /* of this lane, in stage 0 */
    uint32_t shifts;             /* of down: of the item's row */
    int n_units, width;
};

/* One unit whose A is in `now`; the next one, if any, is expanded to `next`. */
template <bool IS_UP, class SHAPE>
static __device__ __forceinline__ void
multiply_unit_of(struct item_sums<IS_UP, SHAPE> *sums, const struct consumer &c, struct stages *s,
                 struct unit_walk *walk, const struct expanded &now, struct expanded *next,
                 bool has_next)
{
    const uint32_t empty = s->shared + SHAPE::EMPTY_AT + s->at * 8;
    struct block_sums<SHAPE> d;

    start_unit<SHAPE>(&d, now, *s);
    next_stage<SHAPE>(s);
    if (has_next)
        expand_unit<SHAPE>(next, *s, c.words_at, c.codes_at, c.shifts);
    end_unit<SHAPE>(sums->acc, &d, now.codes, empty);
    if (next_unit<IS_UP>(walk, c.n_units, c.width))
        end_part<IS_UP, SHAPE>(sums);
}

/* sums = the group's row of units times the tokens of an item. No wgmma is under way where the loop
 * begins again: the compiler would wait for it after each instruction (C7514). */
template <bool IS_UP, class SHAPE>
static __device__ __forceinline__ void multiply_row(struct item_sums<IS_UP, SHAPE> *sums,
                                                    const struct consumer &c, struct stages *s)
{
    struct unit_walk walk = begin_units<IS_UP>(c.n_units, c.width);
    struct expanded x, y;

    clear_sums<IS_UP, SHAPE>(sums);
    expand_unit<SHAPE>(&x, *s, c.words_at, c.codes_at, c.shifts);
    for (int left = c.n_units;; left -= 2) {
        multiply_unit_of<IS_UP, SHAPE>(sums, c, s, &walk, x, &y, left > 1);
        if (left == 1)
            break;
        multiply_unit_of<IS_UP, SHAPE>(sums, c, s, &walk, y, &x, left > 2);
        if (left == 2)
            break;
    }
}

/* ---- epilogue: a thread has rows 2 g and 2 g + 1 of its warp's tile, g = lane / 4, for tokens
 * 8 i + 2 t and 8 i + 2 t + 1, t = lane % 4 ---- */

/* The gates of the thread's tokens. */
template <class SHAPE>
static __device__ __forceinline__ void load_gates(float (&gates)[SHAPE::TOKENS / 4],
                                                  const struct decode_grouped &p, int4 head)
{
#pragma unroll
    for (int i = 0; i < SHAPE::TOKENS / 4; i++) {
        const int token = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;

        gates[i] = token < head.z ? __ldcg(p.entry_gates + head.y + token) : 0.0f;
    }
}

/* A gated unit; an entry with one that is not finite gets the gate NaN. */
static __device__ __forceinline__ uint32_t gated_bits(const struct decode_grouped &p, float gate,
                                                      float x, float y, float2 bias, int entry,
                                                      bool is_there)
{
    const float unit =
        gate * swiglu(x * CODE_UNIT + bias.x, y * CODE_UNIT + bias.y, p.e.limit, p.e.alpha);

    if (is_there && !isfinite(unit))
        p.entry_gates[entry] = unit * 0.0f;
    return half_bits(unit);
}

/* Stores gated units in the operand of the down product. Lanes of adjacent units exchange one of
 * their two tokens, so that each has a pair of units of one token. */
template <class SHAPE>
static __device__ __forceinline__ void store_up(const struct decode_grouped &p,
                                                const float (&sums)[SHAPE::SUMS], int4 head,
                                                int row, int warp, float2 bias)
{
    const int lane = threadIdx.x % WARP_LANES, g = lane / 4, is_odd = g % 2;
    const int piece = row % 2 * 4 + g / 2;
    float gates[SHAPE::TOKENS / 4];

    load_gates<SHAPE>(gates, p, head);
#pragma unroll
    for (int i = 0; i < SHAPE::TOKENS / 8; i++) {
        const int token = i * 8 + lane % 4 * 2, mine = token + is_odd;
        uint32_t bits[2];

        if (i * 8 >= head.z)
            break;
#pragma unroll
        for (int k = 0; k < 2; k++)
            bits[k] = gated_bits(p, gates[i * 2 + k], sums[i * 4 + k], sums[i * 4 + k + 2], bias,
                                 head.y + token + k, token + k < head.z);
        const uint32_t other = __shfl_xor_sync(ALL_LANES, is_odd ? bits[0] : bits[1], 4);

        if (mine < head.z)
            *(uint32_t *)(p.units_operand +
                          operand_piece_offset(p.n_operand_rows, head.w + mine, row / 2, piece) +
                          warp * 4) = is_odd ? other | bits[1] << 16 : bits[0] | other << 16;
    }
}

template <class SHAPE>
static __device__ __forceinline__ void store_down(const struct decode_grouped &p,
                                                  const int32_t (&sums)[SHAPE::SUMS], int4 head,
                                                  int column, float2 bias)
{
    const float2 scale = *(const float2 *)(p.e.grid + column);
    float gates[SHAPE::TOKENS / 4];

    load_gates<SHAPE>(gates, p, head);
#pragma unroll
    for (int i = 0; i < SHAPE::TOKENS / 4; i++) {
        const int token = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;

        if (token < head.z)
            *(int2 *)(p.parts + (int64_t)(head.y + token) * p.e.n_columns + column) =
                make_int2(sums[at] + bias_partial(gates[i], bias.x, scale.x),
                          sums[at + 2] + bias_partial(gates[i], bias.y, scale.y));
    }
}

/* All items of the block, one row of units each. */
template <bool IS_UP, class SHAPE>
static __device__ __forceinline__ void consume(const struct decode_grouped &p, struct stages s,
                                               int group, int warp)
{
    const struct decode_matrix &w = IS_UP ? p.e.up : p.e.down;
    const struct decode_vector &biases = IS_UP ? p.e.bias_up : p.e.bias_down;
    const int lane = threadIdx.x % WARP_LANES, scales_word = lane / 4 * UNIT_TILES + warp;
    const uint32_t unit = s.shared + SHAPE::UNITS_AT + group * MXFP4_UNIT_BYTES;
    struct consumer c = {unit + warp * MXFP4_TILE_BYTES + lane * LANE_BYTES,
                         unit + MXFP4_SCALES_OFFSET + scales_word * 4, 0, w.n_units,
                         expert_slice_width(w.n_units)};
    const struct items items = items_of<SHAPE>(w, __ldcg(p.n_jobs));
    int4 head = items.first < items.end ? head_of(p, items, items.first) : make_int4(0, 0, 0, 0);

    for (int item = items.first; item < items.end; item++) {
        const int row = row_of(items, item, group);
        const bool is_there = item % items.n_parts * items.step + group < items.n_rows;
        const int column = row * UNIT_ROWS + warp * TILE_ROWS + lane / 4 * 2;
        const bool has_column = is_there && column < w.n_rows;
        const uint2 bits = has_column ? vector_pair_bits(biases, head.x, column) : make_uint2(0, 0);
        const int4 next = item + 1 < items.end ? head_of(p, items, item + 1) : head;
        struct item_sums<IS_UP, SHAPE> sums;

        if (!IS_UP)
            c.shifts = expert_shifts(p.e.grid, p.e.n_columns)[row * WARP_LANES + scales_word];
        multiply_row<IS_UP, SHAPE>(&sums, c, &s);
        if constexpr (IS_UP) {
            if (is_there)
                store_up<SHAPE>(p, sums.up, head, row, warp, pair_of_bits(biases, bits));
        } else {
            if (has_column)
                store_down<SHAPE>(p, sums.down, head, column, pair_of_bits(biases, bits));
        }
        head = next;
    }
}

template <class SHAPE> static __device__ __forceinline__ void init_barriers(uint32_t shared)
{
    if (threadIdx.x == 0) {
        if (shared % (OPERAND_ALIGN_ROWS * OPERAND_ROW_BYTES) != 0)
            __trap();
        for (int i = 0; i < SHAPE::STAGES; i++) {
            mbarrier_init(shared + SHAPE::FULL_AT + i * 8, GROUP_WARPS);
            mbarrier_init(shared + SHAPE::EMPTY_AT + i * 8, SHAPE::GROUPS * GROUP_WARPS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
}

#endif

/* Jobs and their number are read before pdl_wait() by down: the kernel that lists them has completed
 * before up starts this one. */
template <bool IS_UP, int TOKENS, int GROUPS>
static __global__ void __launch_bounds__((1 + GROUPS) * GROUP_THREADS, 1)
    grouped_sm90_kernel(const __grid_constant__ struct decode_grouped p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef struct wide_shape<TOKENS, GROUPS> SHAPE;
    extern __shared__ __align__(1024) char smem[];
    const int warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP_LANES, 0) % GROUP_WARPS;
    const int group = __shfl_sync(ALL_LANES, threadIdx.x / GROUP_THREADS, 0);
    const struct stages s = {shared_address(smem), 0, 0};

    init_barriers<SHAPE>(s.shared);
    if (group == 0) {
        warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
        if (IS_UP || warp == TOKENS_WARP)
            pdl_wait();
        if (threadIdx.x % WARP_LANES == 0)
            produce<IS_UP, SHAPE>(p, s, warp);
    } else {
        warpgroup_reg_alloc<SHAPE::REGISTERS>();
        pdl_wait();
        pdl_launch_dependents();
        consume<IS_UP, SHAPE>(p, s, group - 1, warp);
    }
#else
    (void)p; /* other architectures have no wgmma */
    __trap();
#endif
}

/* ---- host ---- */

/* X(tokens of a job, consumer warpgroups): more groups hide more latency, and need registers for
 * their sums. 90 rows of units of up and 45 of down are whole items of both. */
#define WIDE_SHAPES(X)                                                                             \
    X(16, 5)                                                                                       \
    X(32, 3)                                                                                       \
    X(48, 3)

/* The narrowest shape with room for half as many tokens again as an expert has in the mean. */
static int tokens_of_job(const struct decode_grouped *p)
{
    const int n_each = p->e.n_tokens * p->e.n_ranks / p->e.n_experts, wanted = n_each + n_each / 2;

    return wanted <= 16 ? 16 : wanted <= 32 ? 32 : 48;
}

template <bool IS_UP, int TOKENS, int GROUPS>
static bool launch_shape(struct launch_list *list, const struct decode_grouped *p)
{
    typedef struct wide_shape<TOKENS, GROUPS> SHAPE;

    return decode_launch_of<grouped_sm90_kernel<IS_UP, TOKENS, GROUPS>>(
        list, (unsigned)list->gpu->n_sms, SHAPE::THREADS, SHAPE::SHARED_BYTES, *p);
}

static bool launch(struct launch_list *list, const struct decode_grouped *p, bool is_up)
{
#define LAUNCH_SHAPE(tokens, groups)                                                               \
    if (p->job_tokens == tokens)                                                                   \
        return is_up ? launch_shape<true, tokens, groups>(list, p)                                 \
                     : launch_shape<false, tokens, groups>(list, p);
    WIDE_SHAPES(LAUNCH_SHAPE)
#undef LAUNCH_SHAPE
    return false;
}

void launch_decode_grouped_sm90(struct launch_list *list, const struct decode_grouped *p,
                                bool is_up)
{
    (void)launch(list, p, is_up);
}

bool decode_grouped_sm90_fits(struct launch_list *list, struct decode_grouped *p)
{
    const bool is_whole = p->e.n_columns % UNIT_COLUMNS == 0 && p->e.n_units % UNIT_COLUMNS == 0;
    bool fits;

    p->job_tokens = tokens_of_job(p);
    list->is_query = true;
    fits = is_whole && launch(list, p, true) && launch(list, p, false);
    list->is_query = false;
    return fits;
}
