#include "engine/core/engine_publish.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/core/mask_thread.h"
#include "engine/core/request_grammar.h"

/* ---- metrics ---- */

void engine_publish_stats(struct osp_engine *e)
{
    const struct sched_stats s = sched_stats(e->sched);
    struct osp_engine_stats stats = {
        .n_running = s.n_running,
        .n_steps = s.n_steps,
        .n_prompt_tokens = s.n_prompt_tokens,
        .n_generated_tokens = s.n_generated_tokens,
        .n_requests_done = s.n_ended,
        .n_cached_tokens = s.n_cached_tokens,
        .n_preemptions = s.n_preemptions,
        .n_swapped_pages = s.n_swapped_pages,
        .n_rows_again = s.n_recomputed,
        .steps_seconds = (double)(e->device_ns + e->idle_ns) * 1e-9,
        .device_seconds = (double)e->device_ns * 1e-9,
        .device_idle_seconds = (double)e->idle_ns * 1e-9,
        .n_seqs_max = e->limits.n_seqs_max,
        .drafts = e->drafts.stats,
    };

    memcpy(stats.steps, e->steps, sizeof stats.steps);
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        stats.pages_used += s.pages_used[g];
        stats.pages_cached += s.pages_cached[g];
        stats.pages_total += s.pages_total[g];
        stats.pages_full += g == GROUP_FULL ? s.pages_total[g] : 0;
    }
    pthread_mutex_lock(&e->lock);
    e->n_left_queue = e->n_drained - s.n_waiting;
    e->stats = stats;
    e->n_prompt_running = s.n_prompt_left;
    e->metrics_published = e->metrics;
    pthread_mutex_unlock(&e->lock);
}

static void count_end(struct osp_engine *e, const struct seq *q, uint64_t now_ns)
{
    struct osp_request *r = request_of(q);

    metrics_end(&e->metrics, &r->marks, q, atomic_load(&r->is_answered), now_ns);
}

static void measure_chunks(struct osp_engine *e, const struct step_plan *plan, uint64_t now_ns)
{
    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *chunk = &plan->chunks[i];
        const struct seq *q = chunk->seq;

        if (q == NULL)
            continue;
        metrics_chunk(&e->metrics, &request_of(q)->marks, q,
                      chunk->is_sampled && q->end != SEQ_END_FAILED, now_ns);
        if (q->state == SEQ_ENDED)
            count_end(e, q, now_ns);
    }
}

/* ---- ends ---- */

/* Ends the request as its sequence's end says. */
static void finish_request(struct osp_engine *e, struct osp_request *r, enum osp_status status,
                           const char *message)
{
    if (status != OSP_OK)
        request_publish_failure(r, status, message);
    else
        request_publish(r);
    request_drop(r);
    e->has_updates = true;
}

static void finish_timeout(struct osp_engine *e, struct osp_request *r)
{
    const struct seq *q = &r->seq;
    char message[96];

    snprintf(message, sizeof message, "the request took longer than its time limit of %.3f s",
             (double)(q->deadline_ns - q->times.submit_ns) * 1e-9);
    finish_request(e, r, OSP_ETIMEOUT, message);
}

/* Metrics come before events: a client that has read an end finds it counted. */
void publish_leave(struct osp_engine *e, struct seq *q, enum seq_end end, enum osp_status status,
                   const char *message)
{
    if (!sched_remove(e->sched, q, end))
        return; /* publish_step() does the rest */
    count_end(e, q, clock_ns());
    engine_publish_stats(e);
    if (end == SEQ_END_TIMEOUT)
        finish_timeout(e, request_of(q));
    else
        finish_request(e, request_of(q), status, message);
}

void publish_refusal(struct osp_engine *e, struct osp_request *r, enum osp_status status)
{
    count_end(e, &r->seq, clock_ns());
    engine_publish_stats(e);
    finish_request(e, r, status, fail_message());
}

void publish_end_all(struct osp_engine *e, enum seq_end end, enum osp_status status,
                     const char *message)
{
    struct seq *q;

    assert(sched_in_flight(e->sched) == NULL);
    while ((q = sched_any(e->sched)) != NULL)
        publish_leave(e, q, end, status, message);
}

/* ---- a step ---- */

/* The log-probabilities of one sample of the step. */
static struct token_logprob logprob_at(const struct osp_engine *e, int sample)
{
    return (struct token_logprob){.logprob = e->logprobs[sample],
                                  .top_tokens = e->top_tokens + (int64_t)sample * TOP_LOGPROBS_MAX,
                                  .top_logprobs =
                                      e->top_logprobs + (int64_t)sample * TOP_LOGPROBS_MAX};
}

/* Stores prompt_logprobs of a chunk, whose samples begin at `sample`. */
static void keep_prompt_logprobs(struct osp_engine *e, const struct step_chunk *chunk, int sample)
{
    const int first = chunk_first_logprob(chunk) + 1;

    for (int i = 0; i < chunk->n_prompt_logprobs; i++) {
        struct token_logprob token_logprob = logprob_at(e, sample + i);

        if (e->tokens[sample + i] != chunk->seq->tokens[first + i])
            token_logprob.logprob = -INFINITY; /* it cannot be sampled at all */
        token_logprobs_write(&request_of(chunk->seq)->prompt_token_logprobs, first + i,
                             &token_logprob);
    }
}

