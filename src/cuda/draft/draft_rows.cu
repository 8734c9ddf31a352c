/* Stages of a draft head that process rows: the taps of the target's residual stream, the norms of
 * the head's inputs, and the gate of its MLP. One block per row, or part of a row.
 *
 * Memory bound, with a few kilobytes per row; in decode steps bound by launch latency. So a thread
 * has all its loads in flight before its first store. The weights of the norms are F32, as
 * model/draft.c packs them. Bits do not depend on the number of rows. */
#include "cuda/common/expert_sums.cuh"
#include "cuda/common/live_rows.cuh"
#include "cuda/common/norm.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/draft/draft.h"
#include "cuda/launch/launch_kernel.cuh"

#include <assert.h>

enum { GATES_EACH = 4, GATES_OF_BLOCK = GATES_EACH * NORM_THREADS };

/* ---- taps ---- */

/* Adds the sums of a row, from element `first` on: the same addition as in the kernels that add
 * them to x (decode_out.cu), so a tap has the bits of x. */
static __device__ __forceinline__ void add_sums(struct norm_regs *x, const struct tap_sums &from,
                                                int64_t row, int64_t first, int64_t n)
{
    int32_t sums[NORM_PER_THREAD];
    float units[NORM_PER_THREAD];

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int64_t at = first + threadIdx.x + i * NORM_THREADS;

        sums[i] = at < n ? __ldcg(from.sums + row * n + at) : 0;
        units[i] = at < n ? from.unit[at] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        x->at[i] = x->at[i] + value_of_partials(sums[i], units[i]) +
                   poison_term(
                       first + threadIdx.x + i * NORM_THREADS == 0 ? __ldcg(from.poison + row) : 0);
}

static __global__ void __launch_bounds__(NORM_THREADS)
    tap_rows(const __grid_constant__ struct tap_args a,
             const __grid_constant__ struct tap_sums sums, const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int64_t n = a.x.dim[1];
    const float *x = (const float *)a.x.data + blockIdx.x * n;
    float *to = (float *)a.taps.data + blockIdx.x * a.taps.dim[1] + a.index * n;

    pdl_wait();
    pdl_launch_dependents(); /* behind the wait: the next kernel may read what earlier ones wrote */
    for (int64_t first = 0; first < n; first += NORM_PER_THREAD * NORM_THREADS) {
        struct norm_regs regs = norm_load(x + first, n - first);

        if (sums.sums != NULL)
            add_sums(&regs, sums, blockIdx.x, first, n);
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++)
            if (first + threadIdx.x + i * NORM_THREADS < n)
                to[first + threadIdx.x + i * NORM_THREADS] = regs.at[i];
    }
}

void launch_tap(struct launch_list *list, const struct tap_args *a, const struct tap_sums *sums,
                int n_rows, const int32_t *n_live)
{
    add_dependent<tap_rows>(list, (unsigned)n_rows, NORM_THREADS, 0, *a, *sums, n_live);
}

/* ---- norms ---- */

/* The elements of out behind those in registers, some at a time: their loads are in flight at
 * once. */
static __device__ void norm_rest_to(float *out, const float *x, const float *weight, int64_t n,
                                    float factor)
{
    enum { AT_ONCE = 8 };

    for (int64_t first = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; first < n;
         first += AT_ONCE * NORM_THREADS) {
        float values[AT_ONCE], weights[AT_ONCE];

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int64_t c = first + i * NORM_THREADS;

            values[i] = c < n ? x[c] : 0.0f;
            weights[i] = c < n ? weight[c] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i * NORM_THREADS < n)
                out[first + i * NORM_THREADS] = normed(values[i], factor, weights[i]);
    }
}

/* out = the RMSNorm of regs, which hold the start of x; the rest of a longer row is read from x.
 * weights: the start of `weight`, loaded before. */
static __device__ void norm_to(float *out, const struct norm_regs &regs, const float *x,
                               const struct norm_regs &weights, const float *weight, int64_t n,
                               float eps)
{
    __shared__ float smem[NORM_THREADS / WARP_LANES];
    const float factor = norm_factor(&regs, x, n, eps, smem);

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int64_t c = threadIdx.x + i * NORM_THREADS;

        if (c < n)
            out[c] = normed(regs.at[i], factor, weights.at[i]);
    }
    norm_rest_to(out, x, weight, n, factor);
}

/* Grid: rows, parts of a row, which have n columns each. */
static __global__ void __launch_bounds__(NORM_THREADS)
    draft_norm(float *normed, const float *taps, const float *norm, int64_t n, float eps,
               const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int64_t first = blockIdx.y * n, at = blockIdx.x * gridDim.y * n + first;
    const struct norm_regs weights = norm_load(norm + first, n);

    pdl_launch_dependents();
    pdl_wait();
    norm_to(normed + at, norm_load(taps + at, n), taps + at, weights, norm + first, n, eps);
}

