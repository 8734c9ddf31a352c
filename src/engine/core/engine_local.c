/* An engine in this process: open and close, its thread, its inbox. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "engine/core/engine.h"
#include "engine/core/grammar_queue.h"
#include "engine/core/mask_thread.h"
#include "engine/core/step_driver.h"
#include "engine/kv_events/kv_publisher.h"

/* Under the lock. */
static enum osp_status enqueue(struct osp_engine *e, struct osp_request *r)
{
    int64_t n_waiting = e->n_submitted - e->n_left_queue;

    if (n_waiting >= e->options.queue_requests_max) {
        e->n_refused++;
        return fail(OSP_EBUSY, "%lld requests are waiting, limit is %d", (long long)n_waiting,
                    e->options.queue_requests_max);
    }
    request_retain(r);
    if (!queue_try_push(e->inbox, r)) {
        request_drop(r);
        return fail(OSP_EUNAVAILABLE, "the engine is closing");
    }
    e->n_submitted++;
    e->n_prompt_submitted += r->seq.n_prompt;
    return OSP_OK;
}

static enum osp_status submit(struct osp_engine *e, struct osp_request *r,
                              const struct osp_request_options *opt)
{
    enum osp_status st;

    (void)opt;
    if (!atomic_load(&e->alive))
        return fail(OSP_EUNAVAILABLE, "the device has failed; the engine must be opened again");
    pthread_mutex_lock(&e->lock);
    st = enqueue(e, r);
    pthread_mutex_unlock(&e->lock);
    return st;
}

void engine_count_refusal(struct osp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->n_refused++;
    pthread_mutex_unlock(&e->lock);
}

/* ---- open and close ---- */

/* Host pages for swapped requests: first the window pages that all sequences hold between two
 * steps, then full pages. */
static void set_host_pages(struct osp_engine *e)
{
    const struct memory_plan *plan = &e->model->plan;
    struct sched_limits *l = &e->limits;
    int64_t left = e->options.swap_bytes, n;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        e->host_page_bytes[g] = (size_t)e->model->facts.page_bytes[g];
    if (left == 0)
        left = plan->swap_bytes;
    for (int g = N_PAGE_GROUPS - 1; g >= 0; g--) {
        int64_t page_bytes = (int64_t)e->host_page_bytes[g];

        n = g == GROUP_WINDOW ? (int64_t)l->n_seqs_max * sched_window_pages(l->window_tokens)
                              : l->n_pages[g];
        if (page_bytes > 0 && n > left / page_bytes)
            n = left > 0 ? left / page_bytes : 0;
        l->n_host_pages[g] = (int)n;
        left -= n * page_bytes;
    }
}

/* Other ranks keep the same pages of their own heads. */
static enum osp_status alloc_host_pages(struct osp_engine *e)
{
    int32_t n_pages[N_PAGE_GROUPS];
    enum osp_status st = OSP_OK;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        n_pages[g] = e->limits.n_host_pages[g];
    if (e->model->ranks != NULL)
        TRY(rank_leader_send(e->model->ranks, RANK_HOST_PAGES, n_pages, sizeof n_pages));

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        TRY(mem_try_hugepages(&e->host_pages[g], (size_t)e->limits.n_host_pages[g],
                              e->host_page_bytes[g], "host memory of KV pages"));
out:
    return st;
}

/* Signals belong to the program: the engine's thread blocks all. */
static enum osp_status start(struct osp_engine *e)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&e->thread, NULL, engine_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return fail(OSP_ENOMEM, "the engine's thread cannot be started: %s", strerror(error));
    return OSP_OK;
}

/* A test compares answers of one GPU and of several, of which decode rows alone have the same
 * bits (docs/ranks.md). */
static bool has_decode_prompts(void)
{
    const char *rows = getenv("OSPREY_PROMPT_ROWS");

    if (rows == NULL || strcmp(rows, "decode") != 0)
        return false;
    log_warn("OSPREY_PROMPT_ROWS: prompts are computed as decode rows, which is slow");
    return true;
}

