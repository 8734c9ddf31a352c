/* A request's life and its outbox. */
#include "engine/core/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/memory.h"
#include "base/str.h"

static void request_free(struct osp_request *r)
{
    event_stream_release(&r->stream);
    answer_grammar_free(r->grammar);
    request_drafts_release(&r->drafts);
    seq_release(&r->seq);
    token_logprobs_release(&r->token_logprobs);
    token_logprobs_release(&r->prompt_token_logprobs);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r->message);
    free(r->ignored);
    free(r->grammar_message);
    free(r->client);
    free(r->user);
    free(r->salt);
    free(r);
}

enum osp_status request_new(struct osp_request **out, const struct sched_limits *limits,
                            const struct event_stream_options *stream, int n_tokens_max)
{
    struct osp_request *r = mem_new(sizeof *r);
    int n_prompt = (int)stream->n_prompt;
    enum osp_status st;

    *out = NULL;
    atomic_init(&r->n_refs, 1);
    atomic_init(&r->cancel, false);
    atomic_init(&r->is_answered, false);
    pthread_mutex_init(&r->lock, NULL);
    condition_init(&r->changed);
    TRY(seq_init(&r->seq, limits, stream->prompt, n_prompt, n_tokens_max));
    TRY(event_stream_init(&r->stream, stream));
    r->seq.owner = r;
    r->seq.times.submit_ns = clock_ns();
    r->outbox.n_tokens = n_prompt;
    r->seen = r->outbox;
    r->n_read = r->n_emitted = n_prompt;
    *out = r;
out:
    if (st != OSP_OK)
        request_free(r);
    return st;
}

void request_retain(struct osp_request *r)
{
    atomic_fetch_add(&r->n_refs, 1);
}

void request_drop(struct osp_request *r)
{
    if (atomic_fetch_sub(&r->n_refs, 1) == 1)
        request_free(r);
}

int request_n_prediction(const struct osp_request *r, const struct osp_request_options *opt)
{
    const int n_most = r->seq.n_tokens_max;

    return opt->n_prediction < n_most ? opt->n_prediction : n_most;
}

static void publish(struct osp_request *r, enum osp_status status)
{
    pthread_mutex_lock(&r->lock);
    r->outbox = (struct outbox){
        .n_tokens = r->seq.n_tokens,
        .n_cached = r->seq.n_cached,
        .is_accepted = r->outbox.is_accepted || r->seq.n_tokens > r->seq.n_prompt,
        .ended = r->seq.state == SEQ_ENDED,
        .end = r->seq.end,
        .status = status,
        .times = r->seq.times,
        .n_accepted_prediction = r->drafts.n_accepted_prediction,
        .n_rejected_prediction = r->drafts.n_rejected_prediction,
    };
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void request_publish(struct osp_request *r)
{
    publish(r, OSP_OK);
}

void request_publish_failure(struct osp_request *r, enum osp_status status, const char *message)
{
    if (str_copy(&r->message, message, "the reason of a failure") != OSP_OK)
        r->message = NULL;
    publish(r, status);
}

const char *request_message(const struct osp_request *r)
{
    return r->message != NULL ? r->message
                              : "the request failed, and there is no memory to say why";
}

void request_accept(struct osp_request *r)
{
    pthread_mutex_lock(&r->lock);
    r->outbox.is_accepted = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

bool request_is_accepted(struct osp_request *r)
{
    bool is_accepted;

    pthread_mutex_lock(&r->lock);
    is_accepted = r->outbox.is_accepted;
    pthread_mutex_unlock(&r->lock);
    return is_accepted;
}

enum osp_status request_wait_accepted(struct osp_request *r, uint64_t deadline_ns)
{
    struct outbox now;

    pthread_mutex_lock(&r->lock);
    while (!r->outbox.is_accepted && !r->outbox.ended && deadline_ns > 0 &&
           condition_wait(&r->changed, &r->lock, deadline_ns))
        continue;
    now = r->outbox;
    pthread_mutex_unlock(&r->lock);
    if (now.is_accepted || (now.ended && now.status == OSP_OK))
        return OSP_OK;
    return now.ended ? fail(now.status, "%s", request_message(r))
                     : fail(OSP_ETIMEOUT, "the request's grammar is not compiled yet");
}

static bool has_updates(const struct osp_request *r)
{
    return r->outbox.n_tokens > r->seen.n_tokens || r->outbox.ended;
}

bool request_wait(struct osp_request *r, uint64_t deadline_ns)
{
    bool is_new;

    pthread_mutex_lock(&r->lock);
    while (!has_updates(r) && deadline_ns > 0 && condition_wait(&r->changed, &r->lock, deadline_ns))
        continue;
    is_new = has_updates(r);
    if (is_new)
        r->seen = r->outbox;
    pthread_mutex_unlock(&r->lock);
    return is_new;
}

void osp_cancel(struct osp_request *request)
{
    atomic_store(&request->cancel, true);
    if (request->on_cancel != NULL)
        request->on_cancel(request->on_cancel_ctx);
}

void osp_request_close(struct osp_request *request)
{
    if (request == NULL)
        return;
    osp_cancel(request);
    request_drop(request);
}
