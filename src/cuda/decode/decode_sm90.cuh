/* Main loop of decode GEMMs by wgmma (Hopper), for many rows: ring, producer, and consumers that
 * walk all units of a row of units. The bits are those of the other decode kernels.
 *
 * A block has a producer warpgroup and GROUPS consumer warpgroups. An item is GROUPS rows of units
 * and up to TOKENS tokens, which are adjacent rows of an operand (common/operand.h). A stage of the
 * ring has STAGE_UNITS units of 64 columns of each row, and the same columns of the tokens. Each
 * consumer multiplies one row of units: its warp w has tile w of each unit as operand A in
 * registers, and expands the next unit while the wgmmas of this one run.
 *
 * Order of sums: a block of 32 columns is a sum of its own, from zero: two wgmmas, which give the
 * bits of two mma.sync.m16n8k16. It is multiplied by the block scale and added to the sum of an
 * eighth (units e, e + 8, ...) or, in attn_out and the down product, of a slice (out_sums.h,
 * expert_sums.h) in order. A group walks its row eighth by eighth or slice by slice, so the sums of
 * an item are complete in its registers.
 *
 * A class ITEMS says what an item is:
 *     int first, end;                          the items of this block
 *     void begin(int item);                    loads what the functions below need
 *     const unsigned char *units(int row);     a row of units of the item
 *     const char *tokens();                    the tokens' first row, in the operand's first chunk
 *     uint32_t tokens_bytes();                 of a chunk: whole OPERAND_ALIGN_ROWS rows */
#ifndef CUDA_DECODE_DECODE_SM90_CUH
#define CUDA_DECODE_DECODE_SM90_CUH

#include "cuda/common/expert_sums.cuh"
#include "cuda/common/evict_first.cuh"
#include "cuda/common/wgmma.cuh"
#include "cuda/decode/columns.cuh"
#include "cuda/common/operand.h"

enum {
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * WARP_LANES,
    K_STEPS = UNIT_COLUMNS / 16,
    SHARED_BYTES_MAX = 227 << 10,
    STAGES_MAX = 10,
    BARRIER_BYTES = 8,
    STAGE_ALIGN = OPERAND_ALIGN_ROWS * OPERAND_ROW_BYTES,
    EIGHTHS = 8,
    TOKENS_WARP = GROUP_WARPS - 1 /* of the producer: it also copies the tokens */
};

#ifdef DECODE_SM90_DEBUG
enum { DEBUG_BYTES = GROUP_WARPS * 4 };
#else
enum { DEBUG_BYTES = 0 };
#endif

/* TOKENS: of an item, at most. GROUPS: consumer warpgroups, each with GROUP_ROWS rows of units.
 * STAGE_UNITS: units of a stage. ASIDE_BYTES: shared memory of a group behind the ring. */
