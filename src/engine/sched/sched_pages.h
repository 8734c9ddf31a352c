/* Pages of sequences: admission, preemption when pages run out, and the exchange with the prefix
 * cache. Private to the scheduler. */
#ifndef ENGINE_SCHED_SCHED_PAGES_H
#define ENGINE_SCHED_SCHED_PAGES_H

#include "engine/sched/sched_internal.h"

/* Between two steps: gives a waiting sequence its first pages, from the prefix cache or swapped in
 * from host memory, if the rest of its known tokens fits beside what the running sequences need for
 * theirs. False, and nothing has changed: it does not fit. */
bool pages_admit(struct sched *s, struct seq *q);
/* True when the running sequences get the pages of the next step without a preemption. */
bool pages_are_enough(const struct sched *s);
/* Allocates pages for the n_rows of s->preempt_order[rank], or reduces n_rows; sequences after it
 * in that order may be preempted for it. */
void pages_alloc_rows(struct sched *s, int rank);
/* Allocates pages for the n_draft_rows of q after its n_rows, or reduces n_draft_rows: no sequence
 * is preempted for them. */
void pages_alloc_drafts(struct sched *s, struct seq *q);
/* And for the positions of a draft head's guesses behind that step, as far as pages are free or
 * held by the prefix cache alone. */
void pages_alloc_guesses(struct sched *s, struct seq *q);
/* Plans the copy of one slot to another, of both groups, before the next step. */
void pages_move_slot(struct sched *s, struct seq *q, int from, int to);
/* Some drafts of q were rejected: the pages that it had for them alone are released. */
void pages_roll_back(struct sched *s, struct seq *q);
/* A step has stored more of q: whole pages go to the prefix cache, pages before the window are
 * released. */
void pages_commit(struct sched *s, struct seq *q);
/* q has ended: its pages go to the prefix cache or are freed. */
void pages_release_seq(struct sched *s, struct seq *q);

/* q, which was running, waits again in its old place in the queue. */
void sched_requeue(struct sched *s, struct seq *q);

#endif
