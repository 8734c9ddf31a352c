#include "engine/draft/step_costs.h"

enum { FIRST_SHIFT = 6 }; /* 1 << FIRST_SHIFT = STEP_COST_ROWS */

_Static_assert(STEP_COST_CLASSES <= UINT8_MAX, "a class plus 1 fits in low and high");

int step_costs_class(int n_rows)
{
    int i = FIRST_SHIFT;

    if (n_rows <= STEP_COST_ROWS)
        return n_rows - 1;
    while (n_rows >> (i + 1) > 0)
        i++;
    i = STEP_COST_ROWS + (i - FIRST_SHIFT) * 4 + (n_rows >> (i - 2)) % 4;
    return i < STEP_COST_CLASSES ? i : STEP_COST_CLASSES - 1;
}

/* The most rows of a class but the last one. */
static int last_row(int class)
{
    const int i = class - STEP_COST_ROWS;

    return i < 0 ? class + 1 : ((5 + i % 4) << (FIRST_SHIFT + i / 4 - 2)) - 1;
}

static bool is_measured(const struct step_cost *cost)
{
    return cost->n > 1;
}

static void link_measured(struct step_costs *c)
{
    uint8_t nearest = 0;

    for (int i = 0; i < STEP_COST_CLASSES; i++)
        c->low[i] = nearest = is_measured(&c->of[i]) ? (uint8_t)(i + 1) : nearest;
    nearest = 0;
    for (int i = STEP_COST_CLASSES; i-- > 0;)
        c->high[i] = nearest = is_measured(&c->of[i]) ? (uint8_t)(i + 1) : nearest;
}

void step_costs_add(struct step_costs *c, int n_rows, double ns, int64_t step)
{
    struct step_cost *cost = &c->of[step_costs_class(n_rows)];
    const bool was_measured = is_measured(cost);
    const double of_mean = cost->n <= 1 ? 1 : 1.0 / (double)cost->n;
    const double weight = of_mean > COST_NEWEST_WEIGHT ? of_mean : COST_NEWEST_WEIGHT;

    if (was_measured && ns > COST_OUTLIER_FACTOR * cost->ns)
        ns = COST_OUTLIER_FACTOR * cost->ns;
    cost->ns += weight * (ns - cost->ns);
    cost->rows += weight * (n_rows - cost->rows);
    cost->n++;
    cost->last_step = step;
    if (!was_measured && is_measured(cost))
        link_measured(c);
}

double step_costs_measured_ns(const struct step_costs *c, int n_rows)
{
    const struct step_cost *cost = &c->of[step_costs_class(n_rows)];

    return is_measured(cost) ? cost->ns : 0;
}

double step_costs_ns(const struct step_costs *c, int n_rows)
{
    const int class = step_costs_class(n_rows);
    const struct step_cost *low, *high;

    if (c->low[class] == 0 || c->high[class] == 0)
        return 0;
    low = &c->of[c->low[class] - 1];
    high = &c->of[c->high[class] - 1];
    if (low == high || high->rows <= low->rows)
        return low->ns;
    return low->ns + (high->ns - low->ns) * (n_rows - low->rows) / (high->rows - low->rows);
}

double step_costs_estimate_ns(const struct step_costs *c, int n_seqs, int n_rows,
                              double last_row_share)
{
    const int low = c->low[step_costs_class(n_rows)] - 1;
    const double base_ns = step_costs_measured_ns(c, n_seqs), ns = step_costs_ns(c, n_rows);
    const int r = low < 0 ? n_seqs : last_row(low); /* the most rows that are measured */

    if (ns > 0)
        return ns;
    if (r <= n_seqs)
        return last_row_share < 1 ? base_ns : base_ns * n_rows / n_seqs;
    return base_ns +
           (c->of[low].ns - base_ns) / (r - n_seqs) * (n_rows - n_seqs - (1 - last_row_share));
}
