/* Frames of the worker, and the requests that it has. All under the lock. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "engine/worker/worker_client_internal.h"
#include "engine/worker/wire_fields.h"

/* ---- slots ---- */

static uint64_t id_of(const struct worker_client *r, int place)
{
    return (uint64_t)r->inflight[place].serial << 32 | (uint32_t)place;
}

/* NULL: the request has ended here, before the worker knew. */
struct inflight *worker_client_find(struct worker_client *r, uint64_t id)
{
    size_t place = (size_t)(id & UINT32_MAX);

    if (place >= r->n_slots || r->inflight[place].request == NULL ||
        r->inflight[place].serial != (uint32_t)(id >> 32))
        return NULL;
    return &r->inflight[place];
}

static enum osp_status add_slot(struct worker_client *r)
{
    enum osp_status st;

    TRY(mem_try_grow(&r->inflight, r->n_slots, &r->slots_capacity, sizeof *r->inflight,
                     "requests"));
    r->inflight[r->n_slots] = (struct inflight){.next_free = r->first_free};
    r->first_free = (int)r->n_slots++;
out:
    return st;
}

enum osp_status worker_client_add(struct worker_client *r, struct osp_request *request,
                                  uint64_t *id)
{
    struct inflight *l;
    int place;
    enum osp_status st = OSP_OK;

    if (r->first_free < 0)
        TRY(add_slot(r));
    place = r->first_free;
    l = &r->inflight[place];
    r->first_free = l->next_free;
    *l = (struct inflight){.request = request, .serial = l->serial + 1};
    request_retain(request);
    r->n_inflight++;
    *id = id_of(r, place);
out:
    return st;
}

static void set_pending(struct worker_client *r, struct inflight *l, int n_tokens)
{
    r->n_pending_tokens += n_tokens - l->n_pending;
    l->n_pending = n_tokens;
}

void worker_client_set_pending(struct worker_client *r, uint64_t id, int n_tokens)
{
    set_pending(r, worker_client_find(r, id), n_tokens);
}

static void drop_frame(struct inflight *l)
{
    free(l->orphan.frame);
    l->orphan.frame = NULL;
}

static void free_slot(struct worker_client *r, struct inflight *l)
{
    request_drop(l->request);
    set_pending(r, l, 0);
    drop_frame(l);
    l->request = NULL;
    l->next_free = r->first_free;
    r->first_free = (int)(l - r->inflight);
    r->n_inflight--;
}

void worker_client_remove(struct worker_client *r, uint64_t id)
{
    struct inflight *l = worker_client_find(r, id);

    if (l != NULL)
        free_slot(r, l);
}

static void end_inflight(struct worker_client *r, struct inflight *l, enum seq_end end,
                         enum osp_status status, const char *message)
{
    struct osp_request *request = l->request;

    request->seq.state = SEQ_ENDED;
    request->seq.end = end;
    if (r->owner.ended != NULL)
        r->owner.ended(r->owner.ctx, r->owner.index, request);
    if (status != OSP_OK)
        request_publish_failure(request, status, message);
    else
        request_publish(request);
    free_slot(r, l);
    r->has_updates = true;
}

void worker_client_end_all(struct worker_client *r, enum seq_end end, enum osp_status status,
                           const char *message)
{
    for (size_t i = 0; i < r->n_slots; i++)
        if (r->inflight[i].request != NULL)
            end_inflight(r, &r->inflight[i], end, status, message);
}

/* No client has heard of a token, or of a prompt's log-probability. */
static bool is_untouched(const struct inflight *l)
{
    const struct seq *q = &l->request->seq;

    return l->orphan.frame != NULL && !atomic_load(&l->request->cancel) &&
           q->n_tokens == q->n_prompt && q->n_logprobs_done == 0;
}

void worker_client_collect_orphans(struct worker_client *r)
{
    enum osp_status st;

    st = mem_try_array(&r->orphans, (size_t)r->n_inflight, sizeof *r->orphans,
                       "requests of a failed worker");
    for (size_t i = 0; st == OSP_OK && i < r->n_slots; i++) {
        struct inflight *l = &r->inflight[i];

        if (l->request == NULL || !is_untouched(l))
            continue;
        request_retain(l->request);
        r->orphans[r->n_orphans++] = l->orphan;
        l->orphan.frame = NULL;
        free_slot(r, l);
    }
}

