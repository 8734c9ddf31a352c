/* The time of decode steps, or of passes of a draft head, by their number of rows, as measured: a
 * mean for each class of numbers of rows, and estimates between and beyond the measured ones.
 * Zeroed, nothing is known. */
#ifndef ENGINE_DRAFT_STEP_COSTS_H
#define ENGINE_DRAFT_STEP_COSTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    STEP_COST_ROWS = 64,    /* each number of rows up to this one has a mean of its own; */
    STEP_COST_CLASSES = 112 /* beyond it, four of each power of two */
};

#define COST_NEWEST_WEIGHT  0.125 /* of a new sample in a mean */
#define COST_OUTLIER_FACTOR 1.5   /* more than the mean times this is something else's time */

/* The mean time of the steps of a class. */
struct step_cost {
    double ns, rows;
    int64_t n, last_step;
    int n_left_out;
};

struct step_costs {
    struct step_cost of[STEP_COST_CLASSES];
    /* The nearest measured class at or below, and at or above a class, plus 1; 0: none. */
    uint8_t low[STEP_COST_CLASSES], high[STEP_COST_CLASSES];
};

/* The class of n_rows >= 1. */
int step_costs_class(int n_rows);
/* Adds a step of n_rows that took ns; `step` is its number. As long as a class of several
 * numbers of rows is not measured, a step that takes far longer than expected_ns has built a graph,
 * as for each number, and is left out, a few times. expected_ns = 0: not known. */
void step_costs_add(struct step_costs *c, int n_rows, double ns, double expected_ns, int64_t step);
/* The mean time of a measured class; 0: it is not measured. The first step of a class may build a
 * graph, or touch memory for the first time, so it takes two. */
double step_costs_measured_ns(const struct step_costs *c, int n_rows);
/* The same, and in proportion between two measured classes; 0: beyond them. */
double step_costs_ns(const struct step_costs *c, int n_rows);
/* The same, and beyond the measured classes by the mean cost of a row from n_seqs rows on, where
 * n_seqs <= n_rows is measured: as a row more costs less than the one before it, or as much. A
 * lower estimate: the last row costs last_row_share of that; 1: an upper one. */
double step_costs_estimate_ns(const struct step_costs *c, int n_seqs, int n_rows,
                              double last_row_share);

/* What n_rows take at least and at most: the same if the nearest measured classes, or one that has
 * at least half as many rows and a second one, tell it; both 0 if no class is measured. Beyond
 * that, more rows cost from nothing to the mean of the others. n_rows = 0 takes nothing. */
struct cost_bounds {
    double least_ns, most_ns;
};
struct cost_bounds step_costs_bounds(const struct step_costs *c, int n_rows);

#endif
