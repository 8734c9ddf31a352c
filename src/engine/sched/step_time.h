/* How long steps take, learned from the steps that ran. One table serves three users: the planner
 * (how many prefill rows fit a step's time budget), the engine (when the step in flight will end)
 * and the watchdog (when a step counts as stuck). Pure: no clock, no lock.
 *
 * A step is filed by its kind (with or without prefill rows) and by its number of rows, in classes
 * of powers of two; a class keeps moving averages of whole step times and of rows. Between classes
 * two bounds hold on every device: more rows take no less time, and at most in proportion to the
 * rows. So a long prefill is not taken for a stuck step when only short ones have been seen. */
#ifndef ENGINE_SCHED_STEP_TIME_H
#define ENGINE_SCHED_STEP_TIME_H

enum { STEP_CLASSES = 16 }; /* class i: 2^i to 2^(i+1) - 1 rows; the last one has no upper end */

/* Of one kind of steps; ns[i] == 0: no step of class i has run. */
struct step_times {
    double ns[STEP_CLASSES], rows[STEP_CLASSES]; /* means */
    int newest;                                  /* class of the last step */
};

struct step_time {
    struct step_times decode;  /* steps without prefill rows */
    struct step_times prefill; /* steps with prefill rows, and any number of decode rows */
};

/* A step with these rows took ns. A step beyond its limit counts as that limit in a class without
 * samples; elsewhere a sample counts as 5 times the mean at most, so that one strange sample (a
 * stuck step, a machine that slept) raises an estimate by half at most. */
void step_time_update(struct step_time *t, int n_decode_rows, int n_prefill_rows, double ns);

/* Expected time in ns; 0: no step of that kind has run. */
double step_time_predict_ns(const struct step_time *t, int n_decode_rows, int n_prefill_rows);

/* A step of these rows that takes longer is stuck: 5 times the expected time, at least 2 s. Before
 * any step has run, when weights may still be read from the disk: 60 s and 1 s a row. */
double step_time_limit_ns(const struct step_time *t, int n_decode_rows, int n_prefill_rows);

/* Prefill rows, at most n_max, with which a step of n_decode_rows takes limit_ns or less; n_max
 * until a step with prefill rows has run. May be 0. */
int step_time_prefill_rows(const struct step_time *t, int n_decode_rows, int n_max,
                           double limit_ns);

#endif
