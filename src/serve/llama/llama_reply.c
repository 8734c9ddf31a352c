#include "serve/llama/llama_reply.h"

#include <string.h>

#include "serve/fields/llama_fields.h"
#include "serve/reply/reply_parts.h"

enum { N_BUFS = 3 };

static void list_bufs(struct llama_reply *r, struct buf *list[N_BUFS])
{
    memcpy(list, (struct buf *[]){&r->text, &r->ids, &r->probabilities}, N_BUFS * sizeof *list);
}

void llama_reply_init(struct llama_reply *r, int index, const char *model)
{
    struct buf *list[N_BUFS];

    *r = (struct llama_reply){.index = index, .model = model};
    list_bufs(r, list);
    for (int i = 0; i < N_BUFS; i++)
        buf_init(list[i], REPLY_TEXT_BYTES_MAX);
}

void llama_reply_release(struct llama_reply *r)
{
    struct buf *list[N_BUFS];

    list_bufs(r, list);
    for (int i = 0; i < N_BUFS; i++)
        buf_release(list[i]);
    *r = (struct llama_reply){0};
}

/* ---- probabilities ---- */

/* The members of a token, without the closing brace. */
static void put_token(struct buf *out, const struct osp_tokenizer *t, int32_t id, float logprob)
{
    char scratch[OSP_TOKEN_SCRATCH_BYTES];
    const char *bytes = "";
    size_t n = 0;

    if (osp_token_bytes(t, id, scratch, &bytes, &n) != OSP_OK)
        n = 0; /* an id beyond the vocabulary has no text */
    buf_printf(out, "{\"id\":%d,\"token\":", (int)id);
    buf_json_string(out, bytes, n);
    buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", (unsigned char)bytes[i]);
    buf_puts(out, "],\"logprob\":");
    reply_put_logprob(out, logprob);
}

static void put_probabilities(struct llama_reply *r, const struct osp_event *event)
{
    struct buf *out = &r->probabilities;

    for (int i = 0; i < event->n_logprobs; i++) {
        const struct osp_logprob *l = &event->logprobs[i];

        buf_puts(out, out->size_bytes > 0 ? "," : "");
        put_token(out, r->tokenizer, l->token, l->logprob);
        buf_puts(out, ",\"top_logprobs\":[");
        for (int k = 0; k < l->n_top && k < r->options->top_logprobs; k++) {
            buf_puts(out, k > 0 ? "," : "");
            put_token(out, r->tokenizer, l->top_tokens[k], l->top_logprobs[k]);
            buf_puts(out, "}");
        }
        buf_puts(out, "]}");
    }
}

/* ---- events ---- */

static bool keep(struct llama_reply *r, const struct osp_event *event)
{
    if (event->kind == OSP_EVENT_TEXT && !buf_append(&r->text, event->text, event->n_bytes))
        return false;
    for (int i = 0; r->return_tokens && i < event->n_tokens; i++)
        buf_printf(&r->ids, "%s%d", r->ids.size_bytes > 0 ? "," : "", (int)event->tokens[i]);
    put_probabilities(r, event);
    return !r->ids.overflow && !r->probabilities.overflow;
}

bool llama_reply_append(struct llama_reply *r, const struct osp_event *event)
{
    const size_t n_text = r->text.size_bytes, n_ids = r->ids.size_bytes,
                 n_probabilities = r->probabilities.size_bytes;
    const bool is_done = event->kind == OSP_EVENT_DONE, is_text = event->kind == OSP_EVENT_TEXT;
    bool fits = keep(r, event);

    fits = fits && answer_budget_reserve(
                       r->budget, (is_text ? buf_json_bytes(event->text, event->n_bytes) : 0) +
                                      r->ids.size_bytes - n_ids + r->probabilities.size_bytes -
                                      n_probabilities);
    if (!fits) {
        buf_truncate(&r->text, n_text);
        buf_truncate(&r->ids, n_ids);
        buf_truncate(&r->probabilities, n_probabilities);
    }
    if (fits && is_text && event->n_bytes > 0)
        r->has_new_line = r->has_new_line || memchr(event->text, '\n', event->n_bytes) != NULL;
    if (is_done) {
        r->finish = fits ? event->finish : OSP_FINISH_LENGTH;
        r->stop_string = event->stop_string;
    }
    return fits || is_done;
}

/* ---- settings ---- */

static double or_off(float value, float off)
{
    return (double)(value != 0 ? value : off);
}

