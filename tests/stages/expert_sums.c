/* Checks the integer sums of the experts of decode rows (cuda/common/expert_sums.h), in a program of
 * router, experts and residual, whose kernels are those of a model's step. Residuals are of 1e5 and
 * outputs of the experts of 3.4e4. A row must have the same bits in steps of any number of rows,
 * and with prefill rows behind it; and it must not hide what is not finite: in a bias or a scale of
 * w_up, which makes rows at that expert NaN, or of w_down, which makes a column NaN. */
#include "stages/harness.h"

#include "backend/residual_sum.h"

enum {
    ROWS = 224, /* by the kernels of many rows, which smaller steps do not have */
    EXPERTS = 8,
    RANKS = 4,
    ENTRIES = ROWS * RANKS,
    COLUMNS = 128,
    UNITS = 576, /* nine units of 64 columns: four slices of two, and one */
    BAD_EXPERT = 3,
    BAD_COLUMN = 77,
    BAD_ROWS = 16, /* of w_up */
    ROWS_COMPARED = 6,
    NAN_SCALE = 255
};

/* RMS of the errors / RMS of the values: rows and units are rounded to FP16, by up to 2^-11 of
 * each, and SwiGLU may double that. Rounding to integers adds less than a hundredth of it. */
static const double SUM_ERROR_MAX = 2e-3;

struct chain {
    struct router_args router;
    struct experts_args experts;
    struct residual_rmsnorm_args residual;
};

static struct chain some_chain(void)
{
    const struct tensor ids = SHAPED(DTYPE_I32, ROWS, RANKS),
                        gates = SHAPED(DTYPE_F32, ROWS, RANKS);
    const struct tensor x = FILLED(6e4, DTYPE_F32, ROWS, COLUMNS);
    const struct tensor y = FILLED(1, DTYPE_F32, ROWS, COLUMNS);
    const struct tensor h = SHAPED(DTYPE_F32, ROWS, COLUMNS);

    return (struct chain){
        .router = {.ids = ids,
                   .gates = gates,
                   .y = y,
                   .wr = FILLED(2 / sqrt(COLUMNS), DTYPE_BF16, EXPERTS, COLUMNS),
                   .br = FILLED(0.5, DTYPE_BF16, EXPERTS),
                   .router_logits = SHAPED(DTYPE_F32, ROWS, EXPERTS)},
        .experts = {.h = h,
                    .y = y,
                    .ids = ids,
                    .gates = gates,
                    .w_up = FILLED(4 / sqrt(COLUMNS), DTYPE_MXFP4, EXPERTS, 2 * UNITS, COLUMNS),
                    .b_up = FILLED(1, DTYPE_BF16, EXPERTS, 2 * UNITS),
                    .w_down = FILLED(300, DTYPE_MXFP4, EXPERTS, COLUMNS, UNITS),
                    .b_down = FILLED(100, DTYPE_BF16, EXPERTS, COLUMNS),
                    .limit = 7,
                    .alpha = 1.702f,
                    .slice_units = expert_units_per_slice(UNITS),
                    .units = SHAPED(DTYPE_F32, ROWS * RANKS, UNITS),
                    .parts = SHAPED(DTYPE_F32, ROWS * RANKS, COLUMNS)},
        .residual = {.x = x, .y = y, .h = h, .norm = FILLED(1, DTYPE_F32, COLUMNS), .eps = 1e-5f}};
}

static void drop_chain(struct chain *c)
{
    struct tensor *all[] = {&c->router.ids,     &c->router.gates,   &c->router.y,
                            &c->router.wr,      &c->router.br,      &c->router.router_logits,
                            &c->experts.h,      &c->experts.w_up,   &c->experts.b_up,
                            &c->experts.w_down, &c->experts.b_down, &c->experts.units,
                            &c->experts.parts,  &c->residual.x,     &c->residual.norm};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        drop(all[i]);
}

/* With the weights on the device, which keeps them. */
static struct chain chain_there(const struct chain *host)
{
    struct chain c = *host;

    c.router.wr = packed(&host->router.wr);
    c.router.br = packed(&host->router.br);
    c.experts.w_up = packed(&host->experts.w_up);
    c.experts.b_up = packed(&host->experts.b_up);
    c.experts.w_down = packed(&host->experts.w_down);
    c.experts.b_down = packed(&host->experts.b_down);
    c.residual.norm = packed(&host->residual.norm);
    return c;
}

/* ---- a step ---- */

struct step {
    int first, n, n_decode; /* rows of the chain */
    float *x;               /* (n, COLUMNS): out */
};

/* Rows [first, first + n) of t on the device. */
static struct tensor rows_there(struct mem *mem, const struct tensor *t, int first, int n)
{
    struct tensor there = *t;
    const int64_t row_bytes = tensor_bytes(t) / t->dim[0];

    there.dim[0] = n;
    must(under.ops->alloc(under.device, mem, (size_t)(n * row_bytes)));
    there.data = mem->data;
    must(under.ops->write(under.device, there.data, (const char *)t->data + first * row_bytes,
                          (size_t)(n * row_bytes)));
    return there;
}

