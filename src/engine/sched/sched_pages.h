/* Which sequence gets which pages: what admission needs, who gives way when pages run out, and
 * what the prefix cache gives and gets. Inside of the scheduler. */
#ifndef ENGINE_SCHED_SCHED_PAGES_H
#define ENGINE_SCHED_SCHED_PAGES_H

#include "engine/sched/sched_internal.h"

/* Between two steps: gives a waiting sequence the pages that it begins with, out of the prefix
 * cache or back from the host's memory, when the rest of its known tokens fits beside what those
 * who run will need for theirs. False, and nothing has changed: it does not. */
bool pages_admit(struct sched *s, struct seq *q);
/* Whether those who run get the pages of the next step without anybody giving way. */
bool pages_are_enough(const struct sched *s);
/* Gives s->order[rank] pages for its n_rows, or makes those fewer; those behind it give way. */
void pages_alloc_rows(struct sched *s, int rank);
/* A step has stored more of q: whole pages go to the prefix cache, those behind the window are
 * left. */
void pages_commit(struct sched *s, struct seq *q);
/* q has ended: what it holds goes to the cache or is free. */
void pages_release_seq(struct sched *s, struct seq *q);

/* q, which runs, waits again, in its old place. */
void sched_requeue(struct sched *s, struct seq *q);

#endif
