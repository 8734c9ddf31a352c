/* The tokens of the jobs that a block of the grouped experts has rows of (decode_grouped.cu):
 * all columns of them lie in shared memory, one token behind the other, while the job's rows are
 * multiplied.
 *
 * A block has rows of one or two jobs, seldom of more. Two jobs' tokens are asked for at once
 * where there is room for both; else the block meets at the first one's end, and asks for the
 * next one's then. A column of products without a token reads zeros. */
#ifndef CUDA_DECODE_GROUPED_TOKENS_CUH
#define CUDA_DECODE_GROUPED_TOKENS_CUH

#include "cuda/decode/columns.cuh"

enum { ZEROS_BYTES = 3 * TOKEN_BLOCK_BYTES };

/* Bytes from a token to the next one: neighbours are in different banks. */
static inline HOST_DEVICE int token_stride(int n_units)
{
    return n_units * UNIT_BLOCKS * TOKEN_BLOCK_BYTES + TOKEN_BLOCK_BYTES;
}

/* Where the tokens come from, and where they lie. */
struct token_buffer {
    const char *rows; /* of tokens, or, of the down product, of entries */
    int row_bytes, n; /* n: numbers of a row that there are, */
    bool is_even;     /* in whole units */
    bool is_of_entries;
    int n_units;        /* of a row */
    uint32_t zeros, at; /* in shared memory: zeros, and room for */
    int n_slots;        /* so many tokens */
};

/* The job at hand and, where n_cached is 2, the next one. */
struct job_cache {
    const struct decode_job *job;
    int n[2], n_cached;
    int slot; /* of the job's first token */
};

/* Its expert, first entry and number of tokens. */
static __device__ __forceinline__ int4 job_head(const struct decode_job *job)
{
    return __ldcg((const int4 *)job);
}

/* Asks for a job's tokens. By the whole block, like all of this. */
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

/* Asks for the tokens of `job` and, if the block has rows of the next one, of that where there
 * is room. */
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

/* To the next job, behind the last row of one. */
static __device__ __forceinline__ void next_job(struct job_cache *regs,
                                                const struct token_buffer &smem, bool has_next)
{
    if (regs->n_cached == 2) {
        *regs = {regs->job + 1, {regs->n[1], 0}, 1, regs->slot + regs->n[0]};
        return;
    }
    __syncthreads(); /* nobody reads the last one's any more */
    load_jobs(regs, smem, regs->job + 1, has_next);
    copy_wait<0>();
    __syncthreads();
}

/* A lane's columns of the job's tokens: of unit u they are at `at` + u * `step`, and those of
 * the unit's second block TOKEN_BLOCK_BYTES behind. */
struct token_columns {
    uint32_t at, step;
};

static __device__ __forceinline__ struct token_columns columns_of(const struct job_cache &regs,
                                                                  const struct token_buffer &smem)
{
    const int lane = threadIdx.x % WARP_LANES, column = lane / 4, slot = regs.slot + column;
    const uint32_t piece = lane % 4 * LANE_BYTES;

    if (column >= regs.n[0]) /* zeros in the banks of a token */
        return {smem.zeros + slot % 2 * TOKEN_BLOCK_BYTES + piece, 0};
    return {smem.at + slot * token_stride(smem.n_units) + piece, UNIT_BLOCKS * TOKEN_BLOCK_BYTES};
}

#endif
