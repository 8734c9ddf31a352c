#include "cpu/matmul/int8_tiles.h"

#include <string.h>

#include "cpu/matmul/int8_interleaved.h"
#include "cpu/matmul/pack.h"

/* Tokens of one call of the kernel, a multiple of PIECE_ROUND, by the size of the caches. */
enum {
    PIECE_TOKENS = 64,
    PIECE_ROUND = 16,        /* a multiple of the token tile of every kernel */
    PIECE_BYTES = 240 << 10, /* of int8 rows: half the L2 cache */
    /* Interleaved rows: for CPUs with an L2 cache of 1 MB or more. */
    INTERLEAVED_TOKENS = INT8_X_MAX,
    INTERLEAVED_BYTES = 480 << 10
};

/* A thread's share of a job's groups, with constants of the job. */
struct share_of_job {
    const struct cpu *cpu;
    const struct matmul *m;
    const struct int8_row *rows;
    int64_t group_bytes, bias_bytes; /* of one group */
    int first, n;                    /* the share: groups [first, first + n) */
    int worker;
};

static const uint8_t *group_at(const struct share_of_job *s, int group)
{
    return (const uint8_t *)s->m->w.data + group * s->group_bytes;
}

static int rows_of(const struct share_of_job *s, int group)
{
    return matmul_out_tile(s->m, 0, 1, (int64_t)group * GROUP_ROWS).n_rows;
}

static int blocks_of(const struct share_of_job *s)
{
    return (int)(s->m->w.dim[1] / MXFP4_BLOCK);
}

static struct slices slices_of_job(const struct share_of_job *s, struct kernel_sums sums)
{
    return (struct slices){s->m->slice_columns / MXFP4_BLOCK, sums.slice_stride};
}

/* ---- one token ---- */

/* The i-th group of a share in the order of computation, which takes one of each of GROUPS_AT_ONCE
 * parts in turn. Each part is a sequential stream, and hardware prefetchers fetch several streams
 * faster than one. */
static int stream_group(const struct share_of_job *s, int i)
{
    const int n_each = s->n / GROUPS_AT_ONCE, n_longer = s->n % GROUPS_AT_ONCE;
    const int stream = i % GROUPS_AT_ONCE;

    return s->first + stream * n_each + (stream < n_longer ? stream : n_longer) +
           i / GROUPS_AT_ONCE;
}

static void finish_slices(const struct share_of_job *s, const int *groups, int n,
                          struct kernel_sums sums)
{
    for (int g = 0; g < n; g++, sums.data += GROUP_ROWS)
        matmul_finish(s->cpu, s->m, matmul_out_tile(s->m, 0, 1, (int64_t)groups[g] * GROUP_ROWS),
                      sums);
}

/* As matmul_finish(), for one token and several groups: `sums` has 16 of each. */
static void finish_groups(const struct share_of_job *s, const int *groups, int n, float *sums)
{
    const struct matmul *m = s->m;
    const int of_rows = m->epilogue == EPILOGUE_SWIGLU ? 2 : 1; /* weight rows of one output */
    float units[GROUPS_AT_ONCE * GROUP_ROWS / 2];
    const float *results = sums;

    for (int g = 0; g < n && m->bias.data != NULL; g++) {
        float bias[GROUP_ROWS] = {0};

        cpu_widen(s->cpu->kernels, bias, &m->bias, (int64_t)groups[g] * GROUP_ROWS,
                  rows_of(s, groups[g]));
        for (int r = 0; r < GROUP_ROWS; r++)
            sums[g * GROUP_ROWS + r] += bias[r];
    }
    if (m->epilogue == EPILOGUE_SWIGLU) {
        s->cpu->kernels->swiglu(units, sums, n * GROUP_ROWS / 2, m->swiglu);
        results = units;
    }
    for (int g = 0; g < n; g++)
        memcpy(m->out + (ptrdiff_t)groups[g] * GROUP_ROWS / of_rows,
               results + (ptrdiff_t)g * GROUP_ROWS / of_rows,
               (size_t)(rows_of(s, groups[g]) / of_rows) * sizeof(float));
}

