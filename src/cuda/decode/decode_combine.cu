/* MoE combine with residual add and RMSNorm after the grouped experts of a decode step
 * (decode_grouped.cu): x += the sum of a token's expert outputs, which are integers
 * (expert_sums.h), and y = norm(x); or h = that sum. One block per token. Bound by latency: all
 * addresses are computed and all other inputs are loaded before griddepcontrol.wait. */
#include "cuda/common/expert_sums.cuh"
#include "cuda/decode/decode.cuh"
#include "cuda/decode/norm_weights.cuh"
#include "cuda/common/operand_piece.cuh"

enum { RANKS_AT_ONCE = 4 };

/* True if number threadIdx.x + i NORM_THREADS is within the row; `left` numbers remain from the
 * thread's first on. */
static __device__ __forceinline__ bool has_number(int left, int i)
{
    return i * NORM_THREADS < left;
}

/* A token's expert outputs from a rank on, at the thread's first number. Missing ranks repeat the
 * last one. */
struct ranks {
    const int32_t *parts[RANKS_AT_ONCE];
};

static __device__ __forceinline__ struct ranks ranks_at(const struct decode_grouped &p, int token,
                                                        int rank)
{
    struct ranks ranks;

#pragma unroll
    for (int i = 0; i < RANKS_AT_ONCE; i++) {
        const int at = token * p.e.n_ranks + min(rank + i, p.e.n_ranks - 1);

        ranks.parts[i] = p.parts + __ldcg(p.entry + at) * p.e.n_columns + threadIdx.x;
    }
    return ranks;
}

/* What an entry with a unit that is not finite adds to each number of its token: NaN; otherwise 0.
 * Each warp computes its own copy. */
static __device__ __forceinline__ float poison_of(const struct decode_grouped &p, int token)
{
    const int rank = threadIdx.x % WARP_LANES;
    float gate = 0.0f;

    if (rank < p.e.n_ranks)
        gate = __ldcg(p.entry_gates + __ldcg(p.entry + token * p.e.n_ranks + rank));
    return poison_term(__any_sync(ALL_LANES, isnan(gate)));
}

/* The units of the thread's columns. */
static __device__ __forceinline__ struct norm_regs load_units(const float *units, int n)
{
    struct norm_regs regs;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] =
            has_number(n - (int)threadIdx.x, i) ? units[threadIdx.x + i * NORM_THREADS] : 0.0f;
    return regs;
}

/* x, or zeros, plus poison; `left` numbers of the row remain. */
static __device__ __forceinline__ struct norm_regs load_partial(const float *x, int left,
                                                                float poison)
{
    struct norm_regs regs;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] = has_number(left, i) ? __ldcg(x + i * NORM_THREADS) : 0.0f;
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] += poison;
    return regs;
}

/* Keeps the computed addresses in registers (materialize()). */
static __device__ __forceinline__ void materialize_ranks(struct ranks *ranks)
{
#pragma unroll
    for (int i = 0; i < RANKS_AT_ONCE; i++)
        materialize(ranks->parts[i]);
}

/* Stores the thread's numbers of a row. */
static __device__ __forceinline__ void store_partial(float *to, const struct norm_regs &regs,
                                                     int left)
{
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        if (has_number(left, i))
            to[i * NORM_THREADS] = regs.at[i];
}

/* Sums of partials of the thread's numbers. */
struct partials {
    int32_t at[NORM_PER_THREAD];
};

static __device__ __forceinline__ struct partials load_parts(const int32_t *parts, int left)
{
    struct partials regs;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] = has_number(left, i) ? __ldcg(parts + i * NORM_THREADS) : 0;
    return regs;
}

/* Stores the sums as integers; `poison`: NaN in a row that is poisoned. */
static __device__ __forceinline__ void store_raw(int32_t *to, const struct partials &sums,
                                                 const struct norm_regs &poison, int left)
{
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        if (has_number(left, i))
            to[i * NORM_THREADS] = isnan(poison.at[i]) ? (int32_t)EXPERT_SUM_POISONED : sums.at[i];
}

/* sum += a rank's expert output. */
static __device__ __forceinline__ void add_rank(struct partials *sum, const struct partials &part)
{
#pragma unroll
    for (int k = 0; k < NORM_PER_THREAD; k++)
        sum->at[k] += part.at[k];
}

