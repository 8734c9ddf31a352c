/* Tile assignment and shared-memory ring of the MXFP8 GEMM. A stage has 128 columns: packed units
 * of weights, then codes and scales of 128 tokens. Data past the end of a matrix is zero-filled. */
#ifndef CUDA_PREFILL_MXFP8_RING_CUH
#define CUDA_PREFILL_MXFP8_RING_CUH

#include "cuda/common/block_scaled.h"
#include "cuda/common/mxfp8.h"

enum {
    TOKENS = 128,
    STAGE_BLOCKS = 4, /* of 32 columns: one register has their scales */
    STAGE_COLUMNS = STAGE_BLOCKS * MXFP4_BLOCK,
    STAGE_UNITS = STAGE_COLUMNS / UNIT_COLUMNS,
    UNITS_BYTES = STAGE_UNITS * MXFP4_UNIT_BYTES, /* of a stage's weights for 64 rows */
    PIECE_BYTES = 16,
    UNIT_THREADS = 128, /* that copy the weights of 64 rows */
    UNIT_STEPS = (UNITS_BYTES / PIECE_BYTES + UNIT_THREADS - 1) / UNIT_THREADS,
    TOKEN_PIECES = STAGE_COLUMNS / PIECE_BYTES,
    WARP_ROWS = 32,
    WARP_TOKENS = 64,
    SHARED_BYTES_MAX = 99 * 1024 /* per block, on sm_120 and sm_121 */
};

template <int ROWS> struct shape {
    enum {
        UNITS = ROWS / UNIT_ROWS,
        ROW_WARPS = ROWS / WARP_ROWS,
        WARPS = ROW_WARPS * (TOKENS / WARP_TOKENS),
        THREADS = WARPS * WARP_LANES,
        TOKEN_STEPS = TOKENS * TOKEN_PIECES / THREADS,
        /* two blocks of 64 rows fit on an SM */
        BLOCKS_AT_ONCE = UNITS == 1 ? 2 : 1,
        STAGES = UNITS == 1 ? 2 : 3,
        CODES_AT = UNITS * UNITS_BYTES,
        SCALES_AT = CODES_AT + TOKENS * STAGE_COLUMNS,
        STAGE_BYTES = SCALES_AT + TOKENS * STAGE_BLOCKS,
        SHARED_BYTES = STAGES * STAGE_BYTES
    };
    static_assert(THREADS == UNITS * UNIT_THREADS, "UNIT_THREADS copy each unit");
    static_assert(BLOCKS_AT_ONCE * (SHARED_BYTES + 3 * 1024) <= SHARED_BYTES_MAX, "shared memory");
};

/* ---- tile assignment ---- */

/* The rows of weights and the tokens of a block. */
struct task {
    const struct tensor *w;
    int job;
    int64_t row;    /* the first */
    int64_t expert; /* 0: one matrix */
    int first, n;   /* entries */
};

template <int ROWS> static __device__ bool find_task(const struct matmul &m, struct task *out)
{
    int64_t tile = blockIdx.x;
    int job = 0;

    while (job + 1 < m.n_jobs && tile >= units_of(matrix_rows(&m.w[job]), ROWS))
        tile -= units_of(matrix_rows(&m.w[job++]), ROWS);
    *out = (struct task){&m.w[job], job, tile * ROWS, 0, 0, m.n_tokens};
    if (m.first == NULL)
        return true;
    if ((int)blockIdx.y >= *m.n_active)
        return false;
    out->expert = m.active[blockIdx.y];
    out->first = m.first[out->expert];
    out->n = m.first[out->expert + 1] - out->first;
    return true;
}

/* ---- copies ---- */

/* n_bytes: valid bytes of the 16; the rest is zero-filled. */
static __device__ __forceinline__ void copy_16(void *to, const void *from, int n_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(n_bytes)
                 : "memory");
}

static __device__ __forceinline__ void copy_4(void *to, const void *from, int n_bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(n_bytes)
                 : "memory");
}

static __device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all but the N youngest groups of this thread. */
template <int N> static __device__ __forceinline__ void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* A thread's part of each stage's copies: pieces of 64 rows' units, the same piece of some tokens,
 * and the scales of one. */
template <int ROWS> struct source {
    const unsigned char *weights;
    int64_t weights_bytes;                          /* of those rows, from `weights` on */
    const uint8_t *codes[shape<ROWS>::TOKEN_STEPS]; /* at the first stage; NULL: no such token */
    const uint8_t *scales;
    int64_t n_columns;
};

/* The row of x of a token of the task; -1: there is no such token. */
static __device__ __forceinline__ int64_t row_of_token(const struct matmul &m,
                                                       const struct task &task, int token)
{
    const int64_t entry = task.first + token;

    if (token >= task.n)
        return -1;
    return m.gather == NULL ? entry : m.gather[entry * m.gather_stride];
}

