/* Shared-memory cache of the tokens of the current jobs, for the grouped MoE kernels
 * (decode_grouped.cu): all columns of a job's tokens, one token after another, stay resident while
 * the job's rows are multiplied.
 *
 * A block has rows of one or two jobs, rarely more. The tokens of two jobs are loaded together if
 * both fit; otherwise the block synchronizes at the end of the first job and loads the next one's
 * then. MMA columns without a token read zeros. */
#ifndef CUDA_DECODE_GROUPED_TOKENS_CUH
#define CUDA_DECODE_GROUPED_TOKENS_CUH

#include "cuda/decode/columns.cuh"

enum { ZEROS_BYTES = 3 * TOKEN_BLOCK_BYTES };

/* Token stride in bytes, padded so that adjacent tokens are in different banks. */
static inline HOST_DEVICE int token_stride(int n_units)
{
    return n_units * UNIT_BLOCKS * TOKEN_BLOCK_BYTES + TOKEN_BLOCK_BYTES;
}

/* The source of the tokens, and the buffer. */
struct token_buffer {
    const char *rows; /* of tokens; of the down kernel, of entries */
    int row_bytes, n; /* n: numbers in a row, */
    bool is_even;     /* which fill whole units */
    bool is_of_entries;
    int n_units;        /* of a row */
    uint32_t zeros, at; /* in shared memory: zeros, and space for */
    int n_slots;        /* n_slots tokens */
};

/* The current job and, if n_cached is 2, the next one. */
struct job_cache {
    const struct decode_job *job;
    int n[2], n_cached;
    int slot; /* of the job's first token */
};

/* Expert, first entry and number of tokens of a job. */
static __device__ __forceinline__ int4 job_head(const struct decode_job *job)
{
    return __ldcg((const int4 *)job);
}

/* Starts the copies of a job's tokens. Executed by the whole block, like all functions here. */
static __device__ __forceinline__ void prefetch_tokens(const struct token_buffer &smem, int slot,
                                                       const struct decode_job *job, int4 head)
{
    const int n_pieces = smem.n_units * UNIT_PIECES, stride = token_stride(smem.n_units);
    const uint32_t to = smem.at + slot * stride + threadIdx.x * LANE_BYTES;
    int rows[DECODE_JOB_TOKENS];

#pragma unroll
    for (int k = 0; k < DECODE_JOB_TOKENS; k += 4)
        *(int4 *)&rows[k] = smem.is_of_entries ? make_int4(head.y + k, head.y + k + 1,
                                                           head.y + k + 2, head.y + k + 3)
                                               : __ldcg((const int4 *)&job->tokens[k]);
#pragma unroll
    for (int k = 0; k < DECODE_JOB_TOKENS; k++) {
        if (k >= head.z)
            break;
        for (int i = threadIdx.x; i < n_pieces; i += RING_THREADS)
            copy_or_zero_at(to + k * stride + (i - (int)threadIdx.x) * LANE_BYTES,
                            smem.rows + rows[k] * smem.row_bytes + i * LANE_BYTES,
                            smem.is_even || i * PIECE < smem.n);
    }
}

/* Loads the tokens of `job` and, if the block has rows of the next job, that job's tokens if they
 * fit. */
static __device__ __forceinline__ void load_jobs(struct job_cache *regs,
                                                 const struct token_buffer &smem,
                                                 const struct decode_job *job, bool has_next)
{
    const int4 head = job_head(job);

    *regs = {job, {head.z, 0}, 1, 0};
    prefetch_tokens(smem, 0, job, head);
    if (has_next) {
        const int4 next = job_head(job + 1);

        regs->n[1] = next.z;
        if (head.z + next.z <= smem.n_slots) {
            regs->n_cached = 2;
            prefetch_tokens(smem, head.z, job + 1, next);
        }
    }
    copy_commit();
}

/* Moves to the next job after the last row of one. */
static __device__ __forceinline__ void next_job(struct job_cache *regs,
                                                const struct token_buffer &smem, bool has_next)
{
    if (regs->n_cached == 2) {
        *regs = {regs->job + 1, {regs->n[1], 0}, 1, regs->slot + regs->n[0]};
        return;
    }
    __syncthreads(); /* no thread reads the previous job's tokens any more */
    load_jobs(regs, smem, regs->job + 1, has_next);
    copy_wait<0>();
    __syncthreads();
}

/* A lane's columns of the job's tokens: those of unit u are at `at` + u * `step`, and those of the
 * unit's second block TOKEN_BLOCK_BYTES further on. */
struct token_columns {
    uint32_t at, step;
};

static __device__ __forceinline__ struct token_columns columns_of(const struct job_cache &regs,
                                                                  const struct token_buffer &smem)
{
    const int lane = threadIdx.x % WARP_LANES, column = lane / 4, slot = regs.slot + column;
    const uint32_t piece = lane % 4 * LANE_BYTES;

    if (column >= regs.n[0]) /* reads zeros, at the bank of a token */
        return {smem.zeros + slot % 2 * TOKEN_BLOCK_BYTES + piece, 0};
    return {smem.at + slot * token_stride(smem.n_units) + piece, UNIT_BLOCKS * TOKEN_BLOCK_BYTES};
}

#endif
