#include "engine/worker/worker_sums.h"

void worker_add_counts(struct osp_engine_stats *sum, const struct osp_engine_stats *s)
{
    sum->n_steps += s->n_steps;
    sum->n_prompt_tokens += s->n_prompt_tokens;
    sum->n_generated_tokens += s->n_generated_tokens;
    sum->n_requests_done += s->n_requests_done;
    sum->n_cached_tokens += s->n_cached_tokens;
    sum->n_preemptions += s->n_preemptions;
    sum->n_swapped_pages += s->n_swapped_pages;
    sum->n_rows_again += s->n_rows_again;
    sum->n_kv_event_batches += s->n_kv_event_batches;
    sum->n_kv_events_dropped += s->n_kv_events_dropped;
    sum->drafts.n_proposals += s->drafts.n_proposals;
    sum->drafts.n_draft_tokens += s->drafts.n_draft_tokens;
    sum->drafts.n_accepted_tokens += s->drafts.n_accepted_tokens;
    for (int i = 0; i < OSP_DRAFTS_MAX; i++)
        sum->drafts.n_accepted_at[i] += s->drafts.n_accepted_at[i];
    for (int i = 0; i < OSP_N_STEP_KINDS; i++) {
        sum->steps[i].n += s->steps[i].n;
        sum->steps[i].n_rows += s->steps[i].n_rows;
        sum->steps[i].n_graphs += s->steps[i].n_graphs;
        sum->steps[i].seconds += s->steps[i].seconds;
    }
    sum->steps_seconds += s->steps_seconds;
    sum->device_seconds += s->device_seconds;
    sum->device_idle_seconds += s->device_idle_seconds;
}

void worker_add_metrics(struct osp_engine_metrics *sum, const struct osp_engine_metrics *m)
{
    sum->n_stopped += m->n_stopped;
    sum->n_length += m->n_length;
    sum->n_canceled += m->n_canceled;
    sum->n_failed += m->n_failed;
    sum->n_refused += m->n_refused;
    for (int i = 0; i < OSP_N_HISTOGRAMS; i++) {
        for (int k = 0; k < OSP_BUCKETS_MAX; k++)
            sum->histograms[i].counts[k] += m->histograms[i].counts[k];
        sum->histograms[i].sum += m->histograms[i].sum;
    }
}
