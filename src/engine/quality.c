/* Perplexity and KL divergence: two models read the same text in lock-step, and at each position
 * their distributions over the next token are compared. Sums are in double. Ids without text are
 * left out of the distributions, as they are in sampling. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/scorer.h"

struct osp_quality {
    struct scorer model, reference; /* the second zeroed without a reference */
    int n_ids;                      /* of the distributions */
    double *p, *q;                  /* (n_ids) log-probabilities: of the reference, of the model */
    double *divergences;            /* (n), one a position */
    size_t n, n_max;
    double model_loss, reference_loss; /* sums of -ln p(next token) */
    int64_t n_tokens, n_same_top;
};

/* ---- distributions ---- */

/* out[i] = ln softmax(logits)[i]; *top is the id of the largest. False: not all are finite. */
static bool log_softmax(double *out, const float *logits, int n, int *top)
{
    double sum = 0, shift;

    *top = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return false;
        if (logits[i] > logits[*top])
            *top = i;
    }
    shift = (double)logits[*top];
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - shift);
    shift += log(sum);
    for (int i = 0; i < n; i++)
        out[i] = (double)logits[i] - shift;
    return true;
}

/* KL(p || q) of log-probabilities; rounding can make it slightly negative. */
static double divergence(const double *p, const double *q, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += exp(p[i]) * (p[i] - q[i]);
    return sum > 0 ? sum : 0;
}

static enum osp_status keep_divergence(struct osp_quality *q, double value)
{
    enum osp_status st;

    TRY(mem_try_grow(&q->divergences, q->n, &q->n_max, sizeof *q->divergences, "divergences"));
    q->divergences[q->n++] = value;
out:
    return st;
}

static enum osp_status fail_not_finite(const struct scorer *s, int position)
{
    return fail(OSP_EDEVICE, "%s: logits at position %d are not finite", s->model->name, position);
}

/* One position: both distributions, and the token that follows in the text. */
static enum osp_status take_position(struct osp_quality *q, int row, int position, int32_t next)
{
    const size_t offset = (size_t)row * (size_t)q->model.vocab_size;
    int top, reference_top;

    if (!log_softmax(q->q, q->model.logits + offset, q->n_ids, &top))
        return fail_not_finite(&q->model, position);
    q->model_loss -= q->q[next];
    q->n_tokens++;
    if (q->reference.model == NULL)
        return OSP_OK;
    if (!log_softmax(q->p, q->reference.logits + offset, q->n_ids, &reference_top))
        return fail_not_finite(&q->reference, position);
    q->reference_loss -= q->p[next];
    q->n_same_top += top == reference_top;
    return keep_divergence(q, divergence(q->p, q->q, q->n_ids));
}

/* ---- texts ---- */

static enum osp_status add_rows(struct osp_quality *q, const int32_t *ids, int n, int n_left)
{
    const int first = q->model.n_done;
    enum osp_status st;

    TRY(scorer_push(&q->model, ids, n));
    if (q->reference.model != NULL)
        TRY(scorer_push(&q->reference, ids, n));
    for (int i = 0; i < n && i + 1 < n_left; i++)
        TRY(take_position(q, i, first + i, ids[i + 1]));
out:
    return st;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static enum osp_status add_part(struct osp_quality *q, const int32_t *ids, int n)
{
    int n_rows_max = q->model.n_rows_max;
    enum osp_status st = OSP_OK;

    if (q->reference.model != NULL) {
        scorer_begin(&q->reference);
        n_rows_max = smaller(n_rows_max, q->reference.n_rows_max);
    }
    scorer_begin(&q->model);
    for (int i = 0; i < n; i += n_rows_max)
        TRY(add_rows(q, ids + i, smaller(n_rows_max, n - i), n - i));
out:
    return st;
}

static enum osp_status check_ids(const struct osp_quality *q, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= q->n_ids)
            return fail(OSP_EINVAL, "token %zu is %d, must be in 0 to %d", i, (int)ids[i],
                        q->n_ids - 1);
    return OSP_OK;
}

enum osp_status osp_quality_add(struct osp_quality *q, const int32_t *ids, size_t n)
{
    int context = q->model.model->plan.context_tokens_max;
    enum osp_status st;

    if (q->reference.model != NULL)
        context = smaller(context, q->reference.model->plan.context_tokens_max);
    TRY(check_ids(q, ids, n));
    while (n > 1) {
        size_t n_part = n < (size_t)context ? n : (size_t)context;

        TRY(add_part(q, ids, (int)n_part));
        ids += n_part;
        n -= n_part;
    }
out:
    return st;
}

/* ---- open, close, result ---- */

static enum osp_status check_alike(const struct osp_quality_options *opt)
{
    const struct osp_model *a = opt->model, *b = opt->reference;

    if (b == a)
        return fail(OSP_EINVAL, "the reference must be a model of its own");
    if (b != NULL && model_config(a->model)->vocab_size != model_config(b->model)->vocab_size)
        return fail(OSP_EINVAL, "%s has %d ids, the reference %s %d", a->name,
                    model_config(a->model)->vocab_size, b->name,
                    model_config(b->model)->vocab_size);
    return OSP_OK;
}

enum osp_status osp_quality_open(struct osp_quality **out, const struct osp_quality_options *opt)
{
    struct osp_quality *q = mem_new(sizeof *q);
    enum osp_status st;

    *out = NULL;
    TRY(check_alike(opt));
    q->n_ids =
        smaller(tokenizer_size(opt->model->tokenizer), model_config(opt->model->model)->vocab_size);
    TRY(mem_try_array(&q->p, (size_t)q->n_ids, sizeof *q->p, "probabilities"));
    TRY(mem_try_array(&q->q, (size_t)q->n_ids, sizeof *q->q, "probabilities"));
    TRY(scorer_open(&q->model, opt->model, opt->decode));
    if (opt->reference != NULL)
        TRY(scorer_open(&q->reference, opt->reference, opt->decode));
    *out = q;
out:
    if (st != OSP_OK)
        osp_quality_close(q);
    return st;
}

void osp_quality_close(struct osp_quality *q)
{
    if (q == NULL)
        return;
    scorer_close(&q->model);
    scorer_close(&q->reference);
    free(q->p);
    free(q->q);
    free(q->divergences);
    free(q);
}

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The 99th percentile: the least of the largest 1 %. */
static void write_divergences(struct osp_quality_result *out, const struct osp_quality *q)
{
    double *sorted = mem_new(q->n * sizeof *sorted), sum = 0;

    memcpy(sorted, q->divergences, q->n * sizeof *sorted);
    qsort(sorted, q->n, sizeof *sorted, compare_values);
    for (size_t i = 0; i < q->n; i++)
        sum += sorted[i];
    out->kl_mean = sum / (double)q->n;
    out->kl_p99 = sorted[(q->n - 1) * 99 / 100];
    out->kl_max = sorted[q->n - 1];
    out->same_top_share = (double)q->n_same_top / (double)q->n;
    free(sorted);
}

void osp_quality_get(const struct osp_quality *q, struct osp_quality_result *out)
{
    const double n = (double)q->n_tokens;

    *out = (struct osp_quality_result){.n_tokens = q->n_tokens};
    if (q->n_tokens == 0)
        return;
    out->perplexity = exp(q->model_loss / n);
    if (q->reference.model != NULL)
        out->reference_perplexity = exp(q->reference_loss / n);
    if (q->n > 0)
        write_divergences(out, q);
}
