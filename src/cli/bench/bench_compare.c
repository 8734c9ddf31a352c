/* Compares two results: speeds that differ by more than 3 %, memory by more than 1 GB. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "cli/bench/bench.h"

static const double SPEED_PERCENT = 3, MEMORY_BYTES = 1e9;

enum change { CHANGE_NONE, CHANGE_BETTER, CHANGE_WORSE };

static const char *const CHANGE_SIGNS[] = {"", "better", "**WORSE**"};

static enum change speed_change(double before, double after)
{
    double percent = before > 0 ? 100 * (after / before - 1) : 0;

    if (fabs(percent) <= SPEED_PERCENT)
        return CHANGE_NONE;
    return percent > 0 ? CHANGE_BETTER : CHANGE_WORSE;
}

static const struct saved_row *find_row(const struct saved_bench *b, const struct bench_case *c)
{
    for (int i = 0; i < b->n_rows; i++)
        if (memcmp(&b->rows[i].c, c, sizeof *c) == 0)
            return &b->rows[i];
    return NULL;
}

static int compare_speed(FILE *out, const char *test, double before, double after)
{
    enum change change = speed_change(before, after);

    if (before <= 0 && after <= 0)
        return 0;
    if (before > 0 && after <= 0)
        change = CHANGE_WORSE; /* the second result has a failure */
    fprintf(out, "| %s | %.2f | %.2f | %+.1f %% | %s |\n", test, before, after,
            before > 0 ? 100 * (after / before - 1) : 0.0, CHANGE_SIGNS[change]);
    return change == CHANGE_WORSE;
}

static int compare_row(FILE *out, const struct saved_row *a, const struct saved_row *b)
{
    const struct bench_case *c = &a->c;
    char pp[96], tg[96];

    snprintf(pp, sizeof pp, "pp%d @ d%d (c%d), t/s", c->pp_tokens, c->depth_tokens, c->concurrency);
    snprintf(tg, sizeof tg, "tg%d after pp%d @ d%d (c%d), t/s", c->tg_tokens, c->pp_tokens,
             c->depth_tokens, c->concurrency);
    return compare_speed(out, pp, a->pp, b->pp) + compare_speed(out, tg, a->tg, b->tg);
}

static int compare_memory(FILE *out, const struct saved_bench *a, const struct saved_bench *b)
{
    double more = (double)(b->peak_bytes - a->peak_bytes);
    enum change change = CHANGE_NONE;
    char before[16], after[16];

    if (a->peak_bytes == 0 || b->peak_bytes == 0)
        return 0;
    if (fabs(more) > MEMORY_BYTES)
        change = more > 0 ? CHANGE_WORSE : CHANGE_BETTER;
    fprintf(out, "| peak memory | %s | %s | %+.2f GB | %s |\n",
            format_bytes(before, (double)a->peak_bytes), format_bytes(after, (double)b->peak_bytes),
            more * 1e-9, CHANGE_SIGNS[change]);
    return change == CHANGE_WORSE;
}

/* Printed without a verdict: whether a change is acceptable depends on the configuration. */
static void compare_others(FILE *out, const struct saved_bench *a, const struct saved_bench *b)
{
    if (a->ready_seconds > 0 && b->ready_seconds > 0)
        fprintf(out, "| time until ready, s | %.2f | %.2f | %+.2f | |\n", a->ready_seconds,
                b->ready_seconds, b->ready_seconds - a->ready_seconds);
    if (!a->has_quality || !b->has_quality)
        return;
    fprintf(out, "| perplexity | %.4f | %.4f | %+.4f | |\n", a->perplexity, b->perplexity,
            b->perplexity - a->perplexity);
    fprintf(out, "| KL mean | %.3g | %.3g | %+.3g | |\n", a->kl_mean, b->kl_mean,
            b->kl_mean - a->kl_mean);
}

int bench_compare(FILE *out, const struct saved_bench *a, const struct saved_bench *b)
{
    int n_worse = 0, n_alone = 0;

    fprintf(out, "| test | %s | %s | change | |\n|:---|---:|---:|---:|:---|\n", a->label, b->label);
    for (int i = 0; i < a->n_rows; i++) {
        const struct saved_row *same = find_row(b, &a->rows[i].c);

        if (same != NULL)
            n_worse += compare_row(out, &a->rows[i], same);
        n_alone += same == NULL;
    }
    for (int i = 0; i < b->n_rows; i++)
        n_alone += find_row(a, &b->rows[i].c) == NULL;
    n_worse += compare_memory(out, a, b);
    compare_others(out, a, b);
    if (strcmp(a->model, b->model) != 0)
        fprintf(out, "\nThe results are of two models: %s and %s.\n", a->model, b->model);
    if (n_alone > 0)
        fprintf(out, "\n%d tests are in only one of the results.\n", n_alone);
    fprintf(out, "\n%d regression%s (speed by more than %.0f %%, or memory by more than 1 GB).\n",
            n_worse, n_worse == 1 ? "" : "s", SPEED_PERCENT);
    return n_worse;
}
