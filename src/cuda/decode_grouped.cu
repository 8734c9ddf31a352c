/* Stages route and experts of a decode step of many rows: the experts are chosen and tokens grouped by one
 * block; then every expert that has tokens is read once for up to job_tokens of them, and a token's parts
 * are added by the join that follows.
 *
 * A job is an expert and some of its entries (tokens at it, in the order of tokens). Blocks, two a
 * multiprocessor, share all rows of all jobs evenly and take their rows one after the other, so that the
 * stream of weights ends only with the stage; a block has new tokens to bring in only where its job ends.
 * Bytes: the weights of the experts that have tokens. Bound by memory. */
#include "cuda/choose.cuh"
#include "cuda/decode.cuh"

enum { GROUP_THREADS = 1024, GROUP_WARPS = GROUP_THREADS / WARP_LANES, BLOCKS_OF_A_PROCESSOR = 2 };

static_assert((int)DECODE_WIDTH_MAX == NORM_HELD * NORM_THREADS, "a row in registers");

/* ---- choosing and grouping ---- */

/* Experts' first entries and jobs from their counts: a thread an expert. */
static __device__ void list_jobs(const struct decode_grouped &p, const int *counts, int *first)
{
    __shared__ int room[GROUP_WARPS];
    const int e = threadIdx.x, count = e < DECODE_EXPERTS_MAX ? counts[e] : 0;
    const int n_jobs = (count + p.job_tokens - 1) / p.job_tokens;
    int n_entries, n_all, n_active;
    const int entry = sum_before(count, room, GROUP_WARPS, &n_entries);
    const int job = sum_before(n_jobs, room, GROUP_WARPS, &n_all);

    (void)sum_before(count > 0 ? 1 : 0, room, GROUP_WARPS, &n_active);
    if (e < DECODE_EXPERTS_MAX)
        first[e] = entry;
    for (int i = 0; i < n_jobs; i++)
        p.jobs[job + i] =
            decode_job{e, entry + i * p.job_tokens, min(count - i * p.job_tokens, p.job_tokens)};
    if (threadIdx.x == 0) {
        *p.n_jobs = n_all;
        *p.e.n_read += (uint64_t)n_active;
    }
}

/* A warp finds the entries of one expert, in their order. */
static __device__ void place_expert(const struct decode_grouped &p, const int *ids, int n_ranks,
                                    int expert, int next)
{
    const int lane = threadIdx.x % WARP_LANES, n = p.e.n_tokens * n_ranks;

    for (int i0 = 0; i0 < n; i0 += WARP_LANES) {
        const int i = i0 + lane;
        const bool is_here = i < n && ids[i] == expert;
        const unsigned lanes = __ballot_sync(ALL_LANES, is_here);

        if (is_here) {
            const int at = next + __popc(lanes & ((1u << lane) - 1));

            p.tokens[at] = i / n_ranks;
            p.entry[i] = at;
        }
        next += __popc(lanes);
    }
}

/* One block. */
static __global__ void __launch_bounds__(GROUP_THREADS, 1)
    group_kernel(const __grid_constant__ struct decode_grouped p)
{
    __shared__ int counts[DECODE_EXPERTS_MAX], first[DECODE_EXPERTS_MAX];
    __shared__ int ids[DECODE_ROWS_MAX * DECODE_ACTIVE_MAX];
    const int warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    const int n_ranks = p.e.n_ranks, n_experts = p.e.n_experts;

    for (int e = threadIdx.x; e < DECODE_EXPERTS_MAX; e += GROUP_THREADS)
        counts[e] = 0;
    __syncthreads();
    pdl_wait();
    pdl_launch_dependents();
    for (int token = warp; token < p.e.n_tokens; token += GROUP_WARPS) {
        struct chosen c;

        choose(&c, p.e.scores + token * n_experts, n_experts, n_ranks);
        if (lane < n_ranks) {
            const int at = token * n_ranks + lane, id = id_of(c, lane);

            ids[at] = p.e.ids[at] = id;
            p.e.gates[at] = gate_of(c, lane, n_ranks);
            atomicAdd(&counts[id], 1);
        }
    }
    __syncthreads();
    list_jobs(p, counts, first);
    __syncthreads();
    for (int e = warp; e < n_experts; e += GROUP_WARPS)
        if (counts[e] > 0)
            place_expert(p, ids, n_ranks, e, first[e]);
}

