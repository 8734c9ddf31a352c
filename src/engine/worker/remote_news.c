/* What the worker says, and the requests that it has. All under the lock. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/worker/remote_parts.h"
#include "engine/worker/wire_fields.h"

/* ---- places ---- */

static uint64_t id_of(const struct remote *r, int place)
{
    return (uint64_t)r->live[place].serial << 32 | (uint32_t)place;
}

/* NULL: it has ended here, while the worker did not know yet. */
static struct live *find(struct remote *r, uint64_t id)
{
    size_t place = (size_t)(id & UINT32_MAX);

    if (place >= r->n_places || r->live[place].request == NULL ||
        r->live[place].serial != (uint32_t)(id >> 32))
        return NULL;
    return &r->live[place];
}

static enum osp_status add_place(struct remote *r)
{
    enum osp_status st;

    TRY(mem_try_grow(&r->live, r->n_places, &r->places_capacity, sizeof *r->live, "requests"));
    r->live[r->n_places] = (struct live){.next_free = r->first_free};
    r->first_free = (int)r->n_places++;
out:
    return st;
}

enum osp_status remote_take(struct remote *r, struct osp_request *request, uint64_t *id)
{
    struct live *l;
    int place;
    enum osp_status st = OSP_OK;

    if (r->first_free < 0)
        TRY(add_place(r));
    place = r->first_free;
    l = &r->live[place];
    r->first_free = l->next_free;
    *l = (struct live){.request = request, .serial = l->serial + 1};
    request_retain(request);
    r->n_live++;
    *id = id_of(r, place);
out:
    return st;
}

static void free_place(struct remote *r, struct live *l)
{
    request_drop(l->request);
    l->request = NULL;
    l->next_free = r->first_free;
    r->first_free = (int)(l - r->live);
    r->n_live--;
}

void remote_untake(struct remote *r, uint64_t id)
{
    struct live *l = find(r, id);

    if (l != NULL)
        free_place(r, l);
}

static void end_live(struct remote *r, struct live *l, enum seq_end end, enum osp_status status,
                     const char *message)
{
    struct osp_request *request = l->request;

    request->seq.state = SEQ_ENDED;
    request->seq.end = end;
    if (status != OSP_OK)
        request_publish_failure(request, status, message);
    else
        request_publish(request);
    free_place(r, l);
    r->has_news = true;
}

void remote_end_all(struct remote *r, enum seq_end end, enum osp_status status, const char *message)
{
    for (size_t i = 0; i < r->n_places; i++)
        if (r->live[i].request != NULL)
            end_live(r, &r->live[i], end, status, message);
}

enum osp_status remote_tell_cancels(struct remote *r)
{
    enum osp_status st = OSP_OK;

