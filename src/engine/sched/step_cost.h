/* What steps cost in time, learned from those that ran: by the number of generated rows and of
 * rows of prompts, in classes of powers of two. Says how many rows of a prompt a step can take
 * beside rows that somebody waits for. Knows no clock; the watchdog's patience is learned apart
 * from it (step_watchdog.h). */
#ifndef ENGINE_SCHED_STEP_COST_H
#define ENGINE_SCHED_STEP_COST_H

#include <stdint.h>

enum { COST_CLASSES = 16 }; /* class i: 2^i to 2^(i+1) - 1 rows */

struct step_cost {
    double decode_ns[COST_CLASSES]; /* of a step with that many generated rows alone; 0: unknown */
    double prefill_row_ns[COST_CLASSES]; /* of each row when a step has that many of prompts */
};

/* A step with these rows took that long. One strange sample (a clock that jumped, a machine that
 * slept) changes an estimate by a factor of 2 at most. */
void step_cost_update(struct step_cost *c, int n_decode_rows, int n_prompt, double ns);
/* 0: nothing like it ran yet. */
double step_cost_predict(const struct step_cost *c, int n_decode_rows, int n_prompt);
/* Rows of prompts, at most n_max, that let a step with n_decode_rows others take limit_ns; n_max
 * while nothing is known. May be 0. */
int step_cost_prefill_rows(const struct step_cost *c, int n_decode_rows, int n_max,
                           double limit_ns);

#endif
