/* The waiting sequences in order of arrival, and which one is next. Private to the scheduler. */
#ifndef ENGINE_SCHED_SCHED_QUEUE_H
#define ENGINE_SCHED_SCHED_QUEUE_H

#include "engine/sched/sched_internal.h"

/* Inserts q by arrival; a preempted sequence may go before others. */
void queue_insert(struct sched *s, struct seq *q);
void queue_unlink(struct sched *s, struct seq *q);
/* The sequence to admit next; NULL: none waits, or its client has its share of the slots. */
struct seq *queue_next(const struct sched *s);
/* Admits q, which queue_next() returned: counts the bypasses and removes q from the queue. */
void queue_admit(struct sched *s, struct seq *q);

#endif