/* The same for the first n_ranks of RANKS_AT_ONCE; all loads are in flight at once. */
static __device__ __forceinline__ void add_ranks(struct partials *sum, const struct ranks &ranks,
                                                 int n_ranks, int left)
{
    struct partials parts[RANKS_AT_ONCE];

#pragma unroll
    for (int i = 0; i < RANKS_AT_ONCE; i++)
        parts[i] = load_parts(ranks.parts[i], left);
#pragma unroll
    for (int i = 0; i < RANKS_AT_ONCE; i++)
        if (i < n_ranks)
            add_rank(sum, parts[i]);
}

static __device__ __forceinline__ void store_normed(float *x, float *y, int i, float sum,
                                                    float normed, int left)
{
    if (has_number(left, i)) {
        x[i * NORM_THREADS] = sum;
        y[i * NORM_THREADS] = normed;
    }
}

/* Where a thread stores its numbers as FP16. */
struct normed_rows {
    uint16_t *to;
    int64_t step; /* from one of its numbers to the next */
};

static __device__ __forceinline__ struct normed_rows normed_rows_of(const struct decode_grouped &p,
                                                                    int n_rounded)
{
    enum { STEP_UNITS = NORM_THREADS / UNIT_COLUMNS };
    const int row = blockIdx.x, k = threadIdx.x;

    if (p.n_normed_rows == 0)
        return {p.normed + row * n_rounded + k, NORM_THREADS};
    return {p.normed + operand_number_offset(p.n_normed_rows, row, k) / 2,
            STEP_UNITS * operand_unit_bytes(p.n_normed_rows) / 2};
}

/* Everything but the expert outputs may be read before pdl_wait(): the down kernel triggers this
 * launch after its own pdl_wait(), when all earlier kernels have completed. */
static __global__ void __launch_bounds__(NORM_THREADS)
    combine_partials(const __grid_constant__ struct decode_grouped p,
                     const __grid_constant__ struct decode_rows rows, float inverse_n)
{
    __shared__ __align__(16) float smem[NORM_THREADS / WARP_LANES];
    if ((int)blockIdx.x >= live_rows(p.e.n_live, (int)gridDim.x))
        return;
    const int n = p.e.n_columns, first = (int)blockIdx.x * n + (int)threadIdx.x;
    const int n_rounded = (int)units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS;
    const bool has_x = p.e.x != NULL;
    const struct norm_regs weights = load_norm_weights(rows.norm, n);
    const struct norm_regs units = load_units(p.e.grid + n, n);
    struct ranks ranks = ranks_at(p, blockIdx.x, 0);
    float *x = (has_x ? p.e.x : p.e.h) + first, *y = rows.y + first;
    struct normed_rows normed_rows = normed_rows_of(p, n_rounded);
    int left = n - (int)threadIdx.x,
        normed_out = p.normed == NULL ? 0 : n_rounded - (int)threadIdx.x;
    const struct norm_regs regs = load_partial(x, has_x ? left : 0, poison_of(p, blockIdx.x));
    struct partials partials = {};
    struct norm_regs sum;

    materialize_ranks(&ranks);
    materialize(x);
    materialize(y);
    materialize(normed_rows.to);
    materialize(left);
    materialize(normed_out);
    pdl_wait();
    pdl_launch_dependents();
#pragma unroll 1
    for (int rank = 0; rank < p.e.n_ranks; rank += RANKS_AT_ONCE) {
        add_ranks(&partials, ranks, p.e.n_ranks - rank, left);
        if (rank + RANKS_AT_ONCE < p.e.n_ranks)
            ranks = ranks_at(p, blockIdx.x, rank + RANKS_AT_ONCE);
    }
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        sum.at[i] = regs.at[i] + value_of_partials(partials.at[i], units.at[i]);
    if (!has_x) {
        if (p.e.is_raw)
            store_raw((int32_t *)x, partials, regs, left);
        else
            store_partial(x, sum, left);
        return;
    }
    const float factor =
        factor_of(sum_of_threads(squares_of_regs(&sum), smem), inverse_n, rows.eps);
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const float number = normed(sum.at[i], factor, weights.at[i]);

        store_normed(x, y, i, sum.at[i], number, left);
        if (has_number(normed_out, i))
            normed_rows.to[i * normed_rows.step] = has_number(left, i) ? half_bits(number) : 0;
    }
}

void launch_decode_combine(struct launch_list *list, const struct decode_grouped *p,
                           const struct decode_rows *rows)
{
    add_dependent<combine_partials>(list, (unsigned)p->e.n_tokens, NORM_THREADS, 0, *p, *rows,
                                    1.0f / (float)p->e.n_columns);
}
