#include "engine/draft/draft_control.h"

#include <stddef.h>

static const double NEWEST_WEIGHT = 0.125; /* of a new sample in the mean of a class */
static const double OUTLIER_FACTOR =
    1.5; /* more than the mean times this is something else's time */
static const double BALANCE_STEPS_MAX = 4; /* steps without drafts that earlier gains may pay for */
static const double HEAD_NS_MAX = 1e8;     /* that gains of the head may pay for later */
static const int64_t STEPS_KNOWN = 4096; /* a class not measured for so many steps is tried again */
static const double TRY_GAIN_MIN = 0.1;  /* tokens, of all, that a trial must promise */
static const double CHOICE_GAIN_MIN = 1.04; /* below it: noise of the measured times */
static const double PROBABILITY_MIN = 0.02; /* of a draft that is considered */
enum {
    BASELINE_STEPS = 128 /* after so many steps with drafts one without measures the others' gain */
};

static int class_of(int n_rows)
{
    int i = 6;

    if (n_rows <= DRAFT_COST_ROWS)
        return n_rows - 1;
    while (n_rows >> (i + 1) > 0)
        i++;
    i = DRAFT_COST_ROWS + (i - 6) * 4 + (n_rows >> (i - 2)) % 4;
    return i < DRAFT_COST_CLASSES ? i : DRAFT_COST_CLASSES - 1;
}

/* The first step of a class may build a graph, or touch memory for the first time. */
static bool is_measured(const struct step_cost *cost)
{
    return cost->n > 1;
}

double draft_control_cost_ns(const struct draft_control *c, int n_rows)
{
    const struct step_cost *low = NULL, *high = NULL;
    const int class = class_of(n_rows);

    for (int i = class; i >= 0 && low == NULL; i--)
        if (is_measured(&c->costs[i]))
            low = &c->costs[i];
    for (int i = class; i < DRAFT_COST_CLASSES && high == NULL; i++)
        if (is_measured(&c->costs[i]))
            high = &c->costs[i];
    if (low == NULL || high == NULL)
        return 0;
    if (low == high || high->rows <= low->rows)
        return low->ns;
    return low->ns + (high->ns - low->ns) * (n_rows - low->rows) / (high->rows - low->rows);
}

static void add_cost(struct draft_control *c, int n_rows, double ns)
{
    struct step_cost *cost = &c->costs[class_of(n_rows)];
    const double weight = cost->n <= 1 ? 1 : NEWEST_WEIGHT;

    if (cost->n > 1 && ns > OUTLIER_FACTOR * cost->ns)
        ns = OUTLIER_FACTOR * cost->ns;
    cost->ns += weight * (ns - cost->ns);
    cost->rows += weight * (n_rows - cost->rows);
    cost->n++;
    cost->last_step = c->n_steps;
}

/* What a step without drafts takes; known once such a step was measured. */
static double baseline_ns(const struct draft_control *c, int n_seqs)
{
    const struct step_cost *cost = &c->costs[class_of(n_seqs)];

    return is_measured(cost) ? cost->ns : 0;
}

/* By the mean times of such steps: a single one may have waited for another process. A step with
 * drafts costs at most what its rows cost one by one. */
static double gain_of(const struct draft_control *c, const struct draft_step *step)
{
    const double base_ns = baseline_ns(c, step->n_seqs);
    const double most_ns = base_ns * (step->n_seqs + step->n_draft_rows) / step->n_seqs;
    const double mean_ns = c->costs[class_of(step->n_seqs + step->n_draft_rows)].ns;
    const double ns = mean_ns < most_ns ? mean_ns : most_ns;

    return base_ns * (step->n_seqs + step->n_accepted) / step->n_seqs - ns - step->guess_ns;
}

/* The step's own time. A clock that is read at other places may make the parts longer than all. */
static double own_ns(const struct draft_step *step)
{
    const double ns = step->ns - step->guess_ns - step->other_ns;

    return ns > 0 ? ns : 0;
}

void draft_control_step(struct draft_control *c, const struct draft_step *step)
{
    c->n_steps++;
    c->n_in_row = step->n_draft_rows > 0 ? c->n_in_row + 1 : 0;
    add_cost(c, step->n_seqs + step->n_draft_rows, own_ns(step));
    c->balance_ns += DRAFT_LOSS_SHARE * step->ns;
    if (step->guess_ns > 0)
        c->head_ns += gain_of(c, step);
    if (step->n_draft_rows > 0 || step->guess_ns > 0)
        c->balance_ns += gain_of(c, step);
    if (c->balance_ns > BALANCE_STEPS_MAX * step->ns)
        c->balance_ns = BALANCE_STEPS_MAX * step->ns;
}

