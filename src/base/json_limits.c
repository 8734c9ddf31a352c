#include "base/json_limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes of jansson's tree on a 64-bit machine, with what malloc() adds:
 * tests/unit/test_json_limits.c compares. */
enum {
    OBJECT_BYTES = 256, /* a hash table of eight buckets */
    ARRAY_BYTES = 144,  /* eight places */
    ITEM_BYTES = 32,    /* by its comma: places double, and are copied when they do */
    MEMBER_BYTES = 128, /* by its colon: a pair, and buckets that double */
    STRING_BYTES = 96,  /* besides its text */
    NUMBER_BYTES = 40
};

struct look {
    const char *begin, *at, *end;
    size_t memory_bytes, string_bytes; /* so far; of the last string */
    int depth;
};

/* To behind the quote that ends the string, or to the end of the text. */
static void pass_string(struct look *l)
{
    const char *begin = ++l->at;

    while (l->at < l->end && *l->at != '"')
        l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
    l->string_bytes = (size_t)(l->at - begin);
    l->memory_bytes += STRING_BYTES + l->string_bytes;
    if (l->at < l->end)
        l->at++;
}

static bool is_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static void pass_number(struct look *l)
{
    while (l->at < l->end && is_of_number(*l->at))
        l->at++;
    l->memory_bytes += NUMBER_BYTES;
}

/* One mark, string, number, or character that makes nothing. */
static void pass_one(struct look *l)
{
    l->string_bytes = 0;
    switch (*l->at) {
    case '"':
        pass_string(l);
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
            pass_number(l);
            return;
        }
    }
    l->at++;
}

size_t json_memory(const char *text, size_t n_bytes)
{
    struct look l = {.begin = text, .at = text, .end = text + n_bytes};

    while (l.at < l.end)
        pass_one(&l);
    return l.memory_bytes;
}

static enum osp_status exceeded(const struct look *l, const char *what, size_t limit)
{
    int line = 1, column = 1;

    for (const char *at = l->begin; at < l->at; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
    }
    return fail(OSP_ELIMIT, "line %d, column %d: the JSON up to here %s %zu", line, column, what,
                limit);
}

enum osp_status json_limits_check(const struct json_limits *limits, const char *text,
                                  size_t n_bytes)
{
    struct look l = {.begin = text, .at = text, .end = text + n_bytes};

    if (n_bytes > limits->file_bytes)
        return fail(OSP_ELIMIT, "%zu bytes, limit is %zu", n_bytes, limits->file_bytes);
    while (l.at < l.end) {
        pass_one(&l);
        if (l.depth > limits->depth)
            return exceeded(&l, "is nested deeper than the limit of", (size_t)limits->depth);
        if (l.string_bytes > limits->string_bytes)
            return exceeded(&l, "has a string of more bytes than the limit of",
                            limits->string_bytes);
        if (l.memory_bytes > limits->memory_bytes)
            return exceeded(&l, "would take more bytes of memory than the limit of",
                            limits->memory_bytes);
    }
    return OSP_OK;
}
