#include "cli/eval/eval_drafts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { REPORT_BYTES_MAX = 1 << 16 };

/* ---- running ---- */

/* The tasks of an ability, which stay owned by `all`. */
static struct eval_tasks select_tasks(const struct eval_tasks *all, enum ability ability)
{
    struct eval_tasks some = {.tasks = mem_new((all->n + 1) * sizeof *some.tasks)};

    for (size_t i = 0; i < all->n; i++)
        if (all->tasks[i].ability == ability)
            some.tasks[some.n++] = all->tasks[i];
    return some;
}

static enum osp_status run_ability(struct eval_drafts *out, const struct eval_tasks *tasks,
                                   struct osp_model *model, struct eval_run_options *opt)
{
    struct eval_result *results = mem_new((tasks->n + 1) * sizeof *results);
    enum osp_status st;

    opt->drafts = &out->stats;
    st = eval_run(results, tasks, model, opt);
    out->n = (int)tasks->n;
    free(results);
    return st;
}

enum osp_status eval_drafts_run(struct eval_drafts out[N_ABILITIES], const struct eval_tasks *tasks,
                                struct osp_model *model, const struct osp_speculative *speculative,
                                bool progress)
{
    struct osp_engine_options engine = {.speculative = *speculative};
    struct eval_run_options opt = {.progress = progress, .engine = &engine};
    enum osp_status st = OSP_OK;

    engine.speculative.always = true;
    for (int i = 0; i < N_ABILITIES; i++) {
        struct eval_tasks some = select_tasks(tasks, (enum ability)i);

        out[i] = (struct eval_drafts){.n = 0};
        opt.what = ABILITIES[i].name;
        if (some.n > 0)
            st = run_ability(&out[i], &some, model, &opt);
        free(some.tasks);
        TRY(st);
    }
out:
    return st;
}

/* ---- printing ---- */

static double mean_length(const struct osp_draft_stats *s)
{
    return s->n_proposals == 0 ? 1 : 1 + (double)s->n_accepted_tokens / (double)s->n_proposals;
}

/* Of the drafts whose predecessors were all accepted, the percentage that was accepted, too. */
static double percent_at(const struct osp_draft_stats *s, int position)
{
    const int64_t n = position == 0 ? s->n_proposals : s->n_accepted_at[position - 1];

    return n == 0 ? 0 : 100.0 * (double)s->n_accepted_at[position] / (double)n;
}

static struct eval_drafts sum_of(const struct eval_drafts all[N_ABILITIES])
{
    struct eval_drafts sum = {.n = 0};

    for (int i = 0; i < N_ABILITIES; i++) {
        sum.n += all[i].n;
        sum.stats.n_proposals += all[i].stats.n_proposals;
        sum.stats.n_draft_tokens += all[i].stats.n_draft_tokens;
        sum.stats.n_accepted_tokens += all[i].stats.n_accepted_tokens;
        for (int k = 0; k < OSP_DRAFTS_MAX; k++)
            sum.stats.n_accepted_at[k] += all[i].stats.n_accepted_at[k];
    }
    return sum;
}

static void print_row(FILE *out, const char *name, const struct eval_drafts *d, int n_drafts)
{
    fprintf(out, "%-12s %7d %8lld %7.2f ", name, d->n, (long long)d->stats.n_proposals,
            mean_length(&d->stats));
    for (int k = 0; k < n_drafts; k++)
        fprintf(out, " %5.1f", percent_at(&d->stats, k));
    fprintf(out, "\n");
}

void eval_drafts_print_table(FILE *out, const struct eval_drafts all[N_ABILITIES], int n_drafts)
{
    const struct eval_drafts sum = sum_of(all);

    fprintf(out, "%-12s %7s %8s %7s  %s\n", "ability", "prompts", "drafts", "tokens",
            "% accepted at position, of those whose predecessors were");
    fprintf(out, "%-12s %7s %8s %7s ", "", "", "", "a step");
    for (int k = 0; k < n_drafts; k++)
        fprintf(out, " %5d", k);
    fprintf(out, "\n");
    for (int i = 0; i < N_ABILITIES; i++)
        if (all[i].n > 0)
            print_row(out, ABILITIES[i].name, &all[i], n_drafts);
    print_row(out, "all", &sum, n_drafts);
}

static void json_row(struct buf *b, const char *name, const struct eval_drafts *d, int n_drafts)
{
    buf_printf(b,
               "{\"name\": \"%s\", \"prompts\": %d, \"drafts\": %lld, \"draft_tokens\": %lld, "
               "\"accepted_tokens\": %lld, \"tokens_per_step\": %.3f, \"accepted_percent\": [",
               name, d->n, (long long)d->stats.n_proposals, (long long)d->stats.n_draft_tokens,
               (long long)d->stats.n_accepted_tokens, mean_length(&d->stats));
    for (int k = 0; k < n_drafts; k++)
        buf_printf(b, "%s%.1f", k > 0 ? ", " : "", percent_at(&d->stats, k));
    buf_puts(b, "]}");
}

void eval_drafts_print_json(FILE *out, const struct osp_model_info *model,
                            const struct eval_drafts all[N_ABILITIES], int n_drafts)
{
    const struct eval_drafts sum = sum_of(all);
    struct buf b;

    buf_init(&b, REPORT_BYTES_MAX);
    buf_puts(&b, "{\n  \"model\": ");
    buf_json_string(&b, model->name, strlen(model->name));
    buf_puts(&b, ",\n  \"abilities\": [");
    for (int i = 0, n = 0; i < N_ABILITIES; i++)
        if (all[i].n > 0) {
            buf_puts(&b, n++ > 0 ? ",\n    " : "\n    ");
            json_row(&b, ABILITIES[i].name, &all[i], n_drafts);
        }
    buf_puts(&b, "],\n  \"all\": ");
    json_row(&b, "all", &sum, n_drafts);
    buf_puts(&b, "\n}\n");
    fputs(buf_text(&b), out);
    buf_release(&b);
}