enum { ACTIVATIONS = 8 };

static struct chain step_chain(struct mem mem[ACTIVATIONS], const struct chain *c,
                               const struct step *s)
{
    struct chain there = *c;

    there.residual.x = rows_there(&mem[0], &c->residual.x, s->first, s->n);
    there.router.y = rows_there(&mem[1], &c->router.y, s->first, s->n);
    there.router.ids = rows_there(&mem[2], &c->router.ids, s->first, s->n);
    there.router.gates = rows_there(&mem[3], &c->router.gates, s->first, s->n);
    there.router.router_logits = rows_there(&mem[4], &c->router.router_logits, s->first, s->n);
    there.experts.h = rows_there(&mem[5], &c->experts.h, s->first, s->n);
    there.experts.units = rows_there(&mem[6], &c->experts.units, 0, s->n * RANKS);
    there.experts.parts = rows_there(&mem[7], &c->experts.parts, 0, s->n * RANKS);
    there.experts.y = there.residual.y = there.router.y;
    there.experts.ids = there.router.ids;
    there.experts.gates = there.router.gates;
    there.residual.h = there.experts.h;
    return there;
}

static void run_step(const struct chain *c, const struct step *s)
{
    struct mem mem[ACTIVATIONS] = {{0}};
    const struct chain there = step_chain(mem, c, s);
    struct batch *b = rows_batch(s->n, 1);
    struct program p = {0};
    struct compiled *compiled;
    uint64_t ticket;

    for (int i = 0; i < s->n; i++)
        ((int32_t *)(uintptr_t)BATCH_PHASES(b))[i] = i < s->n_decode ? PHASE_DECODE : PHASE_PREFILL;
    must(PROGRAM_ADD(&p, router, 0, there.router));
    must(PROGRAM_ADD(&p, experts, 0, there.experts));
    must(PROGRAM_ADD(&p, residual_rmsnorm, 0, there.residual));
    program_tap(&p, &there.residual.x);
    program_end(&p);
    must(under.ops->compile(under.device, &p, &compiled));
    must(under.ops->run(under.device, compiled, b, &ticket));
    must(under.ops->step_wait(under.device, ticket));
    must(under.ops->read(under.device, s->x, there.residual.x.data,
                         (size_t)s->n * COLUMNS * sizeof(float)));
    under.ops->release_program(under.device, compiled);
    for (int i = 0; i < ACTIVATIONS; i++)
        under.ops->release(under.device, &mem[i]);
    program_free(&p);
    free(b);
}

/* ---- values ---- */

/* The experts of row t, by falling logit, and their gates. */
static void route_row(const struct chain *c, int t, int ids[RANKS], double gates[RANKS])
{
    double z[EXPERTS], total = 0;

    for (int e = 0; e < EXPERTS; e++)
        z[e] = naive_dot(&c->router.wr, 0, e, row_of(&c->router.y, t)) + naive_at(&c->router.br, e);
    for (int i = 0; i < RANKS; i++) {
        int best = 0;

        for (int e = 1; e < EXPERTS; e++)
            best = z[e] > z[best] ? e : best;
        ids[i] = best;
        gates[i] = exp(z[best]);
        total += gates[i];
        z[best] = -INFINITY;
    }
    for (int i = 0; i < RANKS; i++)
        gates[i] /= total;
}

static bool is_at(const struct chain *c, int t, int expert)
{
    int ids[RANKS];
    double gates[RANKS];
    bool is_there = false;

    route_row(c, t, ids, gates);
    for (int i = 0; i < RANKS; i++)
        is_there = is_there || ids[i] == expert;
    return is_there;
}

/* The first rows against sums in double. */
static void compare_rows(const struct chain *c, const float *x)
{
    double errors = 0, values = 0, largest = 0, sum[COLUMNS], part[COLUMNS], gates[RANKS];
    int ids[RANKS];

    for (int t = 0; t < ROWS_COMPARED; t++) {
        memset(sum, 0, sizeof(sum));
        route_row(c, t, ids, gates);
        for (int i = 0; i < RANKS; i++) {
            naive_expert(part, &c->experts, ids[i], row_of(&c->router.y, t));
            for (int k = 0; k < COLUMNS; k++)
                sum[k] += gates[i] * part[k];
        }
        for (int k = 0; k < COLUMNS; k++) {
            const double error =
                (double)x[t * COLUMNS + k] - ((double)row_of(&c->residual.x, t)[k] + sum[k]);

            errors += error * error;
            values += sum[k] * sum[k];
            largest = fabs(sum[k]) > largest ? fabs(sum[k]) : largest;
        }
    }
    if (!(sqrt(errors / values) <= SUM_ERROR_MAX))
        note_wrong("integer sums: parts in 1,000,000 of error",
                   (int64_t)(1e6 * sqrt(errors / values)), (int64_t)(1e6 * SUM_ERROR_MAX));
    if (largest < 3.4e4)
        note_wrong("integer sums: the largest is too small for the test", (int64_t)largest, 34000);
}

