#include "serve/reply/json_object.h"

#include <string.h>

struct scan {
    const char *at, *end;
};

static bool skip_value(struct scan *s, int depth);

static void skip_space(struct scan *s)
{
    while (s->at < s->end && memchr(" \t\r\n", *s->at, 4) != NULL)
        s->at++;
}

static bool is_next(const struct scan *s, char c)
{
    return s->at < s->end && *s->at == c;
}

static bool skip_char(struct scan *s, char c)
{
    const bool is_there = is_next(s, c);

    s->at += is_there;
    return is_there;
}

static bool skip_word(struct scan *s, const char *word)
{
    const size_t n = strlen(word);

    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* At least one digit. */
static bool skip_digits(struct scan *s)
{
    const char *begin = s->at;

    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > begin;
}

static bool skip_number(struct scan *s)
{
    (void)skip_char(s, '-');
    if (!skip_char(s, '0') && !skip_digits(s))
        return false;
    if (skip_char(s, '.') && !skip_digits(s))
        return false;
    if (!is_next(s, 'e') && !is_next(s, 'E'))
        return true;
    s->at++;
    if (!skip_char(s, '-'))
        (void)skip_char(s, '+');
    return skip_digits(s);
}

/* What follows a backslash. */
static bool skip_escape(struct scan *s)
{
    if (s->at == s->end)
        return false;
    if (*s->at != 'u')
        return memchr("\"\\/bfnrt", *s->at++, 8) != NULL;
    s->at++;
    for (int i = 0; i < 4; i++, s->at++)
        if (s->at == s->end || memchr("0123456789abcdefABCDEF", *s->at, 22) == NULL)
            return false;
    return true;
}

static bool skip_string(struct scan *s)
{
    if (!skip_char(s, '"'))
        return false;
    while (s->at < s->end && *s->at != '"') {
        const unsigned char c = (unsigned char)*s->at++;

        if (c < ' ' || (c == '\\' && !skip_escape(s)))
            return false;
    }
    return skip_char(s, '"');
}

static bool skip_item(struct scan *s, bool is_object, int depth)
{
    skip_space(s);
    if (!is_object)
        return skip_value(s, depth);
    if (!skip_string(s))
        return false;
    skip_space(s);
    if (!skip_char(s, ':'))
        return false;
    skip_space(s);
    return skip_value(s, depth);
}

/* A list or an object, from after its first character on. */
static bool skip_items(struct scan *s, bool is_object, int depth)
{
    const char last = is_object ? '}' : ']';

    skip_space(s);
    if (skip_char(s, last))
        return true;
    do {
        if (!skip_item(s, is_object, depth))
            return false;
        skip_space(s);
    } while (skip_char(s, ','));
    return skip_char(s, last);
}

/* depth: how many lists and objects may still be within each other. */
static bool skip_value(struct scan *s, int depth)
{
    if (is_next(s, '{') || is_next(s, '[')) {
        const bool is_object = *s->at++ == '{';

        return depth > 0 && skip_items(s, is_object, depth - 1);
    }
    if (is_next(s, '"'))
        return skip_string(s);
    return skip_word(s, "true") || skip_word(s, "false") || skip_word(s, "null") || skip_number(s);
}

bool json_object_is_valid(const char *text, size_t n_bytes)
{
    struct scan s = {.at = text, .end = text + n_bytes};

    skip_space(&s);
    if (!is_next(&s, '{') || !skip_value(&s, JSON_OBJECT_DEPTH_MAX))
        return false;
    skip_space(&s);
    return s.at == s.end;
}
