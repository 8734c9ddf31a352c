/* How long a step should take, learned from those that ran: what the watchdog holds a step
 * against. Pure: no clock, no lock.
 *
 * A step is filed by its rows (in powers of two) and by whether some are of prompts. Between the
 * filed counts the estimate grows at most in proportion to the rows, as a step does on every
 * device, so that a long prompt is not mistaken for a stuck step when only short ones have been
 * seen. */
#ifndef ENGINE_SCHED_STEP_WATCHDOG_H
#define ENGINE_SCHED_STEP_WATCHDOG_H

#include <stdbool.h>

enum { STEP_WATCHDOG_BUCKETS = 16 }; /* up to 2^15 rows */

struct step_watchdog {
    /* [some rows are a prompt's][log2 of the rows] moving averages; 0 = none seen */
    double seconds[2][STEP_WATCHDOG_BUCKETS], rows[2][STEP_WATCHDOG_BUCKETS];
};

/* Seconds; 0 = nothing like it has been seen. */
double step_watchdog_predict(const struct step_watchdog *t, int n_rows, bool has_prefill);

/* A step of that kind that takes longer is stuck: 5 times what is predicted, at least 2 seconds.
 * Before anything was measured, when weights may still come from the disk: a minute and a second
 * a row. */
double step_watchdog_limit(const struct step_watchdog *t, int n_rows, bool has_prefill);

/* One that took so long counts for its limit at most: one stuck step must not teach patience. */
void step_watchdog_update(struct step_watchdog *t, int n_rows, bool has_prefill, double seconds);

#endif
