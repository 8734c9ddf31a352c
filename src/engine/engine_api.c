/* Opening and closing an engine, and submitting to it; engine_figures.c tells what it does. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/engine.h"
#include "engine/grammar_queue.h"
#include "engine/mask_thread.h"
#include "engine/remote.h"

enum {
    QUEUE_REQUESTS_DEFAULT = 256,
    QUEUE_REQUESTS_MAX = 65536 /* a prompt's tokens each: beyond this, clients should wait */
};

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

enum osp_status engine_submit(struct osp_engine *e, struct osp_request *r,
                              const struct osp_request_options *opt)
{
    enum osp_status st;

    if (e->model->remote != NULL)
        return remote_submit(e->model->remote, r, opt);
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

/* ---- opening and closing ---- */

static void add_stop_id(struct sched_limits *l, int32_t id)
{
    if (id >= 0 && l->n_stop_ids < SCHED_STOP_IDS_MAX)
        l->stop_ids[l->n_stop_ids++] = id;
}

/* Harmony's own ends, by name, and what the checkpoint says; never <|end|>, which only ends one
 * message of an answer. */
static void add_stop_ids(struct sched_limits *l, const struct osp_model *m)
{
    const struct special_ids *special = &m->text.specials;

    add_stop_id(l, special->ret);
    add_stop_id(l, special->call);
    add_stop_id(l, special->endoftext);
    for (int i = 0; i < m->facts.n_stop_ids; i++)
        if (m->facts.stop_ids[i] != special->end)
            add_stop_id(l, m->facts.stop_ids[i]);
}

/* What ends a message: another one may follow, or a different one than last time. */
static void add_turn_ids(struct sched_limits *l, const struct osp_model *m)
{
    const struct special_ids *special = &m->text.specials;
    const int32_t ids[] = {special->end, special->call, special->ret};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (ids[i] >= 0 && l->n_turn_ids < SCHED_TURN_IDS_MAX)
            l->turn_ids[l->n_turn_ids++] = ids[i];
}

/* All that one sequence keeps of its window between two steps, for all of them; the rest is for full pages. */
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

static enum osp_status alloc_host_pages(struct osp_engine *e)
{
    enum osp_status st = OSP_OK;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        TRY(mem_try_pages(&e->host_pages[g], (size_t)e->limits.n_host_pages[g],
                          e->host_page_bytes[g], "host memory of KV pages"));
out:
    return st;
}

static struct sched_limits limits_of(const struct osp_model *m)
{
    struct sched_limits l = {
        .n_seqs_max = m->plan.n_seqs_max,
        .n_batch_tokens_max = m->plan.n_batch_tokens_max,
        .context_tokens_max = m->plan.context_tokens_max,
        .window_tokens = m->facts.window_tokens,
        .passes_max = PASSES_MAX_DEFAULT,
        .lists = m->plan.lists,
    };

    memcpy(l.n_pages, m->plan.n_pages, sizeof l.n_pages);
    add_stop_ids(&l, m);
    add_turn_ids(&l, m);
    return l;
}

static enum osp_status check_options(struct osp_engine_options *opt)
{
    if (opt->client_slot_share < 0 || opt->client_slot_share > OSP_SLOT_SHARE_MAX)
        return fail(OSP_EINVAL, "client_slot_share is %d, must be in 0 (no limit) to %d",
                    opt->client_slot_share, OSP_SLOT_SHARE_MAX);
    if (opt->queue_requests_max < 0 || opt->queue_requests_max > QUEUE_REQUESTS_MAX)
        return fail(OSP_EINVAL, "queue_requests_max is %d, must be in 0 (default) to %d",
                    opt->queue_requests_max, QUEUE_REQUESTS_MAX);
    if (opt->queue_requests_max == 0)
        opt->queue_requests_max = QUEUE_REQUESTS_DEFAULT;
    return OSP_OK;
}

/* Signals are the program's business: the engine's thread takes none. */
static enum osp_status start_thread(struct osp_engine *e)
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

static enum osp_status open_parts(struct osp_engine *e)
{
    size_t n_seqs = (size_t)e->limits.n_seqs_max;
    struct device_info device;
    enum osp_status st;

    TRY(check_options(&e->options));
    if (e->model->remote != NULL)
        return remote_engine_open(e->model->remote, &e->options);
    model_device_info(e->model->model, &device);
    e->runs_behind = device.runs_behind;
    e->runs_ahead = device.runs_ahead;
    set_host_pages(e);
    e->limits.no_prefix_cache = e->options.no_prefix_cache;
    e->limits.slot_share = e->options.client_slot_share;
    TRY(sched_init(&e->sched, &e->limits));
    TRY(mem_try_aligned(&e->batch_memory, (size_t)sched_batch_bytes_max(&e->limits), 1, "batch"));
    TRY(alloc_host_pages(e));
    TRY(mem_try_array(&e->tokens, n_seqs, sizeof *e->tokens, "drawn tokens"));
    TRY(mem_try_array(&e->logprobs, n_seqs, sizeof *e->logprobs, "drawn log-probabilities"));
    TRY(mem_try_array(&e->top_tokens, n_seqs * SAMPLE_TOP_MAX, sizeof *e->top_tokens,
                      "likeliest tokens"));
    TRY(mem_try_array(&e->top_logprobs, n_seqs * SAMPLE_TOP_MAX, sizeof *e->top_logprobs,
                      "their log-probabilities"));
    e->inbox = queue_new((size_t)e->options.queue_requests_max);
    e->grammars = grammar_queue_new(e);
    e->masks = mask_thread_new(e->inbox);
    engine_publish_stats(e);
out:
    return st;
}

void engine_free(struct osp_engine *e)
{
    grammar_queue_free(e->grammars);
    mask_thread_free(e->masks);
    queue_free(e->inbox);
    sched_release(&e->sched);
    free(e->batch_memory);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        free(e->host_pages[g]);
    free(e->tokens);
    free(e->logprobs);
    free(e->top_tokens);
    free(e->top_logprobs);
    pthread_mutex_destroy(&e->lock);
    atomic_store(&e->model->claimed, false);
    free(e);
}

enum osp_status engine_make(struct osp_engine **out, struct osp_model *model,
                            const struct osp_engine_options *opt)
{
    struct osp_engine *e;
    enum osp_status st;

    *out = NULL;
    if (atomic_exchange(&model->claimed, true))
        return fail(OSP_EINVAL, "%s already has an engine; a device has one owner", model->name);
    e = mem_new(sizeof *e);
    e->model = model;
    if (opt != NULL)
        e->options = *opt;
    e->limits = limits_of(model);
    atomic_init(&e->closing, false);
    atomic_init(&e->alive, true);
    atomic_init(&e->step_begin_ns, 0);
    atomic_init(&e->step_limit_ns, 0);
    pthread_mutex_init(&e->lock, NULL);
    st = open_parts(e);
    if (st != OSP_OK)
        engine_free(e);
    else
        *out = e;
    return st;
}

enum osp_status osp_engine_open(struct osp_engine **out, struct osp_model *model,
                                const struct osp_engine_options *opt)
{
    enum osp_status st;

    TRY(engine_make(out, model, opt));
    if (model->remote == NULL)
        st = start_thread(*out);
    if (st != OSP_OK) {
        engine_free(*out);
        *out = NULL;
    }
out:
    return st;
}

void osp_engine_close(struct osp_engine *engine)
{
    if (engine == NULL)
        return;
    if (engine->model->remote != NULL) {
        remote_engine_close(engine->model->remote);
    } else {
        grammar_queue_end(engine->grammars);
        queue_end(engine->inbox);
        atomic_store(&engine->closing, true);
        pthread_join(engine->thread, NULL);
    }
    engine_free(engine);
}