    if (!atomic_exchange(&r->has_cancels, false))
        return OSP_OK;
    for (size_t i = 0; i < r->n_places; i++) {
        struct live *l = &r->live[i];
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

static enum osp_status on_progress(struct remote *r, struct frame *f)
{
    frame_take(f, &r->progress, sizeof r->progress);
    pthread_cond_broadcast(&r->changed);
    return OSP_OK;
}

enum osp_status remote_ask_engine(struct remote *r)
{
    wire_begin(&r->wire, FRAME_ENGINE);
    wire_put_engine_options(&r->wire, &r->engine_options);
    return wire_end(&r->wire);
}

/* A worker that was started again must be what the first one was: limits were told to clients. */
static enum osp_status check_alike(const struct remote *r, const struct wire_model *made)
{
    const struct memory_plan *a = &r->made.plan, *b = &made->plan;

    if (made->facts.vocab_size != r->made.facts.vocab_size ||
        b->context_tokens_max != a->context_tokens_max || b->n_seqs_max != a->n_seqs_max)
        return fail(OSP_EFORMAT,
                    "the model is not what it was: context %d instead of %d, %d "
                    "requests at once instead of %d",
                    b->context_tokens_max, a->context_tokens_max, b->n_seqs_max, a->n_seqs_max);
    return OSP_OK;
}

static enum osp_status on_opened_again(struct remote *r, const struct wire_outcome *outcome,
                                       const struct wire_model *made)
{
    enum osp_status st;

    if (outcome->status != OSP_OK)
        return fail(outcome->status, "the model could not be opened again: %s", outcome->message);
    TRY(check_alike(r, made));
    r->life = LIFE_READY;
    log_info("the worker process %d has opened the model again in %.1f s", (int)r->pid,
             made->load_seconds);
    if (r->has_engine)
        TRY(remote_ask_engine(r));
out:
    return st;
}

/* The first time, whoever waits in remote_open() takes the outcome. */
static enum osp_status on_opened(struct remote *r, struct frame *f)
{
    struct wire_outcome outcome;
    struct wire_model made;

    frame_take(f, &outcome, sizeof outcome);
    frame_take(f, &made, sizeof made);
    outcome.message[sizeof outcome.message - 1] = '\0';
    if (r->life != LIFE_OPENING || f->is_bad)
        return fail(OSP_EFORMAT, "a model that was not asked for");
    if (r->was_opened)
        return on_opened_again(r, &outcome, &made);
    made.facts.device[sizeof made.facts.device - 1] = '\0';
    r->outcome = outcome;
    if (outcome.status != OSP_OK)
        return fail(outcome.status, "%s", outcome.message);
    r->made = made;
    r->was_opened = true;
    r->life = LIFE_READY;
    pthread_cond_broadcast(&r->changed);
    return OSP_OK;
}

static enum osp_status on_engine_opened(struct remote *r, struct frame *f)
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

static enum osp_status on_pulse(struct remote *r, struct frame *f)
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

static bool is_possible(const struct remote *r, const struct osp_request *request,
                        const struct wire_news *news)
{
    const struct seq *q = &request->seq;
    const struct scores *s = &request->scores;

    if (request->prompt_scores.logprobs != NULL && q->n_prompt > 1 && q->n_scored < q->n_prompt &&
        (news->n_new > 0 || news->end == SEQ_END_LENGTH || news->end == SEQ_END_STOP))
        return false; /* the prompt's come first */
    if (news->n_new > 0 && (news->has_scores != (s->logprobs != NULL) || news->n_top != s->n_top))
        return false;
    return news->n_before == q->n_tokens && news->n_new >= 0 &&
           news->n_new <= q->n_tokens_max - q->n_tokens && news->n_message_bytes >= 0 &&
           news->n_cached >= 0 && news->n_cached < q->n_prompt &&
           news->n_message_bytes <= FAIL_MESSAGE_BYTES_MAX && r->engine_is_open;
}

/* Tokens land where they will stay: the client's thread reads them once they are published. */
static bool take_tokens(const struct remote *r, struct seq *q, struct frame *f, int n)
{
    int32_t *at = q->tokens + q->n_tokens;

    frame_take(f, at, (size_t)n * sizeof *at);
    for (int i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= r->made.facts.vocab_size)
            return false;
    return !f->is_bad;
}

/* As tokens do, and before those are published. */
static bool take_scores(const struct remote *r, struct scores *s, struct frame *f, size_t at, int n)
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

/* seq.n_scored counts them here: prompts have 1 at least, which has none. */
static bool are_next(const struct osp_request *request, const struct wire_scores *head)
{
    const struct seq *q = &request->seq;
    const struct scores *s = &request->prompt_scores;
    const int first = q->n_scored > 0 ? q->n_scored : 1;

    return s->logprobs != NULL && head->first == first && head->n_top == s->n_top && head->n > 0 &&
           head->n <= q->n_prompt - first;
}

static enum osp_status on_scores(struct remote *r, struct frame *f)
{
    struct wire_scores head;
    struct live *l;

    frame_take(f, &head, sizeof head);
    l = find(r, head.id);
    if (l == NULL) {
        (void)frame_view(f, f->n_left);
        return OSP_OK;
    }
    if (!are_next(l->request, &head) ||
        !take_scores(r, &l->request->prompt_scores, f, (size_t)head.first, head.n))
        return fail(OSP_EFORMAT, "log-probabilities of a prompt that cannot be");
    l->request->seq.n_scored = head.first + head.n;
    return OSP_OK;
}

static enum osp_status on_news(struct remote *r, struct frame *f)
{
    char message[FAIL_MESSAGE_BYTES_MAX + 1] = "";
    struct wire_news news;
    struct live *l;
    struct seq *q;
    uint64_t submit_ns;

    frame_take(f, &news, sizeof news);
    l = find(r, news.id);
    if (l == NULL) {
        (void)frame_view(f, f->n_left);
        return OSP_OK;
    }
    q = &l->request->seq;
    if (!is_possible(r, l->request, &news) || !take_tokens(r, q, f, news.n_new) ||
        !take_scores(r, &l->request->scores, f, (size_t)(q->n_tokens - q->n_prompt), news.n_new))
        return fail(OSP_EFORMAT, "news of a request that cannot be");
    frame_take(f, message, (size_t)news.n_message_bytes);
    submit_ns = q->times.submit_ns;
    q->times = news.times;
    q->times.submit_ns = submit_ns;
    q->n_cached = news.n_cached;
    q->n_tokens += news.n_new;
    r->has_news = true;
    if (news.is_accepted)
        request_accept(l->request);
    if (news.end == SEQ_END_NONE)
        request_publish(l->request);
    else
        end_live(r, l, news.end, news.status, message);
    return OSP_OK;
}

static enum osp_status obey(struct remote *r, struct frame *f)
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
    case FRAME_SCORES:
        return on_scores(r, f);
    case FRAME_NEWS:
        return on_news(r, f);
    default:
        return fail(OSP_EFORMAT, "%s is no frame of a worker", frame_name(f->kind));
    }
}

enum osp_status remote_hear(struct remote *r)
{
    enum osp_status heard = wire_fill(&r->wire), st;
    struct frame f;

    r->heard_ns = clock_ns();
    r->pinged_ns = 0;
    while (wire_next(&r->wire, &f, &st)) { /* its last words count, too */
        TRY(obey(r, &f));
        TRY(frame_end(&f));
    }
    if (st == OSP_OK)
        st = heard;
out:
    return st;
}
