#include "engine/core/drafts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/core/engine.h"

/* A request's acceptance follows its own tokens quickly, the engine's slowly. */
static const double REQUEST_WEIGHT = 1.0 / 16, ENGINE_WEIGHT = 1.0 / 64;
/* Before anything was measured. A client that sends a prediction expects most of it to be right. */
static const double FIRST_ACCEPTANCE[N_DRAFT_SOURCES] = {
    [DRAFT_PREDICTION] = 0.8, [DRAFT_NGRAM] = 0.5, [DRAFT_EAGLE3] = 0.7};

/* A draft model's guesses cost time, so they are made to be verified; and now and then as many as
 * this to see whether they would be right: more are not compared with the token of one step. */
enum { PROBE_DRAFTS = 1 };

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static void make_chain(struct request_drafts *d)
{
    for (int i = 0; i < d->n; i++)
        d->parents[i] = (int8_t)(i - 1);
}

/* ---- life cycle ---- */

bool drafts_are_trees(const struct osp_speculative *o)
{
    return o->n_tree > 0 &&
           !draft_is_chain(draft_shape_of(o->tree_parents, o->n_tree).parents, o->n_tree);
}

/* A tree that is a chain, as vLLM's default, is one here, too. */
static void init_tree(struct engine_drafts *d)
{
    double mean = FIRST_ACCEPTANCE[DRAFT_EAGLE3];

    if (!drafts_are_trees(&d->options))
        return;
    d->tree = draft_shape_of(d->options.tree_parents, d->options.n_tree);
    for (int rank = 1; rank < DRAFTS_MAX; rank++) {
        mean *= 1 - FIRST_ACCEPTANCE[DRAFT_EAGLE3]; /* before anything was measured */
        d->rank_acceptance[rank].mean = mean;
    }
}

enum osp_status engine_drafts_init(struct engine_drafts *d, const struct osp_speculative *options,
                                   struct model *model, const struct sched_limits *limits)
{
    const size_t n = (size_t)limits->n_seqs_max;
    enum osp_status st;

    d->options = *options;
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        d->acceptance[i].mean = FIRST_ACCEPTANCE[i];
    TRY(mem_try_array(&d->candidates, n, sizeof *d->candidates, "drafts of a step"));
    TRY(mem_try_array(&d->owners, n, sizeof(struct osp_request *), "drafts of a step"));
    if (options->method != OSP_DRAFTS_EAGLE3)
        return OSP_OK;
    TRY(mem_try_array(&d->requests, n, sizeof *d->requests, "drafts of a step"));
    TRY(mem_try_array(&d->progress, n, sizeof(struct draft_progress *), "drafts of a step"));
    TRY(mem_try_array(&d->shapes, n, sizeof *d->shapes, "drafts of a step"));
    TRY(draft_model_new(&d->model, model, limits));
    init_tree(d);
out:
    return st;
}

void engine_drafts_release(struct engine_drafts *d)
{
    free(d->candidates);
    free(d->owners);
    free(d->requests);
    free(d->shapes);
    free(d->progress);
    draft_model_free(d->model);
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
    r->drafts.has_model = s->method == OSP_DRAFTS_EAGLE3;
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
    if (d->has_model)
        return true;
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        if (d->drafters[i] != NULL)
            return true;
    return false;
}

/* What the draft head will guess next, in a replay. */
static void propose_replay(struct request_drafts *d, const struct seq *q)
{
    struct drafter *replay = d->drafters[DRAFT_PREDICTION];

    d->n = 0;
    d->at = q->n_tokens;
    d->n_replay = replay->ops->propose(replay, q->tokens, q->n_tokens, d->replay, OSP_DRAFTS_MAX);
}

/* The first drafter that has at least tokens_min drafts proposes; the others are updated. */
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
        make_chain(d);
        d->source = (enum draft_source)i;
    }
}

/* A new request begins with what others had. */
static void begin(const struct engine_drafts *e, struct request_drafts *d)
{
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        d->acceptance[i] = draft_acceptance_begin(&e->acceptance[i]);
    d->is_begun = true;
}

