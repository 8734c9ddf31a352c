/* Prefill attention by wgmma: KV pages in shared memory as operand B. The keys or the values of a
 * page become 64 rows (of a key's 64 columns, or of a column's 64 values) of bf16 numbers in the
 * layout of wgmma.cuh. A word of a page holds neighbours from different rows, so a lane loads four
 * by four words and transposes them into 16-byte pieces of four rows. F8 codes become bf16 on the
 * way; their scales follow the rows. */
#ifndef CUDA_ATTENTION_ATTN_TRANSPOSE_CUH
#define CUDA_ATTENTION_ATTN_TRANSPOSE_CUH

#include "cuda/attention/attn_block.cuh"
#include "cuda/common/wgmma.cuh"

enum {
    TRANSPOSED_ROW_BYTES = PAGE_TOKENS * 2,
    TRANSPOSED_BYTES = ATTN_HEAD_DIM * TRANSPOSED_ROW_BYTES, /* of the keys or of the values */
    TRANSPOSE_WARPS = PAGE_TOKENS / KV_COLUMNS               /* one tile each */
};
static_assert((int)PAGE_TOKENS == (int)ATTN_HEAD_DIM, "keys and values have the same shape");

/* A lane's part of the keys or values: words of four columns in consecutive rows, eight elements of
 * each column. */
template <int DTYPE> struct transpose {
    enum {
        ROWS = DTYPE == DTYPE_F8 ? 2 : 4,
        TILE_BYTES = ATTN_HEAD_DIM * KV_COLUMNS * KV_WORD_BYTES / (DTYPE == DTYPE_F8 ? 4 : 2),
        SCALES_OFFSET = TRANSPOSE_WARPS * TILE_BYTES, /* of the keys or values in their page */
        SCALES_BYTES = DTYPE == DTYPE_F8 ? PAGE_TOKENS * 4 : 0,
        KV_HALF_BYTES = TRANSPOSED_BYTES + 1024 * (SCALES_BYTES > 0) /* in shared memory */
    };
    uint4 words[ROWS];
    float scale; /* of the slot that equals the thread index */
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

/* Mask of the two elements from `first` on that are within [begin, end). */
static __device__ __forceinline__ uint32_t pair_mask(int first, int begin, int end)
{
    return (first >= begin && first < end ? 0xFFFFu : 0u) |
           (first + 1 >= begin && first + 1 < end ? 0xFFFF0000u : 0u);
}

/* Stores to the operand at `to`. Elements outside of [begin, end) become zeros; used for values,
 * where slots may hold anything. */
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
