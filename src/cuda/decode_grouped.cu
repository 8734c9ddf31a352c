/* Stages route and experts of a decode step of many rows: the experts are chosen and tokens grouped by one
 * block; then every expert that has tokens is read once for up to DECODE_JOB_TOKENS of them, and a token's
 * parts are added by the join that follows.
 *
 * A job is an expert and some of its entries (tokens at it, in the order of tokens). Blocks, two a
 * multiprocessor, share all rows of all jobs evenly and take their rows one after the other. A warp's ring brings
 * the weights and the tokens' inputs, and goes on over the ends of rows and jobs: the stream ends only with the
 * stage. Bytes: the weights of the experts that have tokens. Bound by memory. */
#include "cuda/choose.cuh"
#include "cuda/columns.cuh"

enum {
    GROUP_THREADS = 1024,
    GROUP_WARPS = GROUP_THREADS / WARP_LANES,
    BLOCKS_OF_A_PROCESSOR = 2,
    ROWS = UNIT_ROWS, /* of an item; each thread stores one of them, or a pair */
    PAIRS = ROWS / 2,
    BUFFERS = 2 /* of sums: one is read while the next is filled */
};
static_assert((int)DECODE_JOB_TOKENS * (int)PAIRS <= (int)RING_THREADS,
              "a thread a pair of a token");
static_assert((int)DECODE_JOB_TOKENS <= (int)COLUMN_TOKENS, "a job is a column of products");
static_assert((int)DECODE_WIDTH_MAX == NORM_HELD * NORM_THREADS, "a row in registers");

/* ---- choosing and grouping ---- */

/* Where an expert's entries and jobs begin. */
struct expert_place {
    int entry, job;
};

/* Experts' first entries and jobs from their counts: a thread an expert. */
static __device__ void list_jobs(const struct decode_grouped &p, const int *counts,
                                 struct expert_place *first)
{
    __shared__ int room[GROUP_WARPS];
    const int e = threadIdx.x, count = e < DECODE_EXPERTS_MAX ? counts[e] : 0;
    const int n_jobs = (count + DECODE_JOB_TOKENS - 1) / DECODE_JOB_TOKENS;
    int n_entries, n_all, n_active;
    const int entry = sum_before(count, room, GROUP_WARPS, &n_entries);
    const int job = sum_before(n_jobs, room, GROUP_WARPS, &n_all);

    (void)sum_before(count > 0 ? 1 : 0, room, GROUP_WARPS, &n_active);
    if (e < DECODE_EXPERTS_MAX)
        first[e] = expert_place{entry, job};
    for (int i = 0; i < n_jobs; i++) {
        struct decode_job *to = &p.jobs[job + i];

        to->expert = e;
        to->first = entry + i * DECODE_JOB_TOKENS;
        to->n = min(count - i * DECODE_JOB_TOKENS, (int)DECODE_JOB_TOKENS);
        for (int token = 0; token < DECODE_JOB_TOKENS; token++)
            to->tokens[token] = 0;
    }
    if (threadIdx.x == 0) {
        *p.n_jobs = n_all;
        *p.e.n_read += (uint64_t)n_active;
    }
}

/* A warp finds the entries of one expert, in their order. */
static __device__ void place_expert(const struct decode_grouped &p, const int *ids, int n_ranks,
                                    int expert, const struct expert_place &first)
{
    const int lane = threadIdx.x % WARP_LANES, n = p.e.n_tokens * n_ranks;
    int next = 0; /* of the expert's entries */

    for (int i0 = 0; i0 < n; i0 += WARP_LANES) {
        const int i = i0 + lane;
        const bool is_here = i < n && ids[i] == expert;
        const unsigned lanes = __ballot_sync(ALL_LANES, is_here);

        if (is_here) {
            const int at = next + __popc(lanes & ((1u << lane) - 1));

            p.jobs[first.job + at / DECODE_JOB_TOKENS].tokens[at % DECODE_JOB_TOKENS] = i / n_ranks;
            p.entry[i] = first.entry + at;
        }
        next += __popc(lanes);
    }
}

/* A warp learns a token's experts, and counts them. */
static __device__ void take_token(const struct decode_grouped &p, int token, int *ids, int *counts)
{
    const int lane = threadIdx.x % WARP_LANES, at = token * p.e.n_ranks + lane;
    struct chosen c;

    if (p.e.scores != NULL)
        choose(&c, p.e.scores + token * p.e.n_experts, p.e.n_experts, p.e.n_ranks);
    if (lane >= p.e.n_ranks)
        return;
    if (p.e.scores == NULL) {
        ids[at] = __ldcg(p.e.ids + at);
    } else {
        ids[at] = p.e.ids[at] = id_of(c, lane);
        p.e.gates[at] = gate_of(c, lane, p.e.n_ranks);
    }
    atomicAdd(&counts[ids[at]], 1);
}

