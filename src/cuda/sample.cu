/* Stage sample: one token a row of logits, and its log-probability under the plain softmax over all V
 * logits.
 *
 * A row is first surveyed by many blocks, a chunk of ids each: the largest logit, the sum of exponentials,
 * and, where the row is drawn and not greedy, the weight of what is drawn from. Then one block a row
 * finishes: with the largest logit, or with a walk through one chunk; only top_k and top_p take it through
 * the whole row again.
 *
 * The rules are the CPU's (src/cpu/sample.c), with the same random number for the same seed and position:
 * weights exp((z - max z) / temperature) over the valid ids; top_k; the shortest prefix by falling weight
 * that holds top_p of what is left; min_p; then a walk over what remains, by falling weight after top_k or
 * top_p, else by id. Nothing is sorted: a candidate's key is its weight's bits and then its id turned
 * round, and a threshold is found byte by byte from histograms. Sums of weights are integers, in units of
 * 2^-40 of the largest, so that they are the same in any order. */
#include "cuda/launch.h"
#include "cuda/pdl.cuh"
#include "cuda/sums.cuh"

enum {
    THREADS = 1024, /* of the block that finishes a row, */
    WARPS = THREADS / WARP_LANES,
    CHUNK_THREADS = 256, /* and of a chunk's */
    CHUNK_WARPS = CHUNK_THREADS / WARP_LANES,
    BINS = 256,
    KEY_BYTES = 8
};
static_assert((int)SAMPLE_CHUNKS <= (int)CHUNK_THREADS, "a thread a chunk");

static const float MASS_UNIT = 1099511627776.0f; /* 2^40 */

struct shared {
    union {
        float floats[WARPS];
        double doubles[WARPS];
        unsigned long long masses[WARPS];
    } room;
    int ids[WARPS];
    unsigned long long bins[BINS];
    unsigned long long prefix, target;
    int found;
};

/* A row of logits and what is drawn from. */
struct row {
    const float *z;
    int n; /* valid ids */
    float largest, temperature;
};

static __device__ float weight_of(const struct row &r, int id)
{
    return expf((r.z[id] - r.largest) / r.temperature);
}

static __device__ unsigned long long key_of(float weight, int id)
{
    return (unsigned long long)__float_as_uint(weight) << 32 | (0xFFFFFFFFu - (unsigned)id);
}

static __device__ int id_of(unsigned long long key)
{
    return (int)(0xFFFFFFFFu - (unsigned)(key & 0xFFFFFFFFu));
}

static __device__ unsigned long long mass_of(float weight)
{
    return (unsigned long long)__float2ull_rn(weight * MASS_UNIT);
}

/* ---- chunks ---- */

/* The better of two, ties to the lower id. */
static __device__ __forceinline__ void take_best(float *best, int *id, float other, int other_id)
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

        take_best(best, id, other, other_id);
    }
}

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

static __global__ void __launch_bounds__(CHUNK_THREADS)
    survey(const __grid_constant__ struct sample_args a, struct sample_chunk *chunks)
{
    __shared__ union {
        float floats[CHUNK_WARPS];
        double doubles[CHUNK_WARPS];
    } room;
    __shared__ int ids[CHUNK_WARPS];
    const int n_all = (int)a.logits.dim[1], n_ids = chunk_ids(n_all);
    const int first = blockIdx.x * n_ids, end = min(first + n_ids, n_all);
    const float *z = (const float *)a.logits.data + (int64_t)blockIdx.y * n_all;
    struct sample_chunk c = {-INFINITY, 0x7FFFFFFF, 0, 0.0, 0};
    bool has_nan = false;
    double sum = 0;

    pdl_launch_dependents();
    pdl_wait();
#pragma unroll 8
    for (int i = first + threadIdx.x; i < end; i += CHUNK_THREADS) {
        const float value = __ldcg(z + i);

        has_nan = has_nan || isnan(value);
        if (i < a.n_valid && value > c.largest) {
            c.largest = value;
            c.id = i;
        }
    }
    warp_best(&c.largest, &c.id);
    if (threadIdx.x % WARP_LANES == 0) {
        room.floats[threadIdx.x / WARP_LANES] = c.largest;
        ids[threadIdx.x / WARP_LANES] = c.id;
    }
    c.has_nan = __syncthreads_or(has_nan);
    for (int w = 0; w < CHUNK_WARPS; w++)
        take_best(&c.largest, &c.id, room.floats[w], ids[w]);
    __syncthreads();
    /* Against the chunk's own largest, or 0 where it has none that is finite. */
    const float base = isfinite(c.largest) ? c.largest : 0.0f;

#pragma unroll 8
    for (int i = first + threadIdx.x; i < end; i += CHUNK_THREADS)
        sum += (double)expf(__ldcg(z + i) - base);
    c.sum = block_sum(sum, room.doubles);
    if (threadIdx.x == 0)
        chunks_of(chunks, blockIdx.y)[blockIdx.x] = c;
}

