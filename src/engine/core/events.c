/* A client's events: reads the outbox in the client's thread, one token at a time, until the tokens
 * make an event. */
#include <string.h>

#include "base/clock.h"
#include "engine/core/request.h"

static double seconds_between(uint64_t begin_ns, uint64_t end_ns)
{
    return begin_ns != 0 && end_ns > begin_ns ? (double)(end_ns - begin_ns) * 1e-9 : 0.0;
}

static struct osp_usage usage_of(const struct osp_request *r)
{
    const struct seq_times *t = &r->seen.times;

    return (struct osp_usage){
        .n_prompt_tokens = r->seq.n_prompt,
        .n_generated_tokens = r->n_read - r->seq.n_prompt,
        .n_cached_tokens = r->seen.n_cached,
        .n_reasoning_tokens = r->stream.n_reasoning_tokens,
        .n_accepted_prediction_tokens = r->seen.n_accepted_prediction,
        .n_rejected_prediction_tokens = r->seen.n_rejected_prediction,
        .queue_seconds = seconds_between(t->submit_ns, t->admit_ns),
        .prompt_seconds = seconds_between(t->admit_ns, t->first_token_ns),
        .generation_seconds = seconds_between(t->first_token_ns, t->last_token_ns),
    };
}

static enum osp_finish finish_of(const struct osp_request *r)
{
    if (event_stream_stopped(&r->stream))
        return r->stream.has_call ? OSP_FINISH_TOOL_CALLS : OSP_FINISH_STOP;
    if (r->seen.end == SEQ_END_CANCELED)
        return OSP_FINISH_CANCELED;
    if (r->seen.end == SEQ_END_LENGTH)
        return OSP_FINISH_LENGTH;
    return r->stream.n_calls > 0 ? OSP_FINISH_TOOL_CALLS : OSP_FINISH_STOP;
}

static bool ended_on_stop_token(const struct osp_request *r)
{
    return r->seen.ended && r->seen.end == SEQ_END_STOP && !event_stream_stopped(&r->stream);
}

static struct osp_event done_event(const struct osp_request *r)
{
    return (struct osp_event){
        .kind = OSP_EVENT_DONE,
        .text = "",
        .is_cut = r->stream.is_cut,
        .finish = finish_of(r),
        .stop_token = ended_on_stop_token(r) ? r->seq.tokens[r->seen.n_tokens - 1] : -1,
        .stop_string = r->stream.stop.found,
        .usage = usage_of(r),
    };
}

static struct osp_event error_event(const struct osp_request *r)
{
    const char *message = request_message(r);

    return (struct osp_event){
        .kind = OSP_EVENT_ERROR,
        .text = message,
        .n_bytes = strlen(message),
        .status = r->seen.status,
        .stop_token = -1,
    };
}

/* A stop token of the request has no text in the answer, nor has any stop token in a raw answer.
 * Harmony's stop tokens end a message, which the parser must see. */
static bool is_textless_stop(const struct osp_request *r)
{
    const struct seq *q = &r->seq;

    if (r->n_read + 1 < r->seen.n_tokens || !ended_on_stop_token(r) || r->stream.stop.keeps_stop)
        return false;
    if (r->stream.reader == NULL)
        return true;
    for (int i = 0; i < q->n_stop_ids; i++)
        if (q->stop_ids[i] == q->tokens[r->n_read])
            return true;
    return false;
}

static void read_token(struct osp_request *r)
{
    struct osp_logprob token_logprob;
    int i = r->n_read - r->seq.n_prompt;
    bool is_stop = is_textless_stop(r);
    int32_t token = r->seq.tokens[r->n_read++];

    if (is_stop)
        event_stream_push_end(&r->stream,
                              token_logprobs_at(&r->token_logprobs, i, token, &token_logprob));
    else
        event_stream_push(&r->stream, token,
                          token_logprobs_at(&r->token_logprobs, i, token, &token_logprob));
}

/* Passes the next unread token, or the end, to the stream. False: nothing is left. */
static bool feed(struct osp_request *r)
{
    if (r->n_read < r->seen.n_tokens) {
        read_token(r);
        if (event_stream_stopped(&r->stream)) {
            atomic_store(&r->is_answered, true);
            osp_cancel(r); /* the answer is over; later tokens are not read */
        }
        return true;
    }
    if (!r->seen.ended || r->is_finished)
        return false;
    event_stream_finish(&r->stream);
    r->is_finished = true;
    return true;
}