template <int ROWS>
static __device__ void find_source(struct source<ROWS> *out, const struct matmul &m,
                                   const struct mxfp8_rows &x, const struct task &task, int t0)
{
    const int64_t n_across = units_of(matrix_columns(task.w), UNIT_COLUMNS);
    const int64_t unit = task.row / UNIT_ROWS + threadIdx.x / UNIT_THREADS;
    const int64_t skipped_bytes = (int64_t)threadIdx.x % UNIT_THREADS * PIECE_BYTES;
    const int64_t row = row_of_token(m, task, t0 + threadIdx.x % TOKENS);

    out->n_columns = x.n_columns;
    out->weights = (const unsigned char *)task.w->data + task.expert * matrix_bytes(task.w);
    out->weights_bytes = 0;
    if (unit * UNIT_ROWS < matrix_rows(task.w)) {
        out->weights += unit * n_across * MXFP4_UNIT_BYTES + skipped_bytes;
        out->weights_bytes = n_across * MXFP4_UNIT_BYTES - skipped_bytes;
    }
#pragma unroll
    for (int i = 0; i < shape<ROWS>::TOKEN_STEPS; i++) {
        const int token = (i * shape<ROWS>::THREADS + threadIdx.x) / TOKEN_PIECES;
        const int64_t r = row_of_token(m, task, t0 + token);

        out->codes[i] =
            r < 0 ? NULL : x.codes + r * x.n_columns + threadIdx.x % TOKEN_PIECES * PIECE_BYTES;
    }
    out->scales = row < 0 ? NULL : x.scales + row * mxfp8_scales_stride(x.n_columns);
}

template <int ROWS>
static __device__ __forceinline__ void copy_weights(unsigned char *to,
                                                    const struct source<ROWS> &from, int stage)
{
    const int64_t skipped_bytes = (int64_t)stage * UNITS_BYTES;
    const int64_t n_bytes = from.weights_bytes - skipped_bytes;

    to += threadIdx.x / UNIT_THREADS * UNITS_BYTES + threadIdx.x % UNIT_THREADS * PIECE_BYTES;
#pragma unroll
    for (int i = 0; i < UNIT_STEPS; i++) {
        const int at = i * UNIT_THREADS * PIECE_BYTES;
        const bool is_there = at < n_bytes;

        if (i + 1 < UNIT_STEPS || threadIdx.x % UNIT_THREADS * PIECE_BYTES + at < UNITS_BYTES)
            copy_16(to + at, from.weights + (is_there ? skipped_bytes + at : 0), is_there ? 16 : 0);
    }
}

/* The block of 32 columns with index b of token r is at position b ^ r % 4, so that reads of eight
 * tokens have no bank conflicts. */
static __device__ __forceinline__ int codes_offset(int token, int block)
{
    return token * STAGE_COLUMNS + (block ^ token % STAGE_BLOCKS) * MXFP4_BLOCK;
}

template <int ROWS>
static __device__ __forceinline__ void copy_tokens(unsigned char *to,
                                                   const struct source<ROWS> &from, int stage)
{
    typedef struct shape<ROWS> S;
    const int piece = threadIdx.x % TOKEN_PIECES, token = threadIdx.x / TOKEN_PIECES;
    const int column0 = stage * STAGE_COLUMNS;
    const bool is_there = column0 + piece * PIECE_BYTES < from.n_columns;
    const int n_scales = (int)(from.n_columns - column0) / MXFP4_BLOCK;
    unsigned char *codes =
        to + S::CODES_AT + codes_offset(token, piece / 2) + piece % 2 * PIECE_BYTES;

#pragma unroll
    for (int i = 0; i < S::TOKEN_STEPS; i++) {
        const bool is_here = is_there && from.codes[i] != NULL;

        copy_16(codes + i * (S::THREADS / TOKEN_PIECES) * STAGE_COLUMNS,
                is_here ? from.codes[i] + column0 : from.weights, is_here ? 16 : 0);
    }
    if (threadIdx.x < TOKENS)
        copy_4(to + S::SCALES_AT + threadIdx.x * STAGE_BLOCKS,
               from.scales == NULL ? from.weights : from.scales + stage * STAGE_BLOCKS,
               from.scales == NULL || n_scales <= 0 ? 0
               : n_scales < STAGE_BLOCKS            ? n_scales
                                                    : STAGE_BLOCKS);
}

/* Starts the copies of a stage, if it exists; commits a group in either case. */
template <int ROWS>
static __device__ __forceinline__ void
copy_stage(unsigned char *to, const struct source<ROWS> &from, int stage, int n_stages)
{
    if (stage < n_stages) {
        copy_weights<ROWS>(to, from, stage);
        copy_tokens<ROWS>(to, from, stage);
    }
    cp_async_commit();
}

#endif