template <int TOKENS_, int GROUPS_, int STAGE_UNITS_, int GROUP_ROWS_ = 1, int ASIDE_BYTES_ = 0>
struct wide_shape {
    enum {
        TOKENS = TOKENS_,
        GROUPS = GROUPS_,
        ROWS = GROUPS_ * GROUP_ROWS_, /* of units, of an item */
        STAGE_UNITS = STAGE_UNITS_,
        PRODUCER_REGISTERS = 40,
        SUMS = TOKENS / 2, /* of a thread */
        THREADS = (1 + GROUPS) * GROUP_THREADS,
        /* all registers of the block, as launched, without those that the producer gives up */
        LAUNCH_REGISTERS = (64 << 10) / THREADS / 8 * 8,
        REGISTERS = (LAUNCH_REGISTERS * THREADS - PRODUCER_REGISTERS * GROUP_THREADS) /
                    (GROUPS * GROUP_THREADS) / 8 * 8,
        TILE_BYTES = TOKENS * OPERAND_ROW_BYTES, /* of the tokens, and */
        UNITS_BYTES = ROWS * MXFP4_UNIT_BYTES,   /* of the rows, for a unit of columns */
        /* A stage: its tokens, its rows, its barriers, all at constant offsets from one address */
        UNITS_AT = STAGE_UNITS * TILE_BYTES,
        FULL_AT = UNITS_AT + STAGE_UNITS * UNITS_BYTES,
        EMPTY_AT = FULL_AT + BARRIER_BYTES,
        DEBUG_AT = EMPTY_AT + BARRIER_BYTES,
        STAGE_BYTES = (DEBUG_AT + DEBUG_BYTES + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN,
        ASIDE_BYTES = ASIDE_BYTES_,
        STAGES_THAT_FIT = (SHARED_BYTES_MAX - GROUPS * ASIDE_BYTES) / STAGE_BYTES,
        STAGES = STAGES_THAT_FIT < STAGES_MAX ? STAGES_THAT_FIT : STAGES_MAX,
        RING_BYTES = STAGES * STAGE_BYTES,
        SHARED_BYTES = RING_BYTES + GROUPS * ASIDE_BYTES
    };
};

struct stages {
    uint32_t at; /* address of the current stage */
    int index;
    uint32_t parity;
#ifdef DECODE_SM90_DEBUG
    uint32_t phase;
#endif
};

template <class SHAPE> static __device__ __forceinline__ void next_stage(struct stages *s)
{
    s->at += SHAPE::STAGE_BYTES;
    if (++s->index == SHAPE::STAGES) {
        s->index = 0;
        s->at -= SHAPE::RING_BYTES;
        s->parity ^= 1;
#ifdef DECODE_SM90_DEBUG
        s->phase++;
#endif
    }
}

/* With -DDECODE_SM90_DEBUG warps sleep at random, and each counts the phases of the stages: a wait
 * that took another phase for the right one traps. */
#ifdef DECODE_SM90_DEBUG
static __device__ __forceinline__ void debug_sleep(void)
{
    const uint32_t random = (uint32_t)clock() * 2654435761u ^ threadIdx.x / WARP_LANES * 40503u;

    if (random >> 24 < 16)
        __nanosleep(random >> 20 & 2047);
}

template <class SHAPE> static __device__ void debug_produced(const struct stages &s, int warp)
{
    debug_sleep();
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(s.at + SHAPE::DEBUG_AT + warp * 4), "r"(s.phase)
                 : "memory");
}

template <class SHAPE> static __device__ void debug_consumed(const struct stages &s)
{
    debug_sleep();
    for (int warp = 0; warp < GROUP_WARPS; warp++)
        if (load_shared_word<0>(s.at + SHAPE::DEBUG_AT + warp * 4) != s.phase)
            __trap();
}
#else
static __device__ __forceinline__ void debug_sleep(void)
{
}

template <class SHAPE>
static __device__ __forceinline__ void debug_produced(const struct stages &, int)
{
}

template <class SHAPE> static __device__ __forceinline__ void debug_consumed(const struct stages &)
{
}
#endif

/* ---- the order of units: by eighths (e, e + 8, ...), or in order (slices) ---- */

enum row_sums {
    SUMS_OF_EIGHTHS,      /* float32 */
    SUMS_OF_OUT_SLICES,   /* of attn_out: out_sums.h */
    SUMS_OF_EXPERT_SLICES /* of the down product: expert_sums.h */
};

struct unit_walk {
    int unit, first, left; /* left: units of the eighth or slice, including this one */
};

template <int KIND>
static __device__ __forceinline__ void begin_part(struct unit_walk *w, int n_units, int width)
{
    w->left = KIND == SUMS_OF_EIGHTHS ? (n_units - w->first + EIGHTHS - 1) / EIGHTHS
                                      : min(width, n_units - w->unit);
}

template <int KIND>
static __device__ __forceinline__ struct unit_walk begin_units(int n_units, int width)
{
    struct unit_walk w = {};

    begin_part<KIND>(&w, n_units, width);
    return w;
}

/* Advances by a unit; returns whether a part ended with the last one. */
template <int KIND>
static __device__ __forceinline__ bool next_unit(struct unit_walk *w, int n_units, int width)
{
    const bool is_end = --w->left == 0;

    w->unit += KIND == SUMS_OF_EIGHTHS ? (int)EIGHTHS : 1;
    if (is_end) {
        w->unit = KIND == SUMS_OF_EIGHTHS ? ++w->first : w->unit;
        begin_part<KIND>(w, n_units, width);
    }
    return is_end;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- producer: one thread of each warp ---- */

/* What is common to all items. */
struct ring_source {
    int n_units, width;  /* units of a row of units; width: of a slice */
    int64_t chunk_bytes; /* of the operand */
    uint64_t policy;     /* of weights in the second-level cache */
};

static __device__ __forceinline__ void
bulk_load_policy(uint32_t to, const void *from, uint32_t n_bytes, uint32_t barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(barrier), "l"(policy)
                 : "memory");
}

