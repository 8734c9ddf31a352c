/* Consumers of tiles of 32, 64 or 128 tokens, for decode_gemm_sm90.cu: as multiply_row() of
 * decode_sm90.cuh, with the same ring and the same sums, but with few registers, so that up to five
 * warpgroups share the tokens of a stage.
 *
 * A thread holds the sums of an eighth or slice and those of one or two blocks of 32 columns; the
 * sums of the eighths or slices before it are in shared memory. While a warp waits for its wgmmas,
 * the warps of other groups multiply and add. */
#ifndef CUDA_DECODE_DECODE_TILE_SM90_CUH
#define CUDA_DECODE_DECODE_TILE_SM90_CUH

#include "cuda/decode/decode_sm90.cuh"

enum {
    OCTET_BYTES = GROUP_THREADS * LANE_BYTES, /* a thread's four sums of eight tokens, of a group */
    HEAD_SLOT_BYTES = 8
};

/* Shared memory of a group: its sums, then biases of its rows and KV slots of its tokens. Sums of
 * slices are two words each, in planes. */
template <int KIND, int TOKENS> struct tile_aside {
    enum {
        OCTETS = TOKENS / 8,
        PLANES = KIND == SUMS_OF_OUT_SLICES ? 2 : 1,
        PLANE_BYTES = OCTETS * OCTET_BYTES,
        BIASES_AT = PLANES * PLANE_BYTES,
        SLOTS_AT = BIASES_AT + UNIT_ROWS * 4,
        BYTES = SLOTS_AT + TOKENS * HEAD_SLOT_BYTES
    };
};

/* A stage has one unit. */
template <int KIND_, int TOKENS, int GROUPS>
struct tile_shape : wide_shape<TOKENS, GROUPS, 1, 1, (int)tile_aside<KIND_, TOKENS>::BYTES> {
    typedef struct tile_aside<KIND_, TOKENS> ASIDE;
    enum {
        KIND = KIND_,
        OCTETS = ASIDE::OCTETS,
        /* others have no registers for the sums of both blocks of a unit at once */
        BLOCKS_AT_ONCE = TOKENS <= 64 && GROUPS <= 3 ? 2 : 1
    };
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Operand A of a block of 32 columns: two wgmmas. */
struct block_operand {
    uint32_t a[2][4];
};

static __device__ __forceinline__ void expand_block(struct block_operand *x, uint32_t low_word,
                                                    uint32_t high_word)
{
    uint32_t low[4], high[4];

    decode_word(low, low_word);
    decode_word(high, high_word);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x->a[i / 2][i % 2 * 2] = low[i];
        x->a[i / 2][i % 2 * 2 + 1] = high[i];
    }
}

/* A lane's words and scales of a unit, packed. */
struct packed_unit {
    uint4 words;
    uint32_t codes;
};

/* Addresses of a consumer. What differs between threads is in as few registers as possible. */
struct tile_consumer {
    uint32_t lane_at;           /* 16 bytes for each thread of the group */
    uint32_t codes_at;          /* of a lane's scales, in a unit */
    uint32_t units_at, sums_at; /* of the group: its unit in a stage, its sums */
    int n_units, width;
};

template <class SHAPE>
static __device__ __forceinline__ struct packed_unit load_unit(const struct tile_consumer &c,
                                                               const struct stages &s)
{
    const uint32_t unit = s.at + c.units_at;

    return {load_shared<0>(unit + c.lane_at), load_shared_word<0>(unit + c.codes_at)};
}

/* release_stage(), by few registers. */
template <class SHAPE>
static __device__ __forceinline__ void release_tile(const struct tile_consumer &c,
                                                    const struct stages &s)
{
    debug_sleep();
    __syncwarp();
    if (c.lane_at % (WARP_LANES * LANE_BYTES) == 0)
        mbarrier_arrive(s.at + SHAPE::EMPTY_AT);
}

/* Units of an eighth or slice. */
template <int KIND>
static __device__ __forceinline__ int units_of_part(int part, int n_units, int width)
{
    return KIND == SUMS_OF_EIGHTHS ? (n_units - part + EIGHTHS - 1) / EIGHTHS
                                   : min(width, n_units - part * width);
}

/* Starts d = x times the tokens of a block. */
template <int SUMS>
static __device__ __forceinline__ void start_block(float (&d)[SUMS], struct block_operand &x,
                                                   uint64_t b)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        materialize(x.a[i / 4][i % 4]); /* behind the fence, the compiler would need another one */
    wgmma_fence();
    wgmma_of_zero<2 * SUMS>(d, x.a[0], b);
    wgmma<true, 2 * SUMS>(d, x.a[1], b + 2);
    wgmma_commit();
}

/* Waits for d, after which as many blocks as PENDING are under way, and adds it. */
template <int PENDING, int SUMS>
static __device__ __forceinline__ void end_block(float (&acc)[SUMS], float (&d)[SUMS], float low,
                                                 float high)
{
    wgmma_wait<PENDING>();
    wgmma_fence_operand(d);
    add_block<0, SUMS>(acc, d, low, high);
}

/* ---- sums in shared memory; `at`: the thread's, of its first eight tokens ---- */

static __device__ __forceinline__ float4 load_sums(uint32_t at)
{
    const uint4 bits = load_shared<0>(at);

    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
}

template <class SHAPE> static __device__ __forceinline__ void clear_tile(uint32_t at)
{
#pragma unroll
    for (int i = 0; i < SHAPE::ASIDE::PLANES * SHAPE::OCTETS; i++)
        store_shared(at + i * OCTET_BYTES, make_uint4(0, 0, 0, 0));
}

