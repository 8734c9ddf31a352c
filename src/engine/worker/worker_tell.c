/* What the worker's parent hears of its engine and requests: figures first, then tokens and ends. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/worker/worker_parts.h"

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
        w->n_done_told = pulse.stats.n_requests_done;
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

enum osp_status worker_send_figures(struct worker *w)
{
    enum osp_status st;

    TRY(send_metrics(w));
    TRY(send_pulse(w));
out:
    return st;
}

static void put_scores(struct worker *w, const struct scores *s, size_t first, size_t n)
{
    const size_t n_top = (size_t)s->n_top;

    wire_put(&w->wire, s->logprobs + first, n * sizeof *s->logprobs);
    wire_put(&w->wire, s->top_tokens + first * n_top, n * n_top * sizeof *s->top_tokens);
    wire_put(&w->wire, s->top_logprobs + first * n_top, n * n_top * sizeof *s->top_logprobs);
}

enum osp_status worker_send_news(struct worker *w, const struct wire_news *news,
                                 const struct osp_request *r, const char *message)
{
    const size_t n = (size_t)news->n_new;

    wire_begin(&w->wire, FRAME_NEWS);
    wire_put(&w->wire, news, sizeof *news);
    if (n > 0)
        wire_put(&w->wire, r->seq.tokens + news->n_before, n * sizeof *r->seq.tokens);
    if (n > 0 && news->has_scores)
        put_scores(w, &r->scores, (size_t)(news->n_before - r->seq.n_prompt), n);
    wire_put(&w->wire, message, (size_t)news->n_message_bytes);
    return wire_end(&w->wire);
}

static enum osp_status send_prompt_scores(struct worker *w, const struct told *t, int first, int n)
{
    const struct scores *s = &t->request->prompt_scores;
    struct wire_scores head;

    memset(&head, 0, sizeof head);
    head.id = t->id;
    head.first = first;
    head.n = n;
    head.n_top = s->n_top;
    wire_begin(&w->wire, FRAME_SCORES);
    wire_put(&w->wire, &head, sizeof head);
    put_scores(w, s, (size_t)first, (size_t)n);
    return wire_end(&w->wire);
}

/* Once, before anything of its answer: then all of them are there. */
static enum osp_status tell_prompt_scores(struct worker *w, const struct told *t, int n_before)
{
    const struct osp_request *r = t->request;
    const bool is_first =
        n_before == r->seq.n_prompt &&
        (r->seen.n_tokens > n_before || (r->seen.ended && r->seen.end == SEQ_END_LENGTH));
    enum osp_status st = OSP_OK;

    if (r->prompt_scores.logprobs == NULL || !is_first)
        return OSP_OK;
    for (int i = 1; st == OSP_OK && i < r->seq.n_prompt; i += WIRE_SCORES_MAX) {
        const int n_left = r->seq.n_prompt - i;

        st = send_prompt_scores(w, t, i, n_left < WIRE_SCORES_MAX ? n_left : WIRE_SCORES_MAX);
    }
    return st;
}

/* n_before: tokens that the parent has. */
static enum osp_status tell_request(struct worker *w, const struct told *t, int n_before)
{
    const struct osp_request *r = t->request;
    const struct outbox *seen = &r->seen;
    const char *message = seen->ended && seen->status != OSP_OK ? request_message(r) : "";
    struct wire_news news = {
        .id = t->id,
        .n_cached = seen->n_cached,
        .n_before = n_before,
        .n_new = seen->n_tokens - n_before,
        .has_scores = r->scores.logprobs != NULL,
        .n_top = r->scores.n_top,
        .is_accepted = t->is_accepted,
        .end = seen->ended ? seen->end : SEQ_END_NONE,
        .status = seen->status,
        .n_message_bytes = (int32_t)strnlen(message, FAIL_MESSAGE_BYTES_MAX),
        .times = seen->times,
    };

    enum osp_status st;

    TRY(tell_prompt_scores(w, t, n_before));
    st = worker_send_news(w, &news, r, message);
out:
    return st;
}

static void look_at_requests(struct worker *w)
{
    for (size_t i = 0; i < w->n_told; i++) {
        struct told *t = &w->told[i];

        t->n_before = t->request->seen.n_tokens;
        t->has_news = request_wait(t->request, 0);
        if (!t->is_accepted && request_is_accepted(t->request))
            t->is_accepted = t->has_news = true;
    }
}

static enum osp_status tell_requests(struct worker *w)
{
    enum osp_status st = OSP_OK;

    for (size_t i = w->n_told; st == OSP_OK && i-- > 0;) {
        struct told *t = &w->told[i];

        if (!t->has_news)
            continue;
        st = tell_request(w, t, t->n_before);
        if (!t->request->seen.ended)
            continue;
        osp_request_close(t->request);
        *t = w->told[--w->n_told];
    }
    return st;
}

static bool has_ended_one(const struct worker *w)
{
    int64_t n_done = w->n_done_told;
    struct osp_engine_stats stats;

    osp_engine_get_stats(w->engine, &stats);
    return stats.n_requests_done != n_done;
}

/* Figures come before events, here too, and are younger: no end is told that they do not count. The longer
 * ones when there is an end among those. */
enum osp_status worker_tell_engine(struct worker *w)
{
    enum osp_status st;

    look_at_requests(w);
    if (has_ended_one(w))
        TRY(send_metrics(w));
    TRY(send_pulse(w));
    TRY(tell_requests(w));
    if (osp_engine_alive(w->engine) || w->n_told > 0)
        return OSP_OK;
    TRY(send_pulse(w)); /* it has died since, perhaps: its reason */
    TRY(wire_flush(&w->wire));
    _exit(WORKER_EXIT_DEVICE);
out:
    return st;
}
