#include "cpu/matmul/mxfp4_bf16.h"

#include <string.h>

#include "cpu/matmul/pack.h"

enum {
    GROUPS_MAX = 16, /* groups of weights in one call of the kernel */
    OUT_FLOATS = 4 * PERMUTED_TOKENS_MAX * GROUP_ROWS /* 16 KB: four groups times all tokens */
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
                            int token, int n, int first, int end)
{
    const int64_t K = m->w.dim[1], n_bytes = packed_group_bytes(K);
    const int n_fit = OUT_FLOATS / GROUP_ROWS / n;
    const int n_most = n_fit < GROUPS_MAX ? n_fit : GROUPS_MAX;
    float out[OUT_FLOATS];

    for (int g = first; g < end; g += n_most) {
        const int n_groups = end - g < n_most ? end - g : n_most;

        cpu->kernels->gemm_permuted(
            &(struct permuted_gemm){.out = out,
                                    .groups = (const uint8_t *)m->w.data + g * n_bytes,
                                    .group_bytes = n_bytes,
                                    .x = x,
                                    .x_stride = K,
                                    .n_groups = n_groups,
                                    .n_blocks = (int)(K / MXFP4_BLOCK),
                                    .n_x = n});
        for (int i = 0; i < n_groups; i++)
            matmul_finish(cpu, m, matmul_out_tile(m, token, n, (int64_t)(g + i) * GROUP_ROWS),
                          out + (ptrdiff_t)i * n * GROUP_ROWS);
    }
}

void permuted_multiply(const struct cpu *cpu, const struct matmul *m, const uint16_t *rows,
                       struct packed_range part, int worker)
{
    for (int token = part.token; token < part.token_end; token += PERMUTED_TOKENS_MAX) {
        const int n_left = part.token_end - token;
        const int n = n_left < PERMUTED_TOKENS_MAX ? n_left : PERMUTED_TOKENS_MAX;

        multiply_tokens(cpu, m, even_rows(cpu, m, rows, token, n, worker), token, n, part.first,
                        part.end);
    }
}
