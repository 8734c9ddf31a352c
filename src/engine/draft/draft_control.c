#include "engine/draft/draft_control.h"

#include <stddef.h>

static const double BALANCE_STEPS_MAX = 8; /* steps without drafts that earlier gains may pay for */
static const double HEAD_NS_MAX = 1e8;     /* that gains of the head may pay for later */
static const int64_t STEPS_KNOWN = 4096; /* a class not measured for so many steps is tried again */
static const double TRY_GAIN_MIN = 0.1;  /* tokens, of all, that a trial must promise */
static const double TRY_COST_SHARE = 0.4;   /* of what its last row may cost */
static const double CHOICE_GAIN_MIN = 1.04; /* below it: noise of the measured times */
static const double SURE_GAIN = 1.2;        /* measured as seldom as possible */
static const double PROBABILITY_MIN = 0.02; /* of a draft that is considered */
static const double FIRST_BALANCE_STEPS = 3, FIRST_HEAD_STEPS = 1; /* credit of a new engine */
static const double RISK_STEPS = 1; /* beyond the balance: what a step may lose */
static const double DEBT_STEPS_MAX = 6,
                    DEBT_ACCEPTANCE = 0.7; /* for drafts that are always right */
/* Added to an acceptance while the balance has so many steps: drafts that were judged by few
 * tokens, or long ago, get another chance. */
static const double OPTIMISM = 0.15, OPTIMISM_STEPS = 4, OPTIMISM_FROM = 0.4, OPTIMISM_UP_TO = 0.85;
static const double PROBE_DEBT_STEPS = 2;
static const double HEAD_LOSS_STEPS = 1;      /* that losses of drafts may take from following */
static const double FIRST_PASS_SHARE = 0.125; /* of a step: passes of a new head count for it */
/* Of a step: following that takes more than the first share may build graphs, and counts for the
 * second one. */
static const double LIKELY_FOLLOW_SHARE = 0.25, FIRST_FOLLOW_SHARE = 1.0 / 16;
static const double EXCESS_WEIGHT = 1.0 / 32; /* of a step in the time of following */
static const int64_t CLEAN_STEPS = 1024;    /* a step without followed requests is compared with */
static const double PROMPT_WEIGHT = 0.25;   /* of a step in the time of a followed prompt's row */
static const double GAIN_WEIGHT = 1.0 / 64; /* of a step in the gain of a followed token */
static const double ANSWER_WEIGHT = 1.0 / 16; /* of an answer in the mean length */
enum {
    /* After so many steps with drafts some without measure the gain of the others: the first one
     * has waited for the host, or finds other data in the caches. */
    BASELINE_STEPS_MIN = 16,
    BASELINE_STEPS_MAX = 128,
    PLAIN_STEPS = 2,
    FIRST_FOLLOWS = 4,      /* that may build graphs */
    PROBE_TOKENS = 32,      /* between two looks at drafts that are not verified; */
    FIRST_PROBE_TOKENS = 8, /* doubled from this one on */
    BEGIN_MAX = 6,          /* observations that others' acceptance counts for in a new request */
    UNPAID_TOKENS = 64,     /* without verified drafts: the request's share of following is lost */
    GAIN_STEPS = 32         /* of followed requests, after which their gain is known */
};

double draft_control_cost_ns(const struct draft_control *c, int n_rows)
{
    return step_costs_ns(&c->costs, n_rows);
}

/* What a step without drafts takes; known once such a step was measured. */
static double baseline_ns(const struct draft_control *c, int n_seqs)
{
    return step_costs_measured_ns(&c->costs, n_seqs);
}

/* What a pass of the head takes. Before a later pass was measured, it takes at most what a first
 * one does, which has more to do. */
static struct cost_bounds pass_bounds(const struct draft_control *c, bool is_first, int n_rows)
{
    const struct cost_bounds first = step_costs_bounds(&c->first_passes, n_rows);
    const struct cost_bounds later = step_costs_bounds(&c->later_passes, n_rows);

    if (is_first)
        return first;
    return later.most_ns > 0 ? later : (struct cost_bounds){0, first.most_ns};
}

