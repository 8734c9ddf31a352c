/* How many rows each sequence has in the next step, before pages are allocated for them. Private to
 * the scheduler. */
#ifndef ENGINE_SCHED_SCHED_BUDGET_H
#define ENGINE_SCHED_SCHED_BUDGET_H

#include "engine/sched/sched_internal.h"

static inline bool seq_is_decoding(const struct seq *q)
{
    return q->n_stored >= q->n_prompt;
}

/* Its tokens, including the one that the step in flight samples. */
static inline int seq_n_known(const struct seq *q)
{
    return q->n_tokens + q->is_token_pending;
}

/* has_prompt_logprobs: rows not stored yet whose log-probabilities were reported before (the
 * sequence was preempted since). They need no row of logits. */
static inline int seq_n_logprobs_done(const struct seq *q)
{
    return q->has_prompt_logprobs && q->n_logprobs_done > q->n_stored
               ? q->n_logprobs_done - q->n_stored
               : 0;
}

/* Of its rows in the planned step, those whose logits give prompt_logprobs. The prompt's last row
 * is not one of them: it is sampled. */
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

/* Sets n_rows and n_draft_rows of all sequences in s->preempt_order. */
void budget_assign(struct sched *s);
/* The same for decode rows and drafts alone. */
void budget_assign_decode(struct sched *s);

#endif
