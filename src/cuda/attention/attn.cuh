/* Shared by the tensor core attention kernels: cp.async helpers, conversion of FP8 codes to bf16,
 * and powers of two. */
#ifndef CUDA_ATTENTION_ATTN_CUH
#define CUDA_ATTENTION_ATTN_CUH

#include "backend/kv_page.h"
#include "cuda/attention/attn.h"
#include "cuda/common/mma.cuh"

enum {
    COPY_BYTES = 16,
    WORDS_ROW_BYTES = KV_COLUMNS * KV_WORD_BYTES,
    STEPS = ATTN_HEAD_DIM / 16 /* of 16 columns; one MMA each */
};

static constexpr float LOG2_E = 1.44269504f;

static __device__ __forceinline__ void copy_async(char *to_shared, const char *from)
{
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(to_shared);

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* Offset of a piece in a row of words in shared memory. Rows two apart have their pieces in
 * different halves, so that lanes which read four rows at once use all banks. Pieces stay within
 * their 128 bytes, so copies are not slower. */
static __device__ __forceinline__ int piece_offset(int row, int piece)
{
    return row * WORDS_ROW_BYTES + (piece ^ (row & 2)) * COPY_BYTES;
}

/* Commits the copies since the last call as a group, which may be empty. */
static __device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all but the last N groups of this thread. */
template <int N> static __device__ __forceinline__ void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Relative error 2^-22; underflow is flushed to 0. */
static __device__ __forceinline__ float power_of_two(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* FP8 codes at bytes 0 and 2 of a word, as bf16 numbers of 2^-120 times their value. Exponent and
 * mantissa bits are kept, so subnormal codes become small bf16 numbers, exactly. */
static __device__ __forceinline__ uint32_t even_codes(uint32_t word)
{
    return (word << 8 & 0x80008000u) | (word << 4 & 0x07F007F0u);
}

/* The codes at bytes 1 and 3. */
static __device__ __forceinline__ uint32_t odd_codes(uint32_t word)
{
    return (word & 0x80008000u) | (word >> 4 & 0x07F007F0u);
}

/* Factor of an operand that is multiplied with elements of KV pages, */
template <int DTYPE> static __device__ __forceinline__ float operand_scale(void)
{
    return DTYPE == DTYPE_F8 ? 0x1p90f : 1.0f;
}

/* and factor of the sums of these products. */
template <int DTYPE> static __device__ __forceinline__ float result_scale(void)
{
    return DTYPE == DTYPE_F8 ? 0x1p30f : 1.0f;
}

#endif
