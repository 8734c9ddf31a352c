/* Tokens to events. */
#include "engine/chat/event_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "base/rng.h"

enum {
    TEXT_BYTES_MAX = 64 * 1024 * 1024, /* of what one token can add; a token's text is short */
    CALL_ID_BYTES = 32
};

/* Begins an event whose text is appended to s->text next. */
static struct pending_event *add_event(struct event_stream *s, enum osp_event_kind kind)
{
    struct pending_event *e;

    mem_grow(&s->pending, s->n_pending, &s->n_pending_max, sizeof *s->pending);
    e = &s->pending[s->n_pending++];
    *e = (struct pending_event){.kind = kind, .text = s->text.size_bytes};
    return e;
}

/* Ends the text of the event that begins at offset `begin`; an empty text makes no event. */
static void add_text_event(struct event_stream *s, enum osp_event_kind kind, size_t begin)
{
    struct pending_event *e;

    if (s->text.size_bytes == begin)
        return;
    e = add_event(s, kind);
    e->text = begin;
    e->n_bytes = s->text.size_bytes - begin;
    e->call_index = s->n_calls - 1;
    e->logprobs_end = kind == OSP_EVENT_TEXT ? s->n_token_logprobs : 0;
    e->is_preamble = kind == OSP_EVENT_TEXT && s->in_preamble;
    buf_putc(&s->text, '\0');
}

/* Drops the log-probabilities of text that a stop string has cut off. */
static void drop_cut_logprobs(struct event_stream *s)
{
    while (s->n_token_logprobs > s->n_logprobs_emitted &&
           s->token_logprobs[s->n_token_logprobs - 1].offset >= s->n_emitted_bytes)
        s->n_token_logprobs--;
}

/* Makes an event of what `stop` has just added to the text. */
static void give_answer(struct event_stream *s, size_t begin)
{
    s->n_emitted_bytes += s->text.size_bytes - begin;
    text_hash_add(&s->text_hashes.content, buf_text(&s->text) + begin, s->text.size_bytes - begin);
    if (s->stop.found != NULL)
        drop_cut_logprobs(s);
    add_text_event(s, OSP_EVENT_TEXT, begin);
}

/* Passes text through the search for stop strings. */
static void push_answer(struct event_stream *s, const char *text, size_t n_bytes)
{
    size_t begin = s->text.size_bytes;

    s->n_answer_bytes += n_bytes;
    if (s->n_tokens < s->tokens_min)
        buf_append(&s->text, text, n_bytes);
    else
        stop_text_push(&s->stop, text, n_bytes, &s->text);
    give_answer(s, begin);
}

static void finish_answer(struct event_stream *s)
{
    size_t begin = s->text.size_bytes;

    stop_text_finish(&s->stop, &s->text);
    give_answer(s, begin);
}

static size_t add_string(struct event_stream *s, const char *string)
{
    size_t begin = s->text.size_bytes;

    buf_append(&s->text, string, strlen(string) + 1);
    return begin;
}

static void begin_call(struct event_stream *s, const char *recipient)
{
    struct pending_event *e = add_event(s, OSP_EVENT_TOOL_CALL);
    char id[CALL_ID_BYTES], name[HARMONY_NAME_BYTES_MAX + 1];

    harmony_call_name_safe(name, recipient);
    text_hash_add_call(&s->text_hashes, name);
    snprintf(id, sizeof id, "call_%016" PRIx64 "%08" PRIx32, rng_entropy(),
             (uint32_t)rng_entropy());
    e->text = add_string(s, "");
    e->name = add_string(s, name);
    e->call_id = add_string(s, id);
    e->call_index = s->n_calls++;
}

static void on_begin(void *ctx, const struct harmony_header *header)
{
    struct event_stream *s = ctx;

    s->in_reasoning = header->part == PART_REASONING;
    s->in_content = header->part == PART_CONTENT;
    s->in_preamble = s->in_content && strcmp(header->channel, "commentary") == 0;
    if (header->part == PART_TOOL_CALL && !event_stream_stopped(s))
        begin_call(s, header->recipient);
}

