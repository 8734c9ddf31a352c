/* Checks stage experts with several distributions of tokens, and each dtype and layout of
 * weights. */
#include "stages/harness.h"

#include "backend/residual_sum.h"

/* The routing: all tokens to the same experts, experts without tokens, or random. */
enum spread { SPREAD_ONE, SPREAD_EVEN, SPREAD_RANDOM, N_SPREADS };

static int32_t chosen(enum spread spread, int token, int rank, int E)
{
    const int start = spread == SPREAD_ONE ? E - 1
                      : spread == SPREAD_EVEN
                          ? 2 * token
                          : (int)(rng_bits(5, (uint64_t)token, 0) % (uint64_t)E);

    return (int32_t)((start + rank) % E);
}

/* The same stage with the device's own weights. */
static struct experts_args on_device(const struct experts_args *host)
{
    struct experts_args a = *host;

    a.w_up = packed(&host->w_up);
    a.w_down = packed(&host->w_down);
    return a;
}

static struct experts_args some_experts(int T, int E, int A, int C, int F, enum dtype dtype)
{
    return (struct experts_args){.h = SHAPED(DTYPE_F32, T, C),
                                 .y = FILLED(1, DTYPE_F32, T, C),
                                 .ids = SHAPED(DTYPE_I32, T, A),
                                 .gates = FILLED(0.5, DTYPE_F32, T, A),
                                 .w_up = FILLED(4.0 / sqrt(C), dtype, E, 2 * F, C),
                                 .b_up = FILLED(1, DTYPE_BF16, E, 2 * F),
                                 .w_down = FILLED(1.0 / sqrt(F), dtype, E, C, F),
                                 .b_down = FILLED(1, DTYPE_BF16, E, C),
                                 .limit = 7,
                                 .alpha = 1.702f,
                                 .slice_units = under.ops->shard_rule == SHARD_FOR_GPU
                                                    ? gpu_expert_units_per_slice(F)
                                                    : expert_units_per_slice(F),
                                 .units = SHAPED(DTYPE_F32, T * A, F),
                                 .parts = SHAPED(DTYPE_F32, T * A, C)};
}

/* Gates as a softmax leaves them: not negative, and 1 in all. */
static void normalize_gates(struct tensor *gates)
{
    const int64_t T = gates->dim[0], A = gates->dim[1];

    for (int64_t t = 0; t < T; t++) {
        float *row = (float *)gates->data + t * A, sum = 0;

        for (int64_t i = 0; i < A; i++)
            sum += row[i] = fabsf(row[i]);
        for (int64_t i = 0; i < A; i++)
            row[i] /= sum;
    }
}

static void drop_experts(struct experts_args *a)
{
    drop(&a->h), drop(&a->y), drop(&a->ids), drop(&a->gates), drop(&a->w_up), drop(&a->b_up);
    drop(&a->w_down), drop(&a->b_down), drop(&a->units), drop(&a->parts);
}

/* Sums of squares. */
struct squares {
    double errors, values;
};

static void compare_experts(const struct experts_args *a, int t, struct squares *squares)
{
    const int A = (int)a->ids.dim[1], C = (int)a->h.dim[1];
    double sum[BLOCK_MAX] = {0}, part[BLOCK_MAX];

    for (int i = 0; i < A; i++) {
        naive_expert(part, a, ((const int32_t *)a->ids.data)[t * A + i], row_of(&a->y, t));
        for (int c = 0; c < C; c++)
            sum[c] += (double)f32_at(&a->gates, t * A + i) * part[c];
    }
    for (int c = 0; c < C; c++) {
        const double found = f32_at(&a->h, t * C + c);

        if (squares == NULL)
            note(found, sum[c]);
        else
            squares->errors += (found - sum[c]) * (found - sum[c]),
                squares->values += sum[c] * sum[c];
    }
}

/* The relative error of a case, for rows of each phase. */
static void note_squares(const struct squares s[2])
{
    for (int phase = 0; phase < 2; phase++) {
        const bool is_coarse = under.is_mxfp8 && phase == PHASE_PREFILL;
        const double error = s[phase].values > 0 ? sqrt(s[phase].errors / s[phase].values) : 0;
        double *largest = is_coarse ? &worst.mxfp8 : &worst.int8;

        *largest = worst_of(*largest, error);
        if (!(error <= (is_coarse ? MXFP8_ERROR_MAX : RELATIVE_ERROR_MAX)))
            worst.stage = INFINITY;
    }
}

static void check_experts_case(int T, int E, int A, int C, int F, enum dtype dtype,
                               enum tensor_layout layout, enum spread spread)
{
    struct batch *b = rows_batch(T, 1);
    struct experts_args a = some_experts(T, E, A, C, F, dtype);

    const bool is_rounded = under.has_rounding && (under.is_in_worker || layout == LAYOUT_ROWS);
    const bool is_coarse = dtype == DTYPE_MXFP4 ? under.has_int8 : is_rounded;
    struct squares squares[2] = {{0}}; /* of rows of each phase */
    struct experts_args ours;

    a.w_up.layout = a.w_down.layout = layout;
    normalize_gates(&a.gates);
    for (int i = 0; i < T * A; i++)
        ((int32_t *)a.ids.data)[i] = chosen(spread, i / A, i % A, E);
    ours = on_device(&a);
    RUN(experts, b, &ours);
    for (int t = 0; t < T; t++)
        compare_experts(&a, t, is_coarse ? &squares[BATCH_PHASES(b)[t]] : NULL);
    if (is_coarse)
        note_squares(squares);
    drop_experts(&a);
    free(b);
}

void check_experts(void)
{
    for (int i = 0; i < under.n_row_counts; i++)
        for (int spread = 0; spread < N_SPREADS; spread++) {
            const int T = under.row_counts[i];

            check_experts_case(T, 5, 2, 64, 32, DTYPE_MXFP4, LAYOUT_ROWS, (enum spread)spread);
            if (T > 17)
                continue;
            check_experts_case(T, 3, 1, 36, 36, DTYPE_BF16, LAYOUT_COLUMNS, (enum spread)spread);
            check_experts_case(T, 4, 4, 33, 21, DTYPE_BF16, LAYOUT_ROWS, (enum spread)spread);
            check_experts_case(T, 6, 3, 64, 160, DTYPE_MXFP4, LAYOUT_ROWS, (enum spread)spread);
        }
    if (under.is_in_worker && under.mixture == ALL_GENERATED)
        check_expert_sums();
}

void time_experts(int T)
{
    const int E = T == 1 ? A20 : E20; /* one token reads four experts */
    struct batch *b = rows_batch(T, 1);
    struct experts_args a = some_experts(T, E, A20, C20, F20, DTYPE_MXFP4), ours;

    for (int i = 0; i < T * A20; i++)
        ((int32_t *)a.ids.data)[i] = chosen(SPREAD_RANDOM, i / A20, i % A20, E);
    ours = on_device(&a);
    RUN(experts, b, &ours);
    drop_experts(&a);
    free(b);
}
