/* Sampling: one token per row of logits, and its logprob under the softmax over all V unmodified
 * logits, with the top logprobs if requested.
 *
 * Work division: SAMPLE_CHUNKS blocks per row first reduce one chunk of ids each: the largest logit
 * and the sum of exponentials, then after penalties, biases and mask (sample.cuh) the largest score
 * of the candidates, or with top_k or top_p their histogram over bins. Then one block per row
 * selects the token: the largest of the chunks, or with top_k or top_p of the candidates, after a
 * search for the last of these (sample_rank.cuh). Memory bound: the logits are read once, and again
 * by special rows.
 *
 * The rules are those of the CPU backend (src/cpu/stages/sample.c, sample_logits.c), with the same
 * noise for the same seed, position and id, to the bit (backend/gumbel.h). Weights are
 * exp((z - max z) / temperature) over the valid ids. They are filtered by top_k, then by top_p (the
 * shortest prefix by descending weight that holds top_p of the remaining mass), then by min_p. The
 * token is the remaining candidate with the largest score. Sums of weights are integers in units of
 * 2^-40 of the largest weight, so that they do not depend on the order. */
#include "cuda/sampling/sample_candidates.cuh"

static_assert((int)SAMPLE_CHUNKS <= (int)CHUNK_THREADS, "one thread per chunk");

struct shared {
    union {
        float floats[WARPS];
        double doubles[WARPS];
        uint64_t keys[WARPS];
    } scratch;
    int ids[WARPS];
};

/* ---- chunks ---- */

/* A separate kernel for steps whose rows are all plain: it does not pay for the registers of the
 * other code. */
template <bool HAS_SPECIAL>
static __global__ void __launch_bounds__(CHUNK_THREADS)
    survey(const __grid_constant__ struct sample_launch l)
{
    __shared__ union {
        float floats[CHUNK_WARPS];
        double doubles[CHUNK_WARPS];
    } scratch;
    __shared__ int ids[CHUNK_WARPS];
    const bool is_special = HAS_SPECIAL && sample_is_special(l.samples + blockIdx.y);
    const struct sample_part part = part_of(l);
    struct sample_chunk c = {-INFINITY, 0x7FFFFFFF, 0, 0.0f, 0.0, 0};
    bool is_broken = false;
    double sum = 0;

    pdl_launch_dependents();
    if (is_padding(l, blockIdx.y))
        return;
    pdl_wait();
#pragma unroll 8
    for (int i = part.first + threadIdx.x; i < part.end; i += CHUNK_THREADS) {
        const float value = __ldcg(part.z + i);

        is_broken = is_broken || isnan(value);
        if (i < l.args.n_valid && value > c.largest) {
            c.largest = value;
            c.id = i;
        }
    }
    is_broken =
        block_best(&c.largest, &c.id, scratch.floats, ids, is_broken) || c.largest == INFINITY;
    c.state = (is_broken ? SAMPLE_INVALID : 0) | (isfinite(c.largest) ? SAMPLE_FINITE : 0);
    c.base = isfinite(c.largest) ? c.largest : 0.0f;
#pragma unroll 8
    for (int i = part.first + threadIdx.x; i < part.end; i += CHUNK_THREADS)
        sum += (double)expf(__ldcg(part.z + i) - c.base);
    c.sum = block_sum(sum, scratch.doubles);
    if (is_special) {
        const struct best edited = edit_chunk(l, {c.largest, c.id});

        c.largest = edited.largest;
        c.id = edited.id;
        clear_bins(l);
    }
    if (threadIdx.x == 0)
        chunks_of(l.chunks, blockIdx.y)[blockIdx.x] = c;
}

/* ---- scores ---- */

/* Finds the largest score of a chunk, or fills its bins. */
template <bool HAS_SPECIAL>
static __global__ void __launch_bounds__(CHUNK_THREADS)
    weigh(const __grid_constant__ struct sample_launch l)
{
    __shared__ float floats[CHUNK_WARPS];
    __shared__ int ids[CHUNK_WARPS];
    __shared__ uint64_t keys[CHUNK_WARPS];
    const struct batch_sample params = l.samples[blockIdx.y];
    const struct sample_part part = part_of(l);
    const int end = min(part.end, l.args.n_valid);
    struct row r = {part.z, l.args.n_valid, 0.0f, params.temperature, NULL};
    uint64_t most = 0;
    float least;
    int best;

    pdl_launch_dependents();
    if (is_padding(l, blockIdx.y))
        return;
    pdl_wait();
    if (!(params.temperature > 0.0f) || (!HAS_SPECIAL && !is_plain(params)))
        return;
    best = largest_of(floats, ids, chunks_of(l.chunks, blockIdx.y));
    if (best < 0)
        return;
    if (HAS_SPECIAL && !is_plain(params)) {
        fill_bins(l, best);
        return;
    }
    r.largest = r.z[best];
    least = least_score(l, blockIdx.y, best);
#pragma unroll 4
    for (int i = part.first + threadIdx.x; i < end; i += CHUNK_THREADS)
        if (!(params.min_p > 0.0f) || weight_of(r, i) >= params.min_p)
            most = max(most, score_key(l, blockIdx.y, r, i, least));
    most = block_largest(most, keys);
    if (threadIdx.x == 0)
        chunks_of(l.chunks, blockIdx.y)[blockIdx.x].pick = most;
}

