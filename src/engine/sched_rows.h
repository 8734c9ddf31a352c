/* The rows of a step, before pages are found for them. Inside of the scheduler. */
#ifndef ENGINE_SCHED_ROWS_H
#define ENGINE_SCHED_ROWS_H

#include "engine/sched.h"

static inline bool seq_is_generating(const struct seq *q)
{
    return q->n_stored >= q->n_prompt;
}

/* Its tokens, with the one that the step under way draws. */
static inline int seq_n_known(const struct seq *q)
{
    return q->n_tokens + q->is_awaited;
}

/* Sets n_rows of all in s->order. */
void rows_give(struct sched *s);

#endif
