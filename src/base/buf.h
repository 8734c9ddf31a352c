/* A growable byte buffer with a mandatory limit. A NUL always follows the content, so that it can
 * be used as a string. An append beyond the limit fails, sets `overflow` and writes nothing. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct buf {
    char *data; /* NULL until the first append; buf_text() is never NULL */
    size_t size_bytes, capacity_bytes, limit_bytes;
    bool overflow;
    bool no_memory; /* the overflow was caused by lack of memory */
};

void buf_init(struct buf *b, size_t limit_bytes);
void buf_release(struct buf *b);                  /* accepts a zeroed buffer; leaves it empty */
void buf_clear(struct buf *b);                    /* keeps the memory */
void buf_truncate(struct buf *b, size_t n_bytes); /* keeps the first n bytes; clears an overflow */
/* Reserves n more bytes: appending them cannot fail */
bool buf_reserve(struct buf *b, size_t n_bytes);
bool buf_append(struct buf *b, const void *data, size_t n_bytes);
bool buf_puts(struct buf *b, const char *s);
bool buf_putc(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
/* The failure of a buffer that overflowed: OSP_ELIMIT, or OSP_ENOMEM if memory was short before the
 * limit was reached. */
enum osp_status buf_failure(const struct buf *b, const char *what);
const char *buf_text(const struct buf *b); /* "" when empty */
char *buf_take(struct buf *b);             /* gives the caller the string to free() and empties b */

/* Appends a JSON string literal with its quotes; bytes that are not UTF-8 become U+FFFD. */
bool buf_json_string(struct buf *b, const char *s, size_t n_bytes);
/* Length in bytes of that literal without its quotes. */
size_t buf_json_bytes(const char *s, size_t n_bytes);

/* A growable array of token ids with a limit; the same rules as struct buf. */
struct ids {
    int32_t *data;
    size_t n, capacity, limit;
    bool overflow;
    bool no_memory; /* the overflow was caused by lack of memory */
};
void ids_init(struct ids *v, size_t limit);
void ids_release(struct ids *v);
void ids_clear(struct ids *v);
bool ids_push(struct ids *v, int32_t id);
enum osp_status ids_failure(const struct ids *v, const char *what); /* as buf_failure() */
bool ids_append(struct ids *v, const int32_t *data, size_t n);

#endif