void launch_decode_group(cudaStream_t stream, const struct decode_grouped *p)
{
    pdl_launch(group_kernel, 1, GROUP_THREADS, 0, stream, *p);
}

/* ---- products ---- */

/* The items of a block: the rows of units of all jobs, one after the other. */
template <class SHAPE> struct job_items {
    const struct decode_matrix *w;
    const struct decode_job *jobs;
    int first, n_rows; /* n_rows: units above each other */
};

template <class SHAPE>
static __device__ __forceinline__ const unsigned char *
part_weights(const struct job_items<SHAPE> &items, int part)
{
    const int item = items.first + part, job = item / items.n_rows;

    return items.w->units + items.jobs[job].expert * items.w->matrix_bytes +
           (int64_t)((item - job * items.n_rows) * items.w->n_units) * SHAPE::UNIT_BYTES;
}

template <class SHAPE>
static __device__ __forceinline__ int part_tile(const struct job_items<SHAPE> &, int)
{
    return 0;
}

/* The inputs of a job's tokens. */
template <bool IS_UP>
static __device__ __forceinline__ void bring_job(char *fragments, const struct decode_grouped &p,
                                                 const struct decode_job &job, int n_units)
{
    if (IS_UP) {
        struct decode_rows rows = {};

        rows.x = p.e.y;
        rows.n = p.e.n_columns;
        rows.gather = p.tokens + job.first;
        rows.gather_stride = 1;
        copy_rows<true, 2>(fragments, rows, 0, job.n, n_units);
    } else {
        copy_halves<4>(fragments, p.e.units + job.first * p.e.n_units, p.e.n_units, job.n, n_units);
    }
    __syncthreads();
}

/* Gated units, as FP16. */
template <class SHAPE>
static __device__ __forceinline__ void store_units(const struct decode_grouped &p,
                                                   const struct decode_job &job, const float *sums,
                                                   int row0)
{
    enum { PAIRS = SHAPE::TILES * TILE_ROWS / 2 };

    for (int i = threadIdx.x; i < job.n * PAIRS; i += RING_THREADS) {
        const int token = i / PAIRS, row = i % PAIRS * 2, unit = (row0 + row) / 2;
        const int at = (row / TILE_ROWS * job.n + token) * TILE_ROWS + row % TILE_ROWS;

        if (unit < p.e.n_units)
            p.e.units[(job.first + token) * p.e.n_units + unit] =
                half_bits(swiglu(sum_of_warps<true>(sums, at, SHAPE::TILES, job.n) +
                                     vector_at(p.e.bias_up, job.expert, row0 + row),
                                 sum_of_warps<true>(sums, at + 1, SHAPE::TILES, job.n) +
                                     vector_at(p.e.bias_up, job.expert, row0 + row + 1),
                                 p.e.limit, p.e.alpha));
    }
}

template <class SHAPE>
static __device__ __forceinline__ void store_parts(const struct decode_grouped &p,
                                                   const struct decode_job &job, const float *sums,
                                                   int row0)
{
    enum { ROWS = SHAPE::TILES * TILE_ROWS };

    for (int i = threadIdx.x; i < job.n * ROWS; i += RING_THREADS) {
        const int token = i / ROWS, row = i % ROWS;
        const int at = (row / TILE_ROWS * job.n + token) * TILE_ROWS + row % TILE_ROWS;

        if (row0 + row < p.e.n_columns)
            p.parts[(job.first + token) * p.e.n_columns + row0 + row] =
                sum_of_warps<true>(sums, at, SHAPE::TILES, job.n) +
                vector_at(p.e.bias_down, job.expert, row0 + row);
    }
}

