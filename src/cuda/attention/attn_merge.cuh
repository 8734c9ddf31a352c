/* Split-K over the keys of a row without a cluster: the blocks of the splits store their partials
 * in the row's merge buffer, and one of them adds these and the sink, in order.
 *
 * That is the block of the last split, which polls for the partials of the others: the fastest
 * way where all of them run, as they do if blocks start in the order of their indices. CUDA does
 * not promise that order. So the block polls MERGE_POLLS_MAX times at most. Then it writes to the
 * header that the merge is deferred, polls once more, and ends. Every other block reads the header
 * after it has stored its partials; if the merge is deferred, and all partials are there, it
 * merges. On both sides a fence lies between the write and the read, so at least one block finds
 * all partials. Several blocks may merge; they store the same bits. */
#ifndef CUDA_ATTENTION_ATTN_MERGE_CUH
#define CUDA_ATTENTION_ATTN_MERGE_CUH

#include "cuda/attention/attn_row.cuh"

enum {
    PAIR_BYTES = 16,
    SPLITS_AT_ONCE = 8,    /* loads in flight when splits are added */
    MERGE_POLLS_MAX = 4096 /* about 3 ms; a merge takes 2 us */
};

/* The merge buffer of this block's heads and row n of the launch. It begins with its header. */
static __device__ __forceinline__ char *merge_buf_of(const struct attn_launch &l, unsigned n)
{
    return l.merge_bufs + ((int64_t)n * gridDim.y + blockIdx.y) * ATTN_MERGE_BYTES;
}

/* The tag of this use of the buffer, never 0, which unused partials have. */
static __device__ __forceinline__ uint32_t merge_tag(uint32_t n_uses)
{
    return n_uses + 1;
}

/* Two floats, each in one 64-bit word with the tag of this use of the merge buffer. A reader that
 * finds the tags has the floats, so no fence and no counter is needed. */
static __device__ __forceinline__ void store_tagged(char *to, float x, float y, uint32_t tag)
{
    const uint64_t high = (uint64_t)tag << 32;

    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to),
                 "l"(high | __float_as_uint(x)), "l"(high | __float_as_uint(y))
                 : "memory");
}

/* Returns false if the words are not there yet. */
static __device__ __forceinline__ bool load_tagged(float2 *out, const char *from, uint32_t tag)
{
    uint64_t x, y;

    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(x), "=l"(y)
                 : "l"(from)
                 : "memory");
    *out = make_float2(__uint_as_float((uint32_t)x), __uint_as_float((uint32_t)y));
    return (uint32_t)(x >> 32) == tag && (uint32_t)(y >> 32) == tag;
}

/* Address of a split's partials: (heads, D) sums, then (heads, 2) numbers, in pairs. */
static __device__ __forceinline__ char *split_result(char *buf, int split)
{
    return buf + ATTN_MERGE_BYTES - (ATTN_SPLITS_MAX - split) * ATTN_SPLIT_BYTES;
}

static __device__ __forceinline__ void publish_split(char *buf, struct sums sums, uint32_t tag)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    char *to = split_result(buf, blockIdx.x);

    if (lane == 0)
        store_tagged(to + (THREADS + head) * PAIR_BYTES, sums.largest, sums.weights, tag);
    store_tagged(to + threadIdx.x * PAIR_BYTES, sums.out.x, sums.out.y, tag);
}

/* Reads the partials of all splits, n_polls times at most, until they are there, and adds them in
 * order. Returns false if some were not there. */
