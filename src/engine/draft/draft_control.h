/* How many drafts the next step verifies. A pure function of what was measured: the time of steps
 * by their number of decode rows, and how often drafts were right. Owned by the engine's thread.
 *
 * A step with S sequences and r draft rows gives S + E tokens, E = the sum of the probabilities
 * that each draft and all before it are right, and takes T(S + r). Drafts are added, the likeliest
 * first, as long as (S + E) / T(S + r) grows beyond S / T(S). What a draft model takes to make them
 * is added to T. So the load decides, too: with many sequences a row costs more than it gives.
 *
 * The bound. Every step with drafts is compared with what its tokens would have cost without: the
 * difference goes to a balance, to which every step adds DRAFT_LOSS_SHARE of its time. Below zero
 * there are no drafts, and gains of earlier steps count for a few steps' time only. So whatever the
 * drafts are, they cost at most that share, and a few steps. A number of rows that was not measured
 * lately is tried only at that expense.
 *
 * A draft head costs time for every token that it follows, drafts or not. This has a balance of its
 * own, to which every step adds the same share, and the gains of the head's drafts: a request is
 * followed only if the balance is not below zero when it begins. */
#ifndef ENGINE_DRAFT_DRAFT_CONTROL_H
#define ENGINE_DRAFT_DRAFT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_COST_ROWS = 64,    /* each number of rows up to this one has a mean of its own; */
    DRAFT_COST_CLASSES = 112 /* beyond it, four of each power of two */
};

#define DRAFT_LOSS_SHARE 0.01

/* The mean time of the steps of a class. */
struct step_cost {
    double ns, rows;
    int64_t n, last_step;
};

struct draft_control {
    struct step_cost costs[DRAFT_COST_CLASSES];
    double balance_ns;
    double head_ns; /* the balance of following */
    int64_t n_steps;
    int n_in_row; /* steps with drafts, one after the other */
};

/* A decode step without prefill rows has run. */
struct draft_step {
    int n_seqs, n_draft_rows, n_accepted;
    double ns;       /* from the results of the step before to its own, the following included: */
    double guess_ns; /* of a draft model, to make drafts: what these cost beside the rows */
    double other_ns; /* of a draft model, to follow the target: not part of the step */
};
void draft_control_step(struct draft_control *c, const struct draft_step *step);

/* A step of any kind has taken ns, and following it has taken other_ns of these. */
void draft_control_follow(struct draft_control *c, double ns, double other_ns);
/* Whether the head may follow one more request. */
bool draft_control_may_follow(const struct draft_control *c);

/* A sequence that has drafts for the next step. */
struct draft_candidate {
    double acceptance;        /* the probability that its next draft is right */
    int n_max;                /* its drafts */
    double first_ns, next_ns; /* to make its first draft, and each other one; 0: they are made */
    int n;                    /* out: those to verify */
};
/* Sets n of each candidate; n_seqs sequences have a decode row in the step, n_rows_max rows are
 * left for drafts. Returns the sum. */
int draft_control_choose(struct draft_control *c, struct draft_candidate *candidates,
                         int n_candidates, int n_seqs, int n_rows_max);

/* The expected time of a step with that many decode rows; 0: not known. For the break-even table of
 * docs/drafts.md. */
double draft_control_cost_ns(const struct draft_control *c, int n_rows);

/* How often a drafter's proposals were right lately: the mean of the first value, which counts as
 * one observation, and the observations; later a moving average. */
struct draft_acceptance {
    double mean;
    int n; /* observations, as long as it is a mean */
};
void draft_acceptance_add(struct draft_acceptance *a, bool is_right, double newest_weight);

#endif