static void keep_up(struct osp_engine *e, struct osp_request *r)
{
    struct request_drafts *d = &r->drafts;

    if (!has_drafters(d) || d->at == r->seq.n_tokens)
        return;
    if (!d->is_begun)
        begin(&e->drafts, d);
    if (e->drafts.options.replays && d->drafters[DRAFT_PREDICTION] != NULL)
        propose_replay(d, &r->seq);
    else
        propose(&e->drafts, d, &r->seq);
}

/* ---- what a step can verify ---- */

/* Whether a draft of a tree, behind others that can be used, can be used: see n_usable(). */
static bool is_usable(const struct osp_engine *e, const struct osp_request *r, int i)
{
    const struct request_drafts *d = &r->drafts;
    int32_t path[DRAFTS_MAX];
    const int n = draft_path(path, d->tokens, d->parents, i);

    return !sched_is_stop(e->sched, &r->seq, d->tokens[i]) &&
           (r->grammar == NULL || answer_grammar_n_free(r->grammar, path, n) == n);
}

/* Takes out the drafts of a tree that cannot be used, and those behind them. */
static void prune(const struct osp_engine *e, struct osp_request *r)
{
    struct request_drafts *d = &r->drafts;
    int8_t at[DRAFTS_MAX];
    int n = 0;

    for (int i = 0; i < d->n; i++) {
        const int8_t parent = d->parents[i];

        at[i] = -1;
        if ((parent >= 0 && at[parent] < 0) || !is_usable(e, r, i))
            continue;
        at[i] = (int8_t)n;
        d->tokens[n] = d->tokens[i];
        d->parents[n++] = parent < 0 ? -1 : at[parent];
    }
    d->n = n;
}

static int n_usable_of_tree(const struct osp_engine *e, struct osp_request *r)
{
    int n;

    if (seq_needs_mask(&r->seq))
        return 0;
    prune(e, r);
    n = min_int(r->drafts.n, sched_drafts_max(e->sched, &r->seq));
    return n < e->drafts.options.tokens_min ? 0 : n;
}

/* Drafts before the first one that ends the answer, or that changes the mask of a constrained
 * request. What follows those is not worth a row: it would be dropped, or needs another mask. */
