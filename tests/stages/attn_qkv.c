/* Checks stage attn_qkv: matmuls, rotation, and what is stored in pages of each type. */
#include "stages/harness.h"

/* The distance between adjacent E4M3 numbers near x. */
static double naive_f8_step(double x)
{
    int exponent;

    frexp(x, &exponent);
    return ldexp(1, (exponent < -5 ? -5 : exponent) - 4);
}

static void compare_q(const struct attn_qkv_args *a, const struct batch *b, int row)
{
    const int D = a->rope->head_dim;
    double head[256];

    for (int h = 0; h < (int)a->wqkv[0].dim[0] / D; h++) {
        for (int d = 0; d < D; d++)
            head[d] = rounded_dot(&a->wqkv[0], h * D + d, row_of(&a->y, row)) +
                      naive_at(&a->bqkv[0], h * D + d);
        naive_rotate(head, a->rope, BATCH_POSITIONS(b)[row]);
        for (int d = 0; d < D; d++)
            note((double)row_of(&a->q, row)[h * D + d], head[d]);
    }
}

/* The expected value of an element of a row's key or value. */
static double expected_kv(const struct attn_qkv_args *a, const struct batch *b, int row, int which,
                          int head, int d)
{
    const struct tensor *w = &a->wqkv[1 + which];
    const int D = a->rope->head_dim;
    double all[256];

    for (int i = 0; i < D; i++)
        all[i] = rounded_dot(w, head * D + i, row_of(&a->y, row)) +
                 naive_at(&a->bqkv[1 + which], head * D + i);
    if (which == 0)
        naive_rotate(all, a->rope, BATCH_POSITIONS(b)[row]);
    return all[d];
}

/* Compares the values of an F32 cache with the expected ones. A cache of another type must have
 * exactly the rounded F32 values. */
static void compare_kv(const struct attn_qkv_args *a, const struct attn_qkv_args *f32,
                       const struct batch *b, int row, int which, int head)
{
    const int D = a->rope->head_dim, slot = BATCH_POSITIONS(b)[row] % PAGE_TOKENS;
    const int64_t page = naive_page(b, BATCH_ROW_SEQ(b)[row], a->group, BATCH_POSITIONS(b)[row]);
    const double scale = (double)*naive_element(&a->kv, page, which, head, slot, 0).scale;
    double largest = 0, squares = 0;

    for (int d = 0; d < D; d++) {
        const double found = naive_kv(&a->kv, page, which, head, slot, d);
        const double exact = naive_kv(&f32->kv, page, which, head, slot, d);

        largest = fabs(exact) > largest ? fabs(exact) : largest;
        squares += exact * exact;
        if (a->kv.dtype == DTYPE_F32)
            note(found, expected_kv(a, b, row, which, head, d));
        else if (a->kv.dtype == DTYPE_BF16)
            note_wrong("bf16 of a key or value", found == naive_round(exact, 8, -126), true);
        else if (a->kv.dtype == DTYPE_I16)
            note_wrong("i16 of a key or value", fabs(found - exact) <= 0.503 * scale,
                       true); /* the product has 24 bits */
        else /* this division may differ from the device's: near a tie either neighbour is right */
            note_wrong("f8 of a key or value",
                       fabs(found - exact) <= 1.00001 * scale * naive_f8_step(exact / scale) / 2,
                       true);
    }
    if (a->kv.dtype == DTYPE_F8)
        note(scale, largest / 448);
    if (a->kv.dtype == DTYPE_I16)
        note(scale / (which == 1 ? largest / 16383 : fmax(sqrt(squares) / 46200, largest / 32767)),
             1);
}

/* Counts the slots of the cache that were written; these must be exactly those of the rows. */
static int64_t count_written(const struct tensor *kv)
{
    int64_t n = 0;

    for (int page = 0; page < kv->dim[0]; page++)
        for (int which = 0; which < 2; which++)
            for (int head = 0; head < kv->dim[2]; head++)
                for (int slot = 0; slot < PAGE_TOKENS; slot++)
                    n += !isnan(naive_kv(kv, page, which, head, slot, 0));
    return n;
}

