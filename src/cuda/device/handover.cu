/* Between two steps: the batch comes to its place on the device, and the results go to the host, each by one kernel
 * over memory of the host that the device sees. Neither waits for a copy engine, and the next step is in the stream
 * before this one ends. */
#include "cuda/common/launch.h"

enum { THREADS = 256, BLOCKS_MAX = 128, PIECE_INTS = 4 };

static __device__ uint64_t now_ns(void)
{
    uint64_t t;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* What sample i of the step before drew; where it drew nothing, its row goes on with some token, for nobody. */
static __device__ int32_t token_drawn(const int32_t *drawn, int32_t token)
{
    return token >= 0 ? token : max(drawn[batch_token_sample(token)], 0);
}

/* Piece `at` of 16 bytes; ints [first, first + n) of the whole are tokens. */
static __device__ int4 with_tokens(int4 piece, int64_t at, const struct take_launch &l)
{
    const int64_t behind = at * PIECE_INTS - l.first_token;
    int32_t v[PIECE_INTS] = {piece.x, piece.y, piece.z, piece.w};

#pragma unroll
    for (int i = 0; i < PIECE_INTS; i++)
        if (behind + i >= 0 && behind + i < l.n_tokens)
            v[i] = token_drawn(l.drawn, v[i]);
    return make_int4(v[0], v[1], v[2], v[3]);
}

static __global__ void __launch_bounds__(THREADS) take(const __grid_constant__ struct take_launch l)
{
    const int64_t n = l.n_bytes / (int64_t)sizeof(int4);
    const int64_t stride = (int64_t)gridDim.x * THREADS;

    for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < n; at += stride) {
        int4 piece = __ldcv((const int4 *)l.from + at);

        if (l.drawn != NULL)
            piece = with_tokens(piece, at, l);
        ((int4 *)l.to)[at] = piece;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        l.results->begin_ns = now_ns();
}

void launch_take(cudaStream_t stream, const struct take_launch *l)
{
    const int64_t n_wanted = (l->n_bytes / (int64_t)sizeof(int4) + THREADS - 1) / THREADS;
    const int64_t n_blocks = n_wanted < (int64_t)BLOCKS_MAX ? n_wanted : (int64_t)BLOCKS_MAX;

    take<<<(unsigned)n_blocks, THREADS, 0, stream>>>(*l);
}

static __device__ void give_words(const struct tensor &from, int32_t *to, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        to[i] = ((const int32_t *)from.data)[i];
}

static __global__ void __launch_bounds__(THREADS) give(const __grid_constant__ struct give_launch l)
{
    if (threadIdx.x == 0) {
        l.results->end_ns = now_ns();
        l.results->n_experts_read = *l.n_experts_read;
    }
    if (l.n_samples == 0)
        return;
    give_words(l.args.tokens, l.results->lists, l.n_samples);
    give_words(l.args.logprobs, l.results->lists + l.n_samples_max, l.n_samples);
    if (!l.has_top)
        return;
    give_words(l.args.top_tokens, l.results->lists + 2 * l.n_samples_max,
               l.n_samples * SAMPLE_TOP_MAX);
    give_words(l.args.top_logprobs,
               l.results->lists + (2 + SAMPLE_TOP_MAX) * (int64_t)l.n_samples_max,
               l.n_samples * SAMPLE_TOP_MAX);
}

void launch_give(cudaStream_t stream, const struct give_launch *l)
{
    give<<<1, THREADS, 0, stream>>>(*l);
}
