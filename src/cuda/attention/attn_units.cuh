/* Units of 16 keys and values as MMA operands for decode attention: their layout in pages and in
 * the ring, Q K^T of one unit, and P V. attn_decode.cu describes the algorithm. */
#ifndef CUDA_ATTENTION_ATTN_UNITS_CUH
#define CUDA_ATTENTION_ATTN_UNITS_CUH

#include "cuda/attention/attn.cuh"
#include "cuda/common/evict_first.cuh"
#include "cuda/common/sums.cuh"

enum { QUERY_TERMS = 3, PAGE_UNITS = PAGE_TOKENS / ATTN_UNIT_KEYS };

/* ---- layout, and words as fragments ---- */

/* The words of two slots (keys) or columns (values): pair g of a row of words. */
static __device__ __forceinline__ uint2 words_at(const char *kv_half, int row)
{
    const int g = threadIdx.x % WARP_LANES / 4;

    return *(const uint2 *)(kv_half + piece_offset(row, g / 2) + g % 2 * 8);
}

static __device__ __forceinline__ uint32_t word_at(const char *kv_half, int row, int column)
{
    return *(const uint32_t *)(kv_half + piece_offset(row, column / 4) +
                               column % 4 * KV_WORD_BYTES);
}

/* This lane's part of copying rows of words from `from`. */
static __device__ __forceinline__ void copy_rows(char *kv_half, const char *from, int first_row)
{
    const int lane = threadIdx.x % WARP_LANES;

    const uint32_t to = opaque_address((uint32_t)__cvta_generic_to_shared(kv_half));

    copy_evict_first(to + piece_offset(first_row + lane / 4, lane % 4), from + lane * COPY_BYTES);
}

template <int DTYPE> struct unit {
};

/* Words of two elements. Rows g and g + 8 of operand A are the slots g and g + 8. */
template <> struct unit<DTYPE_BF16> {
    enum {
        WORD_SLOTS = 2, /* of a word of values */
        KV_HALF_BYTES = ATTN_UNIT_KEYS * ATTN_HEAD_DIM * 2,
        SCALES_BYTES = 0,
        BYTES = 2 * KV_HALF_BYTES,
        TILE_BYTES = KV_HALF_BYTES / STEPS,
        TILE_ROWS = TILE_BYTES / WORDS_ROW_BYTES
    };

    /* Addresses within a page: the start of the unit's keys, and of its values in the first
     * tile. */
    static __device__ __forceinline__ void copy(char *ring, const char *keys, const char *values,
                                                int)
    {
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            copy_rows(ring, keys + i * TILE_BYTES, i * TILE_ROWS);
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            copy_rows(ring + KV_HALF_BYTES, values + i * PAGE_UNITS * TILE_BYTES, i * TILE_ROWS);
    }
    /* The slot of score i of this lane. */
    static __device__ __forceinline__ int slot_of(int i)
    {
        return threadIdx.x % WARP_LANES / 4 + i / 2 * 8;
    }
    static __device__ __forceinline__ void key_fragment(uint32_t a[4], const char *keys, int step)
    {
        const int t = threadIdx.x % 4;

#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = word_at(keys, 8 * step + i / 2 * 4 + t, slot_of(i % 2 * 2));
    }
    /* The columns of a query that match key_fragment(): 16 step + 2 t + {0, 1}, and + {8, 9}. */
    static __device__ __forceinline__ void query_columns(float x[2][2], const float *head, int step)
    {
        const int t = threadIdx.x % 4;
        const float2 low = *(const float2 *)(head + 16 * step + 2 * t);
        const float2 high = *(const float2 *)(head + 16 * step + 2 * t + 8);

        x[0][0] = low.x, x[0][1] = low.y, x[1][0] = high.x, x[1][1] = high.y;
    }
    /* Slots 2 t + {0, 1} and 2 t + {8, 9}. */
    static __device__ __forceinline__ void value_fragment(uint32_t a[4], const char *values,
                                                          int tile, const uint32_t seen[2])
    {
        const int row = 8 * tile + threadIdx.x % 4;
        const uint2 low = words_at(values, row), high = words_at(values, row + 4);

        a[0] = low.x & seen[0], a[1] = low.y & seen[0];
        a[2] = high.x & seen[1], a[3] = high.y & seen[1];
    }
    static __device__ __forceinline__ void visible_mask(uint32_t seen[2], int first, int end)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int slot = 2 * (threadIdx.x % 4) + 8 * i;

            seen[i] = (slot >= first && slot < end ? 0xFFFFu : 0) |
                      (slot + 1 >= first && slot + 1 < end ? 0xFFFF0000u : 0);
        }
    }
    static __device__ __forceinline__ float scale_at(const char *, int)
    {
        return 1.0f;
    }
};