static int rows_different(const float *have, const float *want, int n)
{
    int n_different = 0;

    for (int t = 0; t < n; t++)
        n_different += memcmp(have + t * COLUMNS, want + t * COLUMNS, COLUMNS * sizeof(float)) != 0;
    return n_different;
}

/* Steps of several sizes, with and without prefill rows, against rows that ran together. */
static void check_bits(const struct chain *c, const float *want)
{
    static const struct step steps[] = {{0, 1, 1, NULL},     {129, 1, 1, NULL},  {7, 2, 2, NULL},
                                        {20, 4, 4, NULL},    {3, 5, 5, NULL},    {60, 65, 65, NULL},
                                        {10, 20, 1, NULL},   {31, 24, 4, NULL},  {50, 80, 40, NULL},
                                        {9, 130, 130, NULL}, {4, 220, 210, NULL}};
    float x[ROWS * COLUMNS];

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct step s = steps[i];

        s.x = x;
        run_step(c, &s);
        note_wrong("integer sums: rows with other bits in another step",
                   rows_different(x, want + s.first * COLUMNS, s.n_decode), 0);
    }
}

/* ---- not finite ---- */

enum place { IN_B_UP, IN_W_UP, IN_W_DOWN, IN_B_DOWN, N_PLACES };

/* Puts NaN into a weight of the chain, or takes it back: XOR. */
static void toggle(const struct chain *c, enum place place)
{
    static uint8_t scales[BAD_ROWS * COLUMNS / MXFP4_BLOCK + UNITS];
    static uint16_t bias;
    const size_t n_up = BAD_ROWS * COLUMNS / MXFP4_BLOCK;
    uint8_t *up = (uint8_t *)(uintptr_t)c->experts.w_up.scales +
                  (size_t)BAD_EXPERT * 2 * UNITS * COLUMNS / MXFP4_BLOCK;
    uint8_t *down = (uint8_t *)(uintptr_t)c->experts.w_down.scales +
                    ((size_t)BAD_EXPERT * COLUMNS + BAD_COLUMN) * UNITS / MXFP4_BLOCK;
    uint16_t *b = place == IN_B_UP
                      ? (uint16_t *)c->experts.b_up.data + (BAD_EXPERT * 2 * UNITS + 100)
                      : (uint16_t *)c->experts.b_down.data + (BAD_EXPERT * COLUMNS + BAD_COLUMN);
    uint8_t *bytes = place == IN_W_UP ? up : down;
    const size_t n = place == IN_W_UP ? n_up : 1;

    if (place == IN_B_UP || place == IN_B_DOWN) {
        bias = *b == 0x7FC0 ? bias : *b;
        *b = *b == 0x7FC0 ? bias : 0x7FC0;
        return;
    }
    if (bytes[0] != NAN_SCALE)
        memcpy(scales, bytes, n);
    if (bytes[0] != NAN_SCALE)
        memset(bytes, NAN_SCALE, n);
    else
        memcpy(bytes, scales, n);
}

/* Whether the row must be NaN in this column. */
static bool is_bad(const struct chain *c, enum place place, int t, int column)
{
    if (place == IN_B_UP || place == IN_W_UP)
        return is_at(c, t, BAD_EXPERT);
    return column == BAD_COLUMN;
}

static int count_wrong(const struct chain *c, enum place place, const struct step *s,
                       const float *want)
{
    int n_wrong = 0;

    for (int t = 0; t < s->n_decode; t++)
        for (int k = 0; k < COLUMNS; k++) {
            const float have = s->x[t * COLUMNS + k];

            n_wrong += is_bad(c, place, s->first + t, k)
                           ? !isnan(have)
                           : have != want[(s->first + t) * COLUMNS + k];
        }
    return n_wrong;
}

static void check_not_finite(const struct chain *host, const struct chain *clean, const float *want)
{
    static const struct step steps[] = {{0, 1, 1, NULL},
                                        {0, 4, 4, NULL},
                                        {0, 40, 40, NULL},
                                        {0, 20, 9, NULL},
                                        {0, ROWS, ROWS, NULL}};
    float x[ROWS * COLUMNS];

    for (int place = 0; place < N_PLACES; place++) {
        struct chain bad;

        toggle(host, (enum place)place);
        bad = chain_there(host);
        toggle(host, (enum place)place);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            struct step s = steps[i];

            s.x = x;
            run_step(&bad, &s);
            note_wrong("integer sums: numbers that are wrong beside NaN",
                       count_wrong(host, (enum place)place, &s, want), 0);
            run_step(clean, &s);
            note_wrong("integer sums: rows with other bits after NaN",
                       rows_different(x, want + s.first * COLUMNS, s.n_decode), 0);
        }
    }
}

void check_expert_sums(void)
{
    struct chain host = some_chain(), there = chain_there(&host);
    float *want = alloc_poisoned((int64_t)ROWS * COLUMNS * (int64_t)sizeof(float));

    run_step(&there, &(struct step){0, ROWS, ROWS, want});
    compare_rows(&host, want);
    check_bits(&there, want);
    check_not_finite(&host, &there, want);
    free(want);
    drop_chain(&host);
}