/* Warp w copies the units of rows w, w + 4, ... of an item; the last one also copies the tokens. */
template <int KIND, class SHAPE, class ITEMS>
static __device__ void produce(ITEMS items, const struct ring_source &from, struct stages s,
                               int warp)
{
    static_assert((int)SHAPE::ROWS <= 2 * GROUP_WARPS, "a warp has two rows at most");
    const bool has_two = warp + GROUP_WARPS < SHAPE::ROWS;
    const uint32_t units_bytes =
        (SHAPE::ROWS - warp + GROUP_WARPS - 1) / GROUP_WARPS * (uint32_t)MXFP4_UNIT_BYTES;

    for (int item = items.first; item < items.end; item++) {
        struct unit_walk walk = begin_units<KIND>(from.n_units, from.width);

        items.begin(item);
        const char *tokens = items.tokens();
        const uint32_t tokens_bytes = warp == TOKENS_WARP ? items.tokens_bytes() : 0;

        const unsigned char *row = items.units(min(warp, SHAPE::ROWS - 1));
        const int64_t to_second = has_two ? items.units(warp + GROUP_WARPS) - row : 0;

#pragma unroll 1
        for (int left = from.n_units; left > 0; left -= SHAPE::STAGE_UNITS) {
            const uint32_t full = s.at + SHAPE::FULL_AT;
            const int n = min(left, (int)SHAPE::STAGE_UNITS);

            mbarrier_wait_asleep(s.at + SHAPE::EMPTY_AT, s.parity ^ 1);
            debug_produced<SHAPE>(s, warp);
            mbarrier_expect_tx(full, n * (units_bytes + tokens_bytes));
#pragma unroll 1
            for (int i = 0; i < n; i++) {
                const uint32_t to = s.at + SHAPE::UNITS_AT + i * SHAPE::UNITS_BYTES;

                if (tokens_bytes > 0)
                    bulk_load(s.at + i * SHAPE::TILE_BYTES, tokens + walk.unit * from.chunk_bytes,
                              tokens_bytes, full);
                if (warp < SHAPE::ROWS)
                    bulk_load_policy(to + warp * MXFP4_UNIT_BYTES,
                                     row + walk.unit * MXFP4_UNIT_BYTES, MXFP4_UNIT_BYTES, full,
                                     from.policy);
                if (has_two)
                    bulk_load_policy(to + (warp + GROUP_WARPS) * MXFP4_UNIT_BYTES,
                                     row + to_second + walk.unit * MXFP4_UNIT_BYTES,
                                     MXFP4_UNIT_BYTES, full, from.policy);
                (void)next_unit<KIND>(&walk, from.n_units, from.width);
            }
            next_stage<SHAPE>(&s);
        }
    }
}

/* ---- consumers ---- */

/* A lane's part of a unit: operand A of its wgmmas, and the codes of its four scales. */
struct expanded {
    uint32_t a[K_STEPS][4];
    uint32_t codes;
};

template <class SHAPE> static __device__ __forceinline__ void wait_stage(const struct stages &s)
{
    mbarrier_wait(s.at + SHAPE::FULL_AT, s.parity);
    debug_consumed<SHAPE>(s);
}

/* Releases a stage that this warp has read. */
template <class SHAPE> static __device__ __forceinline__ void release_stage(const struct stages &s)
{
    debug_sleep();
    __syncwarp();
    if (threadIdx.x % WARP_LANES == 0)
        mbarrier_arrive(s.at + SHAPE::EMPTY_AT);
}

/* Expands this warp's tile of unit i of the group in a stage that is there. */
template <class SHAPE>
static __device__ __forceinline__ void expand_unit(struct expanded *out, const struct stages &s,
                                                   int i, uint32_t words_at, uint32_t codes_at,
                                                   uint32_t shifts)
{
    const uint32_t unit = s.at + i * SHAPE::UNITS_BYTES;
    const uint4 words = load_shared<0>(words_at + unit);
    uint32_t low[4], high[4];

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

/* Starts the wgmmas of unit i of a stage. */
template <class SHAPE>
static __device__ __forceinline__ void
start_unit(struct block_sums<SHAPE> *d, const struct expanded &x, const struct stages &s, int i)
{
    const uint64_t b = wgmma_descriptor(s.at) + i * (SHAPE::TILE_BYTES >> 4);

    wgmma_fence();
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        wgmma_of_zero<SHAPE::TOKENS>(d->of[block], x.a[block * 2], b + block * 4);
        wgmma<true, SHAPE::TOKENS>(d->of[block], x.a[block * 2 + 1], b + block * 4 + 2);
        wgmma_commit();
    }
}

