/* Finds the lists of a tokenizer.json and reads its vocabulary: "token in byte-level form": id. */
#include <string.h>

#include "text/token/byte_level.h"
#include "text/token/vocab_json.h"

enum {
    SHOWN_CHARS = 80,       /* of an unexpected value in a message */
    CHARACTER_BYTES_MAX = 6 /* of a character as an escape */
};

/* ---- byte-level form ---- */

int vocab_json_decode(char out[VOCAB_TOKEN_BYTES_MAX], struct json_span string)
{
    char plain[2 * VOCAB_TOKEN_BYTES_MAX];
    size_t n_plain;

    if (string.n_bytes > (size_t)CHARACTER_BYTES_MAX * VOCAB_TOKEN_BYTES_MAX)
        return -1;
    if (!memchr(string.at, '\\', string.n_bytes))
        return byte_level_decode(out, string.at, string.n_bytes);
    if (!json_unescape(plain, sizeof plain, &n_plain, string))
        return -1;
    return byte_level_decode(out, plain, n_plain);
}

/* ---- finding the lists ---- */

static bool is_key(struct json_span key, const char *name)
{
    return key.n_bytes == strlen(name) && memcmp(key.at, name, key.n_bytes) == 0;
}

/* Scans the members of "model". Of two with the same name it takes the last; jansson then refuses
 * the file. */
static bool find_in_model(struct vocab_lists *out, struct json_scan *s)
{
    struct json_span key, value;

    if (!scan_char(s, '{'))
        return scan_value(s, &value);
    if (scan_char(s, '}'))
        return true;
    do {
        if (!scan_string(s, &key) || !scan_char(s, ':') || !scan_value(s, &value))
            return false;
        if (is_key(key, "vocab") && *value.at == '{')
            out->vocab = value;
        if (is_key(key, "merges") && *value.at == '[')
            out->merges = value;
    } while (scan_char(s, ','));
    return scan_char(s, '}');
}

static bool find_in_root(struct vocab_lists *out, struct json_scan *s)
{
    struct json_span key, value;

    if (!scan_char(s, '{'))
        return false;
    do {
        if (!scan_string(s, &key) || !scan_char(s, ':'))
            return false;
        if (is_key(key, "model") ? !find_in_model(out, s) : !scan_value(s, &value))
            return false;
    } while (scan_char(s, ','));
    return scan_char(s, '}');
}

bool vocab_lists_find(struct vocab_lists *out, const char *text, size_t n_bytes)
{
    struct json_scan s = {text, text + n_bytes};
    bool found;

    *out = (struct vocab_lists){.text = text};
    found = find_in_root(out, &s);
    out->error_at = found ? NULL : s.at;
    return found;
}

enum osp_status vocab_list_error(const struct vocab_lists *lists, const struct json_scan *s,
                                 const char *expected)
{
    int line, column;

    scan_line_column(lists->text, s->at, &line, &column);
    return fail(OSP_EFORMAT, "line %d, column %d: expected %s", line, column, expected);
}

/* ---- the vocabulary ---- */

struct entry {
    struct json_span token;
    bool has_id;
    int64_t id;
};

static struct json_scan scan_of(struct json_span span)
{
    return (struct json_scan){span.at, span.at + span.n_bytes};
}

/* Reads the next member, after the bracket or a comma; an id of another type is skipped. */
static enum osp_status next_entry(const struct vocab_lists *lists, struct json_scan *s,
                                  struct entry *out)
{
    struct json_span value;

    if (!scan_string(s, &out->token))
        return vocab_list_error(lists, s, "a token in quotes");
    if (!scan_char(s, ':'))
        return vocab_list_error(lists, s, "a colon");
    out->has_id = scan_int(s, &out->id);
    if (!out->has_id && !scan_value(s, &value))
        return vocab_list_error(lists, s, "an id");
    return OSP_OK;
}

typedef enum osp_status entry_fn(void *ctx, const struct entry *e);

static enum osp_status each_entry(const struct vocab_lists *lists, entry_fn *fn, void *ctx)
{
    struct json_scan s = scan_of(lists->vocab);
    struct entry e;
    enum osp_status st = OSP_OK;

    if (!scan_char(&s, '{') || scan_char(&s, '}'))
        return OSP_OK;
    do {
        TRY(next_entry(lists, &s, &e));
        TRY(fn(ctx, &e));
    } while (scan_char(&s, ','));
    if (!scan_char(&s, '}'))
        st = vocab_list_error(lists, &s, "a comma or the end of the vocabulary");
out:
    return st;
}

static enum osp_status count_entry(void *ctx, const struct entry *e)
{
    (void)e;
    ++*(size_t *)ctx;
    return OSP_OK;
}

enum osp_status vocab_list_count(const struct vocab_lists *lists, size_t *n_tokens)
{
    *n_tokens = 0;
    return each_entry(lists, count_entry, n_tokens);
}

static enum osp_status define_entry(void *ctx, const struct entry *e)
{
    struct vocab *v = ctx;
    char bytes[VOCAB_TOKEN_BYTES_MAX];
    const int n_bytes = vocab_json_decode(bytes, e->token);
    const int shown = e->token.n_bytes < SHOWN_CHARS ? (int)e->token.n_bytes : SHOWN_CHARS;

    if (n_bytes < 0)
        return fail(OSP_EFORMAT,
                    "model.vocab: \"%.*s\" is not a string of up to %d bytes in byte-level form",
                    shown, e->token.at, VOCAB_TOKEN_BYTES_MAX);
    if (!e->has_id || e->id >= v->n_ordinary)
        return fail(OSP_EFORMAT, "model.vocab: id of \"%.*s\" is not a number from 0 to %d", shown,
                    e->token.at, (int)v->n_ordinary - 1);
    return vocab_define(v, e->id, bytes, (size_t)n_bytes);
}

enum osp_status vocab_list_define(struct vocab *v, const struct vocab_lists *lists)
{
    return each_entry(lists, define_entry, v);
}
