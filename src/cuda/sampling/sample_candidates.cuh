/* The ids with the largest scores of a row, for trees of a draft head: those that may be sampled,
 * as sampling compares them (backend/args.h, sample_args.candidates). Two kernels behind those of
 * sample.cu, only in the launches of steps with n_candidates > 0: SAMPLE_CHUNKS blocks per row find
 * the largest of their ids, then one block per row the largest of these. */
#ifndef CUDA_SAMPLING_SAMPLE_CANDIDATES_CUH
#define CUDA_SAMPLING_SAMPLE_CANDIDATES_CUH

#include "cuda/sampling/sample_rank.cuh"

static_assert((int)DRAFT_CANDIDATES_MAX <= (int)TOP_LOGPROBS_MAX, "fits in the lists of chunks");
static_assert(DRAFT_CANDIDATES_MAX * DRAFT_CANDIDATES_MAX <= (int)CHUNK_THREADS,
              "one thread per candidate");

/* Whether the row has a token; so it has candidates. */
static __device__ __forceinline__ bool has_token(const struct sample_launch &l, unsigned row)
{
    return __ldcg((const int32_t *)l.args.tokens.data + row) >= 0;
}

/* The smallest weight key that the row's sampling allows. */
static __device__ __forceinline__ unsigned long long allowed_key(const struct sample_launch &l,
                                                                 const struct batch_sample &params)
{
    return is_plain(params) ? least_key(params) : __ldcg(&bins_of(l, blockIdx.y)->lowest);
}

static __global__ void __launch_bounds__(CHUNK_THREADS)
    candidates_of_chunk(const __grid_constant__ struct sample_launch l)
{
    __shared__ float floats[CHUNK_WARPS];
    __shared__ int ids[CHUNK_WARPS];
    const struct batch_sample params = l.samples[blockIdx.y];
    const struct sample_part part = part_of(l);
    struct row r = {part.z, l.args.n_valid, 0.0f, params.temperature, NULL};
    unsigned long long lowest;

    pdl_launch_dependents();
    if (is_padding(l, blockIdx.y))
        return;
    pdl_wait();
    if (!has_token(l, blockIdx.y))
        return;
    r.largest = r.z[largest_of(floats, ids, chunks_of(l.chunks, blockIdx.y))];
    if (!(params.temperature > 0.0f)) {
        chunk_largest(l, l.batch->n_candidates, [&](int id) {
            const float z = __ldcg(r.z + id);

            return z > -INFINITY ? sample_key(z, id) : 0;
        });
        return;
    }
    lowest = allowed_key(l, params);
    chunk_largest(l, l.batch->n_candidates, [&](int id) {
        return lowest > 0 && key_of(weight_of(r, id), id) < lowest
                   ? 0
                   : score_key(l, (int)blockIdx.y, r, id, -INFINITY);
    });
}

static __global__ void __launch_bounds__(CHUNK_THREADS)
    candidates_of_row(const __grid_constant__ struct sample_launch l)
{
    const int32_t *ids = (const int32_t *)l.args.ids.data;
    int32_t *out = (int32_t *)l.args.candidates.data + (int64_t)blockIdx.x * DRAFT_CANDIDATES_MAX;

    pdl_launch_dependents();
    if (is_padding(l, blockIdx.x))
        return;
    pdl_wait();
    if (threadIdx.x < DRAFT_CANDIDATES_MAX)
        out[threadIdx.x] = -1;
    __syncthreads();
    if (has_token(l, blockIdx.x))
        row_largest(l, l.batch->n_candidates, [&](int rank, uint64_t key) {
            const int id = sample_key_id(key);

            out[rank] = ids != NULL ? ids[id] : id;
        });
}

#endif
