#include "engine/core/drafts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/core/engine.h"

/* A request's acceptance follows its own tokens quickly, the engine's slowly. */
static const double REQUEST_WEIGHT = 1.0 / 8, ENGINE_WEIGHT = 1.0 / 64;
/* Before anything was measured. A client that sends a prediction expects most of it to be right. */
static const double FIRST_ACCEPTANCE[N_DRAFT_SOURCES] = {
    [DRAFT_PREDICTION] = 0.8, [DRAFT_NGRAM] = 0.5};

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* ---- life cycle ---- */

enum osp_status engine_drafts_init(struct engine_drafts *d, const struct osp_speculative *options,
                                   int n_seqs_max)
{
    const size_t n = (size_t)n_seqs_max;
    enum osp_status st;

    d->options = *options;
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        d->acceptance[i].mean = FIRST_ACCEPTANCE[i];
    TRY(mem_try_array(&d->candidates, n, sizeof *d->candidates, "drafts of a step"));
    TRY(mem_try_array(&d->owners, n, sizeof(struct osp_request *), "drafts of a step"));
out:
    return st;
}

void engine_drafts_release(struct engine_drafts *d)
{
    free(d->candidates);
    free(d->owners);
}

enum osp_status request_drafts_init(struct osp_request *r, const struct osp_engine *e,
                                    const struct osp_request_options *opt)
{
    const struct osp_speculative *s = &e->options.speculative;
    const struct seq *q = &r->seq;
    struct drafter **drafters = r->drafts.drafters;
    enum osp_status st = OSP_OK;

    if (e->limits.n_draft_rows_max == 0 || opt->prompt_only)
        return OSP_OK;
    if (opt->n_prediction > 0)
        TRY(prediction_drafter_new(&drafters[DRAFT_PREDICTION], opt->prediction,
                                   request_n_prediction(r, opt), q->n_prompt));
    if (s->method == OSP_DRAFTS_NGRAM)
        TRY(ngram_drafter_new(&drafters[DRAFT_NGRAM], q->n_tokens_max, s->lookup_min,
                              s->lookup_max));
out:
    return st;
}

void request_drafts_release(struct request_drafts *d)
{
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        drafter_free(d->drafters[i]);
    memset(d, 0, sizeof *d);
}

/* ---- proposals ---- */

static bool has_drafters(const struct request_drafts *d)
{
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        if (d->drafters[i] != NULL)
            return true;
    return false;
}

/* The first drafter that has at least tokens_min drafts proposes; the others keep up. */
static void propose(const struct engine_drafts *e, struct request_drafts *d, const struct seq *q)
{
    int32_t tokens[DRAFTS_MAX];

    d->n = 0;
    d->at = q->n_tokens;
    for (int i = 0; i < N_DRAFT_SOURCES; i++) {
        int n;

        if (d->drafters[i] == NULL)
            continue;
        n = d->drafters[i]->ops->propose(d->drafters[i], q->tokens, q->n_tokens, tokens,
                                         e->options.tokens_max);
        if (d->n > 0 || n == 0 || n < e->options.tokens_min)
            continue;
        memcpy(d->tokens, tokens, (size_t)n * sizeof *tokens);
        d->n = n;
        d->source = (enum draft_source)i;
    }
}

/* A new request begins with what others had. */
static void begin(const struct engine_drafts *e, struct request_drafts *d)
{
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        d->acceptance[i] = (struct draft_acceptance){.mean = e->acceptance[i].mean};
    d->is_begun = true;
}

static void keep_up(struct osp_engine *e, struct osp_request *r)
{
    struct request_drafts *d = &r->drafts;

    if (!has_drafters(d) || d->at == r->seq.n_tokens)
        return;
    if (!d->is_begun)
        begin(&e->drafts, d);
    propose(&e->drafts, d, &r->seq);
}

/* ---- what a step can verify ---- */

/* Drafts before the first one that ends the answer, or that changes the mask of a constrained
 * request. What follows those is not worth a row: it would be dropped, or needs another mask. */
static int n_usable(const struct osp_engine *e, const struct osp_request *r)
{
    const struct request_drafts *d = &r->drafts;
    const struct seq *q = &r->seq;
    int n = min_int(d->n, sched_drafts_max(e->sched, q)), n_open = 0;

    if (seq_needs_mask(q))
        return 0;
    if (r->grammar != NULL)
        n = answer_grammar_n_free(r->grammar, d->tokens, n);
    while (n_open < n && !sched_is_stop(e->sched, q, d->tokens[n_open]))
        n_open++;
    return n_open < e->drafts.options.tokens_min ? 0 : n_open;
}