/* Adds sums FIRST to END of a block: those of eight tokens are four. */
template <int FIRST, int END, int N>
static __device__ __forceinline__ void add_block(float (&acc)[N], const float (&d)[N], float low,
                                                 float high)
{
#pragma unroll
    for (int i = FIRST; i < END; i++)
        acc[i] = __fmaf_rn(d[i], i % 4 < 2 ? low : high, acc[i]);
}

/* Waits for the wgmmas of a unit, and adds its sums; without has_last not those of the last eight
 * tokens. */
template <class SHAPE>
static __device__ __forceinline__ void
end_unit(float (&acc)[SHAPE::SUMS], struct block_sums<SHAPE> *d, uint32_t codes, bool has_last)
{
    enum { N = SHAPE::SUMS, LAST = N - 4 };
    const float low0 = scale_at(codes, 0), high0 = scale_at(codes, 1);
    const float low1 = scale_at(codes, 2), high1 = scale_at(codes, 3);

    wgmma_wait<1>();
    wgmma_fence_operand(d->of[0]);
    add_block<0, LAST>(acc, d->of[0], low0, high0);
    wgmma_wait<0>();
    wgmma_fence_operand(d->of[1]);
    add_block<0, LAST>(acc, d->of[1], low1, high1);
    if (has_last) {
        add_block<LAST, N>(acc, d->of[0], low0, high0);
        add_block<LAST, N>(acc, d->of[1], low1, high1);
    }
}

/* The sums of an item: floats of eighths, integers of slices. */
template <int KIND, class SHAPE> struct item_sums {
    float acc[SHAPE::SUMS];                                   /* of the current eighth or slice, */
    float eighths[KIND == SUMS_OF_EIGHTHS ? SHAPE::SUMS : 1]; /* and of those before it */
    struct out_sum out_slices[KIND == SUMS_OF_OUT_SLICES ? SHAPE::SUMS : 1];
    int32_t expert_slices[KIND == SUMS_OF_EXPERT_SLICES ? SHAPE::SUMS : 1];
};

template <int KIND, class SHAPE>
static __device__ __forceinline__ void end_part(struct item_sums<KIND, SHAPE> *sums)
{
#pragma unroll
    for (int i = 0; i < SHAPE::SUMS; i++) {
        if constexpr (KIND == SUMS_OF_EIGHTHS)
            sums->eighths[i] += sums->acc[i];
        else if constexpr (KIND == SUMS_OF_OUT_SLICES)
            out_sum_add(&sums->out_slices[i], sums->acc[i], slice_unit<true>());
        else
            sums->expert_slices[i] += shifted_partial(sums->acc[i]);
        sums->acc[i] = 0.0f;
    }
}

template <int KIND, class SHAPE>
static __device__ __forceinline__ void clear_sums(struct item_sums<KIND, SHAPE> *sums)
{
#pragma unroll
    for (int i = 0; i < SHAPE::SUMS; i++) {
        sums->acc[i] = 0.0f;
        if constexpr (KIND == SUMS_OF_EIGHTHS)
            sums->eighths[i] = 0.0f;
        else if constexpr (KIND == SUMS_OF_OUT_SLICES)
            sums->out_slices[i] = {};
        else
            sums->expert_slices[i] = 0;
    }
}

/* What is constant in the loop over units. */
struct consumer {
    uint32_t words_at, codes_at; /* of this lane, in a stage */
    uint32_t shifts;             /* of down: of the item's row */
    int n_units, width;          /* width: of a slice */
};

/* The word of a unit's scales that this lane needs. */
static __device__ __forceinline__ int scales_word(int warp)
{
    return (int)threadIdx.x % WARP_LANES / 4 * UNIT_TILES + warp;
}

template <class SHAPE>
static __device__ __forceinline__ struct consumer consumer_of(int group, int warp, int n_units,
                                                              int width)
{
    const uint32_t unit = SHAPE::UNITS_AT + group * MXFP4_UNIT_BYTES;

    return {unit + warp * MXFP4_TILE_BYTES + threadIdx.x % WARP_LANES * LANE_BYTES,
            unit + MXFP4_SCALES_OFFSET + scales_word(warp) * 4, 0, n_units, width};
}

