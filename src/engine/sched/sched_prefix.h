/* A sequence and the prefix cache: its chain of nodes grows with its pages. Inside of the
 * scheduler. */
#ifndef ENGINE_SCHED_SCHED_PREFIX_H
#define ENGINE_SCHED_SCHED_PREFIX_H

#include "engine/sched/sched_pages.h"

/* Gives q, which holds nothing, what the cache has of its tokens. False, and nothing has
 * changed: the rest does not fit. */
bool chain_find(struct sched *s, struct seq *q);
/* q holds pages that no node stands for yet. */
void chain_begin(struct sched *s, struct seq *q);
/* Whole pages of q become nodes. */
void chain_store(struct sched *s, struct seq *q);
/* q gives way: the cache keeps what it has. */
void chain_release(struct sched *s, struct seq *q);
/* q has ended, as q->end says: what it stored last is kept, too, or nothing of it found any
 * more. */
void chain_end(struct sched *s, struct seq *q);

/* of sched_pages.c */
bool pages_fit(const struct sched *s, const struct seq *q);
bool alloc_page(struct sched *s, struct seq *q, enum page_group g);
void plan_move(struct sched *s, struct page_move move);

#endif
