#include "serve/text_reply.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "serve/reply_parts.h"

void text_reply_init(struct text_reply *r, int index)
{
    *r = (struct text_reply){.index = index};
    buf_init(&r->text, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->ids, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->scores.tokens, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->scores.logprobs, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->scores.tops, REPLY_SCORES_BYTES_MAX);
    buf_init(&r->scores.offsets, REPLY_TEXT_BYTES_MAX);
}

void text_reply_release(struct text_reply *r)
{
    buf_release(&r->text);
    buf_release(&r->ids);
    buf_release(&r->scores.tokens);
    buf_release(&r->scores.logprobs);
    buf_release(&r->scores.tops);
    buf_release(&r->scores.offsets);
    *r = (struct text_reply){0};
}

void text_reply_echo(struct text_reply *r, const char *text, size_t n_bytes)
{
    buf_append(&r->text, text, n_bytes);
    r->n_echo_bytes = n_bytes;
}

/* ---- log-probabilities ---- */

/* A token's text; one that is no UTF-8 by itself is spelled out, so that no two look alike. */
static void put_token(struct buf *out, const struct osp_tokenizer *t, int32_t id)
{
    char scratch[OSP_TOKEN_SCRATCH_BYTES];
    const char *bytes = "";
    size_t n_bytes = 0;

    if (osp_token_bytes(t, id, scratch, &bytes, &n_bytes) != OSP_OK)
        n_bytes = 0; /* an id beyond the vocabulary has no text */
    if (utf8_is_valid(bytes, n_bytes)) {
        buf_json_string(out, bytes, n_bytes);
        return;
    }
    buf_puts(out, "\"bytes:");
    for (size_t i = 0; i < n_bytes; i++)
        buf_printf(out, "\\\\x%02x", (unsigned char)bytes[i]);
    buf_puts(out, "\"");
}

static void put_top(struct buf *out, const struct osp_tokenizer *t, const struct osp_logprob *l)
{
    bool has_own = false;

    buf_puts(out, "{");
    for (int i = 0; i < l->n_top; i++) {
        has_own = has_own || l->top_tokens[i] == l->token;
        buf_puts(out, i > 0 ? "," : "");
        put_token(out, t, l->top_tokens[i]);
        buf_puts(out, ":");
        reply_put_logprob(out, l->top_logprobs[i]);
    }
    if (!has_own) {
        buf_puts(out, l->n_top > 0 ? "," : "");
        put_token(out, t, l->token);
        buf_puts(out, ":");
        reply_put_logprob(out, l->logprob);
    }
    buf_puts(out, "}");
}

/* Characters, not bytes, of the text before an offset; offsets rise. */
static size_t chars_before(struct text_reply *r, size_t offset)
{
    for (; r->n_counted_bytes < offset && r->n_counted_bytes < r->text.size_bytes;
         r->n_counted_bytes++)
        r->n_counted_chars +=
            ((unsigned char)r->text.data[r->n_counted_bytes] & 0xC0) != 0x80; /* first bytes */
    return r->n_counted_chars;
}

/* n_before: bytes of the text in front of what the offsets count. */
static bool add_scores(struct text_reply *r, size_t n_before, const struct osp_event *event)
{
    struct text_scores *s = &r->scores;

    for (int i = 0; r->tokenizer && i < event->n_logprobs; i++) {
        const struct osp_logprob *l = &event->logprobs[i];
        const char *comma = s->tokens.size_bytes > 0 ? "," : "";

        buf_puts(&s->tokens, comma);
        put_token(&s->tokens, r->tokenizer, l->token);
        buf_puts(&s->logprobs, comma);
        reply_put_logprob(&s->logprobs, l->logprob);
        buf_puts(&s->tops, comma);
        put_top(&s->tops, r->tokenizer, l);
        buf_printf(&s->offsets, "%s%zu", comma, chars_before(r, n_before + l->offset));
    }
    return !s->tokens.overflow && !s->logprobs.overflow && !s->tops.overflow &&
           !s->offsets.overflow;
}

/* name: what comes before the closing quote. */
static void put_list(struct buf *out, const char *name, const struct buf *list)
{
    buf_printf(out, "%s\":[", name);
    buf_append(out, list->data, list->size_bytes);
    buf_puts(out, "]");
}

static void put_scores(struct buf *out, const struct text_reply *r)
{
    const struct text_scores *s = &r->scores;

    if (!r->tokenizer || (r->streams && s->tokens.size_bytes == 0)) {
        buf_puts(out, ",\"logprobs\":null");
        return;
    }
    buf_puts(out, ",\"logprobs\":{");
    put_list(out, "\"tokens", &s->tokens);
    put_list(out, ",\"token_logprobs", &s->logprobs);
    put_list(out, ",\"top_logprobs", &s->tops);
    put_list(out, ",\"text_offset", &s->offsets);
    buf_puts(out, "}");
}

static void forget_scores(struct text_reply *r)
{
    buf_clear(&r->scores.tokens);
    buf_clear(&r->scores.logprobs);
    buf_clear(&r->scores.tops);
    buf_clear(&r->scores.offsets);
}

/* ---- answers ---- */

bool text_reply_keep(struct text_reply *r, const struct osp_event *event)
{
    if (event->kind == OSP_EVENT_TEXT && !buf_append(&r->text, event->text, event->n_bytes))
        return false;
    if (event->kind == OSP_EVENT_DONE)
        r->finish = event->finish;
    for (int i = 0; r->tells_ids && i < event->n_tokens; i++)
        buf_printf(&r->ids, "%s%d", r->ids.size_bytes > 0 ? "," : "", (int)event->tokens[i]);
    return !r->ids.overflow && add_scores(r, r->n_echo_bytes, event);
}

static void put_ids(struct buf *out, const struct text_reply *r)
{
    if (!r->tells_ids)
        return;
    put_list(out, ",\"token_ids", &r->ids);
    if (r->began)
        return;
    buf_puts(out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < r->n_prompt; i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", (int)r->prompt[i]);
    buf_puts(out, "]");
}

/* The text from n_told_bytes on. */
static void put_choice(struct buf *out, const struct text_reply *r, const char *finish)
{
    buf_printf(out, "{\"text\":");
    buf_json_string(out, buf_text(&r->text) + r->n_told_bytes,
                    r->text.size_bytes - r->n_told_bytes);
    buf_printf(out, ",\"index\":%d", r->index);
    put_scores(out, r);
    buf_puts(out, ",\"finish_reason\":");
    if (finish)
        reply_put_string(out, finish);
    else
        buf_puts(out, "null");
    put_ids(out, r);
    buf_puts(out, "}");
}

void text_reply_chunk(struct text_reply *r, const struct reply_head *head,
                      const struct osp_event *event, struct buf *out)
{
    buf_puts(out, "data: ");
    reply_put_head(out, head);
    put_choice(out, r, event->kind == OSP_EVENT_DONE ? osp_finish_text(event->finish) : NULL);
    buf_puts(out, "]");
    reply_put_extras(out, &r->extras, event);
    buf_puts(out, "}\n\n");
    r->began = true;
    r->n_told_bytes = r->text.size_bytes;
    forget_scores(r);
    buf_clear(&r->ids);
}

void text_reply_whole(const struct text_reply *r, int n, const struct reply_head *head,
                      const struct osp_usage *usage, struct buf *out)
{
    reply_put_head(out, head);
    for (int i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_choice(out, &r[i], osp_finish_text(r[i].finish));
    }
    buf_puts(out, "],\"usage\":");
    reply_put_usage(out, usage);
    reply_put_timings(out, usage);
    buf_puts(out, "}\n");
}
