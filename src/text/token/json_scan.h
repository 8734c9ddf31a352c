/* A reader of JSON that goes through the text once and makes nothing: for the two long lists of a
 * tokenizer.json, a million strings which a tree of values would spend most of the time on. Strings
 * come as they stand, between their quotes; what is around the lists is jansson's. */
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

/* Each skips blanks first and, when it gives false, leaves the place where it did not fit. */
bool scan_char(struct json_scan *s, char ch);
bool scan_string(struct json_scan *s,
                 struct json_span *out);          /* without quotes, escapes as written */
bool scan_int(struct json_scan *s, int64_t *out); /* of at most 18 digits */
/* A value of any kind. Only what is needed to find its end is checked: quotes and brackets. */
bool scan_value(struct json_scan *s, struct json_span *out);
/* The mark that comes next, which stays; '\0' at the end. */
char scan_peek(struct json_scan *s);

/* Writes what a string means, as UTF-8. False for a wrong escape or more than size_bytes. */
bool json_unescape(char *out, size_t size_bytes, size_t *n_bytes, struct json_span string);

/* Where a place is: lines and columns from 1. */
void scan_line_column(const char *text, const char *at, int *line, int *column);

#endif
