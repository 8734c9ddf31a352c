/* Moving averages of step times by kind and number of rows, and the bounds between them. */
#include "engine/sched/step_time.h"

#include <assert.h>
#include <stdbool.h>

static const double NEWEST_WEIGHT = 0.125; /* of a new sample in a moving average */
static const double STUCK_FACTOR = 5, STUCK_NS_MIN = 2e9;
static const double FIRST_NS = 60e9, FIRST_NS_A_ROW = 1e9;

static int class_of(int n_rows)
{
    int i = 0;

    while (i < STEP_CLASSES - 1 && n_rows >> (i + 1) > 0)
        i++;
    return i;
}

/* The class itself or the nearest one with samples, smaller ones first; -1: there is none. */
static int nearest_known(const struct step_times *s, int class)
{
    for (int i = class; i >= 0; i--)
        if (s->ns[i] > 0)
            return i;
    for (int i = class + 1; i < STEP_CLASSES; i++)
        if (s->ns[i] > 0)
            return i;
    return -1;
}

/* The upper bound by one class: fewer rows take no more time, more rows at most in proportion. */
static double scaled_ns(const struct step_times *s, int class, int n_rows)
{
    return n_rows > s->rows[class] ? s->ns[class] * n_rows / s->rows[class] : s->ns[class];
}

static double expected_ns(const struct step_times *s, int n_rows)
{
    int known = nearest_known(s, class_of(n_rows));

    return known < 0 ? 0 : scaled_ns(s, known, n_rows);
}

static const struct step_times *times_of(const struct step_time *t, int n_prefill_rows)
{
    return n_prefill_rows > 0 ? &t->prefill : &t->decode;
}

double step_time_predict_ns(const struct step_time *t, int n_decode_rows, int n_prefill_rows)
{
    return expected_ns(times_of(t, n_prefill_rows), n_decode_rows + n_prefill_rows);
}

/* Steps of the other kind are the better guess than none. */
double step_time_limit_ns(const struct step_time *t, int n_decode_rows, int n_prefill_rows)
{
    const int n_rows = n_decode_rows + n_prefill_rows;
    double ns = expected_ns(times_of(t, n_prefill_rows), n_rows);

    assert(n_rows > 0);
    if (ns == 0)
        ns = expected_ns(times_of(t, n_prefill_rows == 0), n_rows);
    if (ns == 0)
        return FIRST_NS + FIRST_NS_A_ROW * n_rows;
    return STUCK_FACTOR * ns > STUCK_NS_MIN ? STUCK_FACTOR * ns : STUCK_NS_MIN;
}

/* The device may have become slower or faster since steps of this class ran. A mean that the last
 * step's bounds and the new sample both contradict is moved to the nearer of the two. */
static void correct_old_mean(struct step_times *s, int class, double sample_ns)
{
    const int newest = s->newest;
    const double ratio = s->rows[class] / s->rows[newest];
    const double upper_ns = s->ns[newest] * (ratio > 1 ? ratio : 1);
    const double lower_ns = s->ns[newest] * (ratio < 1 ? ratio : 1);
    double *ns = &s->ns[class];

    if (*ns > upper_ns && *ns > sample_ns)
        *ns = sample_ns > upper_ns ? sample_ns : upper_ns;
    if (*ns < lower_ns && *ns < sample_ns)
        *ns = sample_ns < lower_ns ? sample_ns : lower_ns;
}

static void average(struct step_times *s, int class, int n_rows, double ns)
{
    s->ns[class] += NEWEST_WEIGHT * (ns - s->ns[class]);
    s->rows[class] += NEWEST_WEIGHT * (n_rows - s->rows[class]);
}

void step_time_update(struct step_time *t, int n_decode_rows, int n_prefill_rows, double ns)
{
    struct step_times *s = n_prefill_rows > 0 ? &t->prefill : &t->decode;
    const int n_rows = n_decode_rows + n_prefill_rows, class = class_of(n_rows);
    const bool is_first = s->ns[class] == 0;
    const double max_ns = is_first ? step_time_limit_ns(t, n_decode_rows, n_prefill_rows)
                                   : STUCK_FACTOR * s->ns[class];

    if (!(ns > 0))
        return;
    if (ns > max_ns)
        ns = max_ns;
    if (is_first) {
        s->ns[class] = ns;
        s->rows[class] = n_rows;
    } else {
        correct_old_mean(s, class, ns);
        average(s, class, n_rows, ns);
    }
    s->newest = class;
}

/* Rows of a class that take limit_ns at the class's mean time a row, within what the last step
 * says: a class that has not run for long may have been slower or faster then. */
static double rows_that_fit(const struct step_times *s, int class, double limit_ns)
{
    const int known = nearest_known(s, class);
    const double by_class = limit_ns * s->rows[known] / s->ns[known];
    const double by_newest = limit_ns * s->rows[s->newest] / s->ns[s->newest];

    if (s->ns[s->newest] > limit_ns) /* as many rows took longer: fewer must run */
        return by_class < by_newest ? by_class : by_newest;
    return by_class > by_newest ? by_class : by_newest;
}

int step_time_prefill_rows(const struct step_time *t, int n_decode_rows, int n_max, double limit_ns)
{
    const struct step_times *s = &t->prefill;
    const int n_rows_max = n_decode_rows + n_max;

    if (n_max <= 0)
        return 0;
    if (nearest_known(s, 0) < 0)
        return n_max;
    for (int i = class_of(n_rows_max); i >= class_of(n_decode_rows + 1); i--) {
        const int n_most = i == class_of(n_rows_max) ? n_rows_max : (1 << (i + 1)) - 1;
        const double n_fit = rows_that_fit(s, i, limit_ns);

        if (n_fit >= (double)(1 << i) && n_fit >= n_decode_rows + 1)
            return (n_fit < n_most ? (int)n_fit : n_most) - n_decode_rows;
    }
    return 0;
}