double draft_control_pass(struct draft_control *c, bool is_first, int n_rows, double ns)
{
    const struct cost_bounds bounds = pass_bounds(c, is_first, n_rows);
    const double most_ns =
        bounds.most_ns > 0 ? COST_OUTLIER_FACTOR * bounds.most_ns : FIRST_PASS_SHARE * c->base_ns;

    step_costs_add(is_first ? &c->first_passes : &c->later_passes, n_rows, ns, bounds.most_ns,
                   c->n_steps);
    return ns < most_ns ? ns : most_ns;
}

double draft_control_pass_ns(const struct draft_control *c, bool is_first, int n_rows)
{
    return pass_bounds(c, is_first, n_rows).least_ns;
}

/* By the mean times of such steps: a single one may have waited for another process. A step with
 * drafts costs at most what its rows cost one by one, and the first one of a number of rows what
 * that is estimated to cost. */
static double gain_of(struct draft_control *c, const struct draft_step *step)
{
    const int n_rows = step->n_seqs + step->n_draft_rows;
    const double base_ns = baseline_ns(c, step->n_seqs);
    const double most_ns = base_ns * n_rows / step->n_seqs;
    const struct step_cost *cost = &c->costs.of[step_costs_class(n_rows)];
    const double measured_ns = step_costs_measured_ns(&c->costs, n_rows);
    const double likely_ns =
        measured_ns > 0 ? measured_ns : step_costs_estimate_ns(&c->costs, step->n_seqs, n_rows, 1);
    const double mean_ns = cost->n > 0 && cost->ns < likely_ns ? cost->ns : likely_ns;
    const double ns = mean_ns < most_ns ? mean_ns : most_ns;

    return base_ns * (step->n_seqs + step->n_accepted) / step->n_seqs - ns - step->fair_guess_ns;
}

/* What following takes beyond the times that were reported. */
static double excess_ns(const struct draft_control *c, int n_seqs)
{
    const double ns = c->follow_excess_ns[step_costs_class(n_seqs)];

    return ns > 0 ? ns : 0;
}

/* The step's own time. A clock that is read at other places may make the parts longer than all. */
static double own_ns(const struct draft_control *c, const struct draft_step *step)
{
    const double follow_ns = step->other_ns > 0 ? step->other_ns + excess_ns(c, step->n_seqs) : 0;
    const double ns = step->ns - step->guess_ns - follow_ns;

    return ns > 0 ? ns : 0;
}

/* The most that a step of so many rows is expected to take, from the times of other numbers of
 * rows; 0: none is known. */
static double expected_ns(const struct draft_control *c, const struct draft_step *step)
{
    return baseline_ns(c, step->n_seqs) == 0
               ? 0
               : step_costs_estimate_ns(&c->costs, step->n_seqs, step->n_seqs + step->n_draft_rows,
                                        1);
}

/* Compares a plain step whose requests are followed with those before that were not. */
static void note_following(struct draft_control *c, const struct draft_step *step)
{
    const int class = step_costs_class(step->n_seqs);
    const double base_ns = baseline_ns(c, step->n_seqs);
    double ns = step->ns;

    if (step->n_draft_rows > 0 || step->guess_ns > 0 || base_ns == 0)
        return;
    if (step->other_ns == 0) {
        c->clean_step[class] = c->n_steps;
        return;
    }
    if (c->clean_step[class] == 0 || c->n_steps - c->clean_step[class] > CLEAN_STEPS)
        return;
    if (ns > COST_OUTLIER_FACTOR * (base_ns + step->other_ns))
        ns = COST_OUTLIER_FACTOR * (base_ns + step->other_ns);
    c->follow_excess_ns[class] +=
        EXCESS_WEIGHT * (ns - step->other_ns - base_ns - c->follow_excess_ns[class]);
}

/* A few steps' time, once, so that the first requests show whether drafts pay. */
static void give_credit(struct draft_control *c, double base_ns)
{
    double credit_ns;

    if (c->is_begun || base_ns == 0)
        return;
    c->is_begun = true;
    c->head_ns += FIRST_HEAD_STEPS * base_ns;
    credit_ns = FIRST_BALANCE_STEPS * base_ns + (c->head_ns < 0 ? c->head_ns : 0);
    c->balance_ns += credit_ns > 0 ? credit_ns : 0;
}

