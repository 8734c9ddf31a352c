/* Chunks of a row for sample.cu: edits of logits (penalties, biases and mask) and top logprobs. A
 * chunk's block edits its ids in place and saves the original logits in the device copy of the
 * batch, where the logprobs code reads them. Plain rows skip all of this. */
#ifndef CUDA_SAMPLING_SAMPLE_CUH
#define CUDA_SAMPLING_SAMPLE_CUH

#include "backend/logits_process.h"
#include "cuda/launch/launch.h"
#include "cuda/common/pdl.cuh"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/sums.cuh"
#include "cuda/sampling/sample_key.h"

enum {
    CHUNK_THREADS = 256,
    CHUNK_WARPS = CHUNK_THREADS / WARP_LANES,
    TILE_EACH =
        8, /* ids per thread and iteration of the top logprobs; a chunk of 201,088 ids has 6.1 per
            * thread */
    TILE = CHUNK_THREADS * TILE_EACH
};

/* ---- chunks ---- */

static __device__ __forceinline__ int chunk_ids(int n_all)
{
    return (n_all + SAMPLE_CHUNKS - 1) / SAMPLE_CHUNKS;
}

/* A row's chunks, in the order of their ids. */
static __device__ __forceinline__ struct sample_chunk *chunks_of(struct sample_chunk *chunks,
                                                                 int row)
{
    return chunks + (int64_t)row * SAMPLE_CHUNKS;
}

/* The ids of this block: chunk x of row y. */
struct sample_part {
    float *z; /* of the whole row */
    int first, end;
};

/* Whether the block's row is behind those of the batch (common/live_rows.cuh). */
static __device__ __forceinline__ bool is_padding(const struct sample_launch &l, unsigned row)
{
    return (int)row >= l.batch->n_samples;
}

static __device__ __forceinline__ struct sample_part part_of(const struct sample_launch &l)
{
    const int n_all = (int)l.args.logits.dim[1], n_ids = chunk_ids(n_all);
    const int first = blockIdx.x * n_ids;

    return {(float *)l.args.logits.data + (int64_t)blockIdx.y * n_all, first,
            min(first + n_ids, n_all)};
}

/* ---- argmax ---- */

/* The larger of two logits, ties to the lower id. */
static __device__ __forceinline__ void block_argmax(float *best, int *id, float other, int other_id)
{
    if (other > *best || (other == *best && other_id < *id)) {
        *best = other;
        *id = other_id;
    }
}

static __device__ __forceinline__ void warp_best(float *best, int *id)
{
    for (int step = WARP_LANES / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, *best, step);
        const int other_id = __shfl_xor_sync(ALL_LANES, *id, step);

        block_argmax(best, id, other, other_id);
    }
}

/* Argmax over all threads; every thread receives it. Returns true if a thread had the flag set. */
static __device__ __forceinline__ bool block_best(float *best, int *id, float *floats, int *ids,
                                                  bool flag)
{
    warp_best(best, id);
    if (threadIdx.x % WARP_LANES == 0) {
        floats[threadIdx.x / WARP_LANES] = *best;
        ids[threadIdx.x / WARP_LANES] = *id;
    }
    flag = __syncthreads_or(flag);
    for (unsigned w = 0; w < blockDim.x / WARP_LANES; w++)
        block_argmax(best, id, floats[w], ids[w]);
    __syncthreads();
    return flag;
}

/* The largest key of the block; every thread receives it. `keys`: one a warp. */
static __device__ __forceinline__ uint64_t block_largest(uint64_t key, uint64_t *keys)
{
    const unsigned lane = threadIdx.x % WARP_LANES;

    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        key = max(key, __shfl_xor_sync(ALL_LANES, key, step));
    __syncthreads();
    if (lane == 0)
        keys[threadIdx.x / WARP_LANES] = key;
    __syncthreads();
    key = lane < blockDim.x / WARP_LANES ? keys[lane] : 0;
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        key = max(key, __shfl_xor_sync(ALL_LANES, key, step));
    return key;
}

/* The lowest id among the largest logits of the candidates, or an enum sample_failure. */
static __device__ int largest_of(float *floats, int *ids, const struct sample_chunk *chunks)
{
    const bool is_chunk = threadIdx.x < SAMPLE_CHUNKS;
    float best = is_chunk ? __ldcg(&chunks[threadIdx.x].largest) : -INFINITY;
    int id = is_chunk ? __ldcg(&chunks[threadIdx.x].id) : 0x7FFFFFFF;
    const int state = is_chunk ? __ldcg(&chunks[threadIdx.x].state) : 0;

    if (block_best(&best, &id, floats, ids, state & SAMPLE_INVALID))
        return SAMPLE_NOT_FINITE;
    if (isfinite(best))
        return id;
    return __syncthreads_or(state & SAMPLE_FINITE) ? SAMPLE_NONE_ALLOWED : SAMPLE_NOT_FINITE;
}

/* ---- top logprobs: of a chunk, then of the row ---- */