static void on_delta(void *ctx, const struct harmony_header *header, const char *text,
                     size_t n_bytes)
{
    struct event_stream *s = ctx;
    size_t begin = s->text.size_bytes;

    if (s->is_priming || event_stream_stopped(s))
        return;
    if (header->part == PART_CONTENT) {
        push_answer(s, text, n_bytes);
        return;
    }
    buf_append(&s->text, text, n_bytes);
    text_hash_add(header->part == PART_REASONING ? &s->text_hashes.reasoning
                                                 : &s->text_hashes.calls,
                  text, n_bytes);
    add_text_event(s, header->part == PART_REASONING ? OSP_EVENT_REASONING : OSP_EVENT_TOOL_ARGS,
                   begin);
}

static void on_end(void *ctx, const struct harmony_header *header, int32_t terminator)
{
    struct event_stream *s = ctx;

    s->in_reasoning = false;
    s->in_content = false;
    s->is_cut = terminator < 0;
    if (header->part == PART_CONTENT)
        finish_answer(s);
    if (header->part == PART_TOOL_CALL && s->one_call && !s->is_priming)
        s->has_call = s->has_call ||
                      (terminator >= 0 && terminator != tokenizer_specials(s->tokenizer)->call);
}

/* Reads the prompt's last message, which the answer continues ("<|start|>assistant"). */
static void prime(struct event_stream *s, const int32_t *prompt, size_t n)
{
    int32_t start = tokenizer_specials(s->tokenizer)->start;
    size_t begin = n;

    while (begin > 0 && prompt[begin - 1] != start)
        begin--;
    s->is_priming = true;
    for (size_t i = begin > 0 ? begin - 1 : n; i < n; i++)
        harmony_parser_push(s->reader, prompt[i]);
    s->is_priming = false;
}

static enum osp_status open_reader(struct event_stream *s, const struct event_stream_options *opt)
{
    enum osp_status st;

    TRY(mem_try_array(&s->functions, opt->n_functions + 1, sizeof *s->functions, "functions"));
    for (size_t i = 0; i < opt->n_functions; i++)
        TRY(str_copy(&s->functions[s->n_functions++], opt->functions[i], "a function's name"));
    s->sink = (struct harmony_sink){.ctx = s, .begin = on_begin, .delta = on_delta, .end = on_end};
    s->reader = harmony_parser_new(s->tokenizer, &s->sink, false);
    if (s->reader == NULL)
        return fail(OSP_ENOMEM, "no memory for the reader of an answer");
    harmony_parser_set_tools(s->reader, (const char *const *)s->functions, s->n_functions);
    prime(s, opt->prompt, opt->n_prompt);
out:
    return st;
}

enum osp_status event_stream_init(struct event_stream *s, const struct event_stream_options *opt)
{
    enum osp_status st;

    memset(s, 0, sizeof *s);
    s->tokenizer = opt->tokenizer;
    s->tokens_min = opt->tokens_min;
    s->one_call = opt->one_call;
    buf_init(&s->text, TEXT_BYTES_MAX);
    detok_init(&s->detok);
    text_hashes_init(&s->text_hashes);
    TRY(stop_text_init(&s->stop, opt->stop, opt->n_stop));
    s->stop.keeps_stop = opt->stop_in_text;
    s->no_control_text = opt->no_control_text;
    if (!opt->raw)
        TRY(open_reader(s, opt));
out:
    return st;
}

void event_stream_release(struct event_stream *s)
{
    harmony_parser_free(s->reader);
    for (size_t i = 0; i < s->n_functions; i++)
        free(s->functions[i]);
    free(s->functions);
    stop_text_release(&s->stop);
    buf_release(&s->text);
    free(s->pending);
    free(s->token_logprobs);
    memset(s, 0, sizeof *s);
}

/* Raw: the token's own text, whole characters only. */
static void push_raw(struct event_stream *s, int32_t token)
{
    struct buf chars;
    char scratch[32];
    const char *bytes;
    size_t n_bytes;

    if ((s->no_control_text && tokenizer_is_special(s->tokenizer, token)) ||
        tokenizer_bytes(s->tokenizer, token, scratch, &bytes, &n_bytes) != OSP_OK)
        return; /* an id beyond the vocabulary has no text */
    buf_init(&chars, TEXT_BYTES_MAX);
    if (detok_push(&s->detok, bytes, n_bytes, &chars))
        push_answer(s, buf_text(&chars), chars.size_bytes);
    else
        s->is_broken = true;
    buf_release(&chars);
}

static void finish_raw(struct event_stream *s)
{
    struct buf chars;

    buf_init(&chars, TEXT_BYTES_MAX);
    s->is_broken = !detok_finish(&s->detok, &chars) || s->is_broken;
    push_answer(s, buf_text(&chars), chars.size_bytes);
    buf_release(&chars);
    finish_answer(s);
}

