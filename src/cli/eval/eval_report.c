/* Computes scores and prints them. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "cli/eval/eval.h"

enum { REPORT_BYTES_MAX = 1 << 20 };

/* ---- scores ---- */

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

static double median(int *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, compare_ints);
    return (values[(n - 1) / 2] + values[n / 2]) / 2.0;
}

/* Median reasoning length of arithmetic prompts at one effort. */
static double median_reasoning(const struct eval_tasks *tasks, const struct eval_result *results,
                               const char *effort)
{
    int *lengths = mem_new(tasks->n * sizeof *lengths);
    size_t n = 0;
    double middle;

    for (size_t i = 0; i < tasks->n; i++)
        if (tasks->tasks[i].ability == ABILITY_arithmetic &&
            strcmp(tasks->tasks[i].effort, effort) == 0)
            lengths[n++] = results[i].n_reasoning_tokens;
    middle = median(lengths, n);
    free(lengths);
    return middle;
}

static double percent(int part, int whole)
{
    return whole > 0 ? 100.0 * part / whole : 0.0;
}

static double mean_percent(const struct eval_score *s)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < N_ABILITIES; i++) {
        sum += percent(s->n_right[i], s->n[i]);
        n += s->n[i] > 0;
    }
    return n > 0 ? sum / n : 0;
}

struct eval_score eval_score_of(const struct eval_tasks *tasks, const struct eval_result *results)
{
    struct eval_score s = {.n_all = (int)tasks->n};

    for (size_t i = 0; i < tasks->n; i++) {
        s.n[tasks->tasks[i].ability]++;
        s.n_right[tasks->tasks[i].ability] += results[i].right;
        s.n_ended_right += results[i].ended_right;
    }
    s.mean_percent = mean_percent(&s);
    s.median_low = median_reasoning(tasks, results, "low");
    s.median_high = median_reasoning(tasks, results, "high");
    return s;
}

static double reasoning_percent(const struct eval_score *s)
{
    return s->median_low > 0 ? 100.0 * s->median_high / s->median_low : 0.0;
}

static double sinks_points(const struct eval_report *r)
{
    return r->with_sinks->mean_percent - r->without_sinks->mean_percent;
}

/* ---- targets ---- */

/* One row of a report: a measured value and its target. */
struct row {
    const char *name, *text;
    int n, n_right; /* n 0: the value is not a share of prompts */
    double value, target;
    const char *unit;
};

enum { ROWS_MAX = N_ABILITIES + 3 };

static int ability_rows(struct row *rows, const struct eval_score *s)
{
    int n = 0;

    for (int i = 0; i < N_ABILITIES; i++)
        if (s->n[i] > 0)
            rows[n++] = (struct row){
                .name = ABILITIES[i].name,
                .text = ABILITIES[i].text,
                .n = s->n[i],
                .n_right = s->n_right[i],
                .value = percent(s->n_right[i], s->n[i]),
                .target = ABILITIES[i].target_percent,
                .unit = "%",
            };
    rows[n++] = (struct row){
        .name = "ending",
        .text = "correct control token at the end",
        .n = s->n_all,
        .n_right = s->n_ended_right,
        .value = percent(s->n_ended_right, s->n_all),
        .target = ENDING_TARGET_PERCENT,
        .unit = "%",
    };
    return n;
}

static int report_rows(struct row rows[ROWS_MAX], const struct eval_report *r)
{
    const struct eval_score *s = r->with_sinks != NULL ? r->with_sinks : r->without_sinks;
    int n = ability_rows(rows, s);

    if (s->median_low > 0 && s->median_high > 0)
        rows[n++] = (struct row){
            .name = "reasoning",
            .text = "length at high / low effort",
            .value = reasoning_percent(s),
            .target = REASONING_TARGET_PERCENT,
            .unit = "%",
        };
    if (r->with_sinks != NULL && r->without_sinks != NULL)
        rows[n++] = (struct row){
            .name = "sinks",
            .text = "drop of the mean without sinks",
            .value = sinks_points(r),
            .target = SINKS_TARGET_POINTS,
            .unit = "points",
        };
    return n;
}

static bool is_met(const struct row *row)
{
    return row->value >= row->target;
}