/* Number of the n keys that are larger. */
static __device__ __forceinline__ int rank_of(uint64_t key, const uint64_t *keys, int n)
{
    int rank = 0;

    for (int i = 0; i < n; i++)
        rank += keys[i] > key;
    return rank;
}

/* The n_top largest keys of a chunk's ids, descending; 0 past the last, and for ids that do not
 * count. The chunk is processed in tiles: the threads with the largest leading keys add all of
 * theirs to the result of earlier tiles. */
template <typename KEY_OF>
static __device__ __forceinline__ void chunk_largest(const struct sample_launch &l, int n_top,
                                                     KEY_OF key_of_id)
{
    __shared__ uint64_t heads[CHUNK_THREADS];
    __shared__ uint64_t found[TOP_LOGPROBS_MAX * (TILE_EACH + 1)];
    __shared__ uint64_t best[TOP_LOGPROBS_MAX];
    const struct sample_part part = part_of(l);
    const int end = min(part.end, l.args.n_valid), n_found = TOP_LOGPROBS_MAX * (TILE_EACH + 1);
    uint64_t keys[TILE_EACH];

    if (threadIdx.x < TOP_LOGPROBS_MAX)
        best[threadIdx.x] = 0;
    for (int tile = part.first; tile < end; tile += TILE) {
        uint64_t head = 0, key;
        int rank;

#pragma unroll
        for (int i = 0; i < TILE_EACH; i++) {
            const int id = tile + i * CHUNK_THREADS + threadIdx.x;

            keys[i] = id < end ? key_of_id(id) : 0;
            head = max(head, keys[i]);
        }
        heads[threadIdx.x] = head;
        for (int i = threadIdx.x; i < n_found; i += CHUNK_THREADS)
            found[i] = 0;
        __syncthreads();
        rank = rank_of(head, heads, CHUNK_THREADS);
        if (head != 0 && rank < n_top)
#pragma unroll
            for (int i = 0; i < TILE_EACH; i++)
                found[rank * TILE_EACH + i] = keys[i];
        if (threadIdx.x < n_top)
            found[TOP_LOGPROBS_MAX * TILE_EACH + threadIdx.x] = best[threadIdx.x];
        __syncthreads();
        key = threadIdx.x < n_found ? found[threadIdx.x] : 0;
        rank = rank_of(key, found, n_found);
        if (key != 0 && rank < n_top)
            best[rank] = key;
        __syncthreads();
    }
    __syncthreads();
    if (threadIdx.x < n_top)
        l.tops[((int64_t)blockIdx.y * SAMPLE_CHUNKS + blockIdx.x) * TOP_LOGPROBS_MAX +
               threadIdx.x] = best[threadIdx.x];
}
static_assert(TOP_LOGPROBS_MAX * (TILE_EACH + 1) <= (int)CHUNK_THREADS, "one thread per candidate");

static __device__ __noinline__ void chunk_top(const struct sample_launch &l, int n_top)
{
    const float *z = part_of(l).z;

    chunk_largest(l, n_top, [&](int id) { return sample_key(__ldcg(z + id), id); });
}

/* The n_top largest keys of a row, by the row's block, from those of its chunks: they are in the
 * n_top chunks with the largest first keys. A thread has one key at most: put(rank, key). */
template <typename PUT>
static __device__ __forceinline__ void row_largest(const struct sample_launch &l, int n_top,
                                                   PUT put)
{
    __shared__ uint64_t heads[SAMPLE_CHUNKS];
    __shared__ uint64_t found[TOP_LOGPROBS_MAX * TOP_LOGPROBS_MAX];
    __shared__ int chunks[TOP_LOGPROBS_MAX];
    const uint64_t *tops = l.tops + (int64_t)blockIdx.x * SAMPLE_CHUNKS * TOP_LOGPROBS_MAX;
    const int n_found = n_top * n_top, t = threadIdx.x;
    uint64_t key;
    int rank;

    if (t < SAMPLE_CHUNKS)
        heads[t] = __ldcg(tops + t * TOP_LOGPROBS_MAX);
    if (t < n_top)
        chunks[t] = -1;
    __syncthreads();
    if (t < SAMPLE_CHUNKS && heads[t] != 0) {
        rank = rank_of(heads[t], heads, SAMPLE_CHUNKS);
        if (rank < n_top)
            chunks[rank] = t;
    }
    __syncthreads();
    if (t < n_found)
        found[t] = chunks[t / n_top] < 0
                       ? 0
                       : __ldcg(tops + chunks[t / n_top] * TOP_LOGPROBS_MAX + t % n_top);
    __syncthreads();
    key = t < n_found ? found[t] : 0;
    rank = key == 0 ? n_top : rank_of(key, found, n_found);
    if (rank < n_top)
        put(rank, key);
}