/* sums = the group's row of units times the tokens of an item; has_last: the item has any of the
 * last eight. No wgmma is under way where the loop begins again: the compiler would wait for it
 * after each instruction (C7514). */
template <int KIND, class SHAPE>
static __device__ __forceinline__ void multiply_row(struct item_sums<KIND, SHAPE> *sums,
                                                    const struct consumer &c, struct stages *s,
                                                    bool has_last)
{
    constexpr int STAGE_UNITS = SHAPE::STAGE_UNITS;
    static_assert(STAGE_UNITS % 2 == 0, "two units at a time");
    struct unit_walk walk = begin_units<KIND>(c.n_units, c.width);
    struct block_sums<SHAPE> d;
    struct expanded x, y;

    clear_sums<KIND, SHAPE>(sums);
    wait_stage<SHAPE>(*s);
    expand_unit<SHAPE>(&x, *s, 0, c.words_at, c.codes_at, c.shifts);
    for (int left = c.n_units;; left -= STAGE_UNITS) {
        const struct stages now = *s;

        next_stage<SHAPE>(s);
#pragma unroll
        for (int i = 0; i < STAGE_UNITS; i += 2) {
            start_unit<SHAPE>(&d, x, now, i);
            if (left > i + 1)
                expand_unit<SHAPE>(&y, now, i + 1, c.words_at, c.codes_at, c.shifts);
            end_unit<SHAPE>(sums->acc, &d, x.codes, has_last);
            if (next_unit<KIND>(&walk, c.n_units, c.width))
                end_part<KIND, SHAPE>(sums);
            if (left == i + 1) {
                release_stage<SHAPE>(now);
                return;
            }
            start_unit<SHAPE>(&d, y, now, i + 1);
            if (left > i + 2) {
                if (i + 2 == STAGE_UNITS)
                    wait_stage<SHAPE>(*s);
                expand_unit<SHAPE>(&x, i + 2 == STAGE_UNITS ? *s : now, (i + 2) % STAGE_UNITS,
                                   c.words_at, c.codes_at, c.shifts);
            }
            end_unit<SHAPE>(sums->acc, &d, y.codes, has_last);
            if (next_unit<KIND>(&walk, c.n_units, c.width))
                end_part<KIND, SHAPE>(sums);
            if (left == i + 2 || i + 2 == STAGE_UNITS)
                release_stage<SHAPE>(now);
            if (left == i + 2)
                return;
        }
    }
}

template <class SHAPE> static __device__ __forceinline__ void init_barriers(uint32_t shared)
{
    if (threadIdx.x == 0) {
        if (shared % STAGE_ALIGN != 0)
            __trap();
        for (int i = 0; i < SHAPE::STAGES; i++) {
            const uint32_t stage = shared + i * SHAPE::STAGE_BYTES;

            mbarrier_init(stage + SHAPE::FULL_AT, GROUP_WARPS);
            mbarrier_init(stage + SHAPE::EMPTY_AT, SHAPE::GROUPS * GROUP_WARPS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
}

/* A block: its first warpgroup copies, the others multiply. produce(stages, warp) is called by one
 * lane of each of its warps, behind the wait for the previous kernel in the warp of the tokens, and
 * if ALL_WAIT in all of them; consume(stages, group, warp) by the others, behind that wait. */
template <class SHAPE, bool ALL_WAIT, class PRODUCE, class CONSUME>
static __device__ __forceinline__ void run_block(const PRODUCE &produce, const CONSUME &consume)
{
    extern __shared__ __align__(1024) char smem[];
    const int warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP_LANES, 0) % GROUP_WARPS;
    const int group = __shfl_sync(ALL_LANES, threadIdx.x / GROUP_THREADS, 0);
    const uint32_t shared = shared_address(smem);
    const struct stages s = {shared};

    init_barriers<SHAPE>(shared);
    if (group == 0) {
        warpgroup_reg_dealloc<SHAPE::PRODUCER_REGISTERS>();
        if (ALL_WAIT || warp == TOKENS_WARP)
            pdl_wait();
        if (threadIdx.x % WARP_LANES == 0)
            produce(s, warp);
    } else {
        warpgroup_reg_alloc<SHAPE::REGISTERS>();
        pdl_wait();
        pdl_launch_dependents();
        consume(s, group - 1, warp);
    }
}

#endif
#endif