void llama_put_settings(struct buf *out, const struct osp_request_options *o, bool streams)
{
    const struct osp_sampling *s = &o->sampling;
    const int n_predict = o->prompt_only ? 0 : (o->tokens_max > 0 ? o->tokens_max : -1);

    buf_printf(out, "\"n_predict\":%d,\"max_tokens\":%d,\"seed\":%lld,\"temperature\":%g,",
               n_predict, n_predict, s->has_seed ? (long long)s->seed : -1LL,
               (double)(s->has_temperature ? s->temperature : 1.0F));
    buf_printf(out, "\"top_k\":%d,\"top_p\":%g,\"min_p\":%g,\"repeat_penalty\":%g,", s->top_k,
               or_off(s->top_p, 1), (double)s->min_p, or_off(s->repetition_penalty, 1));
    buf_printf(out,
               "\"presence_penalty\":%g,\"frequency_penalty\":%g,\"repeat_last_n\":-1,"
               "\"samplers\":" LLAMA_SAMPLERS ",",
               (double)s->presence_penalty, (double)s->frequency_penalty);
    /* samplers that are off, which llama.cpp's web page shows */
    buf_puts(out, "\"dynatemp_range\":0,\"dynatemp_exponent\":1,\"xtc_probability\":0,"
                  "\"xtc_threshold\":0.1,\"typ_p\":1,\"typical_p\":1,\"top_n_sigma\":-1,"
                  "\"dry_multiplier\":0,\"dry_base\":1.75,\"dry_allowed_length\":2,"
                  "\"dry_penalty_last_n\":-1,\"mirostat\":0,\"min_keep\":0,\"n_keep\":0,");
    buf_puts(out, "\"stop\":[");
    for (int i = 0; i < o->n_stop; i++) {
        buf_puts(out, i > 0 ? "," : "");
        reply_put_string(out, o->stop[i]);
    }
    buf_printf(out, "],\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%d,\"cache_prompt\":%s",
               o->ignore_stop_tokens ? "true" : "false", streams ? "true" : "false",
               o->top_logprobs, o->no_prefix_cache ? "false" : "true");
}

/* ---- answers ---- */

static void put_list(struct buf *out, const char *name, const struct buf *list)
{
    buf_printf(out, ",\"%s\":[", name);
    buf_append(out, list->data, list->size_bytes);
    buf_puts(out, "]");
}

static void put_content(struct buf *out, const struct llama_reply *r, bool is_last,
                        const struct osp_usage *usage)
{
    buf_printf(out, "{\"index\":%d,\"content\":", r->index);
    buf_json_string(out, buf_text(&r->text), r->text.size_bytes);
    put_list(out, "tokens", &r->ids);
    buf_printf(out, ",\"stop\":%s,\"id_slot\":-1,\"tokens_predicted\":%d,\"tokens_evaluated\":%d",
               is_last ? "true" : "false", usage->n_generated_tokens, usage->n_prompt_tokens);
    if (r->options->logprobs)
        put_list(out, "completion_probabilities", &r->probabilities);
}

static const char *stop_type(const struct llama_reply *r)
{
    if (r->finish == OSP_FINISH_LENGTH)
        return "limit";
    return r->stop_string != NULL ? "word" : "eos";
}

static void put_end(struct buf *out, const struct llama_reply *r, const struct osp_usage *usage)
{
    buf_puts(out, ",\"model\":");
    reply_put_string(out, r->model);
    buf_printf(out, ",\"stop_type\":\"%s\",\"stopping_word\":", stop_type(r));
    reply_put_string(out, r->stop_string != NULL ? r->stop_string : "");
    buf_printf(out, ",\"has_new_line\":%s,\"truncated\":false,\"tokens_cached\":%d,",
               r->has_new_line ? "true" : "false", usage->n_cached_tokens);
    buf_puts(out, "\"generation_settings\":{");
    llama_put_settings(out, r->options, r->streams);
    buf_puts(out, "}");
    reply_put_timings(out, usage);
}

void llama_reply_event(struct llama_reply *r, const struct osp_event *event,
                       const struct osp_usage *usage, struct buf *out)
{
    const bool is_last = event->kind == OSP_EVENT_DONE;

    buf_puts(out, "data: ");
    put_content(out, r, is_last, usage);
    if (is_last)
        put_end(out, r, usage);
    else if (r->extras.timings_now)
        reply_put_timings(out, usage);
    if (!r->began && r->extras.progress)
        reply_put_progress(out, usage);
    buf_puts(out, "}\n\n");
    r->began = true;
    buf_clear(&r->text);
    buf_clear(&r->ids);
    buf_clear(&r->probabilities);
}

static void put_prompt(struct buf *out, const struct llama_reply *r)
{
    char *text = NULL;
    size_t n_bytes = 0;

    buf_puts(out, ",\"prompt\":");
    if (osp_detokenize(r->tokenizer, r->prompt, r->n_prompt, &text, &n_bytes) == OSP_OK)
        buf_json_string(out, text, n_bytes);
    else
        buf_puts(out, "null");
    osp_free(text);
}

void llama_reply_whole(const struct llama_reply *r, const struct osp_usage *usage, struct buf *out)
{
    put_content(out, r, true, usage);
    put_prompt(out, r);
    put_end(out, r, usage);
    buf_puts(out, "}");
}