template <class SHAPE, bool IS_UP>
static __global__ void __launch_bounds__(RING_THREADS, BLOCKS_OF_A_PROCESSOR)
    grouped_kernel(const __grid_constant__ struct decode_grouped p)
{
    extern __shared__ uint4 shared[];
    const struct decode_matrix &w = IS_UP ? p.e.up : p.e.down;
    const int n_units = w.n_units, n_rows = (w.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    char *fragments = (char *)shared + SHAPE::BYTES;
    float *sums = (float *)(fragments + fragments_bytes(n_units, p.job_tokens));
    struct job_items<SHAPE> items = {
        &w, p.jobs, 0, n_rows
    };
    struct decode_job job = {0, 0, 0};
    struct ring<SHAPE> ring;
    int job_at = -1, n_items, n_parts;

    pdl_wait();
    pdl_launch_dependents();
    n_items = *p.n_jobs * n_rows;
    items.first = (int)((int64_t)n_items * blockIdx.x / gridDim.x);
    n_parts = (int)((int64_t)n_items * (blockIdx.x + 1) / gridDim.x) - items.first;
    ring_begin(&ring, (char *)shared, items, n_parts, n_units);
    for (int part = 0; part < n_parts; part++) {
        const int item = items.first + part, at = item / n_rows;
        float acc[SHAPE::TILES][1][4];

        if (at != job_at) {
            job_at = at;
            job = p.jobs[at];
            bring_job<IS_UP>(fragments, p, job, n_units);
        }
        multiply_part<SHAPE, 1, 1>(acc, &ring, items, 0, fragments, 0, job.n);
        put_sums<SHAPE::TILES, 1>(sums, acc, job.n);
        __syncthreads();
        if (IS_UP)
            store_units<SHAPE>(p, job, sums, (item - at * n_rows) * UNIT_ROWS);
        else
            store_parts<SHAPE>(p, job, sums, (item - at * n_rows) * UNIT_ROWS);
        __syncthreads();
    }
    copy_wait<0>();
}

typedef ring_shape<DTYPE_MXFP4, 4, 1, 2> shape;

template <bool IS_UP> static bool launch(const cudaStream_t *stream, const struct decode_grouped *p)
{
    static const int n_processors = decode_processors();
    const int n_units = IS_UP ? p->e.up.n_units : p->e.down.n_units;
    const int64_t shared_bytes = shape::BYTES + fragments_bytes(n_units, p->job_tokens) +
                                 part_sums(shape::TILES, p->job_tokens) * (int64_t)sizeof(float);

    return decode_launch<grouped_kernel<shape, IS_UP>>(
        stream, dim3((unsigned)(BLOCKS_OF_A_PROCESSOR * n_processors)), shared_bytes, *p);
}

bool launch_decode_grouped_up(cudaStream_t stream, const struct decode_grouped *p)
{
    return launch<true>(&stream, p);
}

bool launch_decode_grouped_down(cudaStream_t stream, const struct decode_grouped *p)
{
    return launch<false>(&stream, p);
}

bool decode_grouped_fits(const struct decode_grouped *p)
{
    return launch<true>(NULL, p) && launch<false>(NULL, p);
}

/* ---- the join behind it ---- */

/* x += the sum of a token's parts in the order of their rank, and y = norm(x); or h = that sum. A block a
 * token. */
static __global__ void __launch_bounds__(NORM_THREADS)
    join_parts(const __grid_constant__ struct decode_grouped p,
               const __grid_constant__ struct decode_rows rows)
{
    __shared__ float room[NORM_THREADS / WARP_LANES];
    const int n = p.e.n_columns, row = blockIdx.x;
    const bool has_x = p.e.x != NULL;
    float *x = (has_x ? p.e.x : p.e.h) + row * n;
    const struct norm_held weights = hold_weights(rows.norm, n);
    struct norm_held held = {}, sum = {};
    float factor = 0.0f;

    pdl_wait();
    pdl_launch_dependents();
    for (int rank = 0; rank < p.e.n_ranks; rank++) {
        const int at = row * p.e.n_ranks + rank;
        const struct norm_held part = norm_hold(p.parts + p.entry[at] * n, n);
        const float gate = p.e.gates[at];

#pragma unroll
        for (int i = 0; i < NORM_HELD; i++)
            sum.at[i] = __fmaf_rn(gate, part.at[i], sum.at[i]);
    }
    if (has_x) {
        held = norm_hold(x, n);
#pragma unroll
        for (int i = 0; i < NORM_HELD; i++)
            sum.at[i] = held.at[i] + sum.at[i];
        factor = norm_factor(&sum, x, n, rows.eps, room);
    }
#pragma unroll
    for (int i = 0; i < NORM_HELD; i++) {
        const int at = threadIdx.x + i * NORM_THREADS;

        if (at < n)
            x[at] = sum.at[i];
        if (at < n && has_x)
            rows.y[row * n + at] = normed(sum.at[i], factor, weights.at[i]);
    }
}

void launch_decode_join(cudaStream_t stream, const struct decode_grouped *p,
                        const struct decode_rows *rows)
{
    pdl_launch(join_parts, (unsigned)p->e.n_tokens, NORM_THREADS, 0, stream, *p, *rows);
}