/* Losses of drafts are bounded by the other balance: they bring this one down to least_ns only. */
static void add_to_head(struct draft_control *c, double gain_ns, double least_ns)
{
    const double floor_ns = c->head_ns < least_ns ? c->head_ns : least_ns;

    c->head_ns += gain_ns;
    if (c->head_ns < floor_ns)
        c->head_ns = floor_ns;
}

/* Counts the steps with and without drafts. Returns whether the step's time is that of such steps
 * in a row: behind prefill rows the caches have other data (a CPU's step of one row takes half as
 * long again), and behind drafts the device waits for the host. */
static bool is_steady(struct draft_control *c, const struct draft_step *step)
{
    if (step->n_draft_rows > 0) {
        c->n_drafted++;
        c->n_plain = 0;
        return !c->is_behind_prefill;
    }
    c->n_plain++;
    if (c->n_plain >= PLAIN_STEPS)
        c->n_drafted = 0;
    return !c->is_behind_prefill && c->n_plain >= PLAIN_STEPS;
}

/* What following gains, and the tokens for which it does, without prompts: these are followed in
 * the step behind them. */
static void note_gain(struct draft_control *c, const struct draft_step *step, double gain_ns)
{
    const double of_mean = 1.0 / (c->n_gains + 1);
    const double weight = of_mean > GAIN_WEIGHT ? of_mean : GAIN_WEIGHT;

    if (c->is_behind_prefill || (step->guess_ns == 0 && step->other_ns == 0))
        return;
    c->gain_ns += weight * (gain_ns - step->other_ns - c->gain_ns);
    c->gain_tokens += weight * (step->n_seqs + step->n_accepted - c->gain_tokens);
    c->n_gains += of_mean > GAIN_WEIGHT;
}

void draft_control_step(struct draft_control *c, const struct draft_step *step)
{
    double gain_ns = 0;

    c->n_steps++;
    if (is_steady(c, step)) {
        note_following(c, step);
        step_costs_add(&c->costs, step->n_seqs + step->n_draft_rows, own_ns(c, step),
                       expected_ns(c, step), c->n_steps);
    }
    c->n_seqs = step->n_seqs;
    c->base_ns = baseline_ns(c, step->n_seqs);
    give_credit(c, baseline_ns(c, step->n_seqs));
    c->balance_ns += DRAFT_LOSS_SHARE * step->ns;
    if (step->n_draft_rows > 0 || step->guess_ns > 0) {
        gain_ns = gain_of(c, step);
        c->balance_ns += gain_ns;
        if (step->guess_ns > 0)
            add_to_head(c, gain_ns, -HEAD_LOSS_STEPS * baseline_ns(c, step->n_seqs));
    }
    note_gain(c, step, gain_ns);
    c->is_behind_prefill = false;
    if (c->balance_ns > BALANCE_STEPS_MAX * step->ns)
        c->balance_ns = BALANCE_STEPS_MAX * step->ns;
}

void draft_control_follow(struct draft_control *c, int n_seqs, double ns, double other_ns)
{
    c->is_behind_prefill = c->is_behind_prefill || n_seqs == 0;
    if (other_ns > 0 && n_seqs > 0)
        other_ns += excess_ns(c, n_seqs);
    c->head_ns += DRAFT_FOLLOW_SHARE * ns - other_ns;
    if (c->head_ns > HEAD_NS_MAX)
        c->head_ns = HEAD_NS_MAX;
    c->trial_ns += DRAFT_FOLLOW_SHARE * ns;
    if (c->trial_ns > HEAD_NS_MAX)
        c->trial_ns = HEAD_NS_MAX;
}

void draft_control_prompt(struct draft_control *c, int n_rows, double ns)
{
    const double weight = c->prompt_row_ns == 0 ? 1 : PROMPT_WEIGHT;

    c->prompt_row_ns += weight * (ns / n_rows - c->prompt_row_ns);
}

void draft_control_answer(struct draft_control *c, int n_tokens)
{
    c->answer_tokens += (c->answer_tokens == 0 ? 1 : ANSWER_WEIGHT) * (n_tokens - c->answer_tokens);
}