static __device__ __forceinline__ bool sum_splits(struct sums *all, char *buf, int n_splits,
                                                  uint32_t tag, int n_polls)
{
    const int head = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    float2 of_split = {-INFINITY, 0.0f};
    bool is_there = true;
    float add;

    *all = {};
    if (lane < n_splits)
        do
            is_there = load_tagged(&of_split,
                                   split_result(buf, lane) + (THREADS + head) * PAIR_BYTES, tag);
        while (!is_there && --n_polls > 0);
    __syncwarp();
    all->largest = warp_max(of_split.x);
    add = power_of_two(__fadd_rn(of_split.x, -all->largest));
    all->weights = warp_sum(__fmul_rn(of_split.y, add));
    for (int first = 0; first < n_splits; first += SPLITS_AT_ONCE) {
        float2 out[SPLITS_AT_ONCE] = {};
        bool are_there;

        do {
            are_there = true;
#pragma unroll
            for (int i = 0; i < SPLITS_AT_ONCE; i++)
                if (first + i < n_splits)
                    are_there &= load_tagged(
                        &out[i], split_result(buf, first + i) + threadIdx.x * PAIR_BYTES, tag);
        } while (!are_there && --n_polls > 0);
        is_there &= are_there;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < SPLITS_AT_ONCE; i++) {
            const float factor = __shfl_sync(ALL_LANES, add, first + i);

            all->out.x = __fmaf_rn(out[i].x, factor, all->out.x);
            all->out.y = __fmaf_rn(out[i].y, factor, all->out.y);
        }
    }
    return is_there;
}

/* Volatile, so that accesses stay on their side of the fence. */
static __device__ __forceinline__ volatile uint32_t *deferred_of(char *buf)
{
    return &((struct attn_merge_header *)buf)->deferred;
}

/* Whether this block, which has published its partials, merges the row; then *all has the sums. */
static __device__ __forceinline__ bool
merge_splits(struct sums *all, char *buf, const struct block &k, uint32_t tag, bool is_impatient)
{
    const bool is_last = (int)blockIdx.x == k.n_splits - 1;

#pragma unroll 1
    for (int pass = is_last && !is_impatient ? 0 : 1; pass < 2; pass++) {
        bool is_deferred = pass == 0;

        if (pass == 1) {
            __syncthreads(); /* all threads have published */
            if (threadIdx.x == 0) {
                if (is_last)
                    *deferred_of(buf) = tag;
                __threadfence();
                is_deferred = is_last || *deferred_of(buf) == tag;
            }
        }
        if (!__syncthreads_or(is_deferred))
            return false;
        if (__syncthreads_and(
                sum_splits(all, buf, k.n_splits, tag, pass == 0 ? (int)MERGE_POLLS_MAX : 1)))
            return true;
    }
    return false;
}

/* Ends a use of the buffer: by all threads of a block that has merged, behind a barrier. After the
 * last tag, a split that was not used since the tags began would have partials of a tag that comes
 * again, so all of them are cleared. */
static __device__ __forceinline__ void merge_end(char *buf, uint32_t tag)
{
    struct attn_merge_header *header = (struct attn_merge_header *)buf;

    if (tag != UINT32_MAX) {
        if (threadIdx.x == 0)
            header->n_uses = tag;
        return;
    }
    for (int i = (int)sizeof(*header) + threadIdx.x * PAIR_BYTES; i < ATTN_MERGE_BYTES;
         i += THREADS * PAIR_BYTES)
        *(uint4 *)(buf + i) = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0)
        header->n_uses = header->deferred = 0;
}

/* Stores the row's result, if this block has its only split, or merges the splits. header: that of
 * row blockIdx.z's buffer. */
static __device__ __forceinline__ void finish_split(const struct attn_launch &l,
                                                    const struct block &k, struct sums *sums,
                                                    const struct attn_merge_header &header,
                                                    float sink)
{
    const int head = threadIdx.x / WARP_LANES; /* as many heads as warps */

    if (k.n_splits == 1) {
        finish(l, k, *sums, sink, head);
        return;
    }
    const uint32_t tag = merge_tag(header.n_uses);
    char *const buf = merge_buf_of(l, blockIdx.z);

    publish_split(buf, *sums, tag);
    if (!merge_splits(sums, buf, k, tag, header.is_impatient != 0))
        return;
    finish(l, k, *sums, sink, head);
    merge_end(buf, tag);
}

#endif
