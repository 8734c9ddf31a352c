/* Those who wait, in order of arrival, and which of them is next. Inside of the scheduler. */
#ifndef ENGINE_SCHED_SCHED_QUEUE_H
#define ENGINE_SCHED_SCHED_QUEUE_H

#include "engine/sched/sched_internal.h"

/* q waits: in its place by arrival, which may be before others'. */
void queue_insert(struct sched *s, struct seq *q);
void queue_unlink(struct sched *s, struct seq *q);
/* The one to admit next; NULL: nobody waits. */
struct seq *queue_next(const struct sched *s);
/* q, which was queue_next(), is admitted: counts whom it passes, and takes it out. */
void queue_admit(struct sched *s, struct seq *q);

#endif