static void compare_attn_qkv(const struct attn_qkv_args *a, const struct attn_qkv_args *f32,
                             const struct batch *b)
{
    for (int row = 0; row < b->n_rows; row++) {
        compare_q(a, b, row);
        for (int which = 0; which < 2; which++)
            for (int head = 0; head < a->kv.dim[2]; head++)
                compare_kv(a, f32, b, row, which, head);
    }
    note_wrong("slots written", count_written(&a->kv), (int64_t)2 * a->kv.dim[2] * b->n_rows);
}

static void check_attn_qkv_case(const struct span *spans, int n_spans, int H, int K, int D, int C,
                                enum dtype dtype)
{
    struct batch *b = batch_of(spans, n_spans, 1, 0);
    const struct rope rope = some_rope(D);
    const enum dtype bias = dtype == DTYPE_MXFP4 ? DTYPE_BF16 : dtype;
    const int T = b->n_rows;
    struct attn_qkv_args a = {
        .q = SHAPED(DTYPE_F32, T, H * D),
        .kv = cache_of(DTYPE_F32, b->n_pages, K, D),
        .y = FILLED(1, DTYPE_F32, T, C),
        .wqkv = {FILLED(0.1, dtype, H * D, C), FILLED(0.1, dtype, K * D, C),
                 FILLED(0.1, dtype, K * D, C)},
        .bqkv = {FILLED(1, bias, H * D), FILLED(1, bias, K * D), FILLED(1, bias, K * D)},
        .rope = &rope,
        .group = GROUP_WINDOW,
        .kv_rows = SHAPED(DTYPE_F32, T, 2 * K * D)};

    for (int i = 0; i < under.n_kv_types; i++) {
        struct attn_qkv_args typed = a;

        if (i > 0)
            typed.kv = cache_of(kv_types[i], b->n_pages, K, D);
        RUN(attn_qkv, b, &typed);
        compare_attn_qkv(&typed, &a, b);
        if (i > 0)
            drop(&typed.kv);
    }
    for (int i = 0; i < 3; i++)
        drop(&a.wqkv[i]), drop(&a.bqkv[i]);
    drop(&a.q), drop(&a.kv), drop(&a.y), drop(&a.kv_rows);
    free(b);
}

void check_attn_qkv(void)
{
    const struct span one = {63, 3}, three[] = {{0, 1}, {62, 5}, {4095, 17}}, far = {131069, 3};

    check_attn_qkv_case(&one, 1, 4, 4, 32, 64, DTYPE_BF16);
    check_attn_qkv_case(three, 3, 8, 1, 64, 96, DTYPE_BF16);
    check_attn_qkv_case(three, 3, 6, 2, 40, 36, DTYPE_F32);
    check_attn_qkv_case(three, 3, 4, 2, 18, 36, DTYPE_F32);
    check_attn_qkv_case(&far, 1, 2, 1, 64, 32, DTYPE_BF16);
    if (under.is_in_worker && !under.is_mxfp8) {
        check_attn_qkv_case(&one, 1, 2, 1, 64, 96, DTYPE_MXFP4);
        check_attn_qkv_case(&one, 1, 2, 1, 64, 2880, DTYPE_MXFP4);
    }
}

void time_attn_qkv(int T)
{
    struct batch *b = rows_batch(T, 1);
    const struct rope rope = some_rope(D20);
    const enum dtype t = DTYPE_BF16;
    struct attn_qkv_args a = {
        .q = SHAPED(DTYPE_F32, T, H20 * D20),
        .kv = cache_of(under.kv_timed, b->n_pages, K20, D20),
        .y = FILLED(1, DTYPE_F32, T, C20),
        .wqkv = {FILLED(0.02, t, H20 * D20, C20), FILLED(0.02, t, K20 * D20, C20),
                 FILLED(0.02, t, K20 * D20, C20)},
        .bqkv = {FILLED(1, t, H20 * D20), FILLED(1, t, K20 * D20), FILLED(1, t, K20 * D20)},
        .rope = &rope,
        .kv_rows = SHAPED(DTYPE_F32, T, 2 * K20 * D20)};

    RUN(attn_qkv, b, &a);
    for (int i = 0; i < 3; i++)
        drop(&a.wqkv[i]), drop(&a.bqkv[i]);
    drop(&a.q), drop(&a.kv), drop(&a.y), drop(&a.kv_rows);
    free(b);
}