void launch_draft_norm(struct launch_list *list, const struct draft_fc_args *a, int n_rows,
                       const int32_t *n_live)
{
    assert(a->norm.dtype == DTYPE_F32);
    add_dependent<draft_norm>(list, dim3((unsigned)n_rows, (unsigned)a->n_norms), NORM_THREADS, 0,
                              (float *)a->normed.data, (const float *)a->taps.data,
                              (const float *)a->norm.data, a->taps.dim[1] / a->n_norms, a->eps,
                              n_live);
}

/* The embedding of the row's token, normed; x holds its elements behind those in registers. */
static __device__ void embed_part(const struct draft_input_args &a, float *y, float *x,
                                  int32_t token)
{
    const int64_t n = a.x.dim[1];
    const struct norm_regs regs = weights_load(&a.table, token, n);
    const float *norm = (const float *)a.embed_norm.data;
    const struct norm_regs weights = norm_load(norm, n);

    pdl_launch_dependents();
    pdl_wait();
    for (int64_t i = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; i < n; i += NORM_THREADS)
        x[i] = weight_at(&a.table, 0, token, i);
    norm_to(y, regs, x, weights, norm, n, a.eps);
}

static __device__ void state_part(const struct draft_input_args &a, float *y, float *x,
                                  const float *f)
{
    const int64_t n = a.x.dim[1];
    const float *norm = (const float *)a.hidden_norm.data;
    const struct norm_regs weights = norm_load(norm, n);
    struct norm_regs regs;

    pdl_launch_dependents();
    pdl_wait();
    regs = norm_load(f, n);
    norm_to(y, regs, f, weights, norm, n, a.eps);
    if (a.normed_residual)
        regs = norm_load(y, n);
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        if (threadIdx.x + i * NORM_THREADS < n)
            x[threadIdx.x + i * NORM_THREADS] = regs.at[i];
    for (int64_t i = threadIdx.x + NORM_PER_THREAD * NORM_THREADS; i < n; i += NORM_THREADS)
        x[i] = a.normed_residual ? y[i] : __ldcg(f + i);
}

/* Grid: rows, {embedding, state}. Rows wider than a block's registers take x as scratch for their
 * embedding, so one block does both parts of those. */
static __global__ void __launch_bounds__(NORM_THREADS)
    draft_input(const __grid_constant__ struct draft_input_args a, const int32_t *tokens,
                const int32_t *n_live)
{
    const int row = blockIdx.x;
    const int64_t n = a.x.dim[1];
    float *x = (float *)a.x.data + row * n, *y = (float *)a.y.data + row * 2 * n;

    if (row >= live_rows(n_live, (int)gridDim.x))
        return;
    if (blockIdx.y == 0)
        embed_part(a, y, x, tokens[row]);
    if (gridDim.y == 1)
        __syncthreads();
    if (blockIdx.y == 1 || gridDim.y == 1)
        state_part(a, y + n, x, (const float *)a.f.data + row * n);
}

void launch_draft_input(struct launch_list *list, const struct draft_input_args *a,
                        const int32_t *tokens, int n_rows, const int32_t *n_live)
{
    const unsigned n_parts = a->x.dim[1] > NORM_PER_THREAD * NORM_THREADS ? 1 : 2;

    assert(a->embed_norm.dtype == DTYPE_F32 && a->hidden_norm.dtype == DTYPE_F32);
    add_dependent<draft_input>(list, dim3((unsigned)n_rows, n_parts), NORM_THREADS, 0, *a, tokens,
                               n_live);
}

/* ---- the MLP's gate ---- */

/* Grid: parts of a row, rows, which have n columns. */
static __global__ void __launch_bounds__(NORM_THREADS)
    mlp_gate(float *units, const float *ups, int64_t n, const int32_t *n_live)
{
    if ((int)blockIdx.y >= live_rows(n_live, (int)gridDim.y))
        return;
    const int64_t first = (int64_t)blockIdx.x * GATES_OF_BLOCK + threadIdx.x;
    float gates[GATES_EACH], factors[GATES_EACH];

    units += blockIdx.y * n;
    ups += blockIdx.y * n;
    pdl_launch_dependents();
    pdl_wait();
#pragma unroll
    for (int k = 0; k < GATES_EACH; k++) {
        const int64_t i = first + k * NORM_THREADS;

        gates[k] = i < n ? __ldcg(units + i) : 0.0f;
        factors[k] = i < n ? __ldcg(ups + i) : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < GATES_EACH; k++)
        if (first + k * NORM_THREADS < n)
            units[first + k * NORM_THREADS] = gates[k] / (1.0f + __expf(-gates[k])) * factors[k];
}

void launch_mlp_gate(struct launch_list *list, const struct mlp_args *a, int n_rows,
                     const int32_t *n_live)
{
    const int64_t n = a->units.dim[1];

    add_dependent<mlp_gate>(list, dim3((unsigned)units_of(n, GATES_OF_BLOCK), (unsigned)n_rows),
                            NORM_THREADS, 0, (float *)a->units.data, (const float *)a->ups.data, n,
                            n_live);
}
