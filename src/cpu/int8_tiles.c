#include "cpu/int8_tiles.h"

#include <string.h>

#include "cpu/pack.h"

enum {
    PIECE_TOKENS =
        INT8_X_MAX,         /* rows of inputs that one group after the other is multiplied with */
    PIECE_ROUND = 16,       /* tokens: what kernels of many tokens take at once divides it */
    PIECE_BYTES = 240 << 10 /* of them, as int8: half of the second-level cache */
};

/* A share of a job's groups, and what is known of the job. */
struct share_of_job {
    const struct cpu *cpu;
    const struct matmul *m;
    const struct int8_row *rows;
    int64_t group_bytes, bias_bytes; /* of a group */
    int first, n;                    /* groups */
};

static const uint8_t *group_at(const struct share_of_job *s, int group)
{
    return (const uint8_t *)s->m->w.data + group * s->group_bytes;
}

static int rows_of(const struct share_of_job *s, int group)
{
    return matmul_patch(s->m, 0, 1, (int64_t)group * GROUP_ROWS).n_rows;
}

static void multiply(const struct share_of_job *s, struct int8_products *p, int token)
{
    struct int8_row x[PIECE_TOKENS];

    for (int t = 0; t < p->n_x; t++)
        x[t] = s->rows[matmul_input_row(s->m, token + t)];
    p->x = x;
    p->n_blocks = (int)(s->m->w.dim[1] / MXFP4_BLOCK);
    s->cpu->kernels->products_int8(p);
}

/* ---- one token ---- */

/* The i-th group of a share: one of each of its GROUPS_AT_ONCE parts in turn. Each part is a stream that
 * is read from end to end, and the CPU's prefetchers bring several streams sooner than one. */
static int stream_group(const struct share_of_job *s, int i)
{
    const int n_each = s->n / GROUPS_AT_ONCE, n_longer = s->n % GROUPS_AT_ONCE;
    const int stream = i % GROUPS_AT_ONCE;

    return s->first + stream * n_each + (stream < n_longer ? stream : n_longer) +
           i / GROUPS_AT_ONCE;
}

/* As matmul_finish(), of one token and several groups: `sums` has 16 of each. */
static void finish_groups(const struct share_of_job *s, const int *groups, int n, float *sums)
{
    const struct matmul *m = s->m;
    const int of_rows = m->epilogue == EPILOGUE_SWIGLU ? 2 : 1; /* rows of a result */
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

/* The i-th to (i + n)-th group. */
static void multiply_streams(const struct share_of_job *s, int i, int n)
{
    float sums[GROUPS_AT_ONCE * GROUP_ROWS];
    struct int8_products p;
    int groups[GROUPS_AT_ONCE];

    p.out = sums;
    p.n_x = 1;
    p.n_groups = n;
    p.next = group_at(s, stream_group(s, i + GROUPS_AT_ONCE < s->n ? i + GROUPS_AT_ONCE : i));
    p.fetches_ahead = s->cpu->fetches_ahead;
    for (int g = 0; g < n; g++) {
        groups[g] = stream_group(s, i + g);
        p.groups[g] = group_at(s, groups[g]);
        __builtin_prefetch((const char *)s->m->bias.data + groups[g] * s->bias_bytes);
    }
    multiply(s, &p, 0);
    finish_groups(s, groups, n, sums);
}

/* ---- several tokens ---- */

static int tokens_at_once(const struct matmul *m)
{
    const int64_t n_fit = PIECE_BYTES / m->w.dim[1] / PIECE_ROUND * PIECE_ROUND;

    return n_fit > PIECE_TOKENS ? PIECE_TOKENS : n_fit < PIECE_ROUND ? PIECE_ROUND : (int)n_fit;
}

/* All groups times a piece of the tokens. */
static void multiply_piece(const struct share_of_job *s, int token, int n, int first, int end)
{
    float out[PIECE_TOKENS * GROUP_ROWS];

    for (int g = first; g < end; g++) {
        struct int8_products p = {.out = out,
                                  .groups = {group_at(s, g)},
                                  .next = group_at(s, g + 1 < s->first + s->n ? g + 1 : g),
                                  .n_x = n,
                                  .n_groups = 1};

        multiply(s, &p, token);
        matmul_finish(s->cpu, s->m, matmul_patch(s->m, token, n, (int64_t)g * GROUP_ROWS), out);
    }
}

void int8_multiply(const struct cpu *cpu, const struct matmul *m, const struct int8_row *rows,
                   struct packed_part part)
{
    const int n_groups = (int)((m->w.dim[0] + GROUP_ROWS - 1) / GROUP_ROWS);
    const int n_most = tokens_at_once(m);
    struct share_of_job s = {
        .cpu = cpu, .m = m, .rows = rows, .group_bytes = packed_group_bytes(m->w.dim[1])};
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
    for (int token = part.token; token < part.token_end; token += n_most)
        multiply_piece(&s, token, part.token_end - token < n_most ? part.token_end - token : n_most,
                       part.first, part.end);
}