static int n_decoding(const struct osp_engine *e)
{
    int n = 0;

    for (int i = 0; i < sched_n_running(e->sched); i++) {
        const struct seq *q = sched_running(e->sched, i);

        n += q->n_stored >= q->n_prompt && !seq_needs_mask(q);
    }
    return n;
}

static void find_candidates(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;

    d->n_candidates = 0;
    for (int i = 0; i < sched_n_running(e->sched); i++) {
        struct osp_request *r = sched_running(e->sched, i)->owner;
        int n;

        if (!has_drafters(&r->drafts))
            continue;
        keep_up(e, r);
        n = n_usable(e, r);
        if (n == 0)
            continue;
        d->owners[d->n_candidates] = r;
        d->candidates[d->n_candidates++] = (struct draft_candidate){
            .acceptance = r->drafts.acceptance[r->drafts.source].mean, .n_max = n};
    }
}

/* All drafts, as far as there are rows. */
static void choose_all(struct draft_candidate *list, int n, int n_rows)
{
    for (int i = 0; i < n; i++) {
        list[i].n = min_int(list[i].n_max, n_rows);
        n_rows -= list[i].n;
    }
}

static void choose(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;
    const int n_rows = e->limits.n_draft_rows_max;

    if (d->options.always)
        choose_all(d->candidates, d->n_candidates, n_rows);
    else
        draft_control_choose(&d->control, d->candidates, d->n_candidates, n_decoding(e), n_rows);
}

void drafts_make(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;

    if (e->limits.n_draft_rows_max == 0)
        return;
    d->is_wanted = false;
    find_candidates(e);
    if (d->n_candidates == 0)
        return;
    choose(e);
    for (int i = 0; i < d->n_candidates; i++) {
        d->is_wanted = d->is_wanted || d->candidates[i].n > 0;
        if (!sched_next(e->sched)->is_sent)
            sched_set_drafts(e->sched, &d->owners[i]->seq, d->owners[i]->drafts.tokens,
                             d->candidates[i].n);
    }
}

/* ---- results of verified drafts ---- */

static void count(struct engine_drafts *e, struct request_drafts *d, int n_drafts, int n_accepted)
{
    e->stats.n_proposals++;
    e->stats.n_draft_tokens += n_drafts;
    e->stats.n_accepted_tokens += n_accepted;
    for (int i = 0; i < n_accepted; i++)
        e->stats.n_accepted_at[i]++;
    if (d->source != DRAFT_PREDICTION)
        return;
    d->n_accepted_prediction += n_accepted;
    d->n_rejected_prediction += n_drafts - n_accepted;
}

/* Each proposed token whose predecessors were right is one observation, verified or not. */
static void compare(struct engine_drafts *e, struct request_drafts *d, const int32_t *tokens, int n)
{
    bool is_right = true;

    for (int i = 0; i < n && i < d->n && is_right; i++) {
        is_right = d->tokens[i] == tokens[i];
        draft_acceptance_add(&d->acceptance[d->source], is_right, REQUEST_WEIGHT);
        draft_acceptance_add(&e->acceptance[d->source], is_right, ENGINE_WEIGHT);
    }
}

static void observe_chunk(struct osp_engine *e, const struct step_chunk *chunk)
{
    struct osp_request *r = chunk->seq->owner;
    struct request_drafts *d = &r->drafts;
    const struct seq *q = chunk->seq;

    if (!has_drafters(d) || chunk->n_new == 0)
        return;
    if (d->at == q->n_tokens - chunk->n_new)
        compare(&e->drafts, d, q->tokens + d->at, chunk->n_new);
    if (chunk->n_drafts > 0)
        count(&e->drafts, d, chunk->n_drafts, chunk->n_new - 1);
    if (q->state != SEQ_ENDED)
        keep_up(e, r);
}

/* The interval between the results of two steps: with drafts the device waits for the host. */
static void measure(struct osp_engine *e, const struct step_plan *plan)
{
    struct engine_drafts *d = &e->drafts;
    const uint64_t before_ns = d->results_ns;
    struct draft_step step = {.n_draft_rows = plan->n_draft_rows};

    d->results_ns = e->results_ns;
    if (plan->n_prefill_rows > 0 || before_ns == 0)
        return;
    for (int i = 0; i < plan->n_chunks; i++)
        step.n_accepted += plan->chunks[i].n_drafts > 0 && plan->chunks[i].n_new > 0
                               ? plan->chunks[i].n_new - 1
                               : 0;
    step.n_seqs = plan->n_rows - plan->n_draft_rows;
    step.ns = (double)(e->results_ns - before_ns);
    draft_control_step(&d->control, &step);
}

void drafts_observe(struct osp_engine *e, const struct step_plan *plan)
{
    if (e->limits.n_draft_rows_max == 0)
        return;
    measure(e, plan);
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq != NULL)
            observe_chunk(e, &plan->chunks[i]);
}