/* ---- the largest logit ---- */

/* The lowest id among the largest logits; -1 when one of all is NaN, or it is not finite. */
static __device__ int largest_of(float *floats, int *ids, const struct sample_chunk *chunks)
{
    const bool is_chunk = threadIdx.x < SAMPLE_CHUNKS;
    float best = is_chunk ? __ldcg(&chunks[threadIdx.x].largest) : -INFINITY;
    int id = is_chunk ? __ldcg(&chunks[threadIdx.x].id) : 0x7FFFFFFF;
    const bool has_nan = is_chunk && __ldcg(&chunks[threadIdx.x].has_nan) != 0;

    warp_best(&best, &id);
    if (threadIdx.x % WARP_LANES == 0) {
        floats[threadIdx.x / WARP_LANES] = best;
        ids[threadIdx.x / WARP_LANES] = id;
    }
    if (__syncthreads_or(has_nan))
        return -1;
    for (unsigned w = 0; w < blockDim.x / WARP_LANES; w++)
        take_best(&best, &id, floats[w], ids[w]);
    __syncthreads();
    return isfinite(best) ? id : -1;
}

/* ---- thresholds ---- */

/* Weight of the candidates whose key is at least that. */
static __device__ unsigned long long mass_from(struct shared *s, const struct row &r,
                                               unsigned long long lowest)
{
    unsigned long long sum = 0;

    for (int i = threadIdx.x; i < r.n; i += THREADS) {
        const float weight = weight_of(r, i);

        if (key_of(weight, i) >= lowest)
            sum += mass_of(weight);
    }
    return block_sum(sum, s->room.masses);
}

/* Chooses the bin, from the highest down, in which the sum reaches the target; the rest of the target
 * stays for the next byte. */
static __device__ void choose_bin(struct shared *s, int shift)
{
    unsigned long long sum = 0;
    int bin = BINS - 1;

    while (bin > 0 && sum + s->bins[bin] < s->target)
        sum += s->bins[bin--];
    s->target -= sum;
    s->prefix |= (unsigned long long)bin << shift;
}

/* The key of the candidate with which the sum, by falling key, first reaches the target: of masses, or
 * of candidates when by_count. */
static __device__ unsigned long long find_key(struct shared *s, const struct row &r,
                                              unsigned long long target, bool by_count)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        s->prefix = 0;
        s->target = target;
    }
    for (int byte = KEY_BYTES - 1; byte >= 0; byte--) {
        const int shift = 8 * byte;
        unsigned long long above;

        for (int i = threadIdx.x; i < BINS; i += THREADS)
            s->bins[i] = 0;
        __syncthreads();
        above = byte == KEY_BYTES - 1 ? 0 : s->prefix >> (shift + 8);
        for (int i = threadIdx.x; i < r.n; i += THREADS) {
            const float weight = weight_of(r, i);
            const unsigned long long key = key_of(weight, i);
            const unsigned long long add = by_count ? 1 : mass_of(weight);

            if (add > 0 && (byte == KEY_BYTES - 1 || key >> (shift + 8) == above))
                atomicAdd(&s->bins[key >> shift & (BINS - 1)], add);
        }
        __syncthreads();
        if (threadIdx.x == 0)
            choose_bin(s, shift);
        __syncthreads();
    }
    return s->prefix;
}