/* Words of four elements. The scales of the keys, then of the values, follow the data. Rows g and g
 * + 8 of operand A are the slots 2 g and 2 g + 1. */
template <> struct unit<DTYPE_F8> {
    enum {
        WORD_SLOTS = 4,
        KV_HALF_BYTES = ATTN_UNIT_KEYS * ATTN_HEAD_DIM,
        SCALES_BYTES = ATTN_UNIT_KEYS * 4,
        BYTES = 2 * KV_HALF_BYTES + 2 * SCALES_BYTES,
        TILE_BYTES = KV_HALF_BYTES / STEPS,
        TILE_ROWS = TILE_BYTES / WORDS_ROW_BYTES
    };

    static __device__ __forceinline__ void copy(char *ring, const char *keys, const char *values,
                                                int unit)
    {
        const int lane = threadIdx.x % WARP_LANES, tile = lane / 16, at = lane % 16 * COPY_BYTES;

#pragma unroll
        for (int i = 0; i < STEPS; i += 2) { /* two tiles of four rows */
            copy_rows(ring, keys + i * TILE_BYTES, i * TILE_ROWS);
            copy_rows(ring + KV_HALF_BYTES,
                      values + (i + tile) * PAGE_UNITS * TILE_BYTES + at - lane * COPY_BYTES,
                      i * TILE_ROWS);
        }
        if (lane < 2 * SCALES_BYTES / COPY_BYTES)
            copy_async(ring + 2 * KV_HALF_BYTES + lane * COPY_BYTES,
                       (lane < 4 ? keys - unit * KV_HALF_BYTES : values - unit * TILE_BYTES) +
                           KV_HALF_BYTES * PAGE_UNITS + unit * SCALES_BYTES +
                           lane % 4 * COPY_BYTES);
    }
    static __device__ __forceinline__ int slot_of(int i)
    {
        return threadIdx.x % WARP_LANES / 4 * 2 + i / 2;
    }
    static __device__ __forceinline__ void fragment(uint32_t a[4], uint2 words)
    {
        a[0] = even_codes(words.x), a[1] = even_codes(words.y);
        a[2] = odd_codes(words.x), a[3] = odd_codes(words.y);
    }
    static __device__ __forceinline__ void key_fragment(uint32_t a[4], const char *keys, int step)
    {
        fragment(a, words_at(keys, 4 * step + threadIdx.x % 4));
    }
    /* 16 step + 4 t + {0, 2}, and + {1, 3}. */
    static __device__ __forceinline__ void query_columns(float x[2][2], const float *head, int step)
    {
        const float4 all = *(const float4 *)(head + 16 * step + 4 * (threadIdx.x % 4));

        x[0][0] = all.x, x[0][1] = all.z, x[1][0] = all.y, x[1][1] = all.w;
    }
    /* Slots 4 t + {0, 2} and 4 t + {1, 3}. */
    static __device__ __forceinline__ void value_fragment(uint32_t a[4], const char *values,
                                                          int tile, const uint32_t seen[2])
    {
        uint2 words = words_at(values, 4 * tile + threadIdx.x % 4);

        words.x &= seen[0], words.y &= seen[0];
        fragment(a, words);
    }
    static __device__ __forceinline__ void visible_mask(uint32_t seen[2], int first, int end)
    {
        seen[0] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int slot = 4 * (threadIdx.x % 4) + i;

            seen[0] |= slot >= first && slot < end ? 0xFFu << 8 * i : 0;
        }
        seen[1] = seen[0];
    }
    static __device__ __forceinline__ float scale_at(const char *scales, int slot)
    {
        return ((const float *)scales)[slot];
    }
};

/* ---- softmax and sums of a warp ---- */

