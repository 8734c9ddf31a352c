/* Rows that ranks share out (common/rank_share.h): their sums, residual and norm, and the gather of
 * rows of x from their owners.
 *
 * One block per row: it pushes this rank's part of a row of another rank, or norms one of its own.
 * A block that norms polls the parts of the other ranks where they push them, a number per thread
 * and 256 columns, so that the norm has the order of rows.cu, and the same bits. The normed row
 * goes through shared memory, because a piece of an operand has columns 8 apart.
 *
 * Bound by the link: 6 bytes a column and row leave or arrive, beside 28 of memory. */
#include "cuda/common/mma.cuh"
#include "cuda/common/pdl.cuh"
#include "cuda/common/rank_add.cuh"
#include "cuda/common/rank_share.cuh"
#include "cuda/decode/partial_norm.cuh"
#include "cuda/launch/launch_kernel.cuh"

enum { PIECES = OPERAND_ROW_BYTES / OPERAND_PIECE_BYTES, GATHER_THREADS = 256 };
static_assert((int)RANK_SHARE_WIDTH_MAX == NORM_PER_THREAD * (int)NORM_THREADS,
              "a row is in the registers of a block");

/* ---- sums ---- */

static __device__ __forceinline__ uint4 sum_of_parts(const float4 *from, int n_parts,
                                                     int64_t stride)
{
    float4 sum = __ldcg(from);

#pragma unroll 3
    for (int i = 1; i < n_parts; i++) {
        const float4 v = __ldcg(from + i * stride);

        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
    }
    return make_uint4(__float_as_uint(sum.x), __float_as_uint(sum.y), __float_as_uint(sum.z),
                      __float_as_uint(sum.w));
}

/* This rank's part of a row, to the row's owner. */
static __device__ __forceinline__ void push_part(const struct shared_rmsnorm &s,
                                                 struct owned_row row, int n)
{
    const struct rank_peers &p = s.peers;
    const int64_t n_vectors = n / RANK_WORDS;
    const float4 *const from = (const float4 *)s.parts + row.row * s.n_parts * n_vectors;
    uint4 *const to = (uint4 *)(p.windows[row.owner] + rank_slot_at(p, s.index)) +
                      rank_share_place(s.share, p.rank, row.row) * n_vectors;

    for (int64_t i = threadIdx.x; i < n_vectors; i += NORM_THREADS)
        push(to + i, sendable_of(sum_of_parts(from + i, s.n_parts, n_vectors)));
}

static __device__ __forceinline__ struct norm_regs own_part(const struct shared_rmsnorm &s, int row,
                                                            int n)
{
    const float *const from = s.parts + (int64_t)row * s.n_parts * n;
    struct norm_regs sum = norm_load(from, n);

#pragma unroll 1
    for (int k = 1; k < s.n_parts; k++) {
        const struct norm_regs part = norm_load(from + (int64_t)k * n, n);

#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++)
            sum.at[i] += part.at[i];
    }
    return sum;
}

static __device__ __forceinline__ uint32_t poll_word(const float *from)
{
    uint32_t word;

    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
    return word;
}

/* Waits for a row in this rank's window, and empties its place. */
static __device__ __forceinline__ void take_row(struct norm_regs *out, float *from, int n,
                                                const struct rank_peers &p, int rank,
                                                struct rank_wait *w)
{
    for (int polls = 1;; polls++) {
        bool has_all = true;

#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++) {
            const int at = (int)threadIdx.x + i * NORM_THREADS;
            const uint32_t word = at < n ? poll_word(from + at) : 0;

            has_all = has_all && word != RANK_EMPTY;
            out->at[i] = __uint_as_float(word);
        }
        if (has_all)
            break;
        if (is_over(p, rank, polls, w)) {
#pragma unroll
            for (int i = 0; i < NORM_PER_THREAD; i++)
                out->at[i] = __uint_as_float(RANK_LOST);
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int at = (int)threadIdx.x + i * NORM_THREADS;

        if (at < n)
            *(volatile uint32_t *)(from + at) = RANK_EMPTY;
    }
}

/* The sum of all ranks' parts of a row, in the order of ranks. */
static __device__ __forceinline__ struct norm_regs sum_of_row(const struct shared_rmsnorm &s,
                                                              int row, int n)
{
    const struct rank_peers &p = s.peers;
    float *const parts = (float *)(p.windows[p.rank] + rank_slot_at(p, s.index));
    struct rank_wait wait = {0, false};
    struct norm_regs sum = {};

#pragma unroll 1
    for (int r = 0; r < p.n_ranks; r++) {
        struct norm_regs part;

        if (r == p.rank)
            part = own_part(s, row, n);
        else
            take_row(&part, parts + rank_share_place(s.share, r, row) * n, n, p, r, &wait);
#pragma unroll
        for (int i = 0; i < NORM_PER_THREAD; i++)
            sum.at[i] = r == 0 ? part.at[i] : sum.at[i] + part.at[i];
    }
    return sum;
}

/* ---- the normed row, to all ranks ---- */

static __device__ __forceinline__ uint32_t pair_of(const float *row, int column, bool is_bf16)
{
    return is_bf16 ? pair_bf16(row[column], row[column + 1])
                   : pair_f16(row[column], row[column + 1]);
}

