/* How many drafts the next step verifies. A pure function of what was measured: the time of steps
 * by their number of decode rows, and how often drafts were right. Owned by the engine's thread.
 *
 * A step with S sequences and r draft rows gives S + E tokens, E = the sum of the probabilities
 * that each draft and all before it are right, and takes T(S + r). Drafts are added, the likeliest
 * first, and the number with the best (S + E) / T(S + r) of all is taken. So the load decides, too:
 * with many sequences a row costs more than it gives. What a draft head takes to make them is added
 * to T. Its passes guess for all sequences together, so a draft costs the time of the pass with the
 * sequence's rows less that of the pass without: the first one in a pass costs the most.
 *
 * The bound. Every step with drafts is compared with what its tokens would have cost without: the
 * difference goes to a balance, to which every step adds DRAFT_LOSS_SHARE of its time. Below zero
 * there are no drafts, but for a few steps' time if they were mostly right before, and gains of
 * earlier steps count for a few steps' time only. So whatever the drafts are, they cost at most
 * that share, and a few steps. A number of rows that was not measured lately is tried only at that
 * expense. What happens once in the life of an engine does not count: the first step of a number
 * of rows and the first passes of a head build graphs and load kernels, which takes far longer
 * than all that the balance gets in a request.
 *
 * A draft head costs time for every token that it follows, drafts or not. This has a balance of its
 * own, to which every step adds DRAFT_FOLLOW_SHARE of its time, and the gains of the head's drafts:
 * a request is followed only if the balance is not below zero when it begins. Its prompt costs the
 * most, so it is followed if an answer of the usual length is expected to gain that, by the gain of
 * a token lately; others are tried at the expense of the share alone. What following costs beside
 * the reported times is the difference between steps with and without followed requests. */
#ifndef ENGINE_DRAFT_DRAFT_CONTROL_H
#define ENGINE_DRAFT_DRAFT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft/step_costs.h"
#include "engine/sched/draft_tree.h"

#define DRAFT_LOSS_SHARE   0.01
#define DRAFT_FOLLOW_SHARE 0.005

struct draft_control {
    struct step_costs costs;
    struct step_costs first_passes, later_passes; /* of the draft head */
    /* Of plain steps: the last one without followed requests, and what following took beyond the
     * times that were reported. */
    int64_t clean_step[STEP_COST_CLASSES];
    double follow_excess_ns[STEP_COST_CLASSES];
    bool is_begun; /* the first credit was given */
    int n_follows; /* that took much of a step, as the first ones may */
    double balance_ns;
    int n_seqs;           /* of the last step, */
    double base_ns;       /* and what it takes without drafts */
    double head_ns;       /* the balance of following */
    double trial_ns;      /* for following requests that are not expected to pay, */
    bool is_trying;       /* which goes on until it is spent */
    double prompt_row_ns; /* what following a prefill row takes; 0: not known */
    /* Of a step with followed requests, their prompts left out. */
    double gain_ns, gain_tokens;
    int n_gains;          /* steps in these, as long as they are means */
    double answer_tokens; /* mean length; 0: not known */
    int64_t n_steps;
    bool is_behind_prefill; /* the next step */
    int n_plain;            /* steps without drafts, one after the other */
    int n_drafted;          /* steps with drafts since there were several plain ones in a row */
};

/* A decode step without prefill rows has run. */
struct draft_step {
    int n_seqs, n_draft_rows, n_accepted;
    double ns;       /* from the results of the step before to its own, the following included: */
    double guess_ns; /* of a draft model, to make drafts: what these cost beside the rows */
    double fair_guess_ns; /* what its passes count for: draft_control_pass() */
    double other_ns;      /* of a draft model, to follow the target: not part of the step */
};
void draft_control_step(struct draft_control *c, const struct draft_step *step);

/* A pass of the draft head over n_rows rows, which makes drafts for the next step, has taken ns. It
 * is the first one of a step's guesses, or a later one. Returns what it counts for: one may build
 * graphs, or have waited. */
double draft_control_pass(struct draft_control *c, bool is_first, int n_rows, double ns);
/* What such a pass takes at least; 0: not known. */
double draft_control_pass_ns(const struct draft_control *c, bool is_first, int n_rows);

/* A step of any kind has taken ns, and following the step before it other_ns of these. n_seqs: its
 * sequences, if all have a decode row; 0: it has prefill rows. */
void draft_control_follow(struct draft_control *c, int n_seqs, double ns, double other_ns);
/* What following a step of step_ns counts for, if it took ns: the first times count in part. */
double draft_control_follow_ns(struct draft_control *c, double step_ns, double ns);
/* A prompt's n_rows were followed, which took ns. */
void draft_control_prompt(struct draft_control *c, int n_rows, double ns);
/* An answer has ended after n_tokens. */
void draft_control_answer(struct draft_control *c, int n_tokens);
/* Whether the head follows a new request with n_rows of prompt, whose answer has at most
 * n_tokens_max: the answer is expected to gain what the prompt costs, or it is tried. */
bool draft_control_begins_following(struct draft_control *c, int n_rows, int n_tokens_max);

/* Whether a draft model should guess for a request that verifies nothing, to see whether it would
 * be right: n_tokens after the last guesses, of which n_probes were for that. */
bool draft_control_wants_probe(const struct draft_control *c, int n_tokens, int n_probes);
/* Whether the head goes on following a request whose drafts were verified last n_tokens ago. */
bool draft_control_keeps_following(const struct draft_control *c, int n_tokens);

/* A sequence that has drafts for the next step. */
struct draft_candidate {
    double acceptance; /* the probability that its next draft is right */
    int n_max;         /* its drafts, at most DRAFTS_MAX */
    /* To make them, n_max > 0: passes of the head, and the sequence's rows in the first pass, and
     * in all later ones together. n_passes = 0: they are made. A chain of n drafts has n passes,
     * and n - 1 later rows. */
    int n_passes, n_first_rows, n_later_rows;
    int n; /* out: those to verify */
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
/* A new request begins with what all had: more of them are more certain. */
struct draft_acceptance draft_acceptance_begin(const struct draft_acceptance *all);
void draft_acceptance_add(struct draft_acceptance *a, bool is_right, double newest_weight);

#endif
