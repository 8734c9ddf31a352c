/* Interleaves the int8 rows of matmuls with many tokens into tiles of eight rows, once a call for
 * all groups of weights. The layout of a tile depends on the ISA. Kernels without interleave_int8()
 * read plain int8 rows. */
#ifndef CPU_MATMUL_INT8_INTERLEAVED_H
#define CPU_MATMUL_INT8_INTERLEAVED_H

#include "cpu/matmul/matmul.h"

/* The tiles of a call's jobs; borrows the device's workspaces until the next call. */
struct interleaved {
    const uint8_t *data;  /* NULL: no job has tiles */
    const int32_t *first; /* (n_jobs + 1): job j has tiles [first[j], first[j + 1]) */
    int n_blocks;
};

/* Bytes of n_rows rows, a multiple of INT8_INTERLEAVED_ROWS. */
static inline int64_t interleaved_bytes(int n_rows, int n_blocks)
{
    return (int64_t)n_rows * n_blocks * INT8_INTERLEAVED_BYTES;
}

/* The most tiles that n_tokens tokens can have in n_jobs jobs, for any distribution. */
static inline size_t interleaved_tiles_max(size_t n_tokens, size_t n_jobs)
{
    return n_tokens / INT8_INTERLEAVED_ROWS + n_jobs;
}

/* `rows` are the inputs; each token of a job is one of them. */
CHECKED enum osp_status cpu_interleave(struct cpu *cpu, struct interleaved *out,
                                       const struct int8_row *rows, const struct matmul *jobs,
                                       int n_jobs);

/* A job's tiles, or NULL. */
const uint8_t *interleaved_of(const struct interleaved *a, int job);

#endif
