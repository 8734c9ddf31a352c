/* The rows of a step, before pages are found for them. Inside of the scheduler. */
#ifndef ENGINE_SCHED_SCHED_BUDGET_H
#define ENGINE_SCHED_SCHED_BUDGET_H

#include "engine/sched/sched_internal.h"

static inline bool seq_is_decoding(const struct seq *q)
{
    return q->n_stored >= q->n_prompt;
}

/* Its tokens, with the one that the step under way draws. */
static inline int seq_n_known(const struct seq *q)
{
    return q->n_tokens + q->is_token_pending;
}

/* Rows of a prompt that is scored which can be computed without telling of them: they were told
 * of before. */
static inline int seq_n_logprobs_done(const struct seq *q)
{
    return q->has_prompt_logprobs && q->n_logprobs_done > q->n_stored
               ? q->n_logprobs_done - q->n_stored
               : 0;
}

/* Of its rows in the step that is planned, those whose logits are told of: the last row of a
 * prompt is not, which draws. */
static inline int seq_n_logprobs(const struct seq *q)
{
    int end = q->n_stored + q->n_rows, n;

    if (!q->has_prompt_logprobs)
        return 0;
    if (end > q->n_prompt - 1)
        end = q->n_prompt - 1;
    n = end - q->n_stored - seq_n_logprobs_done(q);
    return n > 0 ? n : 0;
}

/* Sets n_rows of all in s->order. */
void budget_assign(struct sched *s);

#endif
