#include "base/json_limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes of jansson's tree on a 64-bit machine, including malloc()'s overhead.
 * tests/unit/test_json_limits.c compares them with measured values. */
enum {
    OBJECT_BYTES = 256, /* a hash table of eight buckets */
    ARRAY_BYTES = 144,  /* eight slots */
    ITEM_BYTES = 32,    /* per comma: the slots double, and are copied when they do */
    MEMBER_BYTES = 128, /* per colon: a pair, and buckets that double */
    STRING_BYTES = 96,  /* in addition to its text */
    NUMBER_BYTES = 40
};

struct scan {
    const char *begin, *at, *end;
    size_t memory_bytes, string_bytes; /* total so far; length of the last string */
    int depth;
};

/* Advances past the quote that ends the string, or to the end of the text. */
static void scan_string(struct scan *l)
{
    const char *begin = ++l->at;

    while (l->at < l->end && *l->at != '"')
        l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
    l->string_bytes = (size_t)(l->at - begin);
    l->memory_bytes += STRING_BYTES + l->string_bytes;
    if (l->at < l->end)
        l->at++;
}

static bool is_number_char(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static void scan_number(struct scan *l)
{
    while (l->at < l->end && is_number_char(*l->at))
        l->at++;
    l->memory_bytes += NUMBER_BYTES;
}

/* Consumes one punctuation mark, string, number, or character that allocates nothing. */
static void scan_token(struct scan *l)
{
    l->string_bytes = 0;
    switch (*l->at) {
    case '"':
        scan_string(l);
        return;
    case '{':
    case '[':
        l->memory_bytes += *l->at == '{' ? OBJECT_BYTES : ARRAY_BYTES;
        l->depth++;
        break;
    case '}':
    case ']':
        l->depth--;
        break;
    case ',':
        l->memory_bytes += ITEM_BYTES;
        break;
    case ':':
        l->memory_bytes += MEMBER_BYTES;
        break;
    default:
        if ((*l->at >= '0' && *l->at <= '9') || *l->at == '-') {
            scan_number(l);
            return;
        }
    }
    l->at++;
}

size_t json_tree_bytes(const char *text, size_t n_bytes)
{
    struct scan l = {.begin = text, .at = text, .end = text + n_bytes};

    while (l.at < l.end)
        scan_token(&l);
    return l.memory_bytes;
}

static enum osp_status exceeded(const struct scan *l, const char *what, size_t limit)
{
    int line = 1, column = 1;

    for (const char *at = l->begin; at < l->at; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
    }
    return fail(OSP_ELIMIT, "line %d, column %d: the JSON up to this point %s %zu", line, column,
                what, limit);
}

enum osp_status json_limits_check(const struct json_limits *limits, const char *text,
                                  size_t n_bytes)
{
    struct scan l = {.begin = text, .at = text, .end = text + n_bytes};

    if (n_bytes > limits->file_bytes)
        return fail(OSP_ELIMIT, "JSON has %zu bytes, limit is %zu", n_bytes, limits->file_bytes);
    while (l.at < l.end) {
        scan_token(&l);
        if (l.depth > limits->depth)
            return exceeded(&l, "is nested deeper than the limit of", (size_t)limits->depth);
        if (l.string_bytes > limits->string_bytes)
            return exceeded(&l, "has a string with more bytes than the limit of",
                            limits->string_bytes);
        if (l.memory_bytes > limits->memory_bytes)
            return exceeded(&l, "needs more bytes of memory than the limit of",
                            limits->memory_bytes);
    }
    return OSP_OK;
}
