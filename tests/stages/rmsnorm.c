/* Checks the stages embed_rmsnorm and residual_rmsnorm. */
#include "stages/harness.h"

void check_embed_rmsnorm(void)
{
    enum { V = 37, C_MAX = 100 };
    static const enum dtype tables[] = {DTYPE_F32, DTYPE_BF16, DTYPE_MXFP4};

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i], C = i % 3 == 2 ? 3 * MXFP4_BLOCK : (int)C_MAX;
        struct batch *b = rows_batch(T, 1);
        struct embed_rmsnorm_args a = {.x = SHAPED(DTYPE_F32, T, C),
                                       .y = SHAPED(DTYPE_F32, T, C),
                                       .table = FILLED(1, tables[i % 3], V, C),
                                       .norm = FILLED(1, plain_types[i / 2 % 2], C),
                                       .eps = 1e-5f};
        double x[C_MAX], y[C_MAX];

        for (int t = 0; t < T; t++)
            ((int32_t *)BATCH_TOKENS(b))[t] = (t * 29 + V - 1) % V;
        RUN(embed_rmsnorm, b, &a);
        for (int t = 0; t < T; t++) {
            for (int c = 0; c < C; c++) {
                x[c] = naive_weight(&a.table, 0, BATCH_TOKENS(b)[t], c);
                note(f32_at(&a.x, t * C + c), x[c]);
            }
            naive_norm(y, x, &a.norm, C, 1e-5);
            for (int c = 0; c < C; c++)
                note(f32_at(&a.y, t * C + c), y[c]);
        }
        drop(&a.x), drop(&a.y), drop(&a.table), drop(&a.norm);
        free(b);
    }
}

void check_residual_rmsnorm(void)
{
    enum { C = 2880 };
    double x[C], y[C];

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i];
        struct batch *b = rows_batch(T, 1);
        struct residual_rmsnorm_args a = {.x = FILLED(3, DTYPE_F32, T, C),
                                          .y = SHAPED(DTYPE_F32, T, C),
                                          .h = FILLED(1, DTYPE_F32, T, C),
                                          .norm = FILLED(1, plain_types[i % 2], C),
                                          .eps = 1e-5f};
        float *before = mem_new((size_t)T * C * sizeof(float));

        memcpy(before, a.x.data, (size_t)T * C * sizeof(float));
        RUN(residual_rmsnorm, b, &a);
        for (int t = 0; t < T; t++) {
            for (int c = 0; c < C; c++) {
                x[c] = (double)before[t * C + c] + (double)f32_at(&a.h, t * C + c);
                note(f32_at(&a.x, t * C + c), x[c]);
            }
            naive_norm(y, x, &a.norm, C, 1e-5);
            for (int c = 0; c < C; c++)
                note(f32_at(&a.y, t * C + c), y[c]);
        }
        free(before);
        drop(&a.x), drop(&a.y), drop(&a.h), drop(&a.norm);
        free(b);
    }
}

void time_residual_rmsnorm(int T)
{
    struct batch *b = rows_batch(T, 1);
    struct residual_rmsnorm_args a = {.x = FILLED(1, DTYPE_F32, T, C20),
                                      .y = SHAPED(DTYPE_F32, T, C20),
                                      .h = FILLED(1, DTYPE_F32, T, C20),
                                      .norm = FILLED(1, DTYPE_F32, C20),
                                      .eps = 1e-5f};

    RUN(residual_rmsnorm, b, &a);
    drop(&a.x), drop(&a.y), drop(&a.h), drop(&a.norm);
    free(b);
}