enum osp_status worker_client_send_cancels(struct worker_client *r)
{
    enum osp_status st = OSP_OK;

    if (!atomic_exchange(&r->has_cancels, false))
        return OSP_OK;
    for (size_t i = 0; i < r->n_slots; i++) {
        struct inflight *l = &r->inflight[i];
        struct wire_cancel c;

        if (l->request == NULL || l->is_canceled || !atomic_load(&l->request->cancel))
            continue;
        l->is_canceled = true;
        memset(&c, 0, sizeof c);
        c.id = id_of(r, (int)i);
        c.is_answered = atomic_load(&l->request->is_answered);
        wire_begin(&r->wire, FRAME_CANCEL);
        wire_put(&r->wire, &c, sizeof c);
        TRY(wire_end(&r->wire));
    }
out:
    return st;
}

/* ---- frames ---- */

static enum osp_status on_progress(struct worker_client *r, struct frame *f)
{
    frame_take(f, &r->progress, sizeof r->progress);
    pthread_cond_broadcast(&r->changed);
    return OSP_OK;
}

enum osp_status worker_client_send_engine(struct worker_client *r)
{
    wire_begin(&r->wire, FRAME_ENGINE);
    wire_put_engine_options(&r->wire, &r->engine_options);
    return wire_end(&r->wire);
}

/* A restarted worker must have the limits of the first one: clients rely on them. */
static enum osp_status check_alike(const struct worker_client *r, const struct wire_model *made)
{
    const struct memory_plan *a = &r->made.plan, *b = &made->plan;

    if (made->facts.vocab_size != r->made.facts.vocab_size ||
        b->context_tokens_max != a->context_tokens_max || b->n_seqs_max != a->n_seqs_max)
        return fail(OSP_EFORMAT,
                    "the model was opened again with other limits: context %d instead of %d, %d "
                    "requests at once instead of %d",
                    b->context_tokens_max, a->context_tokens_max, b->n_seqs_max, a->n_seqs_max);
    return OSP_OK;
}

static enum osp_status on_opened_again(struct worker_client *r, const struct wire_outcome *outcome,
                                       const struct wire_model *made)
{
    enum osp_status st;

    if (outcome->status != OSP_OK)
        return fail(outcome->status, "the model could not be opened again: %s", outcome->message);
    TRY(check_alike(r, made));
    r->worker_state = WORKER_STATE_READY;
    log_info("the worker process %d%s has opened the model again in %.1f s", (int)r->pid, r->name,
             made->load_seconds);
    if (r->has_engine)
        TRY(worker_client_send_engine(r));
out:
    return st;
}

/* The first time, the thread that waits in worker_client_open() takes the outcome. */
static enum osp_status on_opened(struct worker_client *r, struct frame *f)
{
    struct wire_outcome outcome;
    struct wire_model made;

    frame_take(f, &outcome, sizeof outcome);
    frame_take(f, &made, sizeof made);
    outcome.message[sizeof outcome.message - 1] = '\0';
    if (r->worker_state != WORKER_STATE_OPENING || f->is_bad)
        return fail(OSP_EFORMAT, "worker protocol: FRAME_OPENED while no model is being opened");
    if (r->was_opened)
        return on_opened_again(r, &outcome, &made);
    made.facts.device[sizeof made.facts.device - 1] = '\0';
    r->outcome = outcome;
    if (outcome.status != OSP_OK)
        return fail(outcome.status, "%s", outcome.message);
    r->made = made;
    r->was_opened = true;
    r->worker_state = WORKER_STATE_READY;
    pthread_cond_broadcast(&r->changed);
    return OSP_OK;
}

static enum osp_status on_engine_opened(struct worker_client *r, struct frame *f)
{
    bool is_first = !r->engine_is_answered;
    struct wire_outcome outcome;