/* Whether a draw is a walk by rising id over all that min_p leaves. */
static __device__ __forceinline__ bool is_plain(const struct batch_sample &sample)
{
    return sample.top_k <= 0 && !(sample.top_p < 1.0f);
}

/* The key that min_p sets. */
static __device__ __forceinline__ unsigned long long least_key(const struct batch_sample &sample)
{
    return sample.min_p > 0.0f ? (unsigned long long)__float_as_uint(sample.min_p) << 32 : 0;
}

/* The masses of a row's chunks, where it is drawn from by a walk. */
static __global__ void __launch_bounds__(CHUNK_THREADS)
    weigh(const __grid_constant__ struct sample_args a, const struct batch_sample *samples,
          struct sample_chunk *chunks)
{
    __shared__ float floats[CHUNK_WARPS];
    __shared__ int ids[CHUNK_WARPS];
    __shared__ unsigned long long room[CHUNK_WARPS];
    const struct batch_sample wish = samples[blockIdx.y];
    const int n_all = (int)a.logits.dim[1], n_ids = chunk_ids(n_all);
    const int first = blockIdx.x * n_ids, end = min(first + n_ids, a.n_valid);
    const float *z = (const float *)a.logits.data + (int64_t)blockIdx.y * n_all;
    struct row r = {z, a.n_valid, 0.0f, wish.temperature};
    unsigned long long sum = 0;
    int best;

