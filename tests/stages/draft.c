/* Checks the stages of draft heads: tap, draft_fc, draft_input, mlp and gather. */
#include "stages/harness.h"

/* Rows wider than a GPU's block holds in registers (3,072), in steps of a few rows. */
enum { WIDE = 3600, WIDE_ROWS_MAX = 5 };

void check_tap(void)
{
    enum { N = 3 };

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i], C = T <= WIDE_ROWS_MAX ? (int)WIDE : 36;
        struct batch *b = rows_batch(T, 1);
        struct tap_args a = {.taps = FILLED(1, DTYPE_F32, T, N * C),
                             .x = FILLED(1, DTYPE_F32, T, C),
                             .index = i % N};
        float *before = mem_new((size_t)(T * N * C) * sizeof(float));

        memcpy(before, a.taps.data, (size_t)(T * N * C) * sizeof(float));
        RUN(tap, b, &a);
        for (int t = 0; t < T; t++)
            for (int c = 0; c < N * C; c++)
                note(f32_at(&a.taps, t * N * C + c),
                     c / C == a.index ? f32_at(&a.x, t * C + c % C) : before[t * N * C + c]);
        free(before);
        drop(&a.taps), drop(&a.x);
        free(b);
    }
}

/* Norms of a row's states, as many as n_norms; without a norm, the states. */
static void naive_states(float *out, const struct draft_fc_args *a, int row)
{
    const int n = (int)a->taps.dim[1] / a->n_norms;
    double x[WIDE], y[WIDE];

    for (int part = 0; part < a->n_norms; part++) {
        struct tensor norm = a->norm;

        for (int c = 0; c < n; c++)
            x[c] = y[c] = (double)row_of(&a->taps, row)[part * n + c];
        if (norm.data != NULL) {
            norm.dim[0] = n;
            norm.data = (float *)norm.data + part * n;
            naive_norm(y, x, &norm, n, (double)a->eps);
        }
        for (int c = 0; c < n; c++)
            out[part * n + c] = (float)y[c];
    }
}

/* No norm, one over all states, one for each. Behind a norm the weights are F32: rounding its
 * output to bf16 would hide its errors. */
void check_draft_fc(void)
{
    enum { N = 3 };
    float states[WIDE];

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i], C = T <= WIDE_ROWS_MAX ? WIDE / N : 64;
        const bool is_normed = i % 3 > 0;
        struct batch *b = rows_batch(T, 1);
        struct draft_fc_args a = {
            .f = SHAPED(DTYPE_F32, T, C),
            .taps = FILLED(2, DTYPE_F32, T, N * C),
            .w = FILLED(C > 64 ? 0.02 : 0.1, is_normed ? DTYPE_F32 : DTYPE_BF16, C, N * C),
            .normed = SHAPED(DTYPE_F32, T, N * C),
            .n_norms = i % 3 == 2 ? N : 1,
            .eps = 1e-5f};

        if (is_normed)
            a.norm = FILLED(1, DTYPE_F32, N * C);
        RUN(draft_fc, b, &a);
        for (int t = 0; t < T; t++) {
            naive_states(states, &a, t);
            for (int c = 0; c < C; c++)
                note(f32_at(&a.f, t * C + c), rounded_dot(&a.w, c, states));
        }
        if (is_normed)
            drop(&a.norm);
        drop(&a.f), drop(&a.taps), drop(&a.w), drop(&a.normed);
        free(b);
    }
}

static void compare_draft_input(const struct draft_input_args *a, const struct batch *b, int t)
{
    const int C = (int)a->x.dim[1];
    double e[WIDE], f[WIDE], y[WIDE], h[WIDE];

    for (int c = 0; c < C; c++) {
        e[c] = naive_weight(&a->table, 0, BATCH_TOKENS(b)[t], c);
        f[c] = (double)row_of(&a->f, t)[c];
    }
    naive_norm(y, e, &a->embed_norm, C, (double)a->eps);
    naive_norm(h, f, &a->hidden_norm, C, (double)a->eps);
    for (int c = 0; c < C; c++) {
        note(f32_at(&a->y, t * 2 * C + c), y[c]);
        note(f32_at(&a->y, t * 2 * C + C + c), h[c]);
        note(f32_at(&a->x, t * C + c), a->normed_residual ? h[c] : f[c]);
    }
}

