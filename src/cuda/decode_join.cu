/* The join behind the grouped experts of a decode step (decode_grouped.cu): x += the sum of a token's parts in the order
 * of their rank, and y = norm(x); or h = that sum. A block a token; bound by latency. */
#include "cuda/decode.cuh"
#include "cuda/norm_weights.cuh"

enum { RANKS_AT_ONCE = 4 };

/* A token's entries and gates from a rank on, the last one again where there is none. */
struct ranks {
    int entries[RANKS_AT_ONCE];
    float gates[RANKS_AT_ONCE];
};

static __device__ __forceinline__ struct ranks ranks_at(const struct decode_grouped &p, int token,
                                                        int rank)
{
    struct ranks ranks;

#pragma unroll
    for (int i = 0; i < RANKS_AT_ONCE; i++) {
        const int at = token * p.e.n_ranks + min(rank + i, p.e.n_ranks - 1);

        ranks.entries[i] = __ldcg(p.entry + at);
        ranks.gates[i] = __ldcg(p.e.gates + at);
    }
    return ranks;
}

/* The down product lets this kernel begin when everything in front of itself has ended: so all but the parts
 * is there before the wait. */
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
    struct ranks ranks = ranks_at(p, row, 0);
    float factor = 0.0f;

    if (has_x)
        held = norm_hold(x, n);
    pdl_wait();
    pdl_launch_dependents();
    for (int rank = 0; rank < p.e.n_ranks; rank += RANKS_AT_ONCE) {
        const struct ranks now = ranks;
        struct norm_held parts[RANKS_AT_ONCE];

#pragma unroll
        for (int i = 0; i < RANKS_AT_ONCE; i++)
            parts[i] = norm_hold(p.parts + now.entries[i] * n, n);
        if (rank + RANKS_AT_ONCE < p.e.n_ranks)
            ranks = ranks_at(p, row, rank + RANKS_AT_ONCE);
#pragma unroll
        for (int i = 0; i < RANKS_AT_ONCE * NORM_HELD; i++)
            if (rank + i / NORM_HELD < p.e.n_ranks)
                sum.at[i % NORM_HELD] =
                    __fmaf_rn(now.gates[i / NORM_HELD], parts[i / NORM_HELD].at[i % NORM_HELD],
                              sum.at[i % NORM_HELD]);
    }
    if (has_x) {
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
