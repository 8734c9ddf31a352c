/* Running means of step times by class of row counts. */
#include "engine/sched/step_cost.h"

static const double WEIGHT = 0.125; /* of a new sample */
static const double FREE_NS = 1;    /* not 0, which means that nothing is known */
static const double STRANGE =
    9; /* with that weight, a sample this many times the mean doubles it */

static int class_of(int n_rows)
{
    int i = 0;

    while (i < COST_CLASSES - 1 && n_rows >> (i + 1) > 0)
        i++;
    return i;
}

static void mean_add(double *mean, double sample)
{
    if (*mean > 0 && sample > *mean * STRANGE)
        sample = *mean * STRANGE;
    *mean = *mean > 0 ? *mean + WEIGHT * (sample - *mean) : sample;
}

/* The class's own value, or that of the nearest one that is known, smaller ones first. */
static int nearest_known(const double *means, int class)
{
    for (int i = class; i >= 0; i--)
        if (means[i] > 0)
            return i;
    for (int i = class + 1; i < COST_CLASSES; i++)
        if (means[i] > 0)
            return i;
    return -1;
}

/* Fewer rows than were seen cost no more; more rows cost at most in proportion. */
static double decode_ns(const struct step_cost *c, int n)
{
    int known = nearest_known(c->decode_ns, class_of(n));

    if (n == 0 || known < 0)
        return 0;
    if (known < class_of(n))
        return c->decode_ns[known] * (double)(1 << (class_of(n) - known));
    return c->decode_ns[known];
}

static double prefill_row_ns(const struct step_cost *c, int class)
{
    int known = nearest_known(c->prefill_row_ns, class);

    return known < 0 ? 0 : c->prefill_row_ns[known];
}

/* More rows cost no more each: what one class was found to cost pulls the others to its side, so
 * that a class that is not tried any more follows. */
static void prefill_row_update(struct step_cost *c, int class, double sample)
{
    double *means = c->prefill_row_ns;

    mean_add(&means[class], sample);
    for (int i = 0; i < COST_CLASSES; i++)
        if (means[i] > 0 && (i < class ? means[i] < means[class] : means[i] > means[class]))
            mean_add(&means[i], means[class]);
}

/* Rows that took no longer than the generated ones alone came for nothing: what was thought of
 * them before, such as a whole step's fixed cost, fades. */
void step_cost_update(struct step_cost *c, int n_decode_rows, int n_prompt, double ns)
{
    double others_ns = decode_ns(c, n_decode_rows);
    double extra_ns = ns > others_ns ? ns - others_ns : FREE_NS;

    if (!(ns > 0))
        return;
    if (n_prompt == 0 && n_decode_rows > 0)
        mean_add(&c->decode_ns[class_of(n_decode_rows)], ns);
    else if (n_prompt > 0)
        prefill_row_update(c, class_of(n_prompt), extra_ns / n_prompt);
}

double step_cost_predict(const struct step_cost *c, int n_decode_rows, int n_prompt)
{
    double prompt_ns = n_prompt > 0 ? prefill_row_ns(c, class_of(n_prompt)) * n_prompt : 0;

    if (n_prompt > 0 && prompt_ns == 0)
        return 0;
    if (n_decode_rows > 0 && n_prompt == 0)
        return decode_ns(c, n_decode_rows);
    return prompt_ns + decode_ns(c, n_decode_rows);
}

int step_cost_prefill_rows(const struct step_cost *c, int n_decode_rows, int n_max, double limit_ns)
{
    double left_ns = limit_ns - decode_ns(c, n_decode_rows);

    if (n_max <= 0 || left_ns <= 0)
        return 0;
    for (int i = class_of(n_max); i >= 0; i--) {
        double row_ns = prefill_row_ns(c, i), n_fit;
        int n_most = i == class_of(n_max) ? n_max : (1 << (i + 1)) - 1;

        if (row_ns == 0)
            return n_max;
        n_fit = left_ns / row_ns;
        if (n_fit >= (double)(1 << i))
            return n_fit < n_most ? (int)n_fit : n_most;
    }
    return 0;
}