/* All events were returned: their text is dropped. */
static void drop_emitted(struct event_stream *s)
{
    if (s->n_emitted < s->n_pending)
        return;
    s->n_emitted = 0;
    s->n_pending = 0;
    s->n_token_logprobs -= s->n_logprobs_emitted;
    if (s->n_logprobs_emitted > 0)
        memmove(s->token_logprobs, s->token_logprobs + s->n_logprobs_emitted,
                s->n_token_logprobs * sizeof *s->token_logprobs);
    s->n_logprobs_emitted = 0;
    buf_clear(&s->text);
}

/* An event without some of its text, for want of memory, is not returned. */
static void check_overflow(struct event_stream *s)
{
    s->is_broken = s->is_broken || s->text.overflow;
    if (s->is_broken)
        s->n_pending = s->n_emitted;
}

/* The token was part of the answer's text, which had n_before bytes: its log-probability goes with
 * the last text event after n_events others, else with the next one. */
static void add_logprob(struct event_stream *s, const struct osp_logprob *token_logprob,
                        size_t n_before, size_t n_events)
{
    struct pending_event *last = s->n_pending > n_events ? &s->pending[s->n_pending - 1] : NULL;

    if (token_logprob == NULL || (s->stop.found != NULL && n_before >= s->n_emitted_bytes))
        return;
    mem_grow(&s->token_logprobs, s->n_token_logprobs, &s->n_token_logprobs_max,
             sizeof *s->token_logprobs);
    s->token_logprobs[s->n_token_logprobs] = *token_logprob;
    s->token_logprobs[s->n_token_logprobs++].offset = n_before;
    if (last != NULL && last->kind == OSP_EVENT_TEXT)
        last->logprobs_end = s->n_token_logprobs;
}

void event_stream_push(struct event_stream *s, int32_t token,
                       const struct osp_logprob *token_logprob)
{
    bool was_reasoning = s->in_reasoning, was_content = s->in_content;
    size_t n_before = s->n_answer_bytes, n_events;

    drop_emitted(s);
    n_events = s->n_pending;
    if (s->reader == NULL)
        push_raw(s, token);
    else
        harmony_parser_push(s->reader, token);
    s->n_tokens++;
    s->n_reasoning_tokens += was_reasoning && s->in_reasoning;
    if (s->reader == NULL || (was_content && s->in_content))
        add_logprob(s, token_logprob, n_before, n_events);
    check_overflow(s);
}

void event_stream_push_end(struct event_stream *s, const struct osp_logprob *token_logprob)
{
    if (s->reader == NULL)
        add_logprob(s, token_logprob, s->n_answer_bytes, s->n_pending);
}

void event_stream_finish(struct event_stream *s)
{
    drop_emitted(s);
    if (s->reader == NULL)
        finish_raw(s);
    else
        harmony_parser_finish(s->reader);
    check_overflow(s);
}

bool event_stream_broken(const struct event_stream *s)
{
    return s->is_broken;
}

bool event_stream_stopped(const struct event_stream *s)
{
    return s->stop.found != NULL || s->has_call;
}

static void take_logprobs(struct event_stream *s, size_t end, struct osp_event *out)
{
    if (end <= s->n_logprobs_emitted)
        return;
    out->logprobs = s->token_logprobs + s->n_logprobs_emitted;
    out->n_logprobs = (int)(end - s->n_logprobs_emitted);
    s->n_logprobs_emitted = end;
}

void event_stream_rest(struct event_stream *s, struct osp_event *out)
{
    take_logprobs(s, s->n_token_logprobs, out);
}

bool event_stream_next(struct event_stream *s, struct osp_event *out)
{
    const struct pending_event *e;

    if (s->n_emitted == s->n_pending)
        return false;
    e = &s->pending[s->n_emitted++];
    *out = (struct osp_event){.kind = e->kind,
                              .call_index = e->call_index,
                              .is_preamble = e->is_preamble,
                              .stop_token = -1};
    out->text = s->text.data + e->text;
    out->n_bytes = e->n_bytes;
    if (e->kind == OSP_EVENT_TEXT)
        take_logprobs(s, e->logprobs_end, out);
    if (e->kind == OSP_EVENT_TOOL_CALL) {
        out->name = s->text.data + e->name;
        out->call_id = s->text.data + e->call_id;
    }
    return true;
}