    pdl_launch_dependents();
    pdl_wait();
    if (!(wish.temperature > 0.0f) || !is_plain(wish))
        return;
    best = largest_of(floats, ids, chunks_of(chunks, blockIdx.y));
    if (best < 0)
        return;
    r.largest = z[best];
#pragma unroll 8
    for (int i = first + threadIdx.x; i < end; i += CHUNK_THREADS) {
        const float weight = weight_of(r, i);

        sum += key_of(weight, i) >= least_key(wish) ? mass_of(weight) : 0;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        chunks_of(chunks, blockIdx.y)[blockIdx.x].mass = sum;
}

/* The first id of [first, end) with which the sum of the masses of keys >= lowest, by rising id, reaches
 * the target. */
static __device__ int walk_ids(struct shared *s, const struct row &r, int first, int end,
                               unsigned long long lowest, unsigned long long target)
{
    const int n_each = (end - first + THREADS - 1) / THREADS;
    const int from = first + threadIdx.x * n_each, to = min(from + n_each, end);
    unsigned long long sum = 0, before, all;

    for (int i = from; i < to; i++) {
        const float weight = weight_of(r, i);

        sum += key_of(weight, i) >= lowest ? mass_of(weight) : 0;
    }
    before = sum_before(sum, s->room.masses, WARPS, &all);
    if (before < target && before + sum >= target)
        for (int i = from; i < to && before < target; i++) {
            const float weight = weight_of(r, i);

            before += key_of(weight, i) >= lowest ? mass_of(weight) : 0;
            s->found = i;
        }
    __syncthreads();
    return s->found;
}

/* The candidate that a random number names among a mass. */
static __device__ __forceinline__ unsigned long long target_of(double uniform,
                                                               unsigned long long mass)
{
    const unsigned long long target = (unsigned long long)(uniform * (double)mass) + 1;

    return target < mass ? target : mass;
}

static __device__ int draw_plain(struct shared *s, const struct row &r,
                                 const struct batch_sample &sample,
                                 const struct sample_chunk *chunks, int n_ids, double uniform)
{
    const unsigned long long mass =
        threadIdx.x < SAMPLE_CHUNKS ? __ldcg(&chunks[threadIdx.x].mass) : 0;
    unsigned long long all, before = sum_before(mass, s->room.masses, WARPS, &all);
    const unsigned long long target = target_of(uniform, all);

    if (before < target && before + mass >= target) {
        s->found = threadIdx.x;
        s->target = target - before;
    }
    __syncthreads();
    const int first = s->found * n_ids;

    return walk_ids(s, r, first, min(first + n_ids, r.n), least_key(sample), s->target);
}

static __device__ int draw_ranked(struct shared *s, const struct row &r,
                                  const struct batch_sample &sample, double uniform)
{
    unsigned long long lowest = 0, mass, target;

    if (sample.top_k > 0 && sample.top_k < r.n)
        lowest = find_key(s, r, (unsigned long long)sample.top_k, true);
    if (sample.top_p < 1.0f) {
        mass = mass_from(s, r, lowest);
        target = (unsigned long long)ceil((double)sample.top_p * (double)mass);
        lowest = max(lowest, find_key(s, r, target > 0 ? target : 1, false));
    }
    lowest = max(lowest, least_key(sample));
    mass = mass_from(s, r, lowest);
    return id_of(find_key(s, r, target_of(uniform, mass), false));
}

/* ln of the sum of exponentials over that of the largest logit. */
static __device__ double log_sum(struct shared *s, const struct sample_chunk *chunks, float largest)
{
    double sum = 0;

    if (threadIdx.x < SAMPLE_CHUNKS) {
        const float of_chunk = __ldcg(&chunks[threadIdx.x].largest);
        const float base = isfinite(of_chunk) ? of_chunk : 0.0f;

        sum = __ldcg(&chunks[threadIdx.x].sum) * exp((double)base - (double)largest);
    }
    return log(block_sum(sum, s->room.doubles));
}

static __global__ void __launch_bounds__(THREADS, 1)
    sample(const __grid_constant__ struct sample_args a, const struct batch_sample *samples,
           const double *uniforms, struct sample_chunk *all_chunks)
{
    __shared__ struct shared s;
    const int n_all = (int)a.logits.dim[1];
    const float *z = (const float *)a.logits.data + (int64_t)blockIdx.x * n_all;
    const struct batch_sample wish = samples[blockIdx.x];
    const struct sample_chunk *chunks = chunks_of(all_chunks, blockIdx.x);
    int best, token;
    double sum;

    pdl_launch_dependents();
    pdl_wait();
    best = token = largest_of(s.room.floats, s.ids, chunks);
    if (best < 0) {
        if (threadIdx.x == 0) {
            ((int32_t *)a.tokens.data)[blockIdx.x] = -1;
            ((float *)a.logprobs.data)[blockIdx.x] = __uint_as_float(0x7FC00000u);
        }
        return;
    }
    const struct row r = {z, a.n_valid, z[best], wish.temperature};

    if (wish.temperature > 0.0f)
        token = is_plain(wish)
                    ? draw_plain(&s, r, wish, chunks, chunk_ids(n_all), uniforms[blockIdx.x])
                    : draw_ranked(&s, r, wish, uniforms[blockIdx.x]);
    sum = log_sum(&s, chunks, z[best]);
    if (threadIdx.x == 0) {
        ((int32_t *)a.tokens.data)[blockIdx.x] = token;
        ((float *)a.logprobs.data)[blockIdx.x] = (float)((double)(z[token] - z[best]) - sum);
    }
}

void launch_sample(cudaStream_t stream, const struct sample_args *a,
                   const struct batch_sample *samples, const double *uniforms,
                   struct sample_chunk *chunks, int n_samples)
{
    const dim3 grid(SAMPLE_CHUNKS, (unsigned)n_samples);

    pdl_launch(survey, grid, CHUNK_THREADS, 0, stream, *a, chunks);
    pdl_launch(weigh, grid, CHUNK_THREADS, 0, stream, *a, samples, chunks);
    pdl_launch(sample, (unsigned)n_samples, THREADS, 0, stream, *a, samples, uniforms, chunks);
}
