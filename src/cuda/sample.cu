/* Stage sample: one token a row of logits, and its log-probability under the plain softmax over all V
 * logits. A block a row.
 *
 * The rules are the CPU's (src/cpu/sample.c), with the same random number for the same seed and position:
 * weights exp((z - max z) / temperature) over the valid ids; top_k; the shortest prefix by falling weight
 * that holds top_p of what is left; min_p; then a walk over what remains, by falling weight after top_k or
 * top_p, else by id. Nothing is sorted: a candidate's key is its weight's bits and then its id turned
 * round, and a threshold is found byte by byte from histograms. Sums of weights are integers, in units of
 * 2^-40 of the largest, so that they are the same in any order. */
#include "cuda/launch.h"
#include "cuda/sums.cuh"

enum { THREADS = 1024, WARPS = THREADS / WARP_LANES, BINS = 256, KEY_BYTES = 8 };

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
    unsigned long long chunks[THREADS];
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

/* ---- the largest logit ---- */

/* The lowest id among the largest of n logits; -1 when one of all n_all is NaN, or it is not finite. */
static __device__ int largest_of(struct shared *s, const float *z, int n, int n_all)
{
    float best = -INFINITY;
    int id = 0x7FFFFFFF;
    bool has_nan = false;

#pragma unroll 8
    for (int i = threadIdx.x; i < n_all; i += THREADS) {
        has_nan = has_nan || isnan(z[i]);
        if (i < n && z[i] > best) {
            best = z[i];
            id = i;
        }
    }
    for (int step = WARP_LANES / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, best, step);
        const int other_id = __shfl_xor_sync(ALL_LANES, id, step);

        if (other > best || (other == best && other_id < id)) {
            best = other;
            id = other_id;
        }
    }
    if (threadIdx.x % WARP_LANES == 0) {
        s->room.floats[threadIdx.x / WARP_LANES] = best;
        s->ids[threadIdx.x / WARP_LANES] = id;
    }
    if (__syncthreads_or(has_nan))
        return -1;
    for (int w = 0; w < WARPS; w++)
        if (s->room.floats[w] > best || (s->room.floats[w] == best && s->ids[w] < id)) {
            best = s->room.floats[w];
            id = s->ids[w];
        }
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

/* The first id with which the sum of the masses of keys >= lowest, by rising id, reaches the target. */
static __device__ int walk_ids(struct shared *s, const struct row &r, unsigned long long lowest,
                               unsigned long long target)
{
    const int n_each = (r.n + THREADS - 1) / THREADS, first = threadIdx.x * n_each;
    const int end = first + n_each < r.n ? first + n_each : r.n;
    unsigned long long sum = 0, before = 0;

    for (int i = first; i < end; i++) {
        const float weight = weight_of(r, i);

        sum += key_of(weight, i) >= lowest ? mass_of(weight) : 0;
    }
    s->chunks[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned i = 0; i < threadIdx.x; i++)
        before += s->chunks[i];
    if (before < target && before + sum >= target)
        for (int i = first; i < end && before < target; i++) {
            const float weight = weight_of(r, i);

            before += key_of(weight, i) >= lowest ? mass_of(weight) : 0;
            s->found = i;
        }
    __syncthreads();
    return s->found;
}

static __device__ int draw(struct shared *s, const struct row &r, const struct batch_sample &sample,
                           double uniform)
{
    const bool by_count = sample.top_k > 0 && sample.top_k < r.n, by_share = sample.top_p < 1.0f;
    unsigned long long lowest = 0, mass, target;

    if (by_count)
        lowest = find_key(s, r, (unsigned long long)sample.top_k, true);
    if (by_share) {
        mass = mass_from(s, r, lowest);
        target = (unsigned long long)ceil((double)sample.top_p * (double)mass);
        lowest = max(lowest, find_key(s, r, target > 0 ? target : 1, false));
    }
    if (sample.min_p > 0.0f)
        lowest = max(lowest, (unsigned long long)__float_as_uint(sample.min_p) << 32);
    mass = mass_from(s, r, lowest);
    target = (unsigned long long)(uniform * (double)mass) + 1;
    target = target < mass ? target : mass;
    return sample.top_k > 0 || by_share ? id_of(find_key(s, r, target, false))
                                        : walk_ids(s, r, lowest, target);
}

static __device__ double log_sum(struct shared *s, const float *z, int n, float largest)
{
    double sum = 0;

#pragma unroll 8
    for (int i = threadIdx.x; i < n; i += THREADS)
        sum += (double)expf(z[i] - largest);
    return log(block_sum(sum, s->room.doubles));
}

static __global__ void __launch_bounds__(THREADS)
    sample(const __grid_constant__ struct sample_args a, const struct batch_sample *samples,
           const double *uniforms)
{
    __shared__ struct shared s;
    const int n_all = (int)a.logits.dim[1];
    const float *z = (const float *)a.logits.data + (int64_t)blockIdx.x * n_all;
    const struct batch_sample wish = samples[blockIdx.x];
    const int best = largest_of(&s, z, a.n_valid, n_all);
    int token = best;
    double sum;

    if (best < 0) {
        if (threadIdx.x == 0) {
            ((int32_t *)a.tokens.data)[blockIdx.x] = -1;
            ((float *)a.logprobs.data)[blockIdx.x] = __uint_as_float(0x7FC00000u);
        }
        return;
    }
    if (wish.temperature > 0.0f)
        token = draw(&s, row{z, a.n_valid, z[best], wish.temperature}, wish, uniforms[blockIdx.x]);
    sum = log_sum(&s, z, n_all, z[best]);
    if (threadIdx.x == 0) {
        ((int32_t *)a.tokens.data)[blockIdx.x] = token;
        ((float *)a.logprobs.data)[blockIdx.x] = (float)((double)(z[token] - z[best]) - sum);
    }
}

void launch_sample(cudaStream_t stream, const struct sample_args *a,
                   const struct batch_sample *samples, const double *uniforms, int n_samples)
{
    sample<<<n_samples, THREADS, 0, stream>>>(*a, samples, uniforms);
}
