/* Checks the stages attn_out, router and logits. */
#include "stages/harness.h"

static void check_attn_out_case(int T, int C, int Q, enum dtype dtype, enum dtype bias_dtype)
{
    struct batch *b = rows_batch(T, 1);
    struct attn_out_args a = {.h = SHAPED(DTYPE_F32, T, C),
                              .att = FILLED(1, DTYPE_F32, T, Q),
                              .wo = FILLED(0.1, dtype, C, Q),
                              .bo = FILLED(1, bias_dtype, C),
                              .n_slices = 1 + T % 3};

    RUN(attn_out, b, &a);
    for (int t = 0; t < T; t++) {
        const bool is_coarse =
            under.is_mxfp8 && dtype == DTYPE_MXFP4 && BATCH_PHASES(b)[t] == PHASE_PREFILL;

        for (int c = 0; c < C; c++)
            note(f32_at(&a.h, t * C + c),
                 (is_coarse ? mxfp8_dot : rounded_dot)(&a.wo, c, row_of(&a.att, t)) +
                     naive_at(&a.bo, c));
    }
    drop(&a.h), drop(&a.att), drop(&a.wo), drop(&a.bo);
    free(b);
}

/* MXFP4, whose products are exact except for the rounding of the inputs. */
void check_attn_out(void)
{
    for (int i = 0; i < under.n_row_counts; i++) {
        check_attn_out_case(under.row_counts[i], 33 + 31 * (i % 2), 64 + 36 * (i % 3),
                            plain_types[i % 2], plain_types[i % 2]);
        if (under.is_in_worker)
            check_attn_out_case(under.row_counts[i], 65 + 40 * (i % 3), 32 * (1 + i % 21),
                                DTYPE_MXFP4, DTYPE_BF16);
    }
}

/* How many experts precede e: larger logit, or the same logit and a lower id. */
static int rank_of(const double *z, int n, int e)
{
    int rank = 0;

    for (int i = 0; i < n; i++)
        rank += z[i] > z[e] || (z[i] == z[e] && i < e);
    return rank;
}

static void compare_router(const struct router_args *a, int t)
{
    const int E = (int)a->wr.dim[0], A = (int)a->ids.dim[1];
    double z[BLOCK_MAX], total = 0;

    for (int e = 0; e < E; e++)
        z[e] = naive_dot(&a->wr, 0, e, row_of(&a->y, t)) + naive_at(&a->br, e);
    for (int i = 0; i < A; i++)
        total += exp(z[((const int32_t *)a->ids.data)[t * A + i]]);
    for (int i = 0; i < A; i++) {
        const int id = ((const int32_t *)a->ids.data)[t * A + i];

        note_wrong("rank of the chosen expert", rank_of(z, E, id), i);
        note(f32_at(&a->gates, t * A + i), exp(z[id]) / total);
    }
}

/* T rows of C columns, A of E experts each. */
static struct router_args router_args_of(int T, int C, int E, int A, double deviation)
{
    return (struct router_args){.ids = SHAPED(DTYPE_I32, T, A),
                                .gates = SHAPED(DTYPE_F32, T, A),
                                .y = FILLED(1, DTYPE_F32, T, C),
                                .wr = FILLED(deviation, DTYPE_BF16, E, C),
                                .br = FILLED(1, DTYPE_BF16, E),
                                .router_logits = SHAPED(DTYPE_F32, T, E)};
}

static void drop_router_args(struct router_args *a)
{
    drop(&a->ids), drop(&a->gates), drop(&a->y), drop(&a->wr), drop(&a->br),
        drop(&a->router_logits);
}

/* Every second expert is a copy of the previous one: exact ties. */
void check_router(void)
{
    static const struct {
        int E, A;
    } sizes[] = {{3, 1}, {5, 5}, {32, 4}, {128, 4}};
    enum { C = 96 };

    for (int i = 0; i < under.n_row_counts; i++) {
        const int T = under.row_counts[i], E = sizes[i % 4].E, A = sizes[i % 4].A;
        struct batch *b = rows_batch(T, 1);
        struct router_args a = router_args_of(T, C, E, A, 0.1);

        for (int e = 0; e + 1 < E; e += 2) {
            memcpy((uint16_t *)a.wr.data + (e + 1) * C, (uint16_t *)a.wr.data + e * C, 2 * C);
            ((uint16_t *)a.br.data)[e + 1] = ((uint16_t *)a.br.data)[e];
        }
        RUN(router, b, &a);
        for (int t = 0; t < T; t++)
            compare_router(&a, t);
        drop_router_args(&a);
        free(b);
    }
}

void check_logits(void)
{
    enum { C = 96, V = 301 };

    for (int i = 0; i < under.n_row_counts; i++) {
        const int R = under.row_counts[i], T = R < 3 ? 3 : R;
        struct batch *b = rows_batch(T, R);
        struct logits_args a = {.logits = SHAPED(DTYPE_F32, R, V),
                                .y = FILLED(1, DTYPE_F32, T, C),
                                .head = FILLED(0.2, plain_types[i % 2], V, C)};

        for (int r = 0; r < R; r++) /* in reverse order, and some rows twice */
            ((struct batch_sample *)BATCH_SAMPLES(b))[r].row = T - 1 - r / 2;
        RUN(logits, b, &a);
        for (int r = 0; r < R; r++)
            for (int v = 0; v < V; v++)
                note(f32_at(&a.logits, r * V + v),
                     rounded_dot(&a.head, v, row_of(&a.y, T - 1 - r / 2)));
        drop(&a.logits), drop(&a.y), drop(&a.head);
        free(b);
    }
}

void time_attn_out(int T)
{
    struct batch *b = rows_batch(T, 1);
    struct attn_out_args a = {.h = SHAPED(DTYPE_F32, T, C20),
                              .att = FILLED(1, DTYPE_F32, T, H20 * D20),
                              .wo = FILLED(0.02, DTYPE_BF16, C20, H20 * D20),
                              .bo = FILLED(1, DTYPE_BF16, C20),
                              .n_slices = K20};

    RUN(attn_out, b, &a);
    drop(&a.h), drop(&a.att), drop(&a.wo), drop(&a.bo);
    free(b);
}

void time_router(int T)
{
    struct batch *b = rows_batch(T, 1);
    struct router_args a = router_args_of(T, C20, E20, A20, 0.02);

    RUN(router, b, &a);
    drop_router_args(&a);
    free(b);
}

void time_logits(int T)
{
    struct batch *b = rows_batch(T, T < 8 ? T : 8);
    struct logits_args a = {.logits = SHAPED(DTYPE_F32, b->n_samples, V20),
                            .y = FILLED(1, DTYPE_F32, T, C20),
                            .head = FILLED(0.02, DTYPE_BF16, V20, C20)};

    RUN(logits, b, &a);
    drop(&a.logits), drop(&a.y), drop(&a.head);
    free(b);
}
