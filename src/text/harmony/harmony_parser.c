/* The streaming parser: a state machine with three states over tokens.
 *
 *     BETWEEN  --<|start|>-->  HEADER  --<|message|>-->  CONTENT  --<|end|>...-->  BETWEEN
 *
 * Every other token is handled in every state, too. Text where a header should begin starts a
 * header. A header that ends without <|message|> is parsed as far as possible, and its remainder
 * becomes the content of a message. <|start|> and <|channel|> inside of content end it. Other
 * control tokens are text inside of content; reserved tokens are ignored elsewhere. */
#include "text/harmony/harmony_parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/harmony/harmony_header.h"

enum {
    TOKEN_SCRATCH_BYTES = 32,              /* as tokenizer_bytes requires */
    PIECE_BYTES_MAX = 256,                 /* of a token's bytes decoded at a time */
    DELTA_BYTES_MAX = 4 * PIECE_BYTES_MAX, /* an invalid byte becomes three bytes */
};

enum state { BETWEEN, HEADER, CONTENT };

/* How a header ended without <|message|>. */
enum header_end {
    ENDED,   /* by a token that ends messages */
    CUT_OFF, /* by <|start|> or the end of the stream */
    TOO_LONG /* the remainder is content that continues */
};

struct harmony_parser {
    const struct tokenizer *t;
    const struct special_ids *special;
    struct harmony_sink sink;
    struct header_tools tools;
    enum state state;
    struct header_text head;      /* HEADER */
    struct harmony_header header; /* CONTENT */
    struct detok detok;
    struct buf delta;
};

struct harmony_parser *harmony_parser_new(const struct tokenizer *t,
                                          const struct harmony_sink *sink, bool role_preset)
{
    struct harmony_parser *r = mem_new(sizeof *r);

    r->t = t;
    r->special = tokenizer_specials(t);
    r->sink = *sink;
    r->state = role_preset ? HEADER : BETWEEN;
    header_text_init(&r->head, true);
    detok_init(&r->detok);
    buf_init(&r->delta, DELTA_BYTES_MAX);
    if (buf_reserve(&r->delta, DELTA_BYTES_MAX))
        return r;
    harmony_parser_free(r);
    return NULL;
}

void harmony_parser_free(struct harmony_parser *r)
{
    if (r == NULL)
        return;
    buf_release(&r->delta);
    free(r);
}

void harmony_parser_set_tools(struct harmony_parser *r, const char *const *names, size_t n)
{
    r->tools = (struct header_tools){names, n};
}

bool harmony_parser_in_content(const struct harmony_parser *r)
{
    return r->state == CONTENT;
}

static void begin_message(struct harmony_parser *r)
{
    r->state = CONTENT;
    r->sink.begin(r->sink.ctx, &r->header);
}

static void deliver(struct harmony_parser *r, const char *text, size_t n_bytes)
{
    if (n_bytes > 0)
        r->sink.delta(r->sink.ctx, &r->header, text, n_bytes);
}

static void end_message(struct harmony_parser *r, int32_t terminator)
{
    r->state = BETWEEN;
    r->sink.end(r->sink.ctx, &r->header, terminator);
}

static void begin_header(struct harmony_parser *r, bool with_assistant)
{
    r->state = HEADER;
    header_text_init(&r->head, with_assistant);
}

/* Delivers the content found in a header: from `rest` up to part `end`. */
static void deliver_rest(struct harmony_parser *r, struct header_rest rest, size_t end)
{
    const struct header_text *h = &r->head;
    size_t at = rest.offset;

    for (size_t part = rest.part; part < end; part++) {
        if (part > rest.part && h->parts[part].marker == MARKER_CONSTRAIN)
            deliver(r, "<|constrain|>", strlen("<|constrain|>"));
        deliver(r, h->text + at, header_text_end(h, part) - at);
        at = header_text_end(h, part);
    }
}

static size_t next_channel_part(const struct header_text *h, size_t part)
{
    while (part < h->n_parts && h->parts[part].marker != MARKER_CHANNEL)
        part++;
    return part;
}

/* True if the last message of a header without <|message|> is not empty: it has content, or at
 * least a channel or recipient that a later token has completed. */
static bool has_fields(const struct harmony_parser *r, struct header_rest rest, enum header_end how)
{
    const struct harmony_header *header = &r->header;
    size_t n_bytes = r->head.n_bytes - rest.offset;

    if (how == TOO_LONG)
        return true;
    if (how == CUT_OFF && header_is_truncated(header, r->head.text + rest.offset, n_bytes))
        return false;
    return n_bytes > 0 ||
           (how == ENDED && (header->channel[0] != '\0' || header->recipient[0] != '\0'));
}

/* In a header, content that is followed by <|channel|> is a message of its own; the header
 * continues after it. With only_prose, a single word stays in the header. Returns the start of the
 * content after the last <|channel|>. */
