/* Prefill attention by mma.sync: a KV page in shared memory and its fragments for operand B. The
 * page keeps its cache layout except for the order of 16-byte pieces. */
#ifndef CUDA_ATTENTION_ATTN_PAGE_CUH
#define CUDA_ATTENTION_ATTN_PAGE_CUH

#include "cuda/attention/attn_block.cuh"

enum {
    PAGE_THREADS = 128,                    /* of a block: all threads copy */
    GROUPS = PAGE_TOKENS / 32,             /* of keys; also the number of column halves */
    PIECES = WORDS_ROW_BYTES / COPY_BYTES, /* per row of words */
    KV_HALF_TILES = PAGE_TOKENS / KV_COLUMNS
};

template <int DTYPE> struct page {
    enum {
        PARTS = DTYPE == DTYPE_F8 ? 4 : 2, /* elements per word */
        ROWS = ATTN_HEAD_DIM / PARTS,      /* of a tile */
        TILE_BYTES = ROWS * WORDS_ROW_BYTES,
        KV_HALF_BYTES = KV_HALF_TILES * TILE_BYTES,
        SCALES_BYTES = DTYPE == DTYPE_F8 ? PAGE_TOKENS * 4 : 0,
        BYTES = 2 * (KV_HALF_BYTES + SCALES_BYTES)
    };

    /* Lanes read pairs of rows of values that are `apart`. The eight pieces of a pair are rotated
     * by it, so that lanes which read at once use all banks. A piece stays within its 128 bytes. */
    static __device__ __forceinline__ int value_offset(int row, int piece)
    {
        const int pair = row / 2, apart = DTYPE == DTYPE_F8 ? 1 : 2;

        return pair * 2 * WORDS_ROW_BYTES +
               ((row % 2 * PIECES + piece) ^ (pair / apart % 4 * 2)) * COPY_BYTES;
    }
    static __device__ __forceinline__ void copy_kv_half(char *stage, const char *kv_half,
                                                        bool is_values)
    {
#pragma unroll
        for (int i = 0; i < KV_HALF_BYTES / COPY_BYTES / PAGE_THREADS; i++) {
            const int at = i * PAGE_THREADS + (int)threadIdx.x, row = at / PIECES % ROWS;

            copy_async(
                stage + at / PIECES / ROWS * TILE_BYTES +
                    (is_values ? value_offset(row, at % PIECES) : piece_offset(row, at % PIECES)),
                kv_half + at * COPY_BYTES);
        }
        if ((int)threadIdx.x < SCALES_BYTES / COPY_BYTES)
            copy_async(stage + KV_HALF_BYTES + threadIdx.x * COPY_BYTES,
                       kv_half + KV_HALF_BYTES + threadIdx.x * COPY_BYTES);
    }
    static __device__ __forceinline__ void copy(char *stage, const char *keys, const char *values)
    {
        copy_kv_half(stage, keys, false);
        copy_kv_half(stage + KV_HALF_BYTES + SCALES_BYTES, values, true);
    }

    /* Zeroes the values of slots outside of [first, end), which may hold anything. */
    static __device__ void clear(char *stage, int first, int end)
    {
        char *kv_half = stage + KV_HALF_BYTES + SCALES_BYTES;

        for (int at = threadIdx.x; at < KV_HALF_TILES * ROWS * PIECES; at += PAGE_THREADS) {
            const int row = at / PIECES % ROWS;
            uint4 *words = (uint4 *)(kv_half + at / PIECES / ROWS * TILE_BYTES +
                                     value_offset(row, at % PIECES));
            uint32_t mask = 0;

            for (int i = 0; i < PARTS; i++)
                if (row * PARTS + i >= first && row * PARTS + i < end)
                    mask |= (uint32_t)((1ull << 32 / PARTS) - 1) << i * (32 / PARTS);
            words->x &= mask, words->y &= mask, words->z &= mask, words->w &= mask;
        }
        for (int slot = threadIdx.x; slot < SCALES_BYTES / 4; slot += PAGE_THREADS)
            if (slot < first || slot >= end)
                ((float *)(kv_half + KV_HALF_BYTES))[slot] = 0.0f;
    }
};

/* Registers b[0] and b[1] of four consecutive fragments. */
struct fragments {
    uint32_t b[2][4];
};

/* From words of two elements at both offsets, or words of four at the first. */
template <int DTYPE>
static __device__ __forceinline__ void load_fragments(struct fragments *f, const char *first,
                                                      const char *second)
{
    const uint4 words = *(const uint4 *)first;

    if (DTYPE == DTYPE_F8) {
        f->b[0][0] = even_codes(words.x), f->b[0][1] = even_codes(words.y);
        f->b[0][2] = even_codes(words.z), f->b[0][3] = even_codes(words.w);
        f->b[1][0] = odd_codes(words.x), f->b[1][1] = odd_codes(words.y);
        f->b[1][2] = odd_codes(words.z), f->b[1][3] = odd_codes(words.w);
    } else {
        const uint4 more = *(const uint4 *)second;

        f->b[0][0] = words.x, f->b[0][1] = words.y, f->b[0][2] = words.z, f->b[0][3] = words.w;
        f->b[1][0] = more.x, f->b[1][1] = more.y, f->b[1][2] = more.z, f->b[1][3] = more.w;
    }
}

/* A lane's read offsets: keys, and the even and odd rows of values. Further offsets differ by
 * constants. */
struct read_offsets {
    const char *keys, *values[2];
};

template <int DTYPE>
static __device__ __forceinline__ void page_offsets(struct read_offsets *p, const char *stage)
{
    const int lane = threadIdx.x % WARP_LANES, t = lane % 4, piece = lane / 4 % 4;
    const int row = DTYPE == DTYPE_F8 ? 2 * t : 4 * t;
    const char *kv_half = stage + lane / 16 * page<DTYPE>::TILE_BYTES;

    p->keys = kv_half + piece_offset(t, piece);
    kv_half += page<DTYPE>::KV_HALF_BYTES + page<DTYPE>::SCALES_BYTES;
    p->values[0] = kv_half + page<DTYPE>::value_offset(row, piece);
    p->values[1] = kv_half + page<DTYPE>::value_offset(row + 1, piece);
}

/* Keys of group i, columns 16 step to 16 step + 15. */
template <int DTYPE>
static __device__ __forceinline__ void key_fragments(struct fragments *f,
                                                     const struct read_offsets &p, int i, int step)
{
    const int row = (DTYPE == DTYPE_F8 ? 4 : 8) * step;
    const char *first = p.keys + 2 * i * page<DTYPE>::TILE_BYTES + row * WORDS_ROW_BYTES;

    load_fragments<DTYPE>(f, first, first + 4 * WORDS_ROW_BYTES);
}

/* Half i of the columns, keys 8 t + 4 step + {0, 1, 2, 3} of a group. */
template <int DTYPE>
static __device__ __forceinline__ void
value_fragments(struct fragments *f, const struct read_offsets &p, int i, int group, int step)
{
    const int row = DTYPE == DTYPE_F8 ? 8 * group : 16 * group + 2 * step;
    const int at = 2 * i * page<DTYPE>::TILE_BYTES + row * WORDS_ROW_BYTES;

    load_fragments<DTYPE>(f, p.values[DTYPE == DTYPE_F8 ? step : 0] + at, p.values[1] + at);
}

#endif