static struct osp_event lost_event(void)
{
    static const char text[] = "no memory for the text of the answer";

    return (struct osp_event){.kind = OSP_EVENT_ERROR,
                              .text = text,
                              .n_bytes = sizeof text - 1,
                              .status = OSP_ENOMEM,
                              .stop_token = -1};
}

/* Ends the request for the client; the engine goes on until it sees the cancel. */
static bool lose(struct osp_request *r, struct osp_event *out)
{
    *out = lost_event();
    r->is_over = true;
    osp_cancel(r);
    return true;
}

/* The whole answer was delivered, so that it may be part of a later conversation. */
static void keep_answer(const struct osp_request *r)
{
    const struct completion_key key = {.prompt = r->prompt_key,
                                       .text_hashes = r->stream.text_hashes};
    bool is_whole = r->seen.end == SEQ_END_STOP || r->seen.end == SEQ_END_LENGTH;

    if (r->completion_cache != NULL && is_whole && !event_stream_stopped(&r->stream))
        completion_cache_add(r->completion_cache, r->stream.tokenizer, &key,
                             r->seq.tokens + r->seq.n_prompt, (size_t)r->stream.n_tokens);
}

static bool last_event(struct osp_request *r, struct osp_event *out)
{
    if (event_stream_broken(&r->stream))
        return lose(r, out);
    if (!event_stream_stopped(&r->stream) && !r->is_finished)
        return false;
    if (!event_stream_stopped(&r->stream) && r->seen.status != OSP_OK)
        *out = error_event(r);
    else
        *out = done_event(r);
    if (out->kind == OSP_EVENT_DONE && r->stream.reader == NULL)
        event_stream_rest(&r->stream, out);
    keep_answer(r);
    r->is_over = true;
    return true;
}

static uint64_t deadline_of(int64_t timeout_ms)
{
    if (timeout_ms < 0)
        return UINT64_MAX;
    return timeout_ms == 0 ? 0 : clock_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* Adds the tokens that were read since the last event. */
static void add_tokens(struct osp_request *r, struct osp_event *out)
{
    out->tokens = r->seq.tokens + r->n_emitted;
    out->n_tokens = r->n_read - r->n_emitted;
    r->n_emitted = r->n_read;
}

void osp_request_usage(const struct osp_request *request, struct osp_usage *out)
{
    *out = usage_of(request);
}

void osp_request_prompt(const struct osp_request *request, const int32_t **ids, size_t *n)
{
    *ids = request->seq.tokens;
    *n = (size_t)request->seq.n_prompt;
}

/* True for a prompt token with a log-probability. All of them are written before the answer. */
static bool has_prompt_logprob(const struct osp_request *r)
{
    const enum seq_end end = r->seen.end;

    return r->seen.n_tokens > r->seq.n_prompt ||
           (r->seen.ended && (end == SEQ_END_STOP || end == SEQ_END_LENGTH));
}

bool osp_request_prompt_logprob(const struct osp_request *request, size_t i,
                                struct osp_logprob *out)
{
    const struct seq *q = &request->seq;

    return i > 0 && i < (size_t)q->n_prompt && has_prompt_logprob(request) &&
           token_logprobs_at(&request->prompt_token_logprobs, (int)i, q->tokens[i], out) != NULL;
}

enum osp_status osp_request_accepted(struct osp_request *request, int64_t timeout_ms)
{
    return request_wait_accepted(request, deadline_of(timeout_ms));
}

const char *osp_request_ignored(const struct osp_request *request)
{
    return request->ignored != NULL ? request->ignored : "";
}

enum osp_status osp_next_event(struct osp_request *request, int64_t timeout_ms,
                               struct osp_event *out)
{
    struct osp_request *r = request;
    uint64_t deadline_ns = deadline_of(timeout_ms);

    if (r->is_over)
        return fail(OSP_EINVAL, "the request has ended: its last event was returned already");
    for (;;) {
        if (event_stream_next(&r->stream, out) || last_event(r, out)) {
            add_tokens(r, out);
            return OSP_OK;
        }
        if (!feed(r) && !request_wait(r, deadline_ns))
            return fail(OSP_ETIMEOUT, "no event within %lld ms", (long long)timeout_ms);
    }
}
