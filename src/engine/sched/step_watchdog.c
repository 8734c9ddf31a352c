#include "engine/sched/step_watchdog.h"

#include <assert.h>

static const double STUCK_FACTOR = 5, STUCK_SECONDS_MIN = 2;
static const double FIRST_SECONDS = 60, FIRST_SECONDS_A_ROW = 1;
static const double NEWEST_SHARE = 0.125; /* of a moving average */

static int bucket_of(int n_rows)
{
    int i = 0;

    while (i + 1 < STEP_WATCHDOG_BUCKETS && n_rows >= 2 << i)
        i++;
    return i;
}

/* From the nearest count of at most so many rows, scaled up; else from the nearest larger one. */
static double estimate(const struct step_watchdog *t, int n_rows, bool has_prefill)
{
    const double *seconds = t->seconds[has_prefill], *rows = t->rows[has_prefill];
    int own = bucket_of(n_rows), i = own;

    while (i >= 0 && seconds[i] == 0)
        i--;
    if (i >= 0)
        return n_rows > rows[i] ? seconds[i] * n_rows / rows[i] : seconds[i];
    for (i = own + 1; i < STEP_WATCHDOG_BUCKETS; i++)
        if (seconds[i] > 0)
            return seconds[i];
    return 0;
}

double step_watchdog_predict(const struct step_watchdog *t, int n_rows, bool has_prefill)
{
    double same_kind = estimate(t, n_rows, has_prefill);

    assert(n_rows > 0);
    return same_kind > 0 ? same_kind : estimate(t, n_rows, !has_prefill);
}

double step_watchdog_limit(const struct step_watchdog *t, int n_rows, bool has_prefill)
{
    double limit = STUCK_FACTOR * step_watchdog_predict(t, n_rows, has_prefill);

    if (limit == 0)
        return FIRST_SECONDS + FIRST_SECONDS_A_ROW * n_rows;
    return limit > STUCK_SECONDS_MIN ? limit : STUCK_SECONDS_MIN;
}

void step_watchdog_update(struct step_watchdog *t, int n_rows, bool has_prefill, double seconds)
{
    double limit = step_watchdog_limit(t, n_rows, has_prefill);
    int i = bucket_of(n_rows);
    double *mean = &t->seconds[has_prefill][i], *rows = &t->rows[has_prefill][i];
    double share = *mean == 0 ? 1 : NEWEST_SHARE;

    if (seconds > limit)
        seconds = limit;
    *mean += share * (seconds - *mean);
    *rows += share * (n_rows - *rows);
}
