/* A JSON reader that scans the text once without allocating. It reads the two long lists of a
 * tokenizer.json: a million strings, for which building a tree of values would dominate the time.
 * Strings are returned unescaped from the text, between their quotes; jansson parses the rest of
 * the file. */
#ifndef TEXT_TOKEN_JSON_SCAN_H
#define TEXT_TOKEN_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_scan {
    const char *at, *end; /* borrowed */
};

/* A piece of the text. */
struct json_span {
    const char *at;
    size_t n_bytes;
};

/* Each skips white space first. On false, the position is where the text did not match. */
bool scan_char(struct json_scan *s, char ch);
bool scan_string(struct json_scan *s,
                 struct json_span *out);          /* without quotes; escapes are not decoded */
bool scan_int(struct json_scan *s, int64_t *out); /* of at most 18 digits */
/* A value of any kind. Only quotes and brackets are checked, to find its end. */
bool scan_value(struct json_scan *s, struct json_span *out);
/* The next character, which is not consumed; '\0' at the end. */
char scan_peek(struct json_scan *s);

/* Writes the decoded string as UTF-8. False for an invalid escape or more than size_bytes. */
bool json_unescape(char *out, size_t size_bytes, size_t *n_bytes, struct json_span string);

/* Line and column of a position, both from 1. */
void scan_line_column(const char *text, const char *at, int *line, int *column);

#endif