    frame_take(f, &outcome, sizeof outcome);
    outcome.message[sizeof outcome.message - 1] = '\0';
    r->engine_is_open = outcome.status == OSP_OK;
    r->engine_is_answered = true;
    r->outcome = outcome;
    pthread_cond_broadcast(&r->changed);
    if (outcome.status == OSP_OK || is_first)
        return OSP_OK;
    return fail(outcome.status, "the engine could not be opened again: %s", outcome.message);
}

static enum osp_status on_pulse(struct worker_client *r, struct frame *f)
{
    struct wire_pulse pulse;

    frame_take(f, &pulse, sizeof pulse);
    pulse.health.reason[sizeof pulse.health.reason - 1] = '\0';
    r->stats = pulse.stats;
    r->health = pulse.health;
    if (pulse.health.state != OSP_ENGINE_WEDGED)
        r->wedged_ns = 0;
    else if (r->wedged_ns == 0)
        r->wedged_ns = clock_ns();
    return OSP_OK;
}

static bool is_possible(const struct worker_client *r, const struct osp_request *request,
                        const struct wire_event *event)
{
    const struct seq *q = &request->seq;
    const struct token_logprobs *s = &request->token_logprobs;

    if (request->prompt_token_logprobs.logprobs != NULL && q->n_prompt > 1 &&
        q->n_logprobs_done < q->n_prompt &&
        (event->n_new > 0 || event->end == SEQ_END_LENGTH || event->end == SEQ_END_STOP))
        return false; /* the prompt's tokens come first */
    if (event->n_new > 0 &&
        (event->has_logprobs != (s->logprobs != NULL) || event->n_top != s->n_top))
        return false;
    return event->n_before == q->n_tokens && event->n_new >= 0 &&
           event->n_new <= q->n_tokens_max - q->n_tokens && event->n_message_bytes >= 0 &&
           event->n_cached >= 0 && event->n_cached < q->n_prompt &&
           event->n_message_bytes <= FAIL_MESSAGE_BYTES_MAX && event->n_ignored_bytes >= 0 &&
           event->n_ignored_bytes <= CALLS_IGNORED_BYTES_MAX && r->engine_is_open;
}

/* Tokens are written to their final place; the client's thread reads them once published. */
static bool take_tokens(const struct worker_client *r, struct seq *q, struct frame *f, int n)
{
    int32_t *at = q->tokens + q->n_tokens;

    frame_take(f, at, (size_t)n * sizeof *at);
    for (int i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= r->made.facts.vocab_size)
            return false;
    return !f->is_bad;
}

/* Likewise, before the tokens are published. */
static bool take_logprobs(const struct worker_client *r, struct token_logprobs *s, struct frame *f,
                          size_t at, int n)
{
    size_t n_entries;

    if (s->logprobs == NULL || n == 0)
        return true;
    frame_take(f, s->logprobs + at, (size_t)n * sizeof *s->logprobs);
    at *= (size_t)s->n_top;
    n_entries = (size_t)n * (size_t)s->n_top;
    frame_take(f, s->top_tokens + at, n_entries * sizeof *s->top_tokens);
    frame_take(f, s->top_logprobs + at, n_entries * sizeof *s->top_logprobs);
    for (size_t i = 0; i < n_entries; i++)
        if (s->top_tokens[at + i] >= r->made.facts.vocab_size)
            return false;
    return !f->is_bad;
}

/* seq.n_logprobs_done counts them here, from 1: the prompt's first token has none. */
static bool are_next(const struct osp_request *request, const struct wire_logprobs *head)
{
    const struct seq *q = &request->seq;
    const struct token_logprobs *s = &request->prompt_token_logprobs;
    const int first = q->n_logprobs_done > 0 ? q->n_logprobs_done : 1;

    return s->logprobs != NULL && head->first == first && head->n_top == s->n_top && head->n > 0 &&
           head->n <= q->n_prompt - first;
}

static enum osp_status on_logprobs(struct worker_client *r, struct frame *f)
{
    struct wire_logprobs head;
    struct inflight *l;

