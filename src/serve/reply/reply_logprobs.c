/* The tokens of an answer: logprobs in the form of OpenAI, and ids in the form of vLLM. */
#include <math.h>

#include "serve/reply/reply_parts.h"

/* JSON has no -infinity; the OpenAI API uses -9999.0 for very unlikely tokens. */
static const double LOGPROB_MIN = -9999.0;

void reply_put_logprob(struct buf *out, float logprob)
{
    buf_printf(out, "%.9g", isfinite(logprob) ? (double)logprob : LOGPROB_MIN);
}

static void put_token(struct buf *out, const struct osp_tokenizer *t, int32_t id, float logprob)
{
    char scratch[OSP_TOKEN_SCRATCH_BYTES];
    const char *bytes = "";
    size_t n_bytes = 0;

    if (osp_token_bytes(t, id, scratch, &bytes, &n_bytes) != OSP_OK)
        n_bytes = 0; /* an id beyond the vocabulary has no text */
    buf_puts(out, "{\"token\":");
    buf_json_string(out, bytes, n_bytes);
    buf_puts(out, ",\"logprob\":");
    reply_put_logprob(out, logprob);
    buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < n_bytes; i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", (unsigned char)bytes[i]);
    buf_puts(out, "]");
}

static void put_entry(struct buf *out, const struct osp_tokenizer *t, const struct osp_logprob *l)
{
    put_token(out, t, l->token, l->logprob);
    buf_puts(out, ",\"top_logprobs\":[");
    for (int i = 0; i < l->n_top; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_token(out, t, l->top_tokens[i], l->top_logprobs[i]);
        buf_puts(out, "}");
    }
    buf_puts(out, "]}");
}

/* ---- of the prompt ---- */

static void put_prompt_entry(struct buf *out, const struct osp_tokenizer *t, int32_t id,
                             float logprob, int rank)
{
    char scratch[OSP_TOKEN_SCRATCH_BYTES];
    const char *bytes = "";
    size_t n_bytes = 0;

    if (osp_token_bytes(t, id, scratch, &bytes, &n_bytes) != OSP_OK)
        n_bytes = 0;
    buf_printf(out, "\"%d\":{\"logprob\":", (int)id);
    reply_put_logprob(out, logprob);
    if (rank > 0)
        buf_printf(out, ",\"rank\":%d,\"decoded_token\":", rank);
    else
        buf_puts(out, ",\"rank\":null,\"decoded_token\":");
    buf_json_string(out, bytes, n_bytes);
    buf_puts(out, "}");
}

/* The token of the prompt first, then the most likely alternatives. */
static void put_prompt_position(struct buf *out, const struct osp_tokenizer *t,
                                const struct osp_logprob *l, int n_top)
{
    int rank = 0;

    for (int i = 0; i < l->n_top; i++)
        rank = l->top_tokens[i] == l->token ? i + 1 : rank;
    buf_puts(out, "{");
    put_prompt_entry(out, t, l->token, l->logprob, rank);
    for (int i = 0; i < l->n_top && i < n_top; i++) {
        if (l->top_tokens[i] == l->token)
            continue;
        buf_puts(out, ",");
        put_prompt_entry(out, t, l->top_tokens[i], l->top_logprobs[i], i + 1);
    }
    buf_puts(out, "}");
}

void reply_put_prompt_logprobs(struct buf *out, const struct osp_tokenizer *t,
                               const struct osp_request *request, int n_top)
{
    struct osp_logprob logprob;
    const int32_t *ids;
    size_t n;

    osp_request_prompt(request, &ids, &n);
    buf_puts(out, ",\"prompt_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        if (osp_request_prompt_logprob(request, i, &logprob))
            put_prompt_position(out, t, &logprob, n_top);
        else
            buf_puts(out, "null");
    }
    buf_puts(out, "]");
}

/* ---- of the answer ---- */

struct stop_reason reply_stop_reason(const struct osp_event *done,
                                     const struct osp_request_options *opt)
{
    struct stop_reason stop = {.string = done->stop_string, .token = -1};

    for (int i = 0; opt != NULL && i < opt->n_stop_tokens; i++)
        if (opt->stop_tokens[i] == done->stop_token)
            stop.token = done->stop_token;
    return stop;
}

void reply_put_stop_reason(struct buf *out, const struct stop_reason *stop)
{
    buf_puts(out, ",\"stop_reason\":");
    if (stop->string != NULL)
        reply_put_string(out, stop->string);
    else if (stop->token >= 0)
        buf_printf(out, "%d", (int)stop->token);
    else
        buf_puts(out, "null");
}

bool reply_put_tokens(struct buf *entries, const struct osp_tokenizer *t,
                      const struct osp_event *event)
{
    for (int i = 0; i < event->n_logprobs; i++) {
        buf_puts(entries, entries->size_bytes > 0 ? "," : "");
        put_entry(entries, t, &event->logprobs[i]);
    }
    return !entries->overflow;
}

bool reply_add_logprobs(struct buf *entries, const struct reply *r, const struct osp_event *event)
{
    return !r->tokenizer || reply_put_tokens(entries, r->tokenizer, event);
}

bool reply_add_ids(struct buf *ids, const struct reply *r, const struct osp_event *event)
{
    for (int i = 0; r->return_ids && i < event->n_tokens; i++)
        buf_printf(ids, "%s%d", ids->size_bytes > 0 ? "," : "", (int)event->tokens[i]);
    return !ids->overflow;
}

void reply_put_logprobs(struct buf *out, const struct reply *r, const struct buf *entries)
{
    if (!r->tokenizer || (r->streams && entries->size_bytes == 0)) {
        buf_puts(out, ",\"logprobs\":null");
        return;
    }
    buf_puts(out, ",\"logprobs\":{\"content\":[");
    buf_append(out, entries->data, entries->size_bytes);
    buf_puts(out, "],\"refusal\":null}");
}

void reply_put_ids(struct buf *out, const struct reply *r, const struct buf *ids)
{
    if (!r->return_ids)
        return;
    buf_puts(out, ",\"token_ids\":[");
    buf_append(out, ids->data, ids->size_bytes);
    buf_puts(out, "]");
}

void reply_put_prompt(struct buf *out, const struct reply *r)
{
    if (!r->return_ids)
        return;
    buf_puts(out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < r->n_prompt; i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", (int)r->prompt[i]);
    buf_puts(out, "]");
}
