/* RoPE epilogue and KV page write of heads of DECODE_HEAD_WIDTH, shared by decode_gemm.cu and
 * decode_smem_resident.cu. */
#ifndef CUDA_DECODE_HEADS_CUH
#define CUDA_DECODE_HEADS_CUH

#include <cuda_bf16.h>

#include "cuda/decode/decode.h"
#include "cuda/common/rope_cache.cuh"

/* The KV slot of a token. */
struct slot_of_token {
    int page, slot;
};

static __device__ __forceinline__ struct slot_of_token slot_of(const struct decode_heads &h,
                                                               int token)
{
    const int position = BATCH_SLOTS(h.batch)[token];
    const struct batch_seq *seq = &BATCH_SEQS(h.batch)[BATCH_ROW_SEQ(h.batch)[token]];

    return slot_of_token{
        BATCH_PAGES(
            h.batch)[seq->table[h.group] + position / PAGE_TOKENS - seq->first_page[h.group]],
        position % PAGE_TOKENS};
}

/* n_parts: elements of a word, 2 of BF16 or 1 of F32; a constant where this is inlined. */
static __device__ __forceinline__ int64_t kv_at(int n_parts, int which, int slot, int d)
{
    return kv_word(n_parts, DECODE_HEAD_WIDTH, which, slot, d) * n_parts +
           (which == 0 ? d : slot) % n_parts;
}

static __device__ __forceinline__ void store_kv(char *side, bool is_bf16, int which, int slot,
                                                int d, float x)
{
    if (is_bf16)
        ((__nv_bfloat16 *)side)[kv_at(2, which, slot, d)] = __float2bfloat16_rn(x);
    else
        ((float *)side)[kv_at(1, which, slot, d)] = x;
}

/* Stores numbers d and d + HALF of head `head` of q, k or v (the job); q: the head's position in a
 * token's row. */
static __device__ __forceinline__ void store_rotated(const struct decode_heads &h,
                                                     const struct slot_of_token &to, int job,
                                                     int head, int d, float *q, float low,
                                                     float high)
{
    enum { HALF = DECODE_HEAD_WIDTH / 2 };

    if (job == 0) {
        q[d] = low;
        q[d + HALF] = high;
        return;
    }
    const int which = job - 1;
    char *side = h.pages + ((int64_t)(to.page * 2 + which) * h.n_kv + head) * h.kv_half_bytes;

    store_kv(side, h.is_cache_bf16, which, to.slot, d, low);
    store_kv(side, h.is_cache_bf16, which, to.slot, d + HALF, high);
}

#endif