    frame_take(f, &head, sizeof head);
    l = worker_client_find(r, head.id);
    if (l == NULL) {
        (void)frame_view(f, f->n_left);
        return OSP_OK;
    }
    if (!are_next(l->request, &head) ||
        !take_logprobs(r, &l->request->prompt_token_logprobs, f, (size_t)head.first, head.n))
        return fail(OSP_EFORMAT, "worker protocol: invalid log-probabilities of a prompt");
    l->request->seq.n_logprobs_done = head.first + head.n;
    return OSP_OK;
}

/* Before the request is accepted: the client reads it after that. */
static enum osp_status take_ignored(struct osp_request *request, struct frame *f, int n_bytes)
{
    char ignored[CALLS_IGNORED_BYTES_MAX + 1] = "";

    if (n_bytes == 0)
        return OSP_OK;
    frame_take(f, ignored, (size_t)n_bytes);
    if (request->ignored == NULL)
        return str_copy(&request->ignored, ignored, "the names of ignored keywords");
    if (strcmp(request->ignored, ignored) == 0) /* another replica had the request before */
        return OSP_OK;
    return fail(OSP_EFORMAT, "worker protocol: ignored keywords are listed twice");
}

static enum osp_status on_event(struct worker_client *r, struct frame *f)
{
    char message[FAIL_MESSAGE_BYTES_MAX + 1] = "";
    struct wire_event event;
    struct inflight *l;
    struct seq *q;
    uint64_t submit_ns;
    enum osp_status st;

    frame_take(f, &event, sizeof event);
    l = worker_client_find(r, event.id);
    if (l == NULL) {
        (void)frame_view(f, f->n_left);
        return OSP_OK;
    }
    q = &l->request->seq;
    if (!is_possible(r, l->request, &event) || !take_tokens(r, q, f, event.n_new) ||
        !take_logprobs(r, &l->request->token_logprobs, f, (size_t)(q->n_tokens - q->n_prompt),
                       event.n_new))
        return fail(OSP_EFORMAT, "worker protocol: an invalid event of a request");
    frame_take(f, message, (size_t)event.n_message_bytes);
    st = take_ignored(l->request, f, event.n_ignored_bytes);
    if (st != OSP_OK)
        return st;
    submit_ns = q->times.submit_ns;
    q->times = event.times;
    q->times.submit_ns = submit_ns;
    q->n_cached = event.n_cached;
    l->request->drafts.n_accepted_prediction = event.n_accepted_prediction;
    l->request->drafts.n_rejected_prediction = event.n_rejected_prediction;
    q->n_tokens += event.n_new;
    r->has_updates = true;
    if (event.n_new > 0) {
        set_pending(r, l, 0);
        drop_frame(l);
    }
    if (event.is_accepted)
        request_accept(l->request);
    if (event.end == SEQ_END_NONE)
        request_publish(l->request);
    else
        end_inflight(r, l, event.end, event.status, message);
    return OSP_OK;
}

static enum osp_status handle_frame(struct worker_client *r, struct frame *f)
{
    switch (f->kind) {
    case FRAME_PROGRESS:
        return on_progress(r, f);
    case FRAME_OPENED:
        return on_opened(r, f);
    case FRAME_ENGINE_OPENED:
        return on_engine_opened(r, f);
    case FRAME_PULSE:
        return on_pulse(r, f);
    case FRAME_METRICS:
        frame_take(f, &r->metrics, sizeof r->metrics);
        return OSP_OK;
    case FRAME_LOGPROBS:
        return on_logprobs(r, f);
    case FRAME_EVENT:
        return on_event(r, f);
    default:
        return fail(OSP_EFORMAT,
                    "worker protocol: the worker sent %s, a frame that only a parent sends",
                    frame_name(f->kind));
    }
}

enum osp_status worker_client_receive(struct worker_client *r)
{
    enum osp_status received = wire_fill(&r->wire), st;
    struct frame f;

    r->received_ns = clock_ns();
    r->pinged_ns = 0;
    while (wire_next(&r->wire, &f, &st)) { /* frames sent before it failed count, too */
        TRY(handle_frame(r, &f));
        TRY(frame_end(&f));
    }
    if (st == OSP_OK)
        st = received;
out:
    return st;
}