double draft_control_follow_ns(struct draft_control *c, double step_ns, double ns)
{
    if (ns <= LIKELY_FOLLOW_SHARE * step_ns || c->n_follows >= FIRST_FOLLOWS)
        return ns;
    c->n_follows++;
    return FIRST_FOLLOW_SHARE * step_ns;
}

bool draft_control_wants_probe(const struct draft_control *c, int n_tokens, int n_probes)
{
    const int after = n_probes < 2 ? FIRST_PROBE_TOKENS << n_probes : PROBE_TOKENS;

    return n_tokens >= after && c->balance_ns >= -PROBE_DEBT_STEPS * c->base_ns;
}

bool draft_control_keeps_following(const struct draft_control *c, int n_tokens)
{
    return c->head_ns >= 0 || n_tokens <= UNPAID_TOKENS;
}

/* Whether a request is followed to see whether that pays. Among many sequences the gain of a
 * few that are followed cannot be measured, so the time for as many as run is saved first. */
static bool is_tried(struct draft_control *c, double cost_ns)
{
    const int n_others = c->n_seqs > 1 ? c->n_seqs - 1 : 0;
    double others_ns = n_others * cost_ns;

    if (cost_ns > HEAD_NS_MAX)
        cost_ns = HEAD_NS_MAX;
    if (others_ns > HEAD_NS_MAX - cost_ns)
        others_ns = HEAD_NS_MAX - cost_ns;
    if (c->trial_ns < cost_ns)
        c->is_trying = false;
    else if (c->trial_ns >= cost_ns + others_ns && c->head_ns >= others_ns)
        c->is_trying = true;
    if (c->is_trying)
        c->trial_ns -= cost_ns;
    return c->is_trying;
}

bool draft_control_begins_following(struct draft_control *c, int n_rows, int n_tokens_max)
{
    const double n_tokens =
        c->answer_tokens > 0 && c->answer_tokens < n_tokens_max ? c->answer_tokens : n_tokens_max;
    const double gain_ns = c->n_gains >= GAIN_STEPS ? c->gain_ns / c->gain_tokens : 0;
    const double cost_ns = n_rows * c->prompt_row_ns;

    if (c->head_ns < 0)
        return false;
    return (gain_ns > 0 && gain_ns * n_tokens >= cost_ns) || is_tried(c, cost_ns);
}

/* ---- the choice ---- */

static double bonus_of(const struct draft_control *c, double base_ns)
{
    const double share = c->balance_ns / (OPTIMISM_STEPS * base_ns);

    return OPTIMISM * (share < 0 ? 0 : share < 1 ? share : 1);
}

/* An acceptance as it is counted: plus the bonus, between OPTIMISM_FROM and OPTIMISM_UP_TO. */
static double counted(double acceptance, double bonus)
{
    const double p = acceptance + bonus;

    return acceptance < OPTIMISM_FROM    ? acceptance
           : p < OPTIMISM_UP_TO          ? p
           : acceptance > OPTIMISM_UP_TO ? acceptance
                                         : OPTIMISM_UP_TO;
}

enum { CANDIDATES_MAX = 256 };

/* Candidates in the order of the probability that their next draft counts: a heap, whose first
 * element is the likeliest one, of equal ones the first. */
struct candidate_heap {
    struct draft_candidate *list;
    double next[CANDIDATES_MAX]; /* by candidate; 0: it has no other draft */
    uint8_t at[CANDIDATES_MAX];  /* the heap, of candidates */
    int n;
};

static bool is_before(const struct candidate_heap *h, int a, int b)
{
    const int i = h->at[a], j = h->at[b];

    return h->next[i] > h->next[j] || (h->next[i] == h->next[j] && i < j);
}

static void sift_down(struct candidate_heap *h, int at)
{
    for (int child = 2 * at + 1; child < h->n; child = 2 * at + 1) {
        const uint8_t candidate = h->at[at];

        if (child + 1 < h->n && is_before(h, child + 1, child))
            child++;
        if (!is_before(h, child, at))
            return;
        h->at[at] = h->at[child];
        h->at[child] = candidate;
        at = child;
    }
}

