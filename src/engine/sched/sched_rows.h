/* The rows of a step, before pages are found for them. Inside of the scheduler. */
#ifndef ENGINE_SCHED_SCHED_ROWS_H
#define ENGINE_SCHED_SCHED_ROWS_H

#include "engine/sched/sched.h"

static inline bool seq_is_generating(const struct seq *q)
{
    return q->n_stored >= q->n_prompt;
}

/* Its tokens, with the one that the step under way draws. */
static inline int seq_n_known(const struct seq *q)
{
    return q->n_tokens + q->is_awaited;
}

/* Rows of a prompt that is scored which can be computed without telling of them: they were told of before. */
static inline int seq_n_untold(const struct seq *q)
{
    return q->is_scored && q->n_scored > q->n_stored ? q->n_scored - q->n_stored : 0;
}

/* Of its rows in the step that is planned, those whose logits are told of: the last row of a prompt is not, which draws. */
static inline int seq_n_told(const struct seq *q)
{
    int end = q->n_stored + q->n_rows, n;

    if (!q->is_scored)
        return 0;
    if (end > q->n_prompt - 1)
        end = q->n_prompt - 1;
    n = end - q->n_stored - seq_n_untold(q);
    return n > 0 ? n : 0;
}

/* Sets n_rows of all in s->order. */
void rows_give(struct sched *s);

#endif