/* With g = lane / 4 and t = lane % 4: heads 2 t and 2 t + 1; columns 16 i + 2 g and 16 i + 2 g + 1
 * of the sums are at out[i][0], [2] and out[i][1], [3]. Scores are scaled for base-2
 * exponentials. */
struct state {
    float out[STEPS][4];
    float largest[2];
    float weights[2]; /* their sum over this lane's slots */
};

struct query {
    uint32_t partials[QUERY_TERMS][STEPS][2];
};

/* s[i] is the score of slot slot_of(i), head 2 t + i % 2. words_of(part, step) returns a term of
 * the query, as in struct query. */
template <int DTYPE, typename WORDS_OF>
static __device__ __forceinline__ void scores_by_words(float s[4], const char *keys,
                                                       WORDS_OF words_of)
{
    float sums[QUERY_TERMS][4] = {};

#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        uint32_t a[4];

        unit<DTYPE>::key_fragment(a, keys, step);
#pragma unroll
        for (int part = 0; part < QUERY_TERMS; part++) {
            const uint2 b = words_of(part, step);

            mma_bf16(sums[part], a, b.x, b.y);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = __fadd_rn(__fadd_rn(sums[2][i], sums[1][i]), sums[0][i]);
}

template <int DTYPE>
static __device__ __forceinline__ void scores_of(float s[4], const struct query &q,
                                                 const char *keys)
{
    scores_by_words<DTYPE>(s, keys, [&](int part, int step) {
        return make_uint2(q.partials[part][step][0], q.partials[part][step][1]);
    });
}

/* Maximum over the lanes that have the same heads. */
static __device__ __forceinline__ float heads_max(float x)
{
#pragma unroll
    for (int step = 4; step < WARP_LANES; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

static __device__ __forceinline__ float heads_sum(float x)
{
#pragma unroll
    for (int step = 4; step < WARP_LANES; step *= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

/* Transposes an 8 x 8 matrix of 16-bit numbers. */
static __device__ __forceinline__ uint32_t transposed(uint32_t x)
{
    uint32_t y;

    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* Online softmax of N units: scores s become weights, and the sums are rescaled to the new
 * maximum. */
template <int N>
static __device__ __forceinline__ void softmax_step(struct state *st, float s[N][4])
{
    float keep[2];

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = st->largest[h], sum = 0.0f;

#pragma unroll
        for (int i = 0; i < N; i++)
            most = fmaxf(most, fmaxf(s[i][h], s[i][2 + h]));
        most = heads_max(most);
        keep[h] = power_of_two(__fadd_rn(st->largest[h], -most));
#pragma unroll
        for (int i = 0; i < N; i++) {
            s[i][h] = power_of_two(__fadd_rn(s[i][h], -most));
            s[i][2 + h] = power_of_two(__fadd_rn(s[i][2 + h], -most));
            sum = __fadd_rn(sum, __fadd_rn(s[i][h], s[i][2 + h]));
        }
        st->weights[h] = __fmaf_rn(st->weights[h], keep[h], sum);
        st->largest[h] = most;
    }
    if (!__any_sync(ALL_LANES, keep[0] != 1.0f || keep[1] != 1.0f))
        return;
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        st->out[i][0] = __fmul_rn(st->out[i][0], keep[0]);
        st->out[i][1] = __fmul_rn(st->out[i][1], keep[1]);
        st->out[i][2] = __fmul_rn(st->out[i][2], keep[0]);
        st->out[i][3] = __fmul_rn(st->out[i][3], keep[1]);
    }
}

template <int DTYPE>
static __device__ __forceinline__ void add_values(float out[STEPS][4], const float s[4],
                                                  const char *values, const uint32_t seen[2])
{
    float pairs[2][2] = {{s[0], s[1]}, {s[2], s[3]}};
    uint32_t b[2][2];

#pragma unroll
    for (int part = 0; part < 2; part++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            b[part][i] = transposed(round_to_bf16(pairs[i]));
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        uint32_t a[4];

        unit<DTYPE>::value_fragment(a, values, i, seen);
        mma_bf16(out[i], a, b[1][0], b[1][1]);
        mma_bf16(out[i], a, b[0][0], b[0][1]);
    }
}

#endif