/* Stores the step's log-probabilities, before its tokens are published. */
static void keep_logprobs(struct osp_engine *e, const struct step_plan *plan)
{
    int sample = 0;

    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *chunk = &plan->chunks[i];
        const struct seq *q = chunk->seq;

        if (q != NULL)
            keep_prompt_logprobs(e, chunk, sample);
        sample += chunk->n_prompt_logprobs;
        for (int k = 0; q != NULL && k < chunk->n_new; k++) {
            struct token_logprob token_logprob = logprob_at(e, sample + chunk->path[k]);

            token_logprobs_write(&request_of(q)->token_logprobs,
                                 q->n_tokens - chunk->n_new + k - q->n_prompt, &token_logprob);
        }
        sample += chunk_n_samples(chunk) - chunk->n_prompt_logprobs;
    }
}

static void publish_end(struct osp_engine *e, struct osp_request *r)
{
    const struct seq *q = &r->seq;

    if (q->end == SEQ_END_FAILED && q->failure == SAMPLE_NONE_ALLOWED)
        finish_request(e, r, OSP_EINVAL,
                       "no token may be sampled: penalties, logit_bias, "
                       "allowed_token_ids and min_tokens together rule out all of them");
    else if (q->end == SEQ_END_FAILED)
        finish_request(e, r, OSP_EDEVICE,
                       "the model gave no usable probabilities for this request: its logits were "
                       "not finite");
    else if (q->end == SEQ_END_TIMEOUT)
        finish_timeout(e, r);
    else
        finish_request(e, r, OSP_OK, NULL);
}

static void publish_chunk(struct osp_engine *e, const struct step_chunk *chunk)
{
    struct osp_request *r = request_of(chunk->seq);

    if (chunk->seq->state == SEQ_ENDED) {
        publish_end(e, r);
    } else if (chunk->is_sampled) {
        e->has_updates = true;
        request_publish(r);
    }
}

void publish_step(struct osp_engine *e, const struct step_plan *plan, uint64_t now_ns)
{
    keep_logprobs(e, plan);
    measure_chunks(e, plan, now_ns);
    engine_publish_stats(e);
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq != NULL)
            publish_chunk(e, &plan->chunks[i]);
}

void publish_notify(struct osp_engine *e)
{
    if (e->has_updates && e->options.notify != NULL)
        e->options.notify(e->options.notify_ctx);
    e->has_updates = false;
}

/* ---- masks ---- */

/* Makes the mask of q here if that is quick, else passes it to the mask thread. Nothing to do when
 * its mask is pending or has failed. */
static void make_mask(struct osp_engine *e, struct seq *q, bool has_time)
{
    struct osp_request *r = request_of(q);
    const int n_sampled = q->n_tokens - q->n_prompt;

    if (r->mask_is_pending || r->grammar_status != OSP_OK)
        return;
    /* Several tokens at once only if drafts were accepted: see answer_grammar_n_free(). */
    while (answer_grammar_n_tokens(r->grammar) < n_sampled)
        answer_grammar_accept(r->grammar,
                              q->tokens[q->n_prompt + answer_grammar_n_tokens(r->grammar)]);
    if (has_time && request_make_mask(r, MASK_QUICK)) {
        if (r->grammar_status == OSP_OK)
            sched_mask_ready(e->sched, q);
        return;
    }
    r->mask_is_pending = mask_thread_push(e->masks, r);
    e->n_masks_pending += r->mask_is_pending;
    if (!r->mask_is_pending && request_make_mask(r, MASK_WHOLE) && r->grammar_status == OSP_OK)
        sched_mask_ready(e->sched, q);
}

/* Collects masks that the mask thread has made. A canceled request leaves without one. */
static void collect_masks(struct osp_engine *e)
{
    struct osp_request *r;

    while (e->n_masks_pending > 0 && (r = mask_thread_pop(e->masks)) != NULL) {
        e->n_masks_pending--;
        r->mask_is_pending = false;
        if (r->seq.state != SEQ_ENDED && r->grammar_status == OSP_OK && !atomic_load(&r->cancel))
            sched_mask_ready(e->sched, &r->seq);
        request_drop(r);
    }
}

void masks_make(struct osp_engine *e, uint64_t deadline_ns)
{
    collect_masks(e);
    for (int i = 0; i < sched_n_running(e->sched); i++)
        if (seq_needs_mask(sched_running(e->sched, i))) {
            if (clock_ns() > deadline_ns)
                return;
            make_mask(e, sched_running(e->sched, i), true);
        }
}

void masks_make_all(struct osp_engine *e, uint64_t deadline_ns)
{
    collect_masks(e);
    for (int i = sched_n_running(e->sched); i-- > 0;) {
        struct seq *q = sched_running(e->sched, i);
        struct osp_request *r = request_of(q);

        if (!seq_needs_mask(q) || r->mask_is_pending)
            continue;
        publish_notify(e);
        make_mask(e, q, clock_ns() < deadline_ns);
        if (!r->mask_is_pending && r->grammar_status != OSP_OK)
            publish_leave(e, q, SEQ_END_FAILED, r->grammar_status,
                          r->grammar_message != NULL ? r->grammar_message
                                                     : status_text(r->grammar_status));
    }
}
