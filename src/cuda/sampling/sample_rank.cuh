/* Sampling with top_k or top_p, by the block of a row. It gathers the bin that contains the k-th
 * candidate or the top_p boundary, from the list of the chunks' blocks (sample_bins.cuh) or from
 * the row, and sorts it. A bin with more candidates than can be sorted is
 * first subdivided by the next bits of the keys (radix select). */
#ifndef CUDA_SAMPLING_SAMPLE_RANK_CUH
#define CUDA_SAMPLING_SAMPLE_RANK_CUH

#include "cuda/sampling/sample_bins.cuh"

struct ranking {
    union {
        struct bins bins;
        unsigned long long sorted[SORTED_MAX]; /* keys, descending */
    } u;
    unsigned long long scratch[WARPS];
    /* of the last search: the common `prefix` of the keys, and the mass above all of them */
    unsigned long long prefix, above_mass, mass;
    unsigned above, count, n_sorted;
    unsigned long long key;
};

/* The target of a cumulative sum by descending key. */
struct rank_target {
    unsigned long long target;
    bool by_count; /* counts candidates instead of masses */
};

/* A thread's two bins, the higher one first. */
struct pair {
    unsigned long long masses[2];
    unsigned counts[2];
};

/* Finds the bin at which the cumulative sum reaches the target, including all keys above the bins;
 * the threads' bins descend. */
static __device__ void select_bin(struct ranking *s, const struct pair &p,
                                  const struct rank_target &rank_target, int shift)
{
    unsigned long long all_mass, all_count;
    const unsigned long long mass =
        s->above_mass + sum_before(p.masses[0] + p.masses[1], s->scratch, WARPS, &all_mass);
    const unsigned long long count =
        s->above +
        sum_before((unsigned long long)p.counts[0] + p.counts[1], s->scratch, WARPS, &all_count);
    unsigned long long sum = rank_target.by_count ? count : mass;

    __syncthreads(); /* all threads have read the values above */
    for (int i = 0; i < 2; i++) {
        const unsigned long long mine = rank_target.by_count ? p.counts[i] : p.masses[i];

        if (sum < rank_target.target && sum + mine >= rank_target.target) {
            s->prefix |= (unsigned long long)(SAMPLE_BINS - 1 - (2 * threadIdx.x + i)) << shift;
            s->above_mass = mass + (i == 0 ? 0 : p.masses[0]);
            s->above = (unsigned)count + (i == 0 ? 0 : p.counts[0]);
            s->count = p.counts[i];
            s->mass = p.masses[i];
        }
        sum += mine;
    }
    __syncthreads();
}

static __device__ __forceinline__ bool is_candidate(const struct sample_bins *bins, int bin)
{
    bool is_in = false;

    if (__ldcg(&bins->n_candidates) <= SAMPLE_CANDIDATES_MAX)
        for (int i = 0; i < __ldcg(&bins->n_ranges); i++)
            is_in =
                is_in || (bin >= __ldcg(&bins->first_bin[i]) && bin <= __ldcg(&bins->last_bin[i]));
    return is_in;
}

/* Calls use(key, weight) for every valid id whose key, shifted right by `shift`, has these bits: in
 * the list, or in the whole row. In the row, logits outside the bounds are skipped before their
 * weight is computed. The bounds from log() are widened by more than all rounding errors
 * together. */
template <typename Use>
static __device__ __forceinline__ void
for_each_prefix(const struct row &r, unsigned long long prefix, int shift, Use use)
{
    if (is_candidate(r.bins, (int)(prefix >> BIN_SHIFT))) {
        const unsigned n = __ldcg(&r.bins->n_candidates);

        for (unsigned i = threadIdx.x; i < n; i += THREADS) {
            const unsigned long long key = __ldcg(&r.bins->candidates[i]);

            if (key >> shift == prefix >> shift)
                use(key, __uint_as_float((unsigned)(key >> 32)));
        }
        return;
    }
    const unsigned long long last = prefix | ((1ull << shift) - 1);
    const float low = __uint_as_float((unsigned)(prefix >> 32)),
                high = __uint_as_float((unsigned)(last >> 32));
    const float z_low = r.largest + r.temperature * logf(low);
    const float z_high = r.largest + r.temperature * logf(high);
    const float margin = 1e-3f * r.temperature + 1e-5f * fabsf(r.largest);
    const float from = z_low - margin - 1e-5f * fabsf(z_low),
                to = z_high + margin + 1e-5f * fabsf(z_high);

    for (int base = threadIdx.x; base < r.n; base += THREADS * PASS_UNROLL) {
        float z[PASS_UNROLL];

#pragma unroll
        for (int i = 0; i < PASS_UNROLL; i++)
            z[i] = base + i * THREADS < r.n ? __ldcg(r.z + base + i * THREADS) : -INFINITY;
#pragma unroll
        for (int i = 0; i < PASS_UNROLL; i++) {
            const int id = base + i * THREADS;

            if (id < r.n && !(z[i] < from) && !(z[i] > to)) { /* a NaN bound skips nothing */
                const float weight = expf((z[i] - r.largest) / r.temperature);
                const unsigned long long key = key_of(weight, id);

                if (key >> shift == prefix >> shift)
                    use(key, weight);
            }
        }
    }
}

/* Subdivides the keys that begin with s->prefix by their next bits, and selects one of these bins;
 * returns the new shift. */
