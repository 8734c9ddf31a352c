/* Checks stage attn with pages of each type, at the edges of pages, windows and splits, and rows
 * alone in a batch. */
#include "stages/harness.h"

/* Any integer that a page may have; some slots have the largest, so that sums come near their
 * limit. */
static int16_t some_code(int which, int D, int64_t i)
{
    const double limit = which == 0 ? fmin(32767, 46200 / sqrt(D)) : 16383;
    const double share = (double)random_at(i, 1) / 1.7321;

    return (int16_t)(limit * (i / D % 11 == 3 ? copysign(1, share) : share));
}

/* Stores a random number in the dtype of the cache. */
static void put_element(struct naive_element e, enum dtype dtype, int which, int D, int64_t i)
{
    const float value = random_at(i, 1);
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (dtype == DTYPE_F32)
        memcpy(e.at, &value, sizeof(value));
    else if (dtype == DTYPE_BF16)
        *(uint16_t *)e.at = (uint16_t)(bits >> 16);
    else if (dtype == DTYPE_I16) {
        *(int16_t *)e.at = some_code(which, D, i);
        *e.scale = (float)(1e-4 + 1e-5 * (double)(i / D % 7));
    } else {
        *e.at = (char)((bits >> 8) % 0x7F | (bits >> 24 & 0x80)); /* any code but NaN */
        *e.scale = (float)(0.005 + 0.0001 * (double)(i / 64 % 7));
    }
}

/* Random keys and values at the positions of a sequence, from the first page that the batch has;
 * all other slots, and the columns beyond D, stay NaN. */
static void fill_cache(struct tensor *kv, const struct batch *b, int seq, enum page_group group)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[seq];
    const int last = BATCH_POSITIONS(b)[s->first_row + s->n_rows - 1];
    const int D = (int)kv->dim[4];

    for (int which = 0; which < 2; which++)
        for (int head = 0; head < kv->dim[2]; head++)
            for (int j = s->first_page[group] * PAGE_TOKENS; j <= last; j++)
                for (int d = 0; d < D; d++) {
                    const int64_t i = (((int64_t)j * 2 + which) * kv->dim[2] + head) * D + d;

                    put_element(naive_element(kv, naive_page(b, seq, group, j), which, head,
                                              j % PAGE_TOKENS, d),
                                kv->dtype, which, D, i + ((int64_t)seq << 40));
                }
}

static struct attn_args some_attn(const struct batch *b, enum dtype dtype, int H, int K, int D)
{
    struct attn_args a = {.att = SHAPED(DTYPE_F32, b->n_rows, H * D),
                          .q = FILLED(1, DTYPE_F32, b->n_rows, H * D),
                          .kv = cache_of(dtype, b->n_pages, K, D),
                          .sinks = FILLED(3, DTYPE_F32, H),
                          .scale = 0.3f,
                          .group = GROUP_WINDOW};

    begin_fill();
    for (int seq = 0; seq < b->n_seqs; seq++)
        fill_cache(&a.kv, b, seq, a.group);
    return a;
}

static void drop_attn(struct attn_args *a)
{
    drop(&a->att), drop(&a->q), drop(&a->kv), drop(&a->sinks);
}

/* A batch of one row of b, in the same pages. */
static struct batch *only_row(const struct batch *b, int row)
{
    const struct batch_counts counts = {.n_rows = 1, .n_seqs = 1, .n_pages = b->n_pages};
    struct batch *one = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(one);

    *seq = BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    seq->first_row = 0;
    seq->n_rows = 1;
    ((int32_t *)BATCH_POSITIONS(one))[0] = BATCH_POSITIONS(b)[row];
    ((int32_t *)BATCH_PHASES(one))[0] = BATCH_PHASES(b)[row];
    memcpy((int32_t *)BATCH_PAGES(one), BATCH_PAGES(b), (size_t)b->n_pages * sizeof(int32_t));
    return one;
}

/* A row alone in a batch must have the same bits as among others. */
static void compare_alone(const struct attn_args *a, const struct batch *b, int row)
{
    const size_t row_bytes = (size_t)a->att.dim[1] * sizeof(float);
    struct batch *one = only_row(b, row);
    struct attn_args alone = *a;

    alone.q = SHAPED(DTYPE_F32, 1, a->q.dim[1]);
    alone.att = SHAPED(DTYPE_F32, 1, a->att.dim[1]);
    memcpy(alone.q.data, row_of(&a->q, row), row_bytes);
    RUN(attn, one, &alone);
    if (memcmp(alone.att.data, row_of(&a->att, row), row_bytes) != 0) {
        printf("    KV %s, window %d, position %d, phase %d: a row alone has different bits\n",
               dtype_name(a->kv.dtype), a->window_tokens, BATCH_POSITIONS(b)[row],
               BATCH_PHASES(b)[row]);
        worst.stage = INFINITY;
    }
    drop(&alone.q), drop(&alone.att);
    free(one);
}

/* A GPU rounds queries and weights of prefill rows to bf16 if pages have 16 bits or less. */
static bool rounds_weights(const struct attn_args *a, const struct batch *b, int row)
{
    return under.is_in_worker && a->kv.dtype != DTYPE_F32 && a->kv.dim[4] == 64 &&
           BATCH_PHASES(b)[row] == PHASE_PREFILL;
}

