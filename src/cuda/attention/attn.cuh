/* What the kernels of attention on tensor cores share: copies to shared memory that nobody waits
 * for, codes of F8 as bf16, powers of two. */
#ifndef CUDA_ATTENTION_ATTN_CUH
#define CUDA_ATTENTION_ATTN_CUH

#include "backend/kv_page.h"
#include "cuda/attention/attn.h"
#include "cuda/common/mma.cuh"

enum {
    COPY_BYTES = 16,
    WORDS_ROW_BYTES = KV_COLUMNS * KV_WORD_BYTES,
    STEPS = ATTN_HEAD_DIM / 16 /* of 16 columns: as many matrix instructions */
};

static constexpr float LOG2_E = 1.44269504f;

static __device__ __forceinline__ void copy_async(char *to_shared, const char *from)
{
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(to_shared);

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* Where a piece of a row of words lies in shared memory: rows two apart have theirs in different
 * halves, so that lanes which read four rows at once meet all banks. Pieces stay within 128
 * bytes: copies are not slowed. */
static __device__ __forceinline__ int piece_offset(int row, int piece)
{
    return row * WORDS_ROW_BYTES + (piece ^ (row & 2)) * COPY_BYTES;
}

/* Copies since the last call are a group, which may be empty. */
static __device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All groups of this thread but the last N have come. */
template <int N> static __device__ __forceinline__ void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Of relative error 2^-22; too small ones are 0. */
static __device__ __forceinline__ float power_of_two(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Codes of F8 at bytes 0 and 2 of a word, as bf16 numbers of 2^-120 times their value: exponent
 * and mantissa keep their bits, and small codes become small bf16 numbers, exactly. */
static __device__ __forceinline__ uint32_t even_codes(uint32_t word)
{
    return (word << 8 & 0x80008000u) | (word << 4 & 0x07F007F0u);
}

/* Those at bytes 1 and 3. */
static __device__ __forceinline__ uint32_t odd_codes(uint32_t word)
{
    return (word & 0x80008000u) | (word >> 4 & 0x07F007F0u);
}

/* What a number is multiplied with before it meets elements of pages, */
template <int DTYPE> static __device__ __forceinline__ float operand_scale(void)
{
    return DTYPE == DTYPE_F8 ? 0x1p90f : 1.0f;
}

/* and the sums of such products behind it. */
template <int DTYPE> static __device__ __forceinline__ float result_scale(void)
{
    return DTYPE == DTYPE_F8 ? 0x1p30f : 1.0f;
}

#endif