static int n_usable(const struct osp_engine *e, struct osp_request *r)
{
    const struct request_drafts *d = &r->drafts;
    const struct seq *q = &r->seq;
    int n = min_int(d->n, sched_drafts_max(e->sched, q)), n_open = 0;

    if (!draft_is_chain(d->parents, d->n))
        return n_usable_of_tree(e, r);
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

/* Drafts that the head can make for a request, before they are known. */
static int n_to_guess(const struct osp_engine *e, const struct osp_request *r)
{
    const struct seq *q = &r->seq;
    const int n = min_int(e->drafts.options.tokens_max, sched_drafts_max(e->sched, q));

    if (!r->drafts.is_followed || seq_needs_mask(q) || n < 1 || n < e->drafts.options.tokens_min)
        return 0;
    if (r->grammar != NULL && !answer_grammar_is_free(r->grammar))
        return 0;
    return draft_model_can_guess(&r->drafts.progress, q) ? n : 0;
}

/* The probability of a guess by its rank: [DRAFTS_MAX]. */
static void find_chances(const struct engine_drafts *d, const struct osp_request *r,
                         double chances[DRAFTS_MAX])
{
    chances[0] = r->drafts.acceptance[DRAFT_EAGLE3].mean;
    for (int rank = 1; rank < DRAFTS_MAX; rank++)
        chances[rank] = d->rank_acceptance[rank].mean;
}

/* A tree that is not guessed yet counts as the chain of as many drafts that gives as many tokens. A
 * pass of the head gives a level, and has a row for each node of the level above with children. */
static void weigh_tree(const struct engine_drafts *d, const struct osp_request *r,
                       struct draft_candidate *c)
{
    double chances[DRAFTS_MAX];
    struct draft_shape shape;

    find_chances(d, r, chances);
    shape = draft_shape_likeliest(&d->tree, chances, c->n_max);
    c->acceptance = draft_shape_acceptance(&shape, chances);
    c->n_passes = draft_shape_levels(&shape);
    c->n_later_rows = 0;
    for (int i = 0; i < shape.n; i++)
        c->n_later_rows += draft_shape_has_child(&shape, i);
}

/* A request that can have n drafts. n_first_rows > 0: the head would make them, and its first pass
 * would have so many rows of the request. */
static void add_candidate(struct engine_drafts *d, struct osp_request *r, int n, int n_first_rows)
{
    struct draft_candidate *c = &d->candidates[d->n_candidates];

    d->owners[d->n_candidates++] = r;
    *c = (struct draft_candidate){.acceptance = r->drafts.acceptance[r->drafts.source].mean,
                                  .n_max = n};
    if (n_first_rows == 0)
        return;
    c->n_passes = n;
    c->n_first_rows = n_first_rows;
    c->n_later_rows = n - 1;
    if (d->tree.n > 0)
        weigh_tree(d, r, c);
}

/* What other drafters propose is free, so it goes first. */
static void find_candidates(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;

    d->n_candidates = 0;
    for (int i = 0; i < sched_n_running(e->sched); i++) {
        struct osp_request *r = sched_running(e->sched, i)->owner;
        int n, n_first_rows = 0;

        if (!has_drafters(&r->drafts))
            continue;
        keep_up(e, r);
        n = n_usable(e, r);
        if (n == 0 && r->drafts.n == 0) {
            n = n_to_guess(e, r);
            n_first_rows = draft_model_first_rows(&r->drafts.progress);
            r->drafts.source = DRAFT_EAGLE3;
        }
        if (n > 0)
            add_candidate(d, r, n, n_first_rows);
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

/* ---- guesses of the draft model ---- */

/* Whether the head should guess for a request that verifies nothing: its acceptance may be old. */
static bool wants_probe(const struct engine_drafts *d, const struct request_drafts *r, int n_tokens)
{
    return !d->options.always &&
           draft_control_wants_probe(&d->control, n_tokens - r->model_at, r->n_probes);
}

/* The step that was sent has no guesses, so a probe waits for the one after it. */
static bool is_probe_due(const struct engine_drafts *d, const struct osp_request *r)
{
    return r->drafts.source == DRAFT_EAGLE3 && r->drafts.n == 0 &&
           wants_probe(d, &r->drafts, r->seq.n_tokens);
}

static void add_draft_request(struct engine_drafts *d, int i)
{
    struct osp_request *r = d->owners[i];
    const struct draft_candidate *c = &d->candidates[i];
    int n = c->n;

    if (r->drafts.source != DRAFT_EAGLE3 || r->drafts.n > 0)
        return;
    if (n == 0 && wants_probe(d, &r->drafts, r->seq.n_tokens)) {
        n = min_int(PROBE_DRAFTS, c->n_max);
        r->drafts.n_probes++;
    }
    if (n == 0)
        return;
    d->requests[d->n_requests] =
        (struct draft_request){.q = &r->seq, .progress = &r->drafts.progress, .n_max = n};
    if (d->tree.n > 0) {
        double chances[DRAFTS_MAX];

        find_chances(d, r, chances);
        d->shapes[d->n_requests] = draft_shape_likeliest(&d->tree, chances, n);
        d->requests[d->n_requests].shape = &d->shapes[d->n_requests];
    }
    d->n_requests++;
}

static void take_guesses(const struct draft_request *w, bool is_replay)
{
    struct osp_request *r = w->q->owner;

    memcpy(r->drafts.tokens, w->tokens, (size_t)w->n * sizeof *w->tokens);
    r->drafts.n = w->n;
    make_chain(&r->drafts);
    if (w->shape != NULL)
        memcpy(r->drafts.parents, w->parents, (size_t)w->n * sizeof *w->parents);
    for (int i = 0; is_replay && i < w->n && i < r->drafts.n_replay; i++)
        if (r->drafts.parents[i] == i - 1) /* in a tree the path of the best guesses */
            r->drafts.tokens[i] = r->drafts.replay[i];
    r->drafts.model_at = w->q->n_tokens;
}

/* Whether the step of these drafts can be laid out before the last of them are known: its lists of
 * penalties and the masks of grammars depend on them. */
static bool may_stay_open(const struct engine_drafts *d)
{
    for (int i = 0; i < d->n_requests; i++) {
        const struct osp_request *r = d->requests[i].q != NULL ? d->requests[i].q->owner : NULL;

        if (r == NULL)
            continue;
        if (r->grammar != NULL || r->seq.lists.seen != NULL)
            return false;
    }
    return true;
}

/* Passes of the head have run, and their guesses have been read. */
static void count_passes(struct engine_drafts *d)
{
    int n;
    const struct pass_time *passes = draft_model_take_passes(d->model, &n);

    for (int i = 0; i < n; i++) {
        d->guess_ns += passes[i].ns;
        d->fair_guess_ns += draft_control_pass(&d->control, passes[i].is_first, passes[i].n_rows,
                                               (double)passes[i].ns);
    }
}

/* Makes the drafts that the head was chosen for; fewer if they end the answer, or its mask. */
static enum osp_status guess(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;
    enum osp_status st = OSP_OK;

    d->n_requests = 0;
    if (sched_has_sent(e->sched)) /* the device is busy: the next step has no guesses */
        return OSP_OK;
    for (int i = 0; i < d->n_candidates; i++)
        add_draft_request(d, i);
    if (d->n_requests == 0)
        return OSP_OK;
    TRY(draft_model_guess(d->model, d->requests, d->n_requests, may_stay_open(d)));
    for (int i = 0; i < d->n_requests; i++)
        take_guesses(&d->requests[i], d->options.replays);
    for (int i = 0; i < d->n_candidates; i++)
        if (d->owners[i]->drafts.source == DRAFT_EAGLE3)
            d->candidates[i].n = min_int(d->candidates[i].n, n_usable(e, d->owners[i]));
    if (draft_model_open_ticket(d->model) == 0)
        count_passes(d);
out:
    return st;
}

uint64_t drafts_open_ticket(const struct osp_engine *e)
{
    return e->drafts.model != NULL ? draft_model_open_ticket(e->drafts.model) : 0;
}

enum osp_status drafts_receive(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;
    enum osp_status st;

    if (drafts_open_ticket(e) == 0 || d->are_behind)
        return OSP_OK;
    TRY(draft_model_receive(d->model));
    count_passes(d);
    for (int i = 0; i < d->n_requests; i++) {
        struct osp_request *r = d->requests[i].q != NULL ? d->requests[i].q->owner : NULL;

        if (r == NULL)
            continue;
        take_guesses(&d->requests[i], d->options.replays);
        sched_know_drafts(&r->seq, r->drafts.tokens, r->drafts.n);
    }
out:
    return st;
}

/* A request leaves before its guesses were read. */
static void forget(struct engine_drafts *d, const struct osp_request *r)
{
    for (int i = 0; i < d->n_requests; i++)
        if (d->requests[i].q == &r->seq)
            d->requests[i].q = NULL;
}

/* ---- following the target ---- */

/* Whether the head follows the chunk's request: decided with its first rows. */
static bool is_followed(struct osp_engine *e, const struct step_chunk *chunk)
{
    struct request_drafts *d;

    if (chunk->seq == NULL || e->drafts.model == NULL)
        return false;
    d = &((struct osp_request *)chunk->seq->owner)->drafts;
    if (d->has_model && !d->is_decided) {
        d->is_decided = true;
        d->is_followed =
            e->drafts.options.always ||
            draft_control_begins_following(&e->drafts.control, chunk->seq->n_prompt - chunk->first,
                                           chunk->seq->n_tokens_max - chunk->seq->n_tokens);
        d->paid_at = chunk->seq->n_tokens;
    }
    return d->is_followed;
}

bool drafts_follow(struct osp_engine *e, const struct step_plan *plan)
{
    bool is_needed = false;

    for (int i = 0; i < plan->n_chunks; i++)
        is_needed = is_followed(e, &plan->chunks[i]) || is_needed; /* decides for each of them */
    return is_needed;
}

/* The head has cost too much, and the request's share of it did not pay. */
static void stop_following(struct osp_engine *e, struct request_drafts *d, const struct seq *q)
{
    if (e->drafts.options.always ||
        draft_control_keeps_following(&e->drafts.control, q->n_tokens - d->paid_at))
        return;
    d->is_followed = false;
    d->progress = (struct draft_progress){.place = 0};
}

/* Finds the progress of the plan's requests. Returns how many of them are followed. */
static int find_progress(struct osp_engine *e, const struct step_plan *plan)
{
    int n_followed = 0;

    for (int i = 0; i < plan->n_chunks; i++) {
        const bool has_head = is_followed(e, &plan->chunks[i]);
        struct osp_request *r = has_head ? plan->chunks[i].seq->owner : NULL;

        e->drafts.progress[i] = has_head ? &r->drafts.progress : NULL;
        n_followed += has_head;
    }
    return n_followed;
}

/* ---- guesses behind the step in flight ---- */

/* Guesses of the chunk's request behind the step; 0: they would be made when its tokens are known,
 * or not at all. */
static int n_to_guess_behind(const struct osp_engine *e, const struct step_chunk *chunk)
{
    const struct osp_request *r = chunk->seq->owner;
    const int n = min_int(
        min_int(sched_drafts_after_max(e->sched, chunk), draft_model_guesses_behind_max(chunk)),
        e->drafts.options.tokens_max);

    if (!r->drafts.is_followed || n < e->drafts.options.tokens_min)
        return 0;
    return r->grammar == NULL || answer_grammar_is_free(r->grammar) ? n : 0;
}

/* Whether nothing that the head's passes need depends on the step's tokens but for their number. */
static bool may_guess_behind(struct osp_engine *e, const struct step_plan *plan)
{
    const struct engine_drafts *d = &e->drafts;

    if (plan->n_draft_rows == 0 || find_progress(e, plan) == 0)
        return false;
    if (d->tree.n > 0) /* each level of a tree needs the guesses of the one before */
        return false;
    for (int i = 0; i < plan->n_chunks; i++) {
        const struct osp_request *r = plan->chunks[i].seq->owner; /* it was not sent ahead */
        bool has_others = false;

        for (int k = 0; k < N_DRAFT_SOURCES && !d->options.replays; k++)
            has_others = has_others || r->drafts.drafters[k] != NULL;
        if (has_others || seq_is_leaving(&r->seq) ||
            !draft_model_can_guess_behind(d->model, &plan->chunks[i], d->progress[i]))
            return false;
    }
    return true;
}

/* Those of the step's requests that are worth it. */
static void choose_behind(struct osp_engine *e, const struct step_plan *plan)
{
    struct engine_drafts *d = &e->drafts;

    d->n_candidates = d->n_requests = 0;
    for (int i = 0; i < plan->n_chunks; i++) {
        struct osp_request *r = plan->chunks[i].seq->owner;
        const int n = n_to_guess_behind(e, &plan->chunks[i]);

        if (n <= 0)
            continue;
        r->drafts.source = DRAFT_EAGLE3;
        add_candidate(d, r, n, plan->chunks[i].n_rows);
    }
    choose(e);
    for (int i = 0; i < d->n_candidates; i++) {
        struct osp_request *r = d->owners[i];

        if (d->candidates[i].n > 0)
            d->requests[d->n_requests++] = (struct draft_request){
                .q = &r->seq, .progress = &r->drafts.progress, .n_max = d->candidates[i].n};
    }
}

enum osp_status drafts_guess_behind(struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);
    struct engine_drafts *d = &e->drafts;
    enum osp_status st = OSP_OK;

    if (d->model == NULL || e->depth != DEPTH_QUEUED || !may_guess_behind(e, plan))
        return OSP_OK;
    TRY(drafts_receive(e)); /* those that the step verifies */
    choose_behind(e, plan);
    if (d->n_requests == 0)
        return OSP_OK;
    TRY(draft_model_guess_behind(d->model, plan, d->progress, d->requests, d->n_requests,
                                 e->ticket));
    d->are_behind = true;
out:
    return st;
}

/* The step was committed: its requests that go on verify these guesses next. */
static enum osp_status take_behind(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;
    enum osp_status st;

    d->are_behind = d->is_wanted = false;
    for (int i = 0; i < d->n_requests; i++)
        if (d->requests[i].q->state != SEQ_RUNNING)
            d->requests[i].q = NULL;
    TRY(draft_model_guess_on(d->model));
    if (!may_stay_open(d))
        TRY(drafts_receive(e));
    for (int i = 0; i < d->n_requests; i++) {
        struct osp_request *r = d->requests[i].q != NULL ? d->requests[i].q->owner : NULL;

        if (r == NULL)
            continue;
        take_guesses(&d->requests[i], d->options.replays);
        r->drafts.source = DRAFT_EAGLE3;
        sched_set_drafts(e->sched, &r->seq, r->drafts.tokens, n_usable(e, r));
        d->is_wanted = d->is_wanted || r->seq.n_drafts > 0;
    }
out:
    return st;
}

enum osp_status drafts_make(struct osp_engine *e)
{
    struct engine_drafts *d = &e->drafts;
    enum osp_status st = OSP_OK;

    if (e->limits.n_draft_rows_max == 0)
        return OSP_OK;
    if (d->are_behind)
        return take_behind(e);
    TRY(drafts_receive(e)); /* of a step that did not come */
    d->is_wanted = false;
    find_candidates(e);
    if (d->n_candidates == 0)
        return OSP_OK;
    choose(e);
    if (d->model != NULL)
        TRY(guess(e));
    for (int i = 0; i < d->n_candidates; i++) {
        d->is_wanted = d->is_wanted || d->candidates[i].n > 0 || is_probe_due(d, d->owners[i]);
        if (!sched_has_sent(e->sched))
            sched_set_tree(e->sched, &d->owners[i]->seq, d->owners[i]->drafts.tokens,
                           d->owners[i]->drafts.parents, d->candidates[i].n);
    }
out:
    return st;
}

enum osp_status drafts_leave(struct osp_engine *e, struct osp_request *r)
{
    enum osp_status st = OSP_OK;

    if (sched_in_flight(e->sched) != NULL) {
        e->drafts.n_unstored += r->drafts.is_followed && !r->seq.is_in_flight;
        if (!r->seq.is_in_flight)
            forget(&e->drafts, r);
        return OSP_OK;
    }
    TRY(drafts_receive(e));
    if (r->drafts.is_followed)
        TRY(draft_model_leave(e->drafts.model, &r->drafts.progress, &r->seq));
out:
    return st;
}

/* ---- steps ahead ---- */

bool drafts_can_keep_ahead(struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);

    if (e->drafts.model == NULL || find_progress(e, plan) == 0)
        return true;
    return e->depth == DEPTH_QUEUED &&
           draft_model_can_keep_ahead(e->drafts.model, plan, e->drafts.progress);
}

enum osp_status drafts_keep_ahead(struct osp_engine *e)
{
    const struct step_plan *plan = sched_in_flight(e->sched);

    if (e->drafts.model == NULL || find_progress(e, plan) == 0)
        return OSP_OK;
    return draft_model_keep_ahead(e->drafts.model, plan, e->drafts.progress);
}

/* For a head that reads the last layer, a prefill step computes this layer for all its rows, not
 * only for those that are sampled. */
static double rows_of_last_layer_ns(struct osp_engine *e, const struct step_plan *plan)
{
    if (plan->n_prefill_rows == 0 || e->drafts.model == NULL || !drafts_follow(e, plan) ||
        !model_draft_reads_last_layer(e->model->model))
        return 0;
    return (double)e->step_ns / model_config(e->model->model)->n_layers;
}

/* Prefill rows that the head follows. */
static int n_prompt_rows(struct osp_engine *e, const struct step_plan *plan)
{
    int n = 0;

    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *c = &plan->chunks[i];

        if (is_followed(e, c) && c->first < c->seq->n_prompt)
            n += c->n_rows;
    }
    return n;
}

