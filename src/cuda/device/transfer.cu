/* Upload of the batch and download of the results between two steps. Each is one kernel that
 * accesses mapped host memory. Neither waits for a copy engine, and the next step is in the stream
 * before this one ends. A batch that depends on accepted drafts has one kernel more. */
#include "cuda/launch/launch.h"

#include "backend/accept.h"
#include "cuda/common/clock.cuh"

enum { THREADS = 256, BLOCKS_MAX = 128, PIECE_INTS = 4 };

/* The token that sample i of an earlier step selected. If it selected no token, any valid token
 * is used, and the row's result is discarded. */
static __device__ int32_t sampled_token(const struct upload_launch &l, int32_t token)
{
    if (token >= 0)
        return token;
    return max(l.sampled[batch_sample_back(token)][batch_sample_index(token)], 0);
}

/* Piece `at` of 16 bytes; ints [first, first + n) of the whole are tokens. */
static __device__ int4 with_sampled(int4 piece, int64_t at, const struct upload_launch &l)
{
    const int64_t offset = at * PIECE_INTS - l.first_token;
    int32_t v[PIECE_INTS] = {piece.x, piece.y, piece.z, piece.w};

#pragma unroll
    for (int i = 0; i < PIECE_INTS; i++)
        if (offset + i >= 0 && offset + i < l.n_tokens)
            v[i] = sampled_token(l, v[i]);
    return make_int4(v[0], v[1], v[2], v[3]);
}

static __global__ void __launch_bounds__(THREADS)
    upload_kernel(const __grid_constant__ struct upload_launch l)
{
    const int64_t n = l.n_bytes / (int64_t)sizeof(int4);
    const int64_t stride = (int64_t)gridDim.x * THREADS;

    for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < n; at += stride) {
        int4 piece = __ldcv((const int4 *)l.from + at);

        if (l.sampled[0] != NULL)
            piece = with_sampled(piece, at, l);
        ((int4 *)l.to)[at] = piece;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        l.results->begin_ns = now_ns();
        if (l.n_exchanges_to != NULL)
            *l.n_exchanges_to = l.n_exchanges;
    }
}

void launch_upload(cudaStream_t stream, const struct upload_launch *l)
{
    const int64_t n_wanted = (l->n_bytes / (int64_t)sizeof(int4) + THREADS - 1) / THREADS;
    const int64_t n_blocks = n_wanted < (int64_t)BLOCKS_MAX ? n_wanted : (int64_t)BLOCKS_MAX;

    upload_kernel<<<(unsigned)n_blocks, THREADS, 0, stream>>>(*l);
}

/* One thread a sequence. */
static __global__ void __launch_bounds__(THREADS)
    follow_kernel(const __grid_constant__ struct follow_launch l)
{
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);

    if (i < l.n_follows)
        batch_follow_accepted(l.batch, i, l.sampled, l.noise_keys);
}

void launch_follow(cudaStream_t stream, const struct follow_launch *l)
{
    const int n_blocks = l->n_follows / THREADS + 1;

    follow_kernel<<<(unsigned)n_blocks, THREADS, 0, stream>>>(*l);
}

static __device__ void copy_list(const struct tensor &from, int32_t *to, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        to[i] = ((const int32_t *)from.data)[i];
}

static __global__ void __launch_bounds__(THREADS)
    download_kernel(const __grid_constant__ struct download_launch l)
{
    if (threadIdx.x == 0) {
        l.results->end_ns = now_ns();
        l.results->n_experts_read = *l.n_experts_read;
    }
    if (l.n_samples == 0)
        return;
    copy_list(l.args.tokens, l.results->lists, l.n_samples);
    copy_list(l.args.tokens, l.sampled, l.n_samples);
    copy_list(l.args.logprobs, l.results->lists + l.n_samples_max, l.n_samples);
    if (l.has_candidates)
        copy_list(l.args.candidates,
                  l.results->lists + (2 + 2 * TOP_LOGPROBS_MAX) * (int64_t)l.n_samples_max,
                  l.n_samples * DRAFT_CANDIDATES_MAX);
    if (!l.has_top)
        return;
    copy_list(l.args.top_tokens, l.results->lists + 2 * l.n_samples_max,
              l.n_samples * TOP_LOGPROBS_MAX);
    copy_list(l.args.top_logprobs,
              l.results->lists + (2 + TOP_LOGPROBS_MAX) * (int64_t)l.n_samples_max,
              l.n_samples * TOP_LOGPROBS_MAX);
}

void launch_download(cudaStream_t stream, const struct download_launch *l)
{
    download_kernel<<<1, THREADS, 0, stream>>>(*l);
}
