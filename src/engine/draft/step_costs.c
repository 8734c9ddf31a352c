#include "engine/draft/step_costs.h"

enum {
    FIRST_SHIFT = 6,  /* 1 << FIRST_SHIFT = STEP_COST_ROWS */
    LEFT_OUT_MAX = 16 /* steps of a class that built graphs: one for each number of rows */
};

static const double YOUNG_FACTOR =
    1.25;                            /* times a mean of few steps: such a step changes it little */
static const double KNOWN_UP_TO = 2; /* times the most measured rows: costs go on as before */

_Static_assert(STEP_COST_CLASSES <= UINT8_MAX, "a class plus 1 fits in low and high");

int step_costs_class(int n_rows)
{
    int i = FIRST_SHIFT;

    if (n_rows <= STEP_COST_ROWS)
        return n_rows - 1;
    n_rows--;
    while (n_rows >> (i + 1) > 0)
        i++;
    i = STEP_COST_ROWS + (i - FIRST_SHIFT) * 4 + (n_rows >> (i - 2)) % 4;
    return i < STEP_COST_CLASSES ? i : STEP_COST_CLASSES - 1;
}

/* The most rows of a class but the last one. */
static int last_row(int class)
{
    const int i = class - STEP_COST_ROWS;

    return i < 0 ? class + 1 : (5 + i % 4) << (FIRST_SHIFT + i / 4 - 2);
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

void step_costs_add(struct step_costs *c, int n_rows, double ns, double expected_ns, int64_t step)
{
    struct step_cost *cost = &c->of[step_costs_class(n_rows)];
    const bool was_measured = is_measured(cost);
    const double of_mean = cost->n <= 1 ? 1 : 1.0 / (double)cost->n;
    double weight = of_mean > COST_NEWEST_WEIGHT ? of_mean : COST_NEWEST_WEIGHT;

    if (!was_measured && n_rows > STEP_COST_ROWS && expected_ns > 0 &&
        ns > COST_OUTLIER_FACTOR * expected_ns && cost->n_left_out++ < LEFT_OUT_MAX)
        return;
    if (was_measured && ns > YOUNG_FACTOR * cost->ns)
        weight = COST_NEWEST_WEIGHT; /* of a young mean it would be a large part */
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

/* Of more rows than were measured. low: the class with the most of them. */
static struct cost_bounds bounds_beyond(const struct step_costs *c, const struct step_cost *low,
                                        int n_rows)
{
    const struct step_cost *first = &c->of[c->high[0] - 1];
    const double slope =
        first != low ? (low->ns - first->ns) / (low->rows - first->rows) : low->ns / low->rows;
    const double most_ns = low->ns + (slope > 0 ? slope * (n_rows - low->rows) : 0);

    if (first != low && n_rows <= KNOWN_UP_TO * low->rows)
        return (struct cost_bounds){most_ns, most_ns};
    return (struct cost_bounds){low->ns, most_ns};
}

struct cost_bounds step_costs_bounds(const struct step_costs *c, int n_rows)
{
    const int class = n_rows > 0 ? step_costs_class(n_rows) : 0;
    const double ns = n_rows > 0 ? step_costs_ns(c, n_rows) : 0;
    const struct step_cost *high;

    if (ns > 0 || n_rows == 0 || c->high[0] == 0)
        return (struct cost_bounds){ns, ns};
    if (c->high[class] == 0)
        return bounds_beyond(c, &c->of[c->low[class] - 1], n_rows);
    high = &c->of[c->high[class] - 1];
    return (struct cost_bounds){high->ns * n_rows / high->rows, high->ns};
}