void check_draft_input(void)
{
    enum { V = 37 };

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i], C = T <= WIDE_ROWS_MAX ? (int)WIDE : 100;
        struct batch *b = rows_batch(T, 1);
        struct draft_input_args a = {.x = SHAPED(DTYPE_F32, T, C),
                                     .y = SHAPED(DTYPE_F32, T, 2 * C),
                                     .f = FILLED(3, DTYPE_F32, T, C),
                                     .table = FILLED(1, plain_types[i % 2], V, C),
                                     .embed_norm = FILLED(1, DTYPE_F32, C),
                                     .hidden_norm = FILLED(1, DTYPE_F32, C),
                                     .normed_residual = i % 3 == 1,
                                     .eps = 1e-5f};

        for (int t = 0; t < T; t++)
            ((int32_t *)BATCH_TOKENS(b))[t] = (t * 29 + V - 1) % V;
        RUN(draft_input, b, &a);
        for (int t = 0; t < T; t++)
            compare_draft_input(&a, b, t);
        drop(&a.x), drop(&a.y), drop(&a.f), drop(&a.table), drop(&a.embed_norm),
            drop(&a.hidden_norm);
        free(b);
    }
}

/* The units are F32 where w_down reads them, as it is F32. */
void check_mlp(void)
{
    enum { C = 64, F = 96 };
    float units[F];

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i];
        struct batch *b = rows_batch(T, 1);
        struct mlp_args a = {.h = SHAPED(DTYPE_F32, T, C),
                             .y = FILLED(1, DTYPE_F32, T, C),
                             .w_gate = FILLED(0.3, plain_types[i % 2], F, C),
                             .w_up = FILLED(0.1, plain_types[i % 2], F, C),
                             .w_down = FILLED(0.1, DTYPE_F32, C, F),
                             .units = SHAPED(DTYPE_F32, T, F),
                             .ups = SHAPED(DTYPE_F32, T, F)};

        RUN(mlp, b, &a);
        for (int t = 0; t < T; t++) {
            for (int u = 0; u < F; u++) {
                const double gate = rounded_dot(&a.w_gate, u, row_of(&a.y, t));

                units[u] =
                    (float)(gate / (1 + exp(-gate)) * rounded_dot(&a.w_up, u, row_of(&a.y, t)));
            }
            for (int c = 0; c < C; c++)
                note(f32_at(&a.h, t * C + c), rounded_dot(&a.w_down, c, units));
        }
        drop(&a.h), drop(&a.y), drop(&a.w_gate), drop(&a.w_up), drop(&a.w_down), drop(&a.units),
            drop(&a.ups);
        free(b);
    }
}

void check_gather(void)
{
    enum { C = 36 };

    for (int i = 0; i < under.n_row_counts; i++) {
        const int R = under.row_counts[i], T = R < 3 ? 3 : R;
        struct batch *b = rows_batch(T, R);
        struct gather_args a = {.out = SHAPED(DTYPE_F32, T, C), .x = FILLED(1, DTYPE_F32, T, C)};

        for (int r = 0; r < R; r++) /* in reverse order, and some rows twice */
            ((struct batch_sample *)BATCH_SAMPLES(b))[r].row = T - 1 - r / 2;
        RUN(gather, b, &a);
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++)
                note(f32_at(&a.out, r * C + c), f32_at(&a.x, (T - 1 - r / 2) * C + c));
        drop(&a.out), drop(&a.x);
        free(b);
    }
}