bool eval_targets_met(const struct eval_report *r)
{
    struct row rows[ROWS_MAX];
    int n = report_rows(rows, r);

    for (int i = 0; i < n; i++)
        if (!is_met(&rows[i]))
            return false;
    return true;
}

/* ---- text ---- */

static void print_row(FILE *out, const struct row *row)
{
    char share[32] = "";

    if (row->n > 0)
        snprintf(share, sizeof share, "%d/%d", row->n_right, row->n);
    fprintf(out, "%-12s %-32s %9s %7.1f %-6s %4.0f  %s\n", row->name, row->text, share, row->value,
            row->unit, row->target, is_met(row) ? "yes" : "NO");
}

void eval_print_table(FILE *out, const struct eval_report *r)
{
    const struct eval_score *s = r->with_sinks != NULL ? r->with_sinks : r->without_sinks;
    struct row rows[ROWS_MAX];
    int n = report_rows(rows, r);

    fprintf(out, "%s on %s%s\n\n", r->model->name, r->model->device,
            r->with_sinks == NULL ? ", attention without sinks" : "");
    fprintf(out, "%-12s %-32s %9s %7s %-6s %4s  %s\n", "ability", "", "right", "", "", "target",
            "met");
    for (int i = 0; i < n; i++)
        print_row(out, &rows[i]);
    fprintf(out, "\nmean of the abilities: %.1f %%", s->mean_percent);
    if (r->with_sinks != NULL && r->without_sinks != NULL)
        fprintf(out, "; without sinks: %.1f %%", r->without_sinks->mean_percent);
    fprintf(out,
            "\nreasoning of arithmetic prompts, median tokens: %.0f at low effort, %.0f at high\n",
            s->median_low, s->median_high);
    fprintf(out, "%d prompts per pass, %.0f s\n", s->n_all, r->seconds);
}

/* ---- JSON ---- */

static void json_rows(struct buf *b, const struct row *rows, int n)
{
    for (int i = 0; i < n; i++) {
        const struct row *row = &rows[i];

        buf_printf(b, "%s\n    {\"name\": \"%s\", ", i > 0 ? "," : "", row->name);
        if (row->n > 0)
            buf_printf(b, "\"n\": %d, \"right\": %d, ", row->n, row->n_right);
        buf_printf(b, "\"value\": %.2f, \"unit\": \"%s\", \"target\": %.0f, \"met\": %s}",
                   row->value, row->unit, row->target, is_met(row) ? "true" : "false");
    }
}

static void json_model(struct buf *b, const struct osp_model_info *m)
{
    buf_puts(b, "{\n  \"osprey\": \"" OSP_VERSION "\",\n  \"model\": ");
    buf_json_string(b, m->name, strlen(m->name));
    buf_puts(b, ",\n  \"device\": ");
    buf_json_string(b, m->device, strlen(m->device));
    buf_printf(b, ",\n  \"threads\": %d,\n", m->n_threads);
}

static void json_score(struct buf *b, const char *name, const struct eval_score *s)
{
    struct row rows[ROWS_MAX];

    buf_printf(b, "  \"%s\": {\"mean_percent\": %.2f, \"median_reasoning_tokens_low\": %.1f, ",
               name, s->mean_percent, s->median_low);
    buf_printf(b, "\"median_reasoning_tokens_high\": %.1f, \"abilities\": [", s->median_high);
    json_rows(b, rows, ability_rows(rows, s));
    buf_puts(b, "]},\n");
}

void eval_print_json(FILE *out, const struct eval_report *r)
{
    struct row rows[ROWS_MAX];
    struct buf b;

    buf_init(&b, REPORT_BYTES_MAX);
    json_model(&b, r->model);
    buf_puts(&b, "  \"table\": [");
    json_rows(&b, rows, report_rows(rows, r));
    buf_puts(&b, "],\n");
    if (r->with_sinks != NULL)
        json_score(&b, "with_sinks", r->with_sinks);
    if (r->without_sinks != NULL)
        json_score(&b, "without_sinks", r->without_sinks);
    buf_printf(&b, "  \"targets_met\": %s,\n  \"seconds\": %.1f\n}\n",
               eval_targets_met(r) ? "true" : "false", r->seconds);
    fputs(buf_text(&b), out);
    buf_release(&b);
}
