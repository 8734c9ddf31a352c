/* A sequence and the prefix cache: its chain of nodes grows with its pages. Private to the
 * scheduler. */
#ifndef ENGINE_SCHED_SCHED_PREFIX_H
#define ENGINE_SCHED_SCHED_PREFIX_H

#include "engine/sched/sched_pages.h"

/* Gives q, which holds no page, the pages of its longest prefix in the cache. False, and nothing
 * has changed: the rest does not fit. */
bool chain_find(struct sched *s, struct seq *q);
/* Begins the chain of q, whose pages have no nodes yet. */
void chain_begin(struct sched *s, struct seq *q);
/* Whole pages of q become nodes. */
void chain_store(struct sched *s, struct seq *q);
/* q is preempted: the cache keeps its nodes. */
void chain_release(struct sched *s, struct seq *q);
/* q has ended: its last page is added, too; or, if it failed (q->end), its nodes are
 * invalidated. */
void chain_end(struct sched *s, struct seq *q);

/* of sched_pages.c */
bool pages_fit(const struct sched *s, const struct seq *q);
bool alloc_page(struct sched *s, struct seq *q, enum page_group g);
void plan_move(struct sched *s, struct page_move move);

#endif
