/* Histogram of a row's candidates for top_k and top_p, which rank by descending weight, ties to the
 * lower id.
 *
 * A candidate's key is the bits of its weight, then its inverted id. The chunks' blocks count the
 * candidates of a row and add up their masses, by the leading bits of the keys, and keep the
 * largest score of a bin. Then they find the bins that contain the k-th candidate, and the
 * boundaries of top_p and min_p, and list the candidates of these bins. The row's block continues
 * in sample_rank.cuh. Masses are integers, so sums do not depend on the order. */
#ifndef CUDA_SAMPLING_SAMPLE_BINS_CUH
#define CUDA_SAMPLING_SAMPLE_BINS_CUH

#include "cuda/sampling/sample.cuh"

enum {
    CANDIDATE_ROWS =
        16, /* with more rows it is faster if each row's block searches its row itself than to make
             * lists */
    THREADS = 1024, /* of the block that selects the token */
    WARPS = THREADS / WARP_LANES,
    BIN_BITS = 11, /* of the first histogram: weights up to 1, with four bits of the fraction */
    BIN_SHIFT = 32 + 19,
    SORTED_MAX = THREADS, /* candidates of a bin that are sorted, one per thread */
    PASS_UNROLL = 16
};
static_assert((int)SAMPLE_BINS == 1 << BIN_BITS && (int)SAMPLE_BINS == 2 * THREADS,
              "two bins per thread");
static_assert(0x3F800000 >> (BIN_SHIFT - 32) < (int)SAMPLE_BINS, "a weight of 1 has a bin");

static const float MASS_UNIT = 1099511627776.0f; /* 2^40 */