static __device__ int sample_plain(struct shared *s, const struct sample_chunk *chunks)
{
    const uint64_t pick = threadIdx.x < SAMPLE_CHUNKS ? __ldcg(&chunks[threadIdx.x].pick) : 0;

    return sample_key_id(block_largest(pick, s->scratch.keys));
}

/* Natural logarithm of the sum of exponentials relative to `largest`. */
static __device__ double log_sum(struct shared *s, const struct sample_chunk *chunks, float largest)
{
    double sum = 0;

    if (threadIdx.x < SAMPLE_CHUNKS)
        sum = __dmul_rn(
            __ldcg(&chunks[threadIdx.x].sum), /* not fused: both kernels give the same bits */
            exp((double)__ldcg(&chunks[threadIdx.x].base) - (double)largest));
    return log(block_sum(sum, s->scratch.doubles));
}

/* The largest original logit of an edited row: the reference of its logprobs. */
static __device__ __noinline__ float raw_largest(float *floats, const struct sample_chunk *chunks)
{
    const bool is_finite =
        threadIdx.x < SAMPLE_CHUNKS && (__ldcg(&chunks[threadIdx.x].state) & SAMPLE_FINITE) != 0;
    float largest = warp_max(is_finite ? __ldcg(&chunks[threadIdx.x].base) : -INFINITY);

    __syncthreads();
    if (threadIdx.x % WARP_LANES == 0)
        floats[threadIdx.x / WARP_LANES] = largest;
    __syncthreads();
    largest = floats[0];
    for (int w = 1; w < WARPS; w++)
        largest = fmaxf(largest, floats[w]);
    return largest;
}

static __device__ void write_result(const struct sample_args &a, int token, float logprob)
{
    if (threadIdx.x != 0)
        return;
    if (token >= 0 && a.ids.data != NULL)
        token = ((const int32_t *)a.ids.data)[token];
    ((int32_t *)a.tokens.data)[blockIdx.x] = token;
    ((float *)a.logprobs.data)[blockIdx.x] = logprob;
}

template <bool HAS_SPECIAL>
static __global__ void __launch_bounds__(THREADS, 1)
    sample(const __grid_constant__ struct sample_launch l)
{
    __shared__ struct shared s;
    const int n_all = (int)l.args.logits.dim[1];
    const float *z = (const float *)l.args.logits.data + (int64_t)blockIdx.x * n_all;
    const struct batch_sample params = l.samples[blockIdx.x];
    const bool is_edited = HAS_SPECIAL && sample_is_processed(&params);
    const int n_top = HAS_SPECIAL ? params.n_top : 0;
    const struct sample_chunk *chunks = chunks_of(l.chunks, blockIdx.x);
    int best, token;

    pdl_launch_dependents();
    if (is_padding(l, blockIdx.x))
        return;
    pdl_wait();
    best = token = largest_of(s.scratch.floats, s.ids, chunks);
    if (best == SAMPLE_NOT_FINITE || (best < 0 && n_top == 0)) {
        write_result(l.args, best, __uint_as_float(0x7FC00000u));
        return;
    }
    if (best >= 0 && params.temperature > 0.0f)
        token =
            !HAS_SPECIAL || is_plain(params) ? sample_plain(&s, chunks) : sample_ranked(l, z[best]);
    const float base = is_edited ? raw_largest(s.scratch.floats, chunks) : z[best];
    const double sum = log_sum(&s, chunks, base);

    if (n_top > 0)
        write_top_logprobs(l, n_top, base, sum);
    if (token < 0) {
        write_result(l.args, token, __uint_as_float(0x7FC00000u));
        return;
    }
    const float raw = is_edited ? raw_logit(l, z, token) : z[token];

    write_result(l.args, token, (float)((double)(raw - base) - sum));
}

template <bool HAS_SPECIAL>
static void launch_kind(struct launch_list *list, const struct sample_launch *l)
{
    const dim3 grid(SAMPLE_CHUNKS, (unsigned)l->n_samples);

    add_dependent<survey<HAS_SPECIAL>>(list, grid, CHUNK_THREADS, 0, *l);
    add_dependent<weigh<HAS_SPECIAL>>(list, grid, CHUNK_THREADS, 0, *l);
    if (HAS_SPECIAL && l->n_samples <= CANDIDATE_ROWS)
        add_dependent<collect>(list, grid, CHUNK_THREADS, 0, *l);
    add_dependent<sample<HAS_SPECIAL>>(list, (unsigned)l->n_samples, THREADS, 0, *l);
}

void launch_sample(struct launch_list *list, const struct sample_launch *l)
{
    if (l->has_special)
        launch_kind<true>(list, l);
    else
        launch_kind<false>(list, l);
}

void launch_candidates(struct launch_list *list, const struct sample_launch *l)
{
    const dim3 grid(SAMPLE_CHUNKS, (unsigned)l->n_samples);

    add_dependent<candidates_of_chunk>(list, grid, CHUNK_THREADS, 0, *l);
    add_dependent<candidates_of_row>(list, (unsigned)l->n_samples, CHUNK_THREADS, 0, *l);
}
