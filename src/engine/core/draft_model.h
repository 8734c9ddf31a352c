/* Runs the draft head (model/draft.h) for the requests of an engine: which positions the head has,
 * which states of the target wait for it, and the guesses of several requests at once.
 *
 * The head has a position once the token behind it is known, so it follows the target by one token.
 * States of decode rows wait, up to DRAFT_KEPT_MAX of a request, and cost a copy while nobody
 * drafts. They are stored in the head's cache when guesses are made, when no place is left, and
 * when the prefix cache may share their page: it is full, or the request ends. A request that is
 * preempted loses its states that wait: the head misses those positions, and may guess worse. Used
 * by the engine's thread. */
#ifndef ENGINE_CORE_DRAFT_MODEL_H
#define ENGINE_CORE_DRAFT_MODEL_H

#include "engine/draft/draft_shape.h"
#include "engine/memory/memory_plan.h"
#include "engine/sched/sched.h"

/* Of one request. Zeroed: the head has nothing of it. */
struct draft_progress {
    int n_stored;           /* positions in the head's cache */
    int first_kept, n_kept; /* positions whose states wait; they end at the last known one */
    int place;              /* of the places of states, from 1; 0: none */
    bool is_kept_ahead; /* the state of the step in flight waits, too: draft_model_keep_ahead() */
    bool is_guessed_behind; /* a pass stores its rows: draft_model_guess_behind() */
};

/* A request that wants guesses. */
struct draft_request {
    const struct seq
        *q; /* the caller sets it to NULL when it leaves before its guesses were read */
    struct draft_progress *progress;
    int n_max; /* at least 1; with a shape, its nodes */
    /* A tree of guesses, not a chain; NULL: a chain. All requests of a call have one, or none. */
    const struct draft_shape *shape;
    int32_t tokens[DRAFTS_MAX]; /* out: (n) */
    int8_t parents[DRAFTS_MAX]; /* out: (n), with a shape: as in draft_tree.h */
    int n;

    /* private to draft_model.c */
    int n_wanted;               /* guesses that it will have */
    int n_tokens;               /* of q when guesses begin; the most, where that is not known */
    struct batch_follow follow; /* drafts of q in the step before the guesses */
};

struct draft_model;

/* model: opened with a head. n_seqs_max: requests that run together. */
CHECKED enum osp_status draft_model_new(struct draft_model **out, struct model *model,
                                        const struct sched_limits *limits);
void draft_model_free(struct draft_model *d); /* accepts NULL */

/* A step of the target was committed: its states go to the head or wait. plan->batch is its batch.
 * progress[i] is that of chunk i; NULL: it is skipped. is_sent: the next step was sent, after
 * draft_model_keep_ahead(); the head's pass is then queued behind that step. *copies_ns: the
 * expected time of the copies of states, which nobody waits for; *n_queued_rows: the rows of the
 * pass that nobody waits for. */
CHECKED enum osp_status draft_model_follow(struct draft_model *d, const struct step_plan *plan,
                                           struct draft_progress *const *progress, bool is_sent,
                                           double *copies_ns, int *n_queued_rows);
/* On a device with runs_pipelined, while the step of the plan is in flight: whether its states can
 * be kept before its tokens are known, so that the next step, which replaces them, can be sent. Not
 * with prompts and drafts, of which not every row counts or waits. */
bool draft_model_can_keep_ahead(const struct draft_model *d, const struct step_plan *plan,
                                struct draft_progress *const *progress);
/* Queues the copies of these states behind the step. */
CHECKED enum osp_status draft_model_keep_ahead(struct draft_model *d, const struct step_plan *plan,
                                               struct draft_progress *const *progress);
/* The running request q leaves between two steps. */
CHECKED enum osp_status draft_model_leave(struct draft_model *d, struct draft_progress *p,
                                          const struct seq *q);
/* The request runs, so its states are kept in the next draft_model_follow(). */
void draft_model_touch(struct draft_model *d, const struct draft_progress *p);
/* Whether guesses for q can be made. */
bool draft_model_can_guess(const struct draft_progress *p, const struct seq *q);
/* Rows of a request that can have guesses in their first pass: its states that wait. */
int draft_model_first_rows(const struct draft_progress *p);
/* Guesses the next tokens of each request: one pass of the head a token, all requests together.
 * Where the request samples, the guess takes the same random number as the target. A list may end
 * early: at a page that does not exist yet.
 *
 * may_stay_open: a device with runs_pipelined need not wait for the last passes. Their guesses are
 * then tokens < 0 (batch_token_sampled_before()) for a step that is run next, with
 * draft_model_open_ticket() as its tokens_ticket; draft_model_receive() replaces them in `list`,
 * which must stay until then, when that step may have been run already. */
CHECKED enum osp_status draft_model_guess(struct draft_model *d, struct draft_request *list, int n,
                                          bool may_stay_open);

/* On a device with runs_pipelined, while a step that verifies drafts is in flight, passes can be
 * queued behind it: they get the number of accepted drafts from the device, and run while the host
 * learns it. Whether that can be done for the chunk of a step, and with how many guesses; it must
 * be possible for all chunks of the step. */
bool draft_model_can_guess_behind(const struct draft_model *d, const struct step_chunk *chunk,
                                  const struct draft_progress *p);
int draft_model_guesses_behind_max(const struct step_chunk *chunk);
/* Queues the first passes. list: sequences of the plan, whose drafts are known, with n_max within
 * that bound; it must stay until the guesses are received. progress: of all chunks; NULL: the head
 * does not follow it. */
CHECKED enum osp_status draft_model_guess_behind(struct draft_model *d,
                                                 const struct step_plan *plan,
                                                 struct draft_progress *const *progress,
                                                 struct draft_request *list, int n,
                                                 uint64_t step_ticket);
/* The step was committed, and draft_model_follow() called: queues the passes that are left, unless
 * a request that would have a row in them has ended. The guesses are in the list as with
 * may_stay_open. */
CHECKED enum osp_status draft_model_guess_on(struct draft_model *d);

/* Of the last pass; 0: all guesses are known. */
uint64_t draft_model_open_ticket(const struct draft_model *d);
/* Waits for the last passes, of which some must be open, and replaces their guesses; id 0 where
 * there is none. */
CHECKED enum osp_status draft_model_receive(struct draft_model *d);

/* Time of the passes that guessed, since the last call, by the clock of a device with
 * runs_pipelined. */
uint64_t draft_model_take_device_ns(struct draft_model *d);
/* A pass that guessed: the first one of a chain or a tree, or a later one. Its time begins with the
 * end of the pass before. */
struct pass_time {
    bool is_first;
    int n_rows;
    uint64_t ns;
};
/* Those that were read since the last call, *n of them; valid until the next pass. */
const struct pass_time *draft_model_take_passes(struct draft_model *d, int *n);

#endif