static __device__ __noinline__ void write_top_logprobs(const struct sample_launch &l, int n_top,
                                                       float base, double log_sum)
{
    int32_t *ids = (int32_t *)l.args.top_tokens.data + (int64_t)blockIdx.x * TOP_LOGPROBS_MAX;
    float *logprobs = (float *)l.args.top_logprobs.data + (int64_t)blockIdx.x * TOP_LOGPROBS_MAX;

    if ((int)threadIdx.x < n_top) { /* row_largest() has a barrier before it puts */
        ids[threadIdx.x] = -1;
        logprobs[threadIdx.x] = __uint_as_float(0x7FC00000u);
    }
    row_largest(l, n_top, [&](int rank, uint64_t key) {
        ids[rank] = sample_key_id(key);
        logprobs[rank] = (float)((double)(sample_key_value(key) - base) - log_sum);
    });
}

/* ---- edits ---- */

/* Range [*from, *to) of the list entries that may have ids in [first, end). Ids ascend; each entry
 * is two words. */
static __device__ void find_seen(const int32_t *list, int n, const struct sample_part &part,
                                 int *from, int *to)
{
    const int n_each = (n + CHUNK_THREADS - 1) / CHUNK_THREADS, mine = threadIdx.x * n_each;
    const int id = mine < n ? __ldcg(list + 2 * (int64_t)mine) : 0x7FFFFFFF;
    const int n_before = __syncthreads_count(id < part.first);
    const int n_until = __syncthreads_count(id < part.end);

    *from = max(n_before - 1, 0) * n_each;
    *to = min(n_until * n_each, n);
}

static __device__ void penalise(struct batch_seen *seen, const struct batch_sample &params,
                                const struct sample_part &part)
{
    int from, to;

    find_seen(&seen->id, params.n_seen, part, &from, &to);
    for (int i = from + threadIdx.x; i < to; i += CHUNK_THREADS) {
        const int id = __ldcg(&seen[i].id);

        if (id >= part.first && id < part.end) {
            const float z = __ldcg(part.z + id);

            part.z[id] = penalised_logit(z, __ldcg(&seen[i].n_generated), &params);
            seen[i].n_generated = (int32_t)__float_as_uint(z);
        }
    }
}

static __device__ void add_biases(struct batch_bias *biases, const struct batch_sample &params,
                                  const struct sample_part &part)
{
    int from, to;

    find_seen(&biases->id, params.n_biases, part, &from, &to);
    for (int i = from + threadIdx.x; i < to; i += CHUNK_THREADS) {
        const int id = __ldcg(&biases[i].id);

        if (id >= part.first && id < part.end) {
            const float z = __ldcg(part.z + id);

            part.z[id] = z + __ldcg(&biases[i].bias);
            biases[i].bias = z;
        }
    }
}

struct best {
    float largest;
    int id;
};

/* Processes a chunk of a special row: top logprobs, then edits; returns the argmax after the
 * edits. */
static __device__ __noinline__ struct best edit_chunk(const struct sample_launch &l,
                                                      struct best raw_value)
{
    __shared__ float floats[CHUNK_WARPS];
    __shared__ int ids[CHUNK_WARPS];
    const struct batch_sample &params = l.samples[blockIdx.y];
    const struct sample_part part = part_of(l);
    const uint32_t *mask =
        params.n_mask_words > 0 ? BATCH_MASKS(l.batch) + params.first_mask_word : NULL;
    struct best best = {-INFINITY, 0x7FFFFFFF};

    if (params.n_top > 0)
        chunk_top(l, params.n_top);
    if (!sample_is_processed(&params))
        return raw_value;
    __syncthreads(); /* all threads have read the original logits */
    if (params.n_seen > 0)
        penalise((struct batch_seen *)BATCH_SEEN(l.batch) + params.first_seen, params, part);
    __syncthreads();
    if (params.n_biases > 0)
        add_biases((struct batch_bias *)BATCH_BIASES(l.batch) + params.first_bias, params, part);
    __syncthreads();
    for (int i = part.first + threadIdx.x; i < min(part.end, l.args.n_valid); i += CHUNK_THREADS) {
        const bool is_allowed = mask == NULL || mask_allows(mask, i);
        const float value = is_allowed ? __ldcg(part.z + i) : -INFINITY;

        if (!is_allowed)
            part.z[i] = value;
        block_argmax(&best.largest, &best.id, value, i);
    }
    block_best(&best.largest, &best.id, floats, ids, false);
    return best;
}

/* A token's logit before the edits. Every thread receives it. */
static __device__ __noinline__ float raw_logit(const struct sample_launch &l, const float *z,
                                               int token)
{
    __shared__ float found;
    const struct batch_sample &params = l.samples[blockIdx.x];
    const struct batch_seen *seen = BATCH_SEEN(l.batch) + params.first_seen;
    const struct batch_bias *biases = BATCH_BIASES(l.batch) + params.first_bias;

    if (threadIdx.x == 0)
        found = z[token];
    __syncthreads();
    for (int i = threadIdx.x; i < params.n_biases; i += blockDim.x)
        if (__ldcg(&biases[i].id) == token)
            found = __ldcg(&biases[i].bias);
    __syncthreads(); /* penalties are applied first */
    for (int i = threadIdx.x; i < params.n_seen; i += blockDim.x)
        if (__ldcg(&seen[i].id) == token)
            found = __uint_as_float((unsigned)__ldcg(&seen[i].n_generated));
    __syncthreads();
    return found;
}

#endif
