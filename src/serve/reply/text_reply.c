#include "serve/reply/text_reply.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "serve/reply/reply_parts.h"

void text_reply_init(struct text_reply *r, int index)
{
    *r = (struct text_reply){.index = index, .n_prompt_logprobs = -1};
    buf_init(&r->text, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->ids, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->logprobs_json.tokens, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->logprobs_json.logprobs, REPLY_TEXT_BYTES_MAX);
    buf_init(&r->logprobs_json.tops, REPLY_LOGPROBS_BYTES_MAX);
    buf_init(&r->logprobs_json.offsets, REPLY_TEXT_BYTES_MAX);
}

void text_reply_release(struct text_reply *r)
{
    buf_release(&r->text);
    buf_release(&r->ids);
    buf_release(&r->logprobs_json.tokens);
    buf_release(&r->logprobs_json.logprobs);
    buf_release(&r->logprobs_json.tops);
    buf_release(&r->logprobs_json.offsets);
    *r = (struct text_reply){0};
}

void text_reply_echo(struct text_reply *r, const char *text, size_t n_bytes)
{
    buf_append(&r->text, text, n_bytes);
    r->n_echo_bytes = n_bytes;
}

/* ---- log-probabilities ---- */

/* The text of a token. A token that is not valid UTF-8 by itself is written with escapes, so
 * that no two tokens look alike. */
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

/* n_top: the number of alternatives to write; more may be known. */
static void put_top(struct buf *out, const struct osp_tokenizer *t, const struct osp_logprob *l,
                    int n_top)
{
    bool has_own = false;

    n_top = n_top < l->n_top ? n_top : l->n_top;
    buf_puts(out, "{");
    for (int i = 0; i < n_top; i++) {
        has_own = has_own || l->top_tokens[i] == l->token;
        buf_puts(out, i > 0 ? "," : "");
        put_token(out, t, l->top_tokens[i]);
        buf_puts(out, ":");
        reply_put_logprob(out, l->top_logprobs[i]);
    }
    if (!has_own) {
        buf_puts(out, n_top > 0 ? "," : "");
        put_token(out, t, l->token);
        buf_puts(out, ":");
        reply_put_logprob(out, l->logprob);
    }
    buf_puts(out, "}");
}

/* Counts characters of the text before a byte offset; offsets only increase. An offset inside a
 * character counts as the offset before it. Invalid UTF-8 becomes replacement characters, which
 * count. */
static size_t chars_before(struct text_reply *r, size_t offset)
{
    const size_t end = offset < r->text.size_bytes ? offset : r->text.size_bytes;

    while (r->n_counted_bytes < end) {
        uint32_t code_point;
        bool valid;
        size_t n = utf8_read(r->text.data + r->n_counted_bytes,
                             r->text.size_bytes - r->n_counted_bytes, &code_point, &valid);

        if (r->n_counted_bytes + n > end)
            break;
        r->n_counted_bytes += n;
        r->n_counted_chars++;
    }
    return r->n_counted_chars;
}

/* has_logprob: every token has a logprob except the first token of a prompt. offset: of the
 * token, in bytes of the text. */
static void add_logprob(struct text_reply *r, const struct osp_logprob *l, bool has_logprob,
                        size_t offset)
{
    struct text_logprobs *s = &r->logprobs_json;
    const char *comma = s->tokens.size_bytes > 0 ? "," : "";

    buf_puts(&s->tokens, comma);
    put_token(&s->tokens, r->tokenizer, l->token);
    buf_puts(&s->logprobs, comma);
    buf_puts(&s->tops, comma);
    if (has_logprob) {
        reply_put_logprob(&s->logprobs, l->logprob);
        put_top(&s->tops, r->tokenizer, l,
                r->options != NULL ? r->options->top_logprobs : l->n_top);
    } else {
        buf_puts(&s->logprobs, "null");
        buf_puts(&s->tops, "null");
    }
    buf_printf(&s->offsets, "%s%zu", comma, chars_before(r, offset));
}

/* Called at the first event of the answer, when all logprobs of the prompt are known. */
static void add_prompt_logprobs(struct text_reply *r)
{
    size_t n, offset = 0;
    const int32_t *ids;

    osp_request_prompt(r->request, &ids, &n);
    for (size_t i = 0; i < n; i++) {
        char scratch[OSP_TOKEN_SCRATCH_BYTES];
        const char *bytes;
        size_t n_bytes = 0;
        struct osp_logprob logprob = {.token = ids[i]};
        const bool has_logprob = osp_request_prompt_logprob(r->request, i, &logprob);

        add_logprob(r, &logprob, has_logprob, offset);
        if (osp_token_bytes(r->tokenizer, ids[i], scratch, &bytes, &n_bytes) == OSP_OK)
            offset += n_bytes;
    }
    r->prompt_logprobs_done = true;
}

