/* Attention of prompts by wgmma: pages in shared memory as operand B. A side of a page becomes
 * 64 rows, a key's 64 columns or a column's 64 values, of bf16 numbers as wgmma.cuh wants them.
 * Words of a page hold neighbours of another row: a lane loads four by four of them, and turned
 * they are pieces of 16 bytes of four rows. Codes of F8 become bf16 on their way; their scales
 * lie behind the rows. */
#ifndef CUDA_ATTENTION_ATTN_TRANSPOSE_CUH
#define CUDA_ATTENTION_ATTN_TRANSPOSE_CUH

#include "cuda/attention/attn_block.cuh"
#include "cuda/common/wgmma.cuh"

enum {
    TRANSPOSED_ROW_BYTES = PAGE_TOKENS * 2,
    TRANSPOSED_BYTES = ATTN_HEAD_DIM * TRANSPOSED_ROW_BYTES, /* of a side */
    TRANSPOSE_WARPS = PAGE_TOKENS / KV_COLUMNS               /* a tile of a side each */
};
static_assert((int)PAGE_TOKENS == (int)ATTN_HEAD_DIM, "keys and values are turned alike");

/* A lane's part of a side: words of four columns in rows that follow each other, eight elements
 * of each column. */
template <int DTYPE> struct transpose {
    enum {
        ROWS = DTYPE == DTYPE_F8 ? 2 : 4,
        TILE_BYTES = ATTN_HEAD_DIM * KV_COLUMNS * KV_WORD_BYTES / (DTYPE == DTYPE_F8 ? 4 : 2),
        SCALES_OFFSET = TRANSPOSE_WARPS * TILE_BYTES, /* of a side in its page */
        SCALES_BYTES = DTYPE == DTYPE_F8 ? PAGE_TOKENS * 4 : 0,
        KV_HALF_BYTES = TRANSPOSED_BYTES + 1024 * (SCALES_BYTES > 0) /* in shared memory */
    };
    uint4 words[ROWS];
    float scale; /* of the slot with the thread's number */
};

template <int DTYPE>
static __device__ __forceinline__ void transpose_load(struct transpose<DTYPE> *p,
                                                      const char *kv_half)
{
    typedef struct transpose<DTYPE> T;
    const int tile = (int)threadIdx.x / WARP_LANES % TRANSPOSE_WARPS,
              lane = threadIdx.x % WARP_LANES;
    const char *from = kv_half + tile * T::TILE_BYTES + lane % 8 * T::ROWS * WORDS_ROW_BYTES +
                       lane / 8 * COPY_BYTES;

#pragma unroll
    for (int i = 0; i < T::ROWS; i++)
        p->words[i] = __ldg((const uint4 *)(from + i * WORDS_ROW_BYTES));
    if (DTYPE == DTYPE_F8)
        p->scale = ((const float *)(kv_half + T::SCALES_OFFSET))[threadIdx.x % PAGE_TOKENS];
}

static __device__ __forceinline__ uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* The eight elements of column i. */
template <int DTYPE>
static __device__ __forceinline__ void transposed_piece(uint32_t piece[4],
                                                        const struct transpose<DTYPE> &p, int i)
{
    if constexpr (DTYPE == DTYPE_F8) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t word = word_of(p.words[k], i);
            const uint32_t even = even_codes(word), odd = odd_codes(word);

            piece[2 * k] = __byte_perm(even, odd, 0x5410);
            piece[2 * k + 1] = __byte_perm(even, odd, 0x7632);
        }
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            piece[k] = word_of(p.words[k], i);
    }
}

/* Bits of two of the elements from `first` on that are within [begin, end). */
static __device__ __forceinline__ uint32_t pair_mask(int first, int begin, int end)
{
    return (first >= begin && first < end ? 0xFFFFu : 0u) |
           (first + 1 >= begin && first + 1 < end ? 0xFFFF0000u : 0u);
}

/* To the side at `to`. Elements outside of [begin, end) become zeros: for values, where slots
 * may hold anything. */
template <int DTYPE>
static __device__ __forceinline__ void transpose_store(const struct transpose<DTYPE> &p,
                                                       uint32_t to, int begin, int end)
{
    const int tile = (int)threadIdx.x / WARP_LANES % TRANSPOSE_WARPS,
              lane = threadIdx.x % WARP_LANES;
    const int place = lane % 8, column = tile * KV_COLUMNS + lane / 8 * 4;
    const int slot = threadIdx.x % (TRANSPOSE_WARPS * WARP_LANES);
    const bool is_whole = begin <= 0 && end >= PAGE_TOKENS;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t piece[4];

        transposed_piece<DTYPE>(piece, p, i);
        if (!is_whole)
#pragma unroll
            for (int k = 0; k < 4; k++)
                piece[k] &= pair_mask(place * 8 + 2 * k, begin, end);
        asm volatile(
            "st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                to + (column + i) * TRANSPOSED_ROW_BYTES + (place ^ (column + i) % 8) * COPY_BYTES),
            "r"(piece[0]), "r"(piece[1]), "r"(piece[2]), "r"(piece[3])
            : "memory");
    }
    if (DTYPE == DTYPE_F8 && slot < PAGE_TOKENS)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + TRANSPOSED_BYTES + slot * 4),
                     "f"(slot >= begin && slot < end ? p.scale : 0.0f)
                     : "memory");
}

#endif