/* One block. */
static __global__ void __launch_bounds__(GROUP_THREADS, 1)
    group_kernel(const __grid_constant__ struct decode_grouped p)
{
    __shared__ int counts[DECODE_EXPERTS_MAX];
    __shared__ struct expert_place first[DECODE_EXPERTS_MAX];
    __shared__ int ids[DECODE_ROWS_MAX * DECODE_ACTIVE_MAX];
    const int warp = threadIdx.x / WARP_LANES;
    const int n_ranks = p.e.n_ranks, n_experts = p.e.n_experts;

    for (int e = threadIdx.x; e < DECODE_EXPERTS_MAX; e += GROUP_THREADS)
        counts[e] = 0;
    __syncthreads();
    pdl_wait();
    pdl_launch_dependents();
    for (int token = warp; token < p.e.n_tokens; token += GROUP_WARPS)
        take_token(p, token, ids, counts);
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

/* ---- the walk over all rows of all jobs ---- */

typedef columns_shape<ring_shape<DTYPE_MXFP4, UNIT_TILES, 1, 3>, 1> shape_3;
typedef columns_shape<ring_shape<DTYPE_MXFP4, UNIT_TILES, 1, 2>, 1> shape_2;

/* A job as a lane sees it: in `tokens` those of which it copies a piece. Read past the first-level cache, as it
 * may be before the kernel in front has ended. */
template <class C> struct job_seen {
    int expert, first, n, tokens[C::COPIES];
};

template <class C>
static __device__ __forceinline__ void see_job(struct job_seen<C> *out,
                                               const struct decode_job *job)
{
    const int4 head = __ldcg((const int4 *)job);

    out->expert = head.x;
    out->first = head.y;
    out->n = head.z;
#pragma unroll
    for (int i = 0; i < C::COPIES; i++)
        out->tokens[i] = __ldcg(&job->tokens[lane_token() + i * TOKENS_AT_ONCE]);
}

/* A place in the walk: a row of units of a job; and the next job, asked for early. */
template <class C> struct place {
    int job, row, n_left; /* n_left: items from this one on */
    struct job_seen<C> at, next;
};

template <class C>
static __device__ __forceinline__ void
place_begin(struct place<C> *out, const struct decode_job *jobs, int first, int n_items, int n_rows)
{
    out->job = first / n_rows;
    out->row = first - out->job * n_rows;
    out->n_left = n_items;
    if (n_items > 0)
        see_job<C>(&out->at, jobs + out->job);
    if (n_items > n_rows - out->row)
        see_job<C>(&out->next, jobs + out->job + 1);
}

/* Gives whether another job begins. */
template <class C>
static __device__ __forceinline__ bool place_step(struct place<C> *p, const struct decode_job *jobs,
                                                  int n_rows)
{
    p->n_left--;
    if (++p->row < n_rows)
        return false;
    p->row = 0;
    p->job++;
    p->at = p->next;
    if (p->n_left > n_rows)
        see_job<C>(&p->next, jobs + p->job + 1);
    return true;
}

/* Where a lane's tokens come from. */
struct inputs {
    const char *rows; /* of tokens, or, of the down product, of entries */
    int row_bytes, n; /* n: numbers of a row that there are */
    bool is_of_entries;
};

/* A warp's ring over them. */
template <class C> struct walk {
    struct place<C> place;
    const unsigned char *weights; /* of the row of units */
    const char *from[C::COPIES];  /* the lane's pieces of the first unit */
    char *slots;
    int slot, unit;
};

template <class C>
static __device__ __forceinline__ void enter_job(struct walk<C> *w, const struct decode_matrix &m,
                                                 const struct inputs &in)
{
    const struct job_seen<C> &job = w->place.at;

    w->weights = m.units + job.expert * m.matrix_bytes +
                 (int64_t)w->place.row * m.n_units * C::SHAPE::UNIT_BYTES;
#pragma unroll
    for (int i = 0; i < C::COPIES; i++) {
        const int entry = lane_token() + i * TOKENS_AT_ONCE;
        const int row = in.is_of_entries ? job.first + entry : job.tokens[i];

        w->from[i] = in.rows + (int64_t)row * in.row_bytes + lane_piece() * LANE_BYTES;
    }
}

/* Asks for the next unit of the walk, if there is one, into the slot. */
template <class C>
static __device__ __forceinline__ void walk_fill(struct walk<C> *w, const struct decode_grouped &p,
                                                 const struct decode_matrix &m,
                                                 const struct inputs &in, int n_rows, char *slot)
{
    if (w->place.n_left > 0) {
        const bool is_there = w->unit * UNIT_COLUMNS + lane_piece() * PIECE < in.n;

        copy_tiles<typename C::SHAPE>(slot, w->weights + (int64_t)w->unit * C::SHAPE::UNIT_BYTES,
                                      0);
#pragma unroll
        for (int i = 0; i < C::COPIES; i++)
            if (lane_token() + i * TOKENS_AT_ONCE < w->place.at.n)
                copy_async_or_zero(place_of_copy<C>(slot, i),
                                   w->from[i] + (is_there ? w->unit * UNIT_COLUMNS * 2 : 0),
                                   is_there);
        w->unit += RING_WARPS;
        if (w->unit >= m.n_units) {
            w->unit = threadIdx.x / WARP_LANES;
            w->weights += (int64_t)m.n_units * C::SHAPE::UNIT_BYTES;
            if (place_step<C>(&w->place, p.jobs, n_rows) && w->place.n_left > 0)
                enter_job<C>(w, m, in);
        }
    }
    copy_commit();
}

/* acc = this warp's units of the walk's next item times the job's tokens. */
template <class C>
static __device__ __forceinline__ void
multiply_item(float acc[C::SHAPE::TILES][C::COLS][4], struct walk<C> *w,
              const struct decode_grouped &p, const struct decode_matrix &m,
              const struct inputs &in, int n_rows)
{
#pragma unroll
    for (int i = 0; i < C::SHAPE::TILES * C::COLS * 4; i++)
        acc[i / 4 / C::COLS][i / 4 % C::COLS][i % 4] = 0.0f;
    for (int unit = threadIdx.x / WARP_LANES; unit < m.n_units; unit += RING_WARPS) {
        char *slot = w->slots + w->slot * C::STAGE_BYTES;
        struct unit_held<typename C::SHAPE> held;
        uint4 tokens[UNIT_BLOCKS][C::COLS];

        copy_wait<C::SHAPE::STAGES - 1>();
        __syncwarp();
        hold_unit<typename C::SHAPE>(&held, slot, 0);
#pragma unroll
        for (int block = 0; block < UNIT_BLOCKS; block++)
            hold_tokens<C>(tokens[block], slot, block);
        __syncwarp();
        walk_fill<C>(w, p, m, in, n_rows, slot);
        w->slot = w->slot + 1 == C::SHAPE::STAGES ? 0 : w->slot + 1;
#pragma unroll
        for (int block = 0; block < UNIT_BLOCKS; block++)
#pragma unroll
            for (int i = 0; i < UNIT_TILES; i++)
                multiply_columns<C::COLS>(acc[i], block == 0 ? held.words[i].x : held.words[i].z,
                                          block == 0 ? held.words[i].y : held.words[i].w,
                                          scale_at(held.scales[i], block * 2),
                                          scale_at(held.scales[i], block * 2 + 1), tokens[block]);
    }
}

/* ---- products ---- */

/* What is added to the sums of this thread's rows: of each token two rows of gate and up, or one of down. It
 * is asked for before the products. */
template <bool IS_UP>
static __device__ __forceinline__ float2 bias_of(const struct decode_grouped &p, int expert,
                                                 int row0)
{
    const int row = row0 + (IS_UP ? (int)threadIdx.x % PAIRS * 2 : (int)threadIdx.x % ROWS);

    if (row >= (IS_UP ? p.e.up.n_rows : p.e.down.n_rows))
        return make_float2(0.0f, 0.0f);
    return IS_UP ? vector_pair_at(p.e.bias_up, expert, row)
                 : make_float2(vector_at(p.e.bias_down, expert, row), 0.0f);
}

/* Gated units, as FP16. */
static __device__ __forceinline__ void store_units(const struct decode_grouped &p, int first, int n,
                                                   const float *sums, int row0, float2 bias)
{
    const int token = threadIdx.x / PAIRS, row = threadIdx.x % PAIRS * 2, unit = (row0 + row) / 2;
    const int at = (row / TILE_ROWS * n + token) * TILE_ROWS + row % TILE_ROWS;

    if (token < n && unit < p.e.n_units)
        p.e.units[(first + token) * p.e.n_units + unit] = half_bits(
            swiglu(sum_of_warps<true>(sums, at, UNIT_TILES, n) + bias.x,
                   sum_of_warps<true>(sums, at + 1, UNIT_TILES, n) + bias.y, p.e.limit, p.e.alpha));
}

static __device__ __forceinline__ void store_parts(const struct decode_grouped &p, int first, int n,
                                                   const float *sums, int row0, float2 bias)
{
    const int row = threadIdx.x % ROWS;

    if (row0 + row >= p.e.n_columns)
        return;
    for (int token = threadIdx.x / ROWS; token < n; token += RING_THREADS / ROWS) {
        const int at = (row / TILE_ROWS * n + token) * TILE_ROWS + row % TILE_ROWS;

        p.parts[(first + token) * p.e.n_columns + row0 + row] =
            sum_of_warps<true>(sums, at, UNIT_TILES, n) + bias.x;
    }
}

template <class C, bool IS_UP>
static __global__ void __launch_bounds__(RING_THREADS, BLOCKS_OF_A_PROCESSOR)
    grouped_kernel(const __grid_constant__ struct decode_grouped p)
{
    extern __shared__ uint4 shared[];
    const struct decode_matrix &m = IS_UP ? p.e.up : p.e.down;
    const int n_rows = (m.n_rows + UNIT_ROWS - 1) / UNIT_ROWS;
    const struct inputs in = {IS_UP ? (const char *)p.rows : (const char *)p.e.units,
                              IS_UP ? m.n_units * UNIT_COLUMNS * 2 : p.e.n_units * 2,
                              IS_UP ? m.n_units * (int)UNIT_COLUMNS : p.e.n_units, !IS_UP};
    float *sums = (float *)((char *)shared + C::RING_BYTES);
    struct walk<C> walk;
    struct place<C> place;

    pdl_wait();
    pdl_launch_dependents();
    const int64_t n_items = (int64_t)__ldcg(p.n_jobs) * n_rows;
    const int first = (int)(n_items * blockIdx.x / gridDim.x);
    const int n_parts = (int)(n_items * (blockIdx.x + 1) / gridDim.x) - first;

    place_begin<C>(&place, p.jobs, first, n_parts, n_rows);
    walk.place = place;
    walk.slots = (char *)shared + threadIdx.x / WARP_LANES * C::WARP_BYTES;
    walk.slot = 0;
    walk.unit = threadIdx.x / WARP_LANES;
    if (n_parts > 0)
        enter_job<C>(&walk, m, in);
    if (walk.unit >= m.n_units)
        walk.place.n_left = 0;
    for (int i = 0; i < C::SHAPE::STAGES; i++)
        walk_fill<C>(&walk, p, m, in, n_rows, walk.slots + i * C::STAGE_BYTES);
    for (int part = 0; part < n_parts; part++) {
        const int row0 = place.row * UNIT_ROWS;
        const float2 bias = bias_of<IS_UP>(p, place.at.expert, row0);
        float *sums_of_part = sums + part % BUFFERS * part_sums(UNIT_TILES, C::TOKENS);
        float acc[UNIT_TILES][C::COLS][4];

        multiply_item<C>(acc, &walk, p, m, in, n_rows);
        put_sums<UNIT_TILES, C::COLS>(sums_of_part, acc, place.at.n);
        __syncthreads();
        if (IS_UP)
            store_units(p, place.at.first, place.at.n, sums_of_part, row0, bias);
        else
            store_parts(p, place.at.first, place.at.n, sums_of_part, row0, bias);
        (void)place_step<C>(&place, p.jobs, n_rows);
    }
    copy_wait<0>();
}

template <bool IS_UP, class C>
static bool launch_shape(const cudaStream_t *stream, const struct decode_grouped *p,
                         int64_t shared_bytes_max)
{
    static const int n_processors = decode_processors();
    const int64_t shared_bytes =
        C::RING_BYTES + BUFFERS * part_sums(UNIT_TILES, C::TOKENS) * (int64_t)sizeof(float);

    return shared_bytes <= shared_bytes_max &&
           decode_launch<grouped_kernel<C, IS_UP>>(
               stream, dim3((unsigned)(BLOCKS_OF_A_PROCESSOR * n_processors)), shared_bytes, *p);
}

/* As many units under way as leave room for two blocks on a multiprocessor. */
template <bool IS_UP> static bool launch(const cudaStream_t *stream, const struct decode_grouped *p)
{
    static const int64_t half_bytes = decode_shared_of(BLOCKS_OF_A_PROCESSOR);

    return launch_shape<IS_UP, shape_3>(stream, p, half_bytes) ||
           launch_shape<IS_UP, shape_2>(stream, p, INT64_MAX);
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
    const int n_rounded = (int)units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS;
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

        const float y = at < n && has_x ? normed(sum.at[i], factor, weights.at[i]) : 0.0f;

        if (at < n)
            x[at] = sum.at[i];
        if (at < n && has_x)
            rows.y[row * n + at] = y;
        if (p.normed != NULL && at < n_rounded)
            p.normed[row * n_rounded + at] = half_bits(y);
    }
}

void launch_decode_join(cudaStream_t stream, const struct decode_grouped *p,
                        const struct decode_rows *rows)
{
    pdl_launch(join_parts, (unsigned)p->e.n_tokens, NORM_THREADS, 0, stream, *p, *rows);
}