void draft_control_follow(struct draft_control *c, double ns, double other_ns)
{
    c->head_ns += DRAFT_LOSS_SHARE * ns - other_ns;
    if (c->head_ns > HEAD_NS_MAX)
        c->head_ns = HEAD_NS_MAX;
}

bool draft_control_may_follow(const struct draft_control *c)
{
    return c->head_ns >= 0;
}

/* ---- the choice ---- */

/* The candidate whose next draft is the likeliest; NULL: none has another one. */
static struct draft_candidate *likeliest(struct draft_candidate *list, const double *next, int n)
{
    struct draft_candidate *best = NULL;

    for (int i = 0; i < n; i++)
        if (list[i].n < list[i].n_max && next[i] >= PROBABILITY_MIN &&
            (best == NULL || next[i] > next[best - list]))
            best = &list[i];
    return best;
}

enum { CANDIDATES_MAX = 256 };

/* The best number of rows so far, and the tokens a nanosecond that it gives. */
struct choice {
    int n_rows;
    double rate;
};

static bool is_known(const struct draft_control *c, int n_rows)
{
    const struct step_cost *cost = &c->costs[class_of(n_rows)];

    return is_measured(cost) && c->n_steps - cost->last_step < STEPS_KNOWN;
}

/* Adds drafts one by one; *out is the choice among the numbers of rows. */
static void walk(const struct draft_control *c, struct draft_candidate *list, int n,
                 struct choice *out, int n_seqs, int n_rows_max)
{
    const double base_ns = baseline_ns(c, n_seqs);
    double next[CANDIDATES_MAX], n_tokens = n_seqs, guess_ns = 0;

    for (int i = 0; i < n; i++) {
        list[i].n = 0;
        next[i] = list[i].acceptance;
    }
    *out = (struct choice){0, CHOICE_GAIN_MIN * n_seqs / base_ns};
    for (int r = 1; r <= n_rows_max; r++) {
        struct draft_candidate *best = likeliest(list, next, n);
        const double cost_ns = draft_control_cost_ns(c, n_seqs + r);

        if (best == NULL)
            return;
        n_tokens += next[best - list];
        guess_ns += best->n == 0 ? best->first_ns : best->next_ns;
        next[best - list] *= best->acceptance;
        best->n++;
        if (!is_known(c, n_seqs + r) && n_tokens >= n_seqs * (1 + TRY_GAIN_MIN)) {
            *out = (struct choice){r, 0};
            return; /* a trial */
        }
        if (cost_ns > 0 && n_tokens / (cost_ns + guess_ns) > out->rate)
            *out = (struct choice){r, n_tokens / (cost_ns + guess_ns)};
    }
}

/* Drafts beyond the first n_rows are taken back, the last one first. */
static void keep_first(struct draft_candidate *list, int n, int n_rows)
{
    double next[CANDIDATES_MAX];

    for (int i = 0; i < n; i++) {
        list[i].n = 0;
        next[i] = list[i].acceptance;
    }
    for (int r = 0; r < n_rows; r++) {
        struct draft_candidate *best = likeliest(list, next, n);

        next[best - list] *= best->acceptance;
        best->n++;
    }
}

int draft_control_choose(struct draft_control *c, struct draft_candidate *candidates,
                         int n_candidates, int n_seqs, int n_rows_max)
{
    const int n = n_candidates < CANDIDATES_MAX ? n_candidates : CANDIDATES_MAX;
    struct choice choice;

    for (int i = 0; i < n_candidates; i++)
        candidates[i].n = 0;
    if (n == 0 || c->balance_ns < 0 || c->n_in_row >= BASELINE_STEPS || baseline_ns(c, n_seqs) == 0)
        return 0;
    walk(c, candidates, n, &choice, n_seqs, n_rows_max);
    keep_first(candidates, n, choice.n_rows);
    return choice.n_rows;
}

void draft_acceptance_add(struct draft_acceptance *a, bool is_right, double newest_weight)
{
    const double weight = 1.0 / (a->n + 2);

    a->mean += (weight > newest_weight ? weight : newest_weight) * ((is_right ? 1 : 0) - a->mean);
    a->n += weight > newest_weight;
}