/* The draft head follows the target. */
static enum osp_status follow(struct osp_engine *e, const struct step_plan *plan)
{
    struct engine_drafts *d = &e->drafts;
    const bool is_sent = sched_has_sent(e->sched);
    const uint64_t begin_ns = clock_ns();
    const int n_rows = n_prompt_rows(e, plan);
    int n_queued_rows;
    double ns;
    enum osp_status st;

    if (find_progress(e, plan) == 0)
        return OSP_OK;
    for (int i = 0; i < sched_n_running(e->sched); i++) {
        const struct osp_request *r = sched_running(e->sched, i)->owner;

        draft_model_touch(d->model, &r->drafts.progress);
    }
    TRY(draft_model_follow(d->model, plan, d->progress, is_sent, &ns, &n_queued_rows));
    ns += draft_control_pass_ns(&d->control, true, n_queued_rows);
    /* The device does not wait for the host while it has the next step, or passes before it. */
    ns += is_sent || d->are_behind ? 0 : (double)(clock_ns() - begin_ns);
    ns = draft_control_follow_ns(&d->control, (double)e->step_ns, ns);
    d->other_ns += (uint64_t)ns;
    if (n_rows > 0)
        draft_control_prompt(&d->control, n_rows, ns + rows_of_last_layer_ns(e, plan));
out:
    return st;
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

/* The proposed tokens behind one that was right: those of one parent, in order of their ranks. */
static void observe(struct engine_drafts *e, struct request_drafts *d, int rank, bool is_right)
{
    if (rank > 0) {
        draft_acceptance_add(&e->rank_acceptance[rank], is_right, ENGINE_WEIGHT);
        return;
    }
    draft_acceptance_add(&d->acceptance[d->source], is_right, REQUEST_WEIGHT);
    draft_acceptance_add(&e->acceptance[d->source], is_right, ENGINE_WEIGHT);
}

/* Each proposed token whose predecessors were right is one observation, verified or not. */
static void compare(struct engine_drafts *e, struct request_drafts *d, const int32_t *tokens, int n)
{
    int parent = -1;

    for (int i = 0; i < n && (i == 0 || parent >= 0); i++) {
        int rank = 0;

        for (int k = parent + 1; k < d->n; k++)
            if (d->parents[k] == parent)
                observe(e, d, rank++, d->tokens[k] == tokens[i]);
        parent = draft_child(d->tokens, d->parents, d->n, parent, tokens[i]);
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
    if (chunk->n_drafts > 0 && d->source == DRAFT_EAGLE3)
        d->paid_at = q->n_tokens;
    if (d->is_followed)
        stop_following(e, d, q);
    if (q->state == SEQ_ENDED)
        draft_control_answer(&e->drafts.control, q->n_tokens - q->n_prompt);
    else
        keep_up(e, r);
}

/* The interval between the results of two steps: with drafts the device waits for the host. */
static void measure(struct osp_engine *e, const struct step_plan *plan)
{
    struct engine_drafts *d = &e->drafts;
    const uint64_t before_ns = d->results_ns;
    struct draft_step step = {.n_draft_rows = plan->n_draft_rows};

    d->results_ns = e->results_ns;
    draft_control_follow(&d->control,
                         plan->n_prefill_rows > 0 ? 0 : plan->n_rows - plan->n_draft_rows,
                         (double)(before_ns > 0 ? e->results_ns - before_ns : e->step_ns),
                         (double)d->other_ns + rows_of_last_layer_ns(e, plan));
    if (plan->n_prefill_rows > 0 || before_ns == 0)
        return;
    for (int i = 0; i < plan->n_chunks; i++)
        step.n_accepted += plan->chunks[i].n_drafts > 0 && plan->chunks[i].n_new > 0
                               ? plan->chunks[i].n_new - 1
                               : 0;
    step.n_seqs = plan->n_rows - plan->n_draft_rows;
    step.ns = (double)(e->results_ns - before_ns);
    step.guess_ns = (double)d->guess_ns;
    step.fair_guess_ns = d->fair_guess_ns;
    step.other_ns = (double)d->other_ns;
    draft_control_step(&d->control, &step);
}

enum osp_status drafts_observe(struct osp_engine *e, const struct step_plan *plan)
{
    struct engine_drafts *d = &e->drafts;
    enum osp_status st = OSP_OK;

    if (e->limits.n_draft_rows_max == 0)
        return OSP_OK;
    measure(e, plan);
    d->guess_ns = d->other_ns = 0;
    d->fair_guess_ns = 0;
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq != NULL)
            observe_chunk(e, &plan->chunks[i]);
    if (d->model != NULL)
        TRY(follow(e, plan));
out:
    return st;
}