static void note_codes(double found, double expected)
{
    const double error = fabs(found - expected) / (1 + fabs(expected));

    worst.codes = worst_of(worst.codes, error);
    if (!(error <= CODES_ERROR_MAX))
        worst.stage = INFINITY;
}

static void compare_attn_row(const struct attn_args *a, const struct attn_args *rounded,
                             const struct batch *b, int row)
{
    const int D = (int)a->kv.dim[4], H = (int)(a->q.dim[1] / D);
    const bool is_rounded = rounds_weights(a, b, row);
    const int step = under.is_quick && H > 1 ? H - 1 : 1; /* the oracle takes most of the time */
    double att[256];

    for (int h = 0; h < H; h += step) {
        naive_attend(att, is_rounded ? rounded : a, b, row, h);
        for (int d = 0; d < D; d++) {
            const double found = f32_at(&a->att, (int64_t)row * H * D + h * D + d);

            if (is_rounded)
                worst.weights = worst_of(worst.weights, fabs(found - att[d]) / (1 + fabs(att[d])));
            else if (under.has_codes && a->kv.dtype == DTYPE_I16)
                note_codes(found, att[d]);
            else
                note(found, att[d]);
        }
    }
}

static void compare_attn(const struct attn_args *a, const struct batch *b)
{
    struct attn_args rounded = *a;

    rounded.q = SHAPED(DTYPE_F32, a->q.dim[0], a->q.dim[1]);
    for (int64_t i = 0; i < tensor_elements(&a->q); i++)
        ((float *)rounded.q.data)[i] = (float)naive_round((double)f32_at(&a->q, i), 8, -125);
    for (int row = 0; row < b->n_rows; row++)
        compare_attn_row(a, &rounded, b, row);
    drop(&rounded.q);
}

static void check_attn_case(const struct span *spans, int n_spans, int H, int K, int D,
                            int window_tokens)
{
    struct batch *b = batch_of(spans, n_spans, 1, window_tokens);

    for (int i = 0; i < under.n_kv_types; i++) {
        struct attn_args a = some_attn(b, kv_types[i], H, K, D);

        a.window_tokens = window_tokens;
        ((float *)a.sinks.data)[0] = -INFINITY;
        RUN(attn, b, &a);
        compare_attn(&a, b);
        compare_alone(&a, b, b->n_rows / 2);
        compare_alone(&a, b, b->n_rows - 1);
        drop_attn(&a);
    }
    free(b);
}

void check_attn(void)
{
    static const int windows[] = {0, 128, 1, 5};
    const struct span start = {0, 130}, page = {62, 4}, window = {126, 5}, far = {5000, 9};
    const struct span several[] = {{0, 1}, {63, 1}, {64, 1}, {127, 1}, {128, 1}, {129, 17}};
    const struct span split[] = {{510, 4}, {1023, 1}, {1024, 1}, {700, 1}}; /* split borders */
    /* where a device may divide keys into more or larger splits */
    const struct span isas[] = {{286, 4}, {510, 4}, {1022, 4}, {2047, 2}, {4094, 3}, {8191, 2}};
    const struct span many[] = {{205, 5}, {700, 4}}; /* for row blocks that see all keys of a row */
    const struct span last = {131070, 2};

    if (under.is_quick) { /* with a window, only cases that show its effect */
        check_attn_case(&window, 1, 5, 5, 64, 128);
        check_attn_case(several, 6, 8, 1, 64, 128);
    }
    for (int i = 0; i < (under.is_quick ? 1 : 4); i++) {
        check_attn_case(&start, 1, 2, 2, 32, windows[i]);
        check_attn_case(&page, 1, 8, 1, 64, windows[i]);
        check_attn_case(&window, 1, 5, 5, 64, windows[i]);
        check_attn_case(&window, 1, 14, 2, 18, windows[i]);
        check_attn_case(several, 6, 6, 2, 40, windows[i]);
        check_attn_case(split, 4, 9, 1, 64, windows[i]);
        check_attn_case(&far, 1, 3, 1, 64, windows[i]);
        check_attn_case(isas, 6, 10, 1, 64, windows[i]);
    }
    check_attn_case(many, 2, 32, 32, 64, 0);
    check_attn_case(&last, 1, 8, 1, 64, 128);
    check_attn_case(under.is_quick ? &far : &last, 1, 2, 1, 16, 0);
    if (worst.weights > 0)
        printf("attention with rounded weights: error %.2g, limit %g\n", worst.weights,
               WEIGHTS_ERROR_MAX);
    note_wrong("attention with rounded weights", worst.weights <= WEIGHTS_ERROR_MAX, true);
}

void time_attn(int T)
{
    struct batch *b = batch_of(&(struct span){CONTEXT - T, T}, 1, 1, 0);
    struct attn_args a = some_attn(b, under.kv_timed, H20, K20, D20);

    a.scale = 0.125f;
    RUN(attn, b, &a);
    drop_attn(&a);
    free(b);
}