static __device__ __noinline__ int divide(struct ranking *s, const struct row &r,
                                          const struct rank_target &rank_target, int shift)
{
    const int next = max(shift - BIN_BITS, 0);
    struct bins *bins = &s->u.bins;
    struct pair p;

    for (int i = threadIdx.x; i < SAMPLE_BINS; i += THREADS)
        bins->counts[i] = bins->low[i] = bins->high[i] = 0;
    __syncthreads();
    for_each_prefix(r, s->prefix, shift, [&](unsigned long long key, float weight) {
        add_to_bin(bins, (unsigned)(key >> next) & ((1u << (shift - next)) - 1), mass_of(weight));
    });
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        const unsigned bin = SAMPLE_BINS - 1 - (2 * threadIdx.x + i);

        p.masses[i] = mass_of_bin(bins, bin);
        p.counts[i] = bins->counts[bin];
    }
    select_bin(s, p, rank_target, next);
    return next;
}

/* Sorts in descending order, one key per thread (bitonic); returns the thread's key of the result.
 * Distances within a warp use shuffles. */
static __device__ unsigned long long sort_keys(unsigned long long *keys)
{
    const unsigned t = threadIdx.x;
    unsigned long long mine = keys[t];

    for (unsigned size = 2; size <= SORTED_MAX; size *= 2)
        for (unsigned step = size / 2; step > 0; step /= 2) {
            const bool needs_larger = ((t & step) == 0) == ((t & size) == 0);
            unsigned long long other;

            if (step < WARP_LANES) {
                other = __shfl_xor_sync(ALL_LANES, mine, step);
            } else {
                __syncthreads();
                keys[t] = mine;
                __syncthreads();
                other = keys[t ^ step];
            }
            mine = needs_larger == (other > mine) ? other : mine;
        }
    return mine;
}

/* Finds the key at which the cumulative sum reaches the target, and the mass down to it; both are
 * stored in s. */
static __device__ __noinline__ void find_key(struct ranking *s, const struct row &r,
                                             const struct pair &first,
                                             const struct rank_target &rank_target)
{
    int shift = BIN_SHIFT;
    unsigned long long key, mass, all, before;
    bool has_no_mass;

    __syncthreads();
    if (threadIdx.x == 0) {
        s->prefix = 0;
        s->above_mass = 0;
        s->above = 0;
    }
    __syncthreads();
    select_bin(s, first, rank_target, shift);
    while (s->count > SORTED_MAX && s->mass > 0)
        shift = divide(s, r, rank_target, shift);
    has_no_mass = s->mass == 0;
    __syncthreads();
    if (has_no_mass) { /* candidates of mass zero cannot be sampled: all of them stay */
        if (threadIdx.x == 0) {
            s->key = s->prefix;
            s->mass = s->above_mass;
        }
        __syncthreads();
        return;
    }
    s->u.sorted[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        s->n_sorted = 0;
    __syncthreads();
    for_each_prefix(r, s->prefix, shift, [&](unsigned long long found, float) {
        s->u.sorted[atomicAdd(&s->n_sorted, 1u) % SORTED_MAX] = found;
    });
    __syncthreads();
    key = sort_keys(s->u.sorted);
    mass = key == 0 ? 0 : mass_of(__uint_as_float((unsigned)(key >> 32)));
    before = s->above_mass + sum_before(mass, s->scratch, WARPS, &all);
    if (key != 0 && (rank_target.by_count
                         ? s->above + threadIdx.x + 1 == rank_target.target
                         : before < rank_target.target && before + mass >= rank_target.target)) {
        s->key = key;
        s->mass = before + mass;
    }
    __syncthreads();
}

/* The candidate with the largest score: of the bins whose keys are all from `lowest` on, and of the
 * bin that has keys below. */
static __device__ __noinline__ int largest_score(const struct sample_launch &l, const struct row &r,
                                                 unsigned long long lowest, uint64_t *keys)
{
    const unsigned long long bin = lowest >> BIN_SHIFT, bin_keys = 1ull << BIN_SHIFT;
    const bool is_cut = lowest % bin_keys != 0;
    uint64_t most = 0;

    for (unsigned i = threadIdx.x; i < SAMPLE_BINS; i += THREADS)
        if (i >= bin + is_cut)
            most = max(most, __ldcg(&r.bins->picks[i]));
    if (is_cut)
        for_each_prefix(r, bin << BIN_SHIFT, BIN_SHIFT, [&](unsigned long long key, float) {
            if (key >= lowest)
                most = max(most, score_key(l, blockIdx.x, r, id_of(key), -INFINITY));
        });
    return sample_key_id(block_largest(most, keys));
}

static __device__ __noinline__ int sample_ranked(const struct sample_launch &l, float largest)
{
    const struct batch_sample &params = l.samples[blockIdx.x];
    const struct row r = {(const float *)l.args.logits.data +
                              (int64_t)blockIdx.x * l.args.logits.dim[1],
                          l.args.n_valid, largest, params.temperature, bins_of(l, blockIdx.x)};
    __shared__ struct ranking s;
    struct sample_bins *bins = bins_of(l, blockIdx.x);
    unsigned long long lowest = 0, mass;
    struct pair first;

    for (int i = 0; i < 2; i++) {
        const unsigned bin = SAMPLE_BINS - 1 - (2 * threadIdx.x + i);

        first.masses[i] = __ldcg(&bins->masses[bin]);
        first.counts[i] = __ldcg(&bins->counts[bin]);
    }
    (void)sum_before(first.masses[0] + first.masses[1], s.scratch, WARPS, &mass);
    if (params.top_k > 0 && params.top_k < r.n) {
        find_key(&s, r, first, {(unsigned long long)params.top_k, true});
        lowest = s.key;
        mass = s.mass;
    }
    if (params.top_p < 1.0f) {
        find_key(&s, r, first, {share_of(params.top_p, mass), false});
        lowest = max(lowest, s.key);
        mass = s.mass;
    }
    lowest = max(lowest, least_key(params));
    if (threadIdx.x == 0)
        bins->lowest = lowest;
    return largest_score(l, r, lowest, (uint64_t *)s.scratch);
}

#endif