static struct header_rest split_header(struct harmony_parser *r, bool only_prose)
{
    struct header_text *h = &r->head;

    for (;;) {
        struct header_rest rest = header_recover(h, &r->tools, &r->header);
        size_t end = next_channel_part(h, rest.part + 1);

        if (end == h->n_parts)
            return rest;
        if (only_prose &&
            !header_is_prose(h->text + rest.offset, h->parts[end].begin - rest.offset))
            return rest;
        begin_message(r);
        deliver_rest(r, rest, end);
        end_message(r, r->special->channel);
        header_text_restart(h, end);
    }
}

/* Ends a header without <|message|>: its remainder becomes a message. */
static void recover_header(struct harmony_parser *r, enum header_end how, int32_t terminator)
{
    struct header_rest rest = split_header(r, false);

    r->state = BETWEEN;
    if (!has_fields(r, rest, how))
        return;
    begin_message(r);
    deliver_rest(r, rest, r->head.n_parts);
    if (how != TOO_LONG)
        end_message(r, terminator);
}

/* Processes complete text: adds it to the header or delivers it. A header that grows too long
 * becomes content. */
static void take_text(struct harmony_parser *r, const char *text, size_t n_bytes)
{
    if (r->state == HEADER && header_text_append(&r->head, text, n_bytes))
        return;
    if (r->state == HEADER)
        recover_header(r, TOO_LONG, -1);
    deliver(r, text, n_bytes);
}

static void take_delta(struct harmony_parser *r)
{
    take_text(r, buf_text(&r->delta), r->delta.size_bytes);
    buf_clear(&r->delta);
}

/* Ends an incomplete UTF-8 character, if one is buffered. */
static void flush(struct harmony_parser *r)
{
    detok_finish(&r->detok, &r->delta);
    take_delta(r);
}

static void take_bytes(struct harmony_parser *r, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        size_t n = n_bytes < PIECE_BYTES_MAX ? n_bytes : PIECE_BYTES_MAX;

        detok_push(&r->detok, bytes, n, &r->delta);
        take_delta(r);
        bytes += n;
        n_bytes -= n;
    }
}

/* An ordinary token, an undefined token (U+FFFD), or a control token inside of content. */
static void take_token(struct harmony_parser *r, int32_t token)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char scratch[TOKEN_SCRATCH_BYTES];
    const char *bytes;
    size_t n_bytes;

    if (tokenizer_bytes(r->t, token, scratch, &bytes, &n_bytes) != OSP_OK) {
        flush(r);
        take_text(r, replacement, strlen(replacement));
        return;
    }
    take_bytes(r, bytes, n_bytes);
}

static void on_start(struct harmony_parser *r, int32_t token)
{
    if (r->state == CONTENT)
        end_message(r, token);
    else if (r->state == HEADER)
        recover_header(r, CUT_OFF, token);
    begin_header(r, false);
}

static void on_marker(struct harmony_parser *r, enum header_marker marker)
{
    if (r->state == BETWEEN)
        begin_header(r, true);
    header_text_marker(&r->head, marker);
}

static void on_channel(struct harmony_parser *r, int32_t token)
{
    if (r->state == CONTENT)
        end_message(r, token);
    on_marker(r, MARKER_CHANNEL);
}

static void on_message(struct harmony_parser *r)
{
    if (r->state == BETWEEN)
        begin_header(r, true);
    split_header(r, true);
    header_read(&r->head, &r->tools, &r->header);
    begin_message(r);
}

static void on_terminator(struct harmony_parser *r, int32_t token)
{
    if (r->state == CONTENT)
        end_message(r, token);
    else if (r->state == HEADER)
        recover_header(r, ENDED, token);
}

static void on_text(struct harmony_parser *r, int32_t token)
{
    if (r->state == BETWEEN)
        begin_header(r, true);
    take_token(r, token);
}

static bool ends_message(const struct special_ids *s, int32_t token)
{
    return token == s->end || token == s->ret || token == s->call || token == s->endoftext;
}

void harmony_parser_push(struct harmony_parser *r, int32_t token)
{
    const struct special_ids *s = r->special;

    if (!tokenizer_is_special(r->t, token)) {
        on_text(r, token);
        return;
    }
    flush(r);
    if (token == s->start)
        on_start(r, token);
    else if (token == s->channel)
        on_channel(r, token);
    else if (ends_message(s, token))
        on_terminator(r, token);
    else if (r->state == CONTENT)
        take_token(r, token);
    else if (token == s->message)
        on_message(r);
    else if (token == s->constrain)
        on_marker(r, MARKER_CONSTRAIN);
}

void harmony_parser_finish(struct harmony_parser *r)
{
    flush(r);
    if (r->state == CONTENT)
        end_message(r, -1);
    else if (r->state == HEADER)
        recover_header(r, CUT_OFF, -1);
    r->state = BETWEEN;
}