template <int SUMS>
static __device__ __forceinline__ void add_eighth(uint32_t at, float (&acc)[SUMS])
{
#pragma unroll
    for (int i = 0; i < SUMS / 4; i++) {
        const float4 before = load_sums(at + i * OCTET_BYTES);

        store_shared(at + i * OCTET_BYTES,
                     make_float4(before.x + acc[i * 4], before.y + acc[i * 4 + 1],
                                 before.z + acc[i * 4 + 2], before.w + acc[i * 4 + 3]));
    }
}

/* Bit i of the result: partial i overflows. */
template <int SUMS>
static __device__ __forceinline__ uint32_t add_slice(uint32_t at, float (&acc)[SUMS])
{
    static_assert(SUMS <= 32, "a bit for each sum");
    enum { PLANE_BYTES = SUMS / 4 * OCTET_BYTES };
    uint32_t overflows = 0;

#pragma unroll
    for (int i = 0; i < SUMS / 4; i++) {
        const uint4 high = load_shared<0>(at + i * OCTET_BYTES);
        const uint4 low = load_shared<0>(at + PLANE_BYTES + i * OCTET_BYTES);
        struct out_sum sums[4] = {
            {high.x, low.x, 0}, {high.y, low.y, 0}, {high.z, low.z, 0}, {high.w, low.w, 0}};

#pragma unroll
        for (int k = 0; k < 4; k++) {
            out_sum_add(&sums[k], acc[i * 4 + k], slice_unit<true>());
            overflows |= (sums[k].overflow & FIXED_OVERFLOW) != 0 ? 1u << (i * 4 + k) : 0;
        }
        store_shared(at + i * OCTET_BYTES,
                     make_uint4(sums[0].high, sums[1].high, sums[2].high, sums[3].high));
        store_shared(at + PLANE_BYTES + i * OCTET_BYTES,
                     make_uint4(sums[0].low, sums[1].low, sums[2].low, sums[3].low));
    }
    return overflows;
}

template <int KIND, int SUMS>
static __device__ __forceinline__ uint32_t end_tile_part(uint32_t at, float (&acc)[SUMS])
{
    uint32_t overflows = 0;

    if constexpr (KIND == SUMS_OF_OUT_SLICES)
        overflows = add_slice(at, acc);
    else
        add_eighth(at, acc);
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        acc[i] = 0.0f;
    return overflows;
}

/* acc += the unit in stage `now`, expanded in x if both blocks are started at once, else only its
 * first block. Loads the next unit, if there is one, and expands it likewise. */
template <class SHAPE>
static __device__ __forceinline__ void
multiply_unit(float (&acc)[SHAPE::SUMS], struct block_operand (&x)[SHAPE::BLOCKS_AT_ONCE],
              struct packed_unit *unit, const struct tile_consumer &c, const struct stages &now,
              const struct stages &next, bool has_next)
{
    const uint64_t b = wgmma_descriptor(now.at);
    const uint4 words = unit->words;
    const uint32_t codes = unit->codes;
    float d[SHAPE::BLOCKS_AT_ONCE][SHAPE::SUMS];

    start_block(d[0], x[0], b);
    if constexpr (SHAPE::BLOCKS_AT_ONCE == 2) {
        start_block(d[1], x[1], b + 4);
    } else {
        end_block<0>(acc, d[0], scale_at(codes, 0), scale_at(codes, 1));
        expand_block(&x[0], words.z, words.w);
        start_block(d[0], x[0], b + 4);
    }
    if (has_next) {
        wait_stage<SHAPE>(next);
        *unit = load_unit<SHAPE>(c, next);
    }
    if constexpr (SHAPE::BLOCKS_AT_ONCE == 2) {
        end_block<1>(acc, d[0], scale_at(codes, 0), scale_at(codes, 1));
        expand_block(&x[0], unit->words.x, unit->words.y);
        end_block<0>(acc, d[1], scale_at(codes, 2), scale_at(codes, 3));
        expand_block(&x[1], unit->words.z, unit->words.w);
    } else {
        end_block<0>(acc, d[0], scale_at(codes, 2), scale_at(codes, 3));
        expand_block(&x[0], unit->words.x, unit->words.y);
    }
}

/* Adds the group's row of units times the tokens of an item to its sums. Returns which partials
 * overflow. No wgmma is under way where the loop begins again: the compiler would wait for it after
 * each instruction (C7514). */
template <class SHAPE>
static __device__ __forceinline__ uint32_t multiply_tile(const struct tile_consumer &c,
                                                         struct stages *s)
{
    constexpr int KIND = SHAPE::KIND;
    int left = c.n_units, part = 0; /* left: units from the current one on */
    int end = left - units_of_part<KIND>(0, left, c.width); /* left behind the part */
    float acc[SHAPE::SUMS] = {};
    struct block_operand x[SHAPE::BLOCKS_AT_ONCE];
    uint32_t overflows = 0;

    wait_stage<SHAPE>(*s);
    struct packed_unit unit = load_unit<SHAPE>(c, *s);
    expand_block(&x[0], unit.words.x, unit.words.y);
    if constexpr (SHAPE::BLOCKS_AT_ONCE == 2)
        expand_block(&x[1], unit.words.z, unit.words.w);
    for (;;) {
        const struct stages now = *s;

        next_stage<SHAPE>(s);
        multiply_unit<SHAPE>(acc, x, &unit, c, now, *s, --left > 0);
        release_tile<SHAPE>(c, now);
        if (left == end) {
            overflows |= end_tile_part<KIND, SHAPE::SUMS>(c.sums_at + c.lane_at, acc);
            if (left == 0)
                return overflows;
            end -= units_of_part<KIND>(++part, c.n_units, c.width);
        }
    }
}

#endif
#endif
