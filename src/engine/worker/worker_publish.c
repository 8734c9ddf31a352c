/* Sends the engine's metrics and the requests' results to the parent: metrics first, then tokens
 * and ends. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/worker/worker_internal.h"

enum osp_status worker_send(struct worker *w, enum frame_kind kind, const void *data,
                            size_t n_bytes)
{
    wire_begin(&w->wire, kind);
    wire_put(&w->wire, data, n_bytes);
    return wire_end(&w->wire);
}

static enum osp_status send_pulse(struct worker *w)
{
    struct wire_pulse pulse = {.health = {.state = OSP_ENGINE_OK}};

    w->pulse_ns = clock_ns();
    if (w->engine != NULL) {
        osp_engine_get_stats(w->engine, &pulse.stats);
        w->n_done_sent = pulse.stats.n_requests_done;
        osp_engine_get_health(w->engine, &pulse.health);
    }
    return worker_send(w, FRAME_PULSE, &pulse, sizeof pulse);
}

static enum osp_status send_metrics(struct worker *w)
{
    struct osp_engine_metrics metrics;

    if (w->engine == NULL)
        return OSP_OK;
    osp_engine_get_metrics(w->engine, &metrics);
    return worker_send(w, FRAME_METRICS, &metrics, sizeof metrics);
}

enum osp_status worker_send_metrics(struct worker *w)
{
    enum osp_status st;

    TRY(send_metrics(w));
    TRY(send_pulse(w));
out:
    return st;
}

static void put_logprobs(struct worker *w, const struct token_logprobs *s, size_t first, size_t n)
{
    const size_t n_top = (size_t)s->n_top;

    wire_put(&w->wire, s->logprobs + first, n * sizeof *s->logprobs);
    wire_put(&w->wire, s->top_tokens + first * n_top, n * n_top * sizeof *s->top_tokens);
    wire_put(&w->wire, s->top_logprobs + first * n_top, n * n_top * sizeof *s->top_logprobs);
}

enum osp_status worker_send_event(struct worker *w, const struct wire_event *event,
                                  const struct osp_request *r, const char *message)
{
    const size_t n = (size_t)event->n_new;

    wire_begin(&w->wire, FRAME_EVENT);
    wire_put(&w->wire, event, sizeof *event);
    if (n > 0)
        wire_put(&w->wire, r->seq.tokens + event->n_before, n * sizeof *r->seq.tokens);
    if (n > 0 && event->has_logprobs)
        put_logprobs(w, &r->token_logprobs, (size_t)(event->n_before - r->seq.n_prompt), n);
    wire_put(&w->wire, message, (size_t)event->n_message_bytes);
    if (event->n_ignored_bytes > 0)
        wire_put(&w->wire, r->ignored, (size_t)event->n_ignored_bytes);
    return wire_end(&w->wire);
}

static enum osp_status send_prompt_logprobs(struct worker *w, const struct worker_request *t,
                                            int first, int n)
{
    const struct token_logprobs *s = &t->request->prompt_token_logprobs;
    struct wire_logprobs head;

    memset(&head, 0, sizeof head);
    head.id = t->id;
    head.first = first;
    head.n = n;
    head.n_top = s->n_top;
    wire_begin(&w->wire, FRAME_LOGPROBS);
    wire_put(&w->wire, &head, sizeof head);
    put_logprobs(w, s, (size_t)first, (size_t)n);
    return wire_end(&w->wire);
}

/* Once, before any token of its answer: by then all of them are computed. */
static enum osp_status publish_prompt_logprobs(struct worker *w, const struct worker_request *t,
                                               int n_before)
{
    const struct osp_request *r = t->request;
    const bool is_first =
        n_before == r->seq.n_prompt &&
        (r->seen.n_tokens > n_before || (r->seen.ended && r->seen.end == SEQ_END_LENGTH));
    enum osp_status st = OSP_OK;

    if (r->prompt_token_logprobs.logprobs == NULL || !is_first)
        return OSP_OK;
    for (int i = 1; st == OSP_OK && i < r->seq.n_prompt; i += WIRE_LOGPROBS_MAX) {
        const int n_left = r->seq.n_prompt - i;

        st = send_prompt_logprobs(w, t, i, n_left < WIRE_LOGPROBS_MAX ? n_left : WIRE_LOGPROBS_MAX);
    }
    return st;
}

/* n_before: tokens that the parent has. */
static enum osp_status publish_request(struct worker *w, struct worker_request *t, int n_before)
{
    const struct osp_request *r = t->request;
    const struct outbox *seen = &r->seen;
    const char *message = seen->ended && seen->status != OSP_OK ? request_message(r) : "";
    struct wire_event event = {
        .id = t->id,
        .n_cached = seen->n_cached,
        .n_before = n_before,
        .n_new = seen->n_tokens - n_before,
        .has_logprobs = r->token_logprobs.logprobs != NULL,
        .n_top = r->token_logprobs.n_top,
        .is_accepted = t->is_accepted,
        .end = seen->ended ? seen->end : SEQ_END_NONE,
        .status = seen->status,
        .n_message_bytes = (int32_t)strnlen(message, FAIL_MESSAGE_BYTES_MAX),
        .times = seen->times,
        .n_accepted_prediction = seen->n_accepted_prediction,
        .n_rejected_prediction = seen->n_rejected_prediction,
    };

    enum osp_status st;

    if (t->is_accepted && !t->sent_ignored && r->ignored != NULL)
        event.n_ignored_bytes = (int32_t)strlen(r->ignored);
    t->sent_ignored = t->is_accepted;
    TRY(publish_prompt_logprobs(w, t, n_before));
    st = worker_send_event(w, &event, r, message);
out:
    return st;
}

static void look_at_requests(struct worker *w)
{
    for (size_t i = 0; i < w->n_requests; i++) {
        struct worker_request *t = &w->worker_request[i];

        t->n_before = t->request->seen.n_tokens;
        t->has_updates = request_wait(t->request, 0);
        if (!t->is_accepted && request_is_accepted(t->request))
            t->is_accepted = t->has_updates = true;
    }
}

static enum osp_status publish_requests(struct worker *w)
{
    enum osp_status st = OSP_OK;

    for (size_t i = w->n_requests; st == OSP_OK && i-- > 0;) {
        struct worker_request *t = &w->worker_request[i];

        if (!t->has_updates)
            continue;
        st = publish_request(w, t, t->n_before);
        if (!t->request->seen.ended)
            continue;
        osp_request_close(t->request);
        *t = w->worker_request[--w->n_requests];
    }
    return st;
}

static bool has_ended_one(const struct worker *w)
{
    int64_t n_done = w->n_done_sent;
    struct osp_engine_stats stats;

    osp_engine_get_stats(w->engine, &stats);
    return stats.n_requests_done != n_done;
}

/* Metrics are sent before events and read after them: every end that is sent is counted. The longer
 * frame of metrics is sent when a request has ended. */
enum osp_status worker_publish_engine(struct worker *w)
{
    enum osp_status st;

    look_at_requests(w);
    if (has_ended_one(w))
        TRY(send_metrics(w));
    TRY(send_pulse(w));
    TRY(publish_requests(w));
    if (osp_engine_alive(w->engine) || w->n_requests > 0)
        return OSP_OK;
    TRY(send_pulse(w)); /* the device may have failed since: the pulse has its reason */
    TRY(wire_flush(&w->wire));
    _exit(WORKER_EXIT_DEVICE);
out:
    return st;
}
