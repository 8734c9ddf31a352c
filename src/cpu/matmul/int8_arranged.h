/* The int8 rows of products with many tokens in the form in which a level multiplies many of them: tiles of
 * eight rows, made once a call for all groups of weights. Kernels without arrange_int8() read the rows as they
 * are. */
#ifndef CPU_MATMUL_INT8_ARRANGED_H
#define CPU_MATMUL_INT8_ARRANGED_H

#include "cpu/matmul/matmul.h"

/* Of a call's jobs; borrows the device's rooms until the next call. */
struct arranged {
    const uint8_t *data;  /* NULL: none */
    const int32_t *first; /* (n_jobs + 1): job j has tiles [first[j], first[j + 1]) */
    int n_blocks;
};

/* Bytes of so many rows, a multiple of INT8_ARRANGED_ROWS. */
static inline int64_t arranged_bytes(int n_rows, int n_blocks)
{
    return (int64_t)n_rows * n_blocks * INT8_ARRANGED_BYTES;
}

/* Tiles of so many tokens in so many jobs, however they are spread. */
static inline size_t arranged_tiles_max(size_t n_tokens, size_t n_jobs)
{
    return n_tokens / INT8_ARRANGED_ROWS + n_jobs;
}

/* `rows` are the inputs that the jobs' tokens are rows of. */
CHECKED enum osp_status cpu_arrange(struct cpu *cpu, struct arranged *out,
                                    const struct int8_row *rows, const struct matmul *jobs,
                                    int n_jobs);

/* A job's tiles, or NULL. */
const uint8_t *arranged_of(const struct arranged *a, int job);

#endif