/* n_before: bytes of the text before the point from which the event's offsets count. */
static bool add_logprobs(struct text_reply *r, size_t n_before, const struct osp_event *event)
{
    const struct text_logprobs *s = &r->logprobs_json;

    if (r->has_prompt_logprob && !r->prompt_logprobs_done)
        add_prompt_logprobs(r);
    for (int i = 0; r->tokenizer && i < event->n_logprobs; i++)
        add_logprob(r, &event->logprobs[i], true, n_before + event->logprobs[i].offset);
    return !s->tokens.overflow && !s->logprobs.overflow && !s->tops.overflow &&
           !s->offsets.overflow;
}

/* name: the JSON name without its closing quote. */
static void put_list(struct buf *out, const char *name, const struct buf *list)
{
    buf_printf(out, "%s\":[", name);
    buf_append(out, list->data, list->size_bytes);
    buf_puts(out, "]");
}

static void put_logprobs(struct buf *out, const struct text_reply *r)
{
    const struct text_logprobs *s = &r->logprobs_json;

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

static void reset_logprobs(struct text_reply *r)
{
    buf_clear(&r->logprobs_json.tokens);
    buf_clear(&r->logprobs_json.logprobs);
    buf_clear(&r->logprobs_json.tops);
    buf_clear(&r->logprobs_json.offsets);
}

/* ---- answers ---- */

enum { N_PARTS = 6 };

/* The buffers that grow with the answer. */
static void list_parts(struct text_reply *r, struct buf *parts[N_PARTS])
{
    struct text_logprobs *s = &r->logprobs_json;

    memcpy(parts,
           (struct buf *[]){&r->text, &r->ids, &s->tokens, &s->logprobs, &s->tops, &s->offsets},
           N_PARTS * sizeof *parts);
}

static bool append(struct text_reply *r, const struct osp_event *event)
{
    if (event->kind == OSP_EVENT_TEXT && !buf_append(&r->text, event->text, event->n_bytes))
        return false;
    for (int i = 0; r->return_ids && i < event->n_tokens; i++)
        buf_printf(&r->ids, "%s%d", r->ids.size_bytes > 0 ? "," : "", (int)event->tokens[i]);
    return !r->ids.overflow && add_logprobs(r, r->n_echo_bytes, event);
}

/* Counts the text as its JSON; the other buffers are JSON already. */
static size_t added_bytes(const struct osp_event *event, struct buf *parts[N_PARTS],
                          const size_t sizes[N_PARTS])
{
    size_t n =
        event->kind == OSP_EVENT_TEXT ? buf_json_bytes(event->text, event->n_bytes) : (size_t)0;

    for (int i = 1; i < N_PARTS; i++)
        n += parts[i]->size_bytes - sizes[i];
    return n;
}

bool text_reply_append(struct text_reply *r, const struct osp_event *event)
{
    const bool is_done = event->kind == OSP_EVENT_DONE;
    struct buf *parts[N_PARTS];
    size_t sizes[N_PARTS];
    bool fits;

    list_parts(r, parts);
    for (int i = 0; i < N_PARTS; i++)
        sizes[i] = parts[i]->size_bytes;
    fits = append(r, event) && answer_budget_reserve(r->budget, added_bytes(event, parts, sizes));
    for (int i = 0; i < N_PARTS && !fits; i++)
        buf_truncate(parts[i], sizes[i]);
    if (is_done) {
        r->finish = fits ? event->finish : OSP_FINISH_LENGTH;
        r->stop = reply_stop_reason(event, r->options);
    }
    return fits || is_done;
}

static void put_ids(struct buf *out, const struct text_reply *r)
{
    if (!r->return_ids)
        return;
    put_list(out, ",\"token_ids", &r->ids);
    if (r->began)
        return;
    buf_puts(out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < r->n_prompt; i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", (int)r->prompt[i]);
    buf_puts(out, "]");
}

/* Writes the text from n_sent_bytes on. */
static void put_choice(struct buf *out, const struct text_reply *r, const char *finish)
{
    buf_printf(out, "{\"text\":");
    buf_json_string(out, buf_text(&r->text) + r->n_sent_bytes,
                    r->text.size_bytes - r->n_sent_bytes);
    buf_printf(out, ",\"index\":%d", r->index);
    put_logprobs(out, r);
    buf_puts(out, ",\"finish_reason\":");
    if (finish) {
        reply_put_string(out, finish);
        reply_put_stop_reason(out, &r->stop);
    } else {
        buf_puts(out, "null");
    }
    if (r->n_prompt_logprobs >= 0)
        reply_put_prompt_logprobs(out, r->tokens, r->request, r->n_prompt_logprobs);
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
    if (!r->began && r->extras.progress)
        reply_put_progress(out, &r->extras.usage);
    reply_put_extras(out, &r->extras, event);
    buf_puts(out, "}\n\n");
    r->began = true;
    r->n_sent_bytes = r->text.size_bytes;
    reset_logprobs(r);
    buf_clear(&r->ids);
}

void text_reply_full(const struct text_reply *r, int n, const struct reply_head *head,
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