/* From shared memory, with zeros up to a whole unit of columns. */
static __device__ __forceinline__ void push_normed(const struct shared_rmsnorm &s,
                                                   const float *from, int row, int64_t n)
{
    const int n_pieces = (int)units_of(n, UNIT_COLUMNS) * PIECES;

    for (int i = (int)threadIdx.x; i < n_pieces; i += NORM_THREADS) {
        const int chunk = i / PIECES, piece = i % PIECES;
        const int column =
            chunk * UNIT_COLUMNS + piece / 4 * MXFP4_BLOCK + piece / 2 % 2 * 4 + piece % 2 * 2;
        const int64_t at = operand_piece_offset(s.n_operand_rows, row, chunk, piece);
        uint32_t words[4];

#pragma unroll
        for (int t = 0; t < 4; t++)
            words[t] = pair_of(from, column + t * 8, s.is_bf16);
        const uint4 v = make_uint4(words[0], words[1], words[2], words[3]);

#pragma unroll
        for (int r = 0; r < RANK_PEERS_MAX; r++)
            if (r < s.peers.n_ranks && r != s.peers.rank)
                push(s.peers.windows[r] + s.gather.operand_at + at, v);
        push((char *)s.operand + at, v);
    }
}

/* The residual and the norm of a row of this rank. */
static __device__ __forceinline__ void norm_row(const struct shared_rmsnorm &s, int64_t row, int n)
{
    __shared__ float row_of[RANK_SHARE_WIDTH_MAX];
    __shared__ float smem[NORM_THREADS / WARP_LANES];
    __shared__ struct squares scratch[NORM_SPLITS];
    const int n_padded = (int)units_of(n, UNIT_COLUMNS) * UNIT_COLUMNS;
    float *const x = (float *)s.a.x.data + row * n, *const y = (float *)s.a.y.data + row * n;
    const struct norm_regs sum = sum_of_row(s, (int)row, n);
    struct norm_regs regs = norm_load(x, n);
    const struct norm_regs weights = weights_load(&s.a.norm, 0, n); /* late, for few registers */
    float factor;

#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++)
        regs.at[i] += sum.at[i];
    factor = s.is_partial ? factor_of_partials(regs, n, s.a.eps, scratch)
                          : norm_factor(&regs, x, n, s.a.eps, smem);
#pragma unroll
    for (int i = 0; i < NORM_PER_THREAD; i++) {
        const int at = (int)threadIdx.x + i * NORM_THREADS;
        const float value = normed(regs.at[i], factor, weights.at[i]);

        if (at < n) {
            x[at] = regs.at[i];
            if (s.stores_y)
                y[at] = value;
        }
        if (at < n_padded)
            row_of[at] = at < n ? value : 0.0f;
    }
    __syncthreads();
    push_normed(s, row_of, (int)row, n);
}

static __global__ void __launch_bounds__(NORM_THREADS, 3)
    shared_rmsnorm_kernel(const __grid_constant__ struct shared_rmsnorm s)
{
    const struct owned_row row =
        rank_share_block(s.share, s.peers.n_ranks, s.peers.rank, (int)blockIdx.x);
    const int n = (int)s.a.x.dim[1];

    pdl_launch_dependents();
    pdl_wait();
    if (row.row < 0)
        return;
    if (row.owner != s.peers.rank) {
        push_part(s, row, n);
        return;
    }
    norm_row(s, row.row, n);
    if (s.is_last)
        announce(s.peers, s.gather, s.index, (unsigned)rank_share_rows(s.share, s.peers.rank));
    else
        __threadfence_system(); /* a later kernel announces these rows, too */
}

void launch_shared_rmsnorm(struct launch_list *list, const struct shared_rmsnorm *s)
{
    add_dependent<shared_rmsnorm_kernel>(
        list, (unsigned)rank_share_blocks(s->share, s->peers.n_ranks), NORM_THREADS, 0, *s);
}

/* ---- rows of x, from their owners ---- */

static __global__ void __launch_bounds__(GATHER_THREADS)
    shared_gather_kernel(const __grid_constant__ struct shared_gather g)
{
    const struct rank_peers &p = g.peers;
    const int row = g.rows[blockIdx.x * g.stride], owner = rank_share_owner(g.share, row);
    const int64_t n = g.n_columns / RANK_WORDS, slot_at = rank_slot_at(p, g.index);
    struct rank_wait wait = {0, false};

    pdl_launch_dependents();
    pdl_wait();
    for (int64_t i = threadIdx.x; i < n; i += GATHER_THREADS) {
        const int64_t at = slot_at + (blockIdx.x * n + i) * (int64_t)sizeof(uint4);
        uint4 v;

        if (owner == p.rank) {
            v = sendable_of(__ldcg((const uint4 *)g.x + row * n + i));
#pragma unroll
            for (int r = 0; r < RANK_PEERS_MAX; r++)
                if (r < p.n_ranks && r != p.rank)
                    push(p.windows[r] + at, v);
        } else {
            v = take(p.windows[p.rank] + at, p, owner, &wait);
        }
        ((uint4 *)g.to)[blockIdx.x * n + i] = v;
    }
}

void launch_shared_gather(struct launch_list *list, const struct shared_gather *g)
{
    add_dependent<shared_gather_kernel>(list, (unsigned)g->n, GATHER_THREADS, 0, *g);
}