static void set_next(struct candidate_heap *h, int i, double probability)
{
    const bool has_next = h->list[i].n < h->list[i].n_max && probability >= PROBABILITY_MIN;

    h->next[i] = has_next ? probability : 0;
}

/* Candidates without drafts yet. */
static void heap_begin(struct candidate_heap *h, struct draft_candidate *list, int n, double bonus)
{
    h->list = list;
    h->n = n;
    for (int i = 0; i < n; i++) {
        list[i].n = 0;
        h->at[i] = (uint8_t)i;
        set_next(h, i, counted(list[i].acceptance, bonus));
    }
    for (int i = n / 2; i-- > 0;)
        sift_down(h, i);
}

/* The candidate whose next draft is the likeliest; NULL: none has another one. */
static struct draft_candidate *heap_first(const struct candidate_heap *h)
{
    return h->next[h->at[0]] > 0 ? &h->list[h->at[0]] : NULL;
}

/* Gives the first candidate its next draft. Returns the probability that it counts. */
static double heap_take(struct candidate_heap *h, double bonus)
{
    const int i = h->at[0];
    const double probability = h->next[i];

    h->list[i].n++;
    set_next(h, i, probability * counted(h->list[i].acceptance, bonus));
    sift_down(h, 0);
    return probability;
}

/* The best number of rows so far, and the tokens a nanosecond that it gives. */
struct choice {
    int n_rows;
    double rate;
};

static bool is_known(const struct draft_control *c, int n_rows)
{
    return step_costs_measured_ns(&c->costs, n_rows) > 0 &&
           c->n_steps - c->costs.of[step_costs_class(n_rows)].last_step < STEPS_KNOWN;
}

/* Whether a number of rows that is not known may be better than the choice so far. */
static bool may_be_better(const struct draft_control *c, int n_seqs, int n_rows, double n_tokens,
                          double guess_ns, const struct choice *best)
{
    return n_tokens /
               (step_costs_estimate_ns(&c->costs, n_seqs, n_rows, TRY_COST_SHARE) + guess_ns) >
           best->rate;
}

/* The passes of the head for the drafts so far. */
struct guessing {
    int n_rows[DRAFTS_MAX]; /* of each pass */
    struct cost_bounds ns;  /* of all */
};

/* Rows of the head for the drafts of a sequence from number 1 up to number i, which are spread
 * evenly. */
static int later_rows(const struct draft_candidate *s, int i)
{
    return i > 0 ? i * s->n_later_rows / (s->n_max - 1) : 0;
}

/* Adds the next draft of a sequence. */
static void add_guess(const struct draft_control *c, struct guessing *g,
                      const struct draft_candidate *s)
{
    const int pass = s->n * s->n_passes / s->n_max;
    const int n = s->n == 0 ? s->n_first_rows : later_rows(s, s->n) - later_rows(s, s->n - 1);
    const struct cost_bounds without = pass_bounds(c, pass == 0, g->n_rows[pass]);
    const struct cost_bounds with = pass_bounds(c, pass == 0, g->n_rows[pass] + n);

    if (s->n_passes == 0)
        return;
    g->n_rows[pass] += n;
    g->ns.least_ns += with.least_ns - without.least_ns;
    g->ns.most_ns += with.most_ns - without.most_ns;
}

/* As well as it matters. */
static bool is_price_known(const struct guessing *g, double base_ns)
{
    return g->ns.most_ns - g->ns.least_ns <= (CHOICE_GAIN_MIN - 1) * base_ns;
}

/* What a step may lose if all its drafts are wrong. */
static double risk_of(const struct draft_control *c, double base_ns)
{
    return (c->balance_ns > 0 ? c->balance_ns : 0) + RISK_STEPS * base_ns;
}

/* How far below zero the balance may be for the likeliest draft: drafts that were right may have
 * had bad luck. */
static double debt_of(const struct draft_candidate *list, int n, double base_ns)
{
    double likeliest = 0;

    for (int i = 0; i < n; i++)
        likeliest = list[i].acceptance > likeliest ? list[i].acceptance : likeliest;
    return likeliest <= DEBT_ACCEPTANCE
               ? 0
               : DEBT_STEPS_MAX * base_ns * (likeliest - DEBT_ACCEPTANCE) / (1 - DEBT_ACCEPTANCE);
}