static enum osp_status open_local(struct osp_engine *e)
{
    size_t n_samples = (size_t)(e->limits.n_seqs_max + e->limits.n_draft_rows_max);
    struct device_info device;
    enum osp_status st;

    if (e->options.speculative.method == OSP_DRAFTS_EAGLE3 && !model_has_draft(e->model->model))
        return fail(OSP_EINVAL, "speculative: method eagle3 needs a model that was opened with a "
                                "draft head (draft_model)");
    model_device_info(e->model->model, &device);
    e->driver = step_driver_of(&device);
    e->depth = e->options.no_async_scheduling ? DEPTH_SYNC : e->driver->depth;
    set_host_pages(e);
    e->limits.no_prefix_cache = e->options.no_prefix_cache;
    e->limits.slot_share = e->options.client_slot_share;
    e->limits.target_itl_ns = e->options.target_itl_ms * 1e6;
    e->limits.has_draft_head = e->options.speculative.method == OSP_DRAFTS_EAGLE3;
    e->limits.has_guesses_behind = e->limits.has_draft_head && e->depth == DEPTH_QUEUED &&
                                   !drafts_are_trees(&e->options.speculative);
    /* the draft head's program takes the states of all sequences from one step */
    e->limits.has_steps_apart = device.runs_phases_apart && !e->limits.has_draft_head;
    e->limits.has_prefill_bursts = device.has_slow_small_prefill;
    e->limits.has_decode_prompts = has_decode_prompts();
    e->limits.n_held_seqs = PREFILL_HELD_SEQS;
    TRY(sched_new(&e->sched, &e->limits));
    TRY(kv_publisher_open(&e->kv_events, &e->options, e->model->data_parallel_rank));
    if (e->kv_events != NULL)
        sched_log_prefixes(e->sched, &e->prefix_log);
    for (int i = 0; i < 2; i++)
        TRY(mem_try_aligned(&e->batch_memory[i], (size_t)sched_batch_bytes_max(&e->limits), 1,
                            "batch"));
    TRY(alloc_host_pages(e));
    TRY(mem_try_array(&e->tokens, n_samples, sizeof *e->tokens, "sampled tokens"));
    TRY(mem_try_array(&e->logprobs, n_samples, sizeof *e->logprobs,
                      "log-probabilities of samples"));
    TRY(mem_try_array(&e->top_tokens, n_samples * TOP_LOGPROBS_MAX, sizeof *e->top_tokens,
                      "likeliest tokens"));
    TRY(mem_try_array(&e->top_logprobs, n_samples * TOP_LOGPROBS_MAX, sizeof *e->top_logprobs,
                      "log-probabilities of likeliest tokens"));
    TRY(engine_drafts_init(&e->drafts, &e->options.speculative, e->model->model, &e->limits));
    e->inbox = queue_new((size_t)e->options.queue_requests_max);
    e->grammars = grammar_queue_new(e);
    e->masks = mask_thread_new(e->inbox);
    engine_publish_stats(e);
out:
    return st;
}

static void close_local(struct osp_engine *e)
{
    grammar_queue_end(e->grammars);
    queue_end(e->inbox);
    atomic_store(&e->closing, true);
    pthread_join(e->thread, NULL);
}

static void release_local(struct osp_engine *e)
{
    grammar_queue_free(e->grammars);
    mask_thread_free(e->masks);
    queue_free(e->inbox);
    sched_free(e->sched);
    kv_publisher_close(e->kv_events);
    prefix_log_release(&e->prefix_log);
    engine_drafts_release(&e->drafts);
    for (int i = 0; i < 2; i++)
        free(e->batch_memory[i]);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        free(e->host_pages[g]);
    free(e->tokens);
    free(e->logprobs);
    free(e->top_tokens);
    free(e->top_logprobs);
}

const struct engine_ops local_engine_ops = {
    .open = open_local,
    .start = start,
    .close = close_local,
    .release = release_local,
    .submit = submit,
    .get_stats = local_get_stats,
    .get_metrics = local_get_metrics,
    .get_health = local_get_health,
};