/* A row of logits and its candidates. */
struct row {
    const float *z;
    int n; /* valid ids */
    float largest, temperature;
    const struct sample_bins *bins; /* of rows that are sampled by descending weight */
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

/* True if the row is sampled from all ids that min_p leaves. */
static __device__ __forceinline__ bool is_plain(const struct batch_sample &sample)
{
    return !sample_is_ranked(&sample);
}

/* The smallest key that min_p allows. */
static __device__ __forceinline__ unsigned long long least_key(const struct batch_sample &sample)
{
    return sample.min_p > 0.0f ? (unsigned long long)__float_as_uint(sample.min_p) << 32 : 0;
}

/* ---- bins in shared memory ---- */

/* Shared-memory atomics add 32-bit words, so a 64-bit sum is two words: the thread whose addition
 * overflows the low word adds the carry. */
struct bins {
    unsigned counts[SAMPLE_BINS], low[SAMPLE_BINS], high[SAMPLE_BINS];
};

static __device__ __forceinline__ void add_to_bin(struct bins *b, unsigned bin,
                                                  unsigned long long mass)
{
    const unsigned low = (unsigned)mass;
    const unsigned before = atomicAdd(&b->low[bin], low);
    const unsigned high = (unsigned)(mass >> 32) + (before + low < before);

    atomicAdd(&b->counts[bin], 1u);
    if (high != 0)
        atomicAdd(&b->high[bin], high);
}

static __device__ __forceinline__ unsigned long long mass_of_bin(const struct bins *b, unsigned bin)
{
    return (unsigned long long)b->high[bin] << 32 | b->low[bin];
}

/* The histogram of a row, over all its chunks. */
static __device__ __forceinline__ struct sample_bins *bins_of(const struct sample_launch &l,
                                                              int row)
{
    return l.bins + row;
}

/* Zeroes this chunk's share of the histogram, before chunks add to it. */
static __device__ __noinline__ void clear_bins(const struct sample_launch &l)
{
    const int n_each = SAMPLE_BINS / SAMPLE_CHUNKS, bin = blockIdx.x * n_each + threadIdx.x;
    struct sample_bins *bins = bins_of(l, blockIdx.y);

    if (threadIdx.x < n_each) {
        bins->masses[bin] = 0;
        bins->picks[bin] = 0;
        bins->counts[bin] = 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        bins->n_candidates = gridDim.y <= CANDIDATE_ROWS ? 0 : SAMPLE_CANDIDATES_MAX + 1;
}
static_assert((int)SAMPLE_BINS % (int)SAMPLE_CHUNKS == 0, "equal shares per chunk");

/* Scores of a row below this one cannot be the largest: that of the largest logit. */
static __device__ __forceinline__ float least_score(const struct sample_launch &l, int row,
                                                    int best)
{
    const int32_t *ids = (const int32_t *)l.args.ids.data;

    return gumbel_score(0, l.noise_keys[row], ids != NULL ? ids[best] : best, -INFINITY);
}

/* The key of an id's score, or 0. */
static __device__ __forceinline__ uint64_t score_key(const struct sample_launch &l, int row,
                                                     const struct row &r, int id, float least)
{
    return sample_score_key(gumbel_ln_weight(r.z[id], r.largest, r.temperature), id,
                            l.noise_keys[row], (const int32_t *)l.args.ids.data, least);
}

/* Keeps an id's score if it is the largest of its bin so far. */
static __device__ __forceinline__ void add_pick(const struct sample_launch &l, const struct row &r,
                                                int id, float weight, float least)
{
    uint64_t *pick = &bins_of(l, blockIdx.y)->picks[key_of(weight, id) >> BIN_SHIFT];
    const uint64_t key = score_key(l, blockIdx.y, r, id, sample_least(weight, least));

    if (key > __ldcg(pick))
        atomicMax((unsigned long long *)pick, (unsigned long long)key);
}

/* Adds a chunk's candidates to the row's histogram. */
static __device__ __noinline__ void fill_bins(const struct sample_launch &l, int best)
{
    __shared__ struct bins b;
    const struct sample_part part = part_of(l);
    const struct row r = {part.z, l.args.n_valid, part.z[best], l.samples[blockIdx.y].temperature,
                          NULL};
    const float least = least_score(l, blockIdx.y, best);
    struct sample_bins *bins = bins_of(l, blockIdx.y);

    for (int i = threadIdx.x; i < SAMPLE_BINS; i += CHUNK_THREADS)
        b.counts[i] = b.low[i] = b.high[i] = 0;
    __syncthreads();
#pragma unroll 4
    for (int i = part.first + threadIdx.x; i < min(part.end, r.n); i += CHUNK_THREADS) {
        const float weight = weight_of(r, i);

        add_to_bin(&b, (unsigned)(key_of(weight, i) >> BIN_SHIFT), mass_of(weight));
        add_pick(l, r, i, weight, least);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SAMPLE_BINS; i += CHUNK_THREADS)
        if (b.counts[i] != 0) {
            atomicAdd(&bins->counts[i], b.counts[i]);
            atomicAdd((unsigned long long *)&bins->masses[i], mass_of_bin(&b, (unsigned)i));
        }
}

/* ---- bins of interest: every chunk's block finds them and lists its candidates in them ---- */

enum { BINS_EACH = SAMPLE_BINS / CHUNK_THREADS };

struct range_selector {
    unsigned long long scratch[CHUNK_WARPS];
    unsigned long long above, mass; /* of the bin that was found last */
    int bin;
    int first[SAMPLE_RANGES_MAX], last[SAMPLE_RANGES_MAX], n;
};

/* A thread's bins, descending. */
struct mass_share {
    unsigned long long before_mass, before_count;
    unsigned long long masses[BINS_EACH];
    unsigned counts[BINS_EACH];
};

static __device__ __forceinline__ int bin_of_share(int i)
{
    return SAMPLE_BINS - 1 - ((int)threadIdx.x * BINS_EACH + i);
}

/* Finds the bin at which the cumulative sum reaches the target, and the sum above it. */
static __device__ void locate(struct range_selector *c, const struct mass_share &s,
                              unsigned long long target, bool by_count)
{
    unsigned long long mass = s.before_mass, count = s.before_count;

    __syncthreads();
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) {
        const unsigned long long sum = by_count ? count : mass;
        const unsigned long long mine = by_count ? s.counts[i] : s.masses[i];

        if (sum < target && sum + mine >= target) {
            c->bin = bin_of_share(i);
            c->above = mass;
            c->mass = s.masses[i];
        }
        mass += s.masses[i];
        count += s.counts[i];
    }
    __syncthreads();
}

static __device__ void add_range(struct range_selector *c, int first, int last)
{
    if (threadIdx.x == 0) {
        c->first[c->n] = first;
        c->last[c->n++] = last;
    }
    __syncthreads();
}

static __device__ __forceinline__ unsigned long long share_of(float top_p, unsigned long long mass)
{
    const unsigned long long mass_share = (unsigned long long)ceil((double)top_p * (double)mass);

    return mass_share > 0 ? mass_share : 1;
}

/* Finds the bins that contain a mass known to be between two bounds. */
static __device__ void locate_between(struct range_selector *c, const struct mass_share &s,
                                      unsigned long long low, unsigned long long high)
{
    int last;

    locate(c, s, low, false);
    last = c->bin;
    locate(c, s, high, false);
    add_range(c, c->bin, last);
}

/* Selects the bins that sample_ranked() will search, as far as the histogram determines them. */
static __device__ void select_ranges(struct range_selector *c, const struct mass_share &s,
                                     const struct batch_sample &params, int n,
                                     unsigned long long all)
{
    unsigned long long low = all, high = all;

    if (threadIdx.x == 0)
        c->n = 0;
    if (params.top_k > 0 && params.top_k < n) {
        locate(c, s, (unsigned long long)params.top_k, true);
        low = c->above;
        high = c->above + c->mass;
        add_range(c, c->bin, c->bin);
    }
    if (params.top_p < 1.0f)
        locate_between(c, s, share_of(params.top_p, low), share_of(params.top_p, high));
    if (params.min_p > 0.0f) {
        const int bin = (int)(least_key(params) >> BIN_SHIFT);

        __syncthreads();
        add_range(c, bin, bin);
    }
}

static __device__ void list_candidates(const struct sample_launch &l,
                                       const struct range_selector &c, float largest)
{
    __shared__ unsigned n_mine, first;
    const struct sample_part part = part_of(l);
    const struct row r = {part.z, l.args.n_valid, largest, l.samples[blockIdx.y].temperature, NULL};
    struct sample_bins *bins = bins_of(l, blockIdx.y);

    for (int base = part.first; base < min(part.end, r.n); base += CHUNK_THREADS) {
        const int id = base + threadIdx.x;
        unsigned long long key = 0;
        unsigned mine = 0;
        bool is_wanted = false;

        if (id < min(part.end, r.n)) {
            key = key_of(weight_of(r, id), id);
            for (int i = 0; i < c.n; i++)
                is_wanted = is_wanted || ((int)(key >> BIN_SHIFT) >= c.first[i] &&
                                          (int)(key >> BIN_SHIFT) <= c.last[i]);
        }
        if (threadIdx.x == 0)
            n_mine = 0;
        if (!__syncthreads_or(is_wanted))
            continue;
        if (is_wanted)
            mine = atomicAdd(&n_mine, 1u);
        __syncthreads();
        if (threadIdx.x == 0)
            first = atomicAdd(&bins->n_candidates, n_mine);
        __syncthreads();
        if (is_wanted && first + mine < SAMPLE_CANDIDATES_MAX)
            bins->candidates[first + mine] = key;
    }
}

static __global__ void __launch_bounds__(CHUNK_THREADS)
    collect(const __grid_constant__ struct sample_launch l)
{
    __shared__ float floats[CHUNK_WARPS];
    __shared__ int ids[CHUNK_WARPS];
    __shared__ struct range_selector c;
    const struct batch_sample &params = l.samples[blockIdx.y];
    struct sample_bins *bins = bins_of(l, blockIdx.y);
    unsigned long long mass = 0, count = 0, all_mass, all_count;
    struct mass_share s;
    int best;

    pdl_launch_dependents();
    if (is_padding(l, blockIdx.y))
        return;
    pdl_wait();
    if (is_plain(params))
        return;
    best = largest_of(floats, ids, chunks_of(l.chunks, blockIdx.y));
    if (best < 0)
        return;
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) {
        s.masses[i] = __ldcg(&bins->masses[bin_of_share(i)]);
        s.counts[i] = __ldcg(&bins->counts[bin_of_share(i)]);
        mass += s.masses[i];
        count += s.counts[i];
    }
    s.before_mass = sum_before(mass, c.scratch, CHUNK_WARPS, &all_mass);
    s.before_count = sum_before(count, c.scratch, CHUNK_WARPS, &all_count);
    select_ranges(&c, s, params, l.args.n_valid, all_mass);
    if (blockIdx.x == 0 && threadIdx.x < c.n) {
        bins->first_bin[threadIdx.x] = c.first[threadIdx.x];
        bins->last_bin[threadIdx.x] = c.last[threadIdx.x];
        bins->n_ranges = c.n;
    }
    list_candidates(l, c, part_of(l).z[best]);
}

#endif