/* Adds drafts one by one; *out is the choice among the numbers of rows. */
static void walk(const struct draft_control *c, struct draft_candidate *list, int n,
                 struct choice *out, int n_seqs, int n_rows_max)
{
    const double base_ns = baseline_ns(c, n_seqs);
    const double risk_ns = risk_of(c, base_ns);
    const double bonus = bonus_of(c, base_ns);
    struct guessing g = {.n_rows = {0}};
    double n_tokens = n_seqs;
    struct candidate_heap heap;

    heap_begin(&heap, list, n, bonus);
    *out = (struct choice){0, CHOICE_GAIN_MIN * n_seqs / base_ns};
    for (int r = 1; r <= n_rows_max; r++) {
        const struct draft_candidate *best = heap_first(&heap);
        const double cost_ns = draft_control_cost_ns(c, n_seqs + r);

        if (best == NULL)
            return;
        add_guess(c, &g, best);
        if (step_costs_estimate_ns(&c->costs, n_seqs, n_seqs + r, 1) + g.ns.most_ns - base_ns >
            risk_ns)
            return;
        n_tokens += heap_take(&heap, bonus);
        if ((!is_known(c, n_seqs + r) || !is_price_known(&g, base_ns)) &&
            n_tokens >= n_seqs * (1 + TRY_GAIN_MIN) &&
            may_be_better(c, n_seqs, n_seqs + r, n_tokens, g.ns.least_ns, out)) {
            *out = (struct choice){r, 0};
            return; /* a trial */
        }
        if (cost_ns > 0 && n_tokens / (cost_ns + g.ns.most_ns) > out->rate)
            *out = (struct choice){r, n_tokens / (cost_ns + g.ns.most_ns)};
    }
}

/* Drafts beyond the first n_rows are taken back, the last one first. */
static void keep_first(struct draft_candidate *list, int n, int n_rows, double bonus)
{
    struct candidate_heap heap;

    heap_begin(&heap, list, n, bonus);
    for (int r = 0; r < n_rows; r++)
        (void)heap_take(&heap, bonus);
}

/* Drafts that are expected to gain little are compared with steps without the more often. */
static int baseline_steps(double gain)
{
    const double share = (gain - CHOICE_GAIN_MIN) / (SURE_GAIN - CHOICE_GAIN_MIN);
    const double at = share < 0 ? 0 : share < 1 ? share : 1;

    return BASELINE_STEPS_MIN + (int)(at * (BASELINE_STEPS_MAX - BASELINE_STEPS_MIN));
}

int draft_control_choose(struct draft_control *c, struct draft_candidate *candidates,
                         int n_candidates, int n_seqs, int n_rows_max)
{
    const int n = n_candidates < CANDIDATES_MAX ? n_candidates : CANDIDATES_MAX;
    const double base_ns = n_seqs > 0 ? baseline_ns(c, n_seqs) : 0;
    struct choice choice;

    for (int i = 0; i < n_candidates; i++)
        candidates[i].n = 0;
    if (n == 0 || base_ns == 0 || c->balance_ns < -debt_of(candidates, n, base_ns))
        return 0;
    walk(c, candidates, n, &choice, n_seqs, n_rows_max);
    if (c->n_drafted >= baseline_steps(choice.rate * base_ns / n_seqs))
        choice.n_rows = 0;
    keep_first(candidates, n, choice.n_rows, bonus_of(c, base_ns));
    return choice.n_rows;
}

struct draft_acceptance draft_acceptance_begin(const struct draft_acceptance *all)
{
    return (struct draft_acceptance){.mean = all->mean,
                                     .n = all->n < BEGIN_MAX ? all->n : (int)BEGIN_MAX};
}

void draft_acceptance_add(struct draft_acceptance *a, bool is_right, double newest_weight)
{
    const double weight = 1.0 / (a->n + 2);

    a->mean += (weight > newest_weight ? weight : newest_weight) * ((is_right ? 1 : 0) - a->mean);
    a->n += weight > newest_weight;
}
