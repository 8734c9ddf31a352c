#include "cpu/matmul/mxfp4_bf16.h"

#include <string.h>

#include "cpu/matmul/pack.h"

enum {
    GROUPS_MAX = 16,                    /* groups of weights in one call of the kernel */
    SUMS_MOST = 4 * PERMUTED_TOKENS_MAX /* of a slice and weight row: four groups, all tokens */
};

size_t permuted_ws_bytes(int64_t n_columns)
{
    return PERMUTED_TOKENS_MAX * sizeof(uint16_t) * (size_t)n_columns;
}

/* The rows of tokens [first, first + n), evenly spaced as the kernel needs them. Gathered tokens
 * are copied once for all groups. */
static const uint16_t *even_rows(const struct cpu *cpu, const struct matmul *m,
                                 const uint16_t *rows, int first, int n, int worker)
{
    const int64_t K = m->w.dim[1];
    uint16_t *workspace = cpu->workers[worker].data;

    if (m->gather == NULL || n == 1)
        return rows + matmul_input_row(m, first) * K;
    for (int t = 0; t < n; t++)
        memcpy(workspace + t * K, rows + matmul_input_row(m, first + t) * K,
               (size_t)K * sizeof(*workspace));
    return workspace;
}

/* Groups [first, end) times tokens [token, token + n). */
static void multiply_tokens(const struct cpu *cpu, const struct matmul *m, const uint16_t *x,
                            struct packed_range part, int worker)
{
    const int64_t K = m->w.dim[1], n_bytes = packed_group_bytes(K);
    const int n = part.token_end - part.token, n_fit = matmul_tokens(m, SUMS_MOST) / n;
    const int n_most = n_fit < GROUPS_MAX ? n_fit : GROUPS_MAX;

    for (int g = part.first; g < part.end; g += n_most) {
        const int n_groups = part.end - g < n_most ? part.end - g : n_most;
        struct kernel_sums sums = matmul_sums(cpu, worker, n_groups * n);

        cpu->kernels->gemm_permuted(
            &(struct permuted_gemm){.out = sums.data,
                                    .slices = {m->slice_columns / MXFP4_BLOCK, sums.slice_stride},
                                    .groups = (const uint8_t *)m->w.data + g * n_bytes,
                                    .group_bytes = n_bytes,
                                    .x = x,
                                    .x_stride = K,
                                    .n_groups = n_groups,
                                    .n_blocks = (int)(K / MXFP4_BLOCK),
                                    .n_x = n});
        for (int i = 0; i < n_groups; i++, sums.data += (ptrdiff_t)n * GROUP_ROWS)
            matmul_finish(cpu, m, matmul_out_tile(m, part.token, n, (int64_t)(g + i) * GROUP_ROWS),
                          sums);
    }
}

void permuted_multiply(const struct cpu *cpu, const struct matmul *m, const uint16_t *rows,
                       struct packed_range part, int worker)
{
    const int n_most = matmul_tokens(m, PERMUTED_TOKENS_MAX), end = part.token_end;

    for (; part.token < end; part.token += n_most) {
        const int n_left = end - part.token, n = n_left < n_most ? n_left : n_most;

        part.token_end = part.token + n;
        multiply_tokens(cpu, m, even_rows(cpu, m, rows, part.token, n, worker), part, worker);
    }
}