/* Groups i to i + n - 1 in the order of stream_group(). */
static void multiply_streams(const struct share_of_job *s, int i, int n)
{
    const struct kernel_sums sums = matmul_sums(s->cpu, s->worker, GROUPS_AT_ONCE);
    const int next = i + GROUPS_AT_ONCE < s->n ? i + GROUPS_AT_ONCE : i;
    struct int8_gemm p = {.out = sums.data,
                          .slices = slices_of_job(s, sums),
                          .next = group_at(s, stream_group(s, next)),
                          .x = &s->rows[matmul_input_row(s->m, 0)],
                          .n_blocks = blocks_of(s),
                          .n_x = 1,
                          .n_groups = n,
                          .has_prefetch = s->cpu->has_prefetch};
    int groups[GROUPS_AT_ONCE];

    for (int g = 0; g < n; g++) {
        groups[g] = stream_group(s, i + g);
        p.groups[g] = group_at(s, groups[g]);
        __builtin_prefetch((const char *)s->m->bias.data + groups[g] * s->bias_bytes);
    }
    s->cpu->kernels->gemm_int8(&p);
    if (s->m->slice_columns > 0)
        finish_slices(s, groups, n, sums);
    else
        finish_groups(s, groups, n, sums.data);
}

/* ---- several tokens ---- */

static int tokens_at_once(const struct matmul *m, bool is_interleaved)
{
    const int n_bytes = is_interleaved ? INTERLEAVED_BYTES : PIECE_BYTES;
    const int n_most = is_interleaved ? INTERLEAVED_TOKENS : PIECE_TOKENS;
    const int64_t n_fit = n_bytes / m->w.dim[1] / PIECE_ROUND * PIECE_ROUND;

    return matmul_tokens(m, n_fit > n_most        ? n_most
                            : n_fit < PIECE_ROUND ? PIECE_ROUND
                                                  : (int)n_fit);
}

/* All groups times a piece of the tokens: those of `part`. */
static void multiply_piece(const struct share_of_job *s, const struct packed_range *part)
{
    const int n = part->token_end - part->token, n_blocks = blocks_of(s);
    const struct kernel_sums sums = matmul_sums(s->cpu, s->worker, n);
    struct int8_row x[INT8_X_MAX];

    for (int t = 0; t < n; t++)
        x[t] = s->rows[matmul_input_row(s->m, part->token + t)];
    for (int g = part->first; g < part->end; g++) {
        const int next = g + 1 < s->first + s->n ? g + 1 : g;

        s->cpu->kernels->gemm_int8(&(struct int8_gemm){
            .out = sums.data,
            .slices = slices_of_job(s, sums),
            .groups = {group_at(s, g)},
            .next = group_at(s, next),
            .x = x,
            .interleaved = n < INT8_INTERLEAVED_MIN || part->interleaved == NULL
                               ? NULL
                               : part->interleaved + interleaved_bytes(part->token, n_blocks),
            .n_blocks = n_blocks,
            .n_x = n,
            .n_groups = 1});
        matmul_finish(s->cpu, s->m, matmul_out_tile(s->m, part->token, n, (int64_t)g * GROUP_ROWS),
                      sums);
    }
}

void int8_multiply(const struct cpu *cpu, const struct matmul *m, const struct int8_row *rows,
                   struct packed_range part, int worker)
{
    const int n_groups = (int)((m->w.dim[0] + GROUP_ROWS - 1) / GROUP_ROWS);
    const int n_most = tokens_at_once(m, part.interleaved != NULL);
    struct share_of_job s = {.cpu = cpu,
                             .m = m,
                             .rows = rows,
                             .group_bytes = packed_group_bytes(m->w.dim[1]),
                             .worker = worker};
    int end;

    s.bias_bytes = m->bias.data == NULL ? 0 : GROUP_ROWS * (m->bias.dtype == DTYPE_F32 ? 4 : 2);
    cpu_share_of(cpu, n_groups, part.first, &s.first, &end);
    s.n = end - s.first;
    if (m->n_tokens == 1) {
        for (int i = part.first; i < part.end; i += GROUPS_AT_ONCE)
            multiply_streams(&s, i - s.first,
                             part.end - i < GROUPS_AT_ONCE ? part.end - i : GROUPS_AT_ONCE);
        return;
    }
    for (int token = part.token; token < part.token_end; token += n_most) {
        struct packed_range piece = part;

        piece.token = token;
        piece.token_end = part.token_end - token < n_most ? part.token_end : token + n_most;
        multiply_piece(&s, &piece);
    }
}
