/* Shared by the Harmony tests: the real o200k vocabulary, golden files, and a recorder that writes
 * each message of a parser as one line. */
#ifndef HARMONY_CASE_H
#define HARMONY_CASE_H

#include <stdlib.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "text/harmony/harmony_parser.h"

#define GOLDEN "tests/golden/harmony/"

enum { CASE_BYTES_MAX = 1 << 24 };

static inline struct tokenizer *open_o200k(void)
{
    struct tokenizer *t = NULL;

    if (tokenizer_open(&t, "tests/golden/tokenizer/o200k_base.tiktoken") != OSP_OK)
        print_error("%s\n", fail_message());
    assert_non_null(t);
    return t;
}

/* A golden file without trailing white space; to free(). */
static inline char *golden_text(const char *file)
{
    char path[256];
    char *text;
    size_t n;

    snprintf(path, sizeof path, GOLDEN "%s", file);
    assert_int_equal(file_read(&text, &n, path, CASE_BYTES_MAX), OSP_OK);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        text[--n] = '\0';
    return text;
}

static inline void encode(const struct tokenizer *t, const char *text, struct ids *out)
{
    ids_init(out, CASE_BYTES_MAX);
    assert_int_equal(tokenizer_encode_with_specials(t, text, strlen(text), out), OSP_OK);
}

static inline char *decode(const struct tokenizer *t, const struct ids *ids)
{
    struct buf text;

    buf_init(&text, CASE_BYTES_MAX);
    assert_int_equal(tokenizer_decode(t, ids->data, ids->n, &text), OSP_OK);
    buf_puts(&text, "");
    return buf_take(&text);
}

/* Messages as lines: "PART role|channel|recipient|content type|content|terminator\n", where PART is
 * R, C or T. Also checks the order of the callbacks and that deltas are whole characters. */
struct recorder {
    const struct tokenizer *t;
    struct buf lines, content;
    int n_open, n_messages, n_deltas;
};

static inline void record_begin(void *ctx, const struct harmony_header *h)
{
    struct recorder *rec = ctx;

    assert_int_equal(rec->n_open, 0);
    rec->n_open = 1;
    rec->n_messages++;
    buf_printf(&rec->lines, "%c %s|%s|%s|%s|", "RCT"[h->part], h -> role, h -> channel,
               h -> recipient, h -> content_type);
    buf_clear(&rec->content);
}

static inline void record_delta(void *ctx, const struct harmony_header *h, const char *text,
                                size_t n_bytes)
{
    struct recorder *rec = ctx;

    assert_int_equal(rec->n_open, 1);
    assert_true(n_bytes > 0);
    assert_true(utf8_is_valid(text, n_bytes));
    assert_true(h->part <= PART_TOOL_CALL);
    rec->n_deltas++;
    buf_append(&rec->content, text, n_bytes);
    buf_append(&rec->lines, text, n_bytes);
}

static inline void record_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct recorder *rec = ctx;
    char scratch[32];
    const char *name = "-";
    size_t n = 1;

    assert_int_equal(rec->n_open, 1);
    assert_true(h->part <= PART_TOOL_CALL);
    rec->n_open = 0;
    if (terminator >= 0)
        assert_int_equal(tokenizer_bytes(rec->t, terminator, scratch, &name, &n), OSP_OK);
    buf_printf(&rec->lines, "|%.*s\n", (int)n, name);
}

static inline void recorder_init(struct recorder *rec, const struct tokenizer *t)
{
    *rec = (struct recorder){.t = t};
    buf_init(&rec->lines, CASE_BYTES_MAX);
    buf_init(&rec->content, CASE_BYTES_MAX);
}

static inline void recorder_release(struct recorder *rec)
{
    buf_release(&rec->lines);
    buf_release(&rec->content);
}

static inline struct harmony_parser *recorder_reader(struct recorder *rec, bool role_preset)
{
    struct harmony_sink sink = {rec, record_begin, record_delta, record_end};

    return harmony_parser_new(rec->t, &sink, role_preset);
}

#endif
