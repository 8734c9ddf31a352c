/* Growable arrays of bytes and of token ids: the capacity doubles up to a limit. After one append
 * has failed, further appends fail too, so the content is always a prefix of the intended
 * content. */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { BUF_BYTES_MIN = 64, IDS_MIN = 64 };

/* The smallest doubling of `have` (at least `least`) that holds `need`, capped at `most`. */
static size_t grow(size_t have, size_t least, size_t need, size_t most)
{
    size_t size = have > least ? have : least;

    while (size < need)
        if (!mul_size(size, 2, &size))
            return most;
    return size < most ? size : most;
}

void buf_init(struct buf *b, size_t limit_bytes)
{
    *b = (struct buf){.limit_bytes = limit_bytes};
}

void buf_release(struct buf *b)
{
    free(b->data);
    buf_init(b, b->limit_bytes);
}

void buf_clear(struct buf *b)
{
    b->size_bytes = 0;
    b->overflow = b->no_memory = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_truncate(struct buf *b, size_t n_bytes)
{
    assert(n_bytes <= b->size_bytes);
    b->size_bytes = n_bytes;
    if (b->data)
        b->data[n_bytes] = '\0';
    b->overflow = b->no_memory = false;
}

/* One byte more than n_bytes, for the NUL. */
bool buf_reserve(struct buf *b, size_t n_bytes)
{
    size_t need, most, capacity;
    char *data;

    if (b->overflow || n_bytes > b->limit_bytes - b->size_bytes)
        return false;
    if (!add_size(b->size_bytes, n_bytes, &need) || !add_size(need, 1, &need))
        return false;
    if (need <= b->capacity_bytes)
        return true;
    if (!add_size(b->limit_bytes, 1, &most))
        most = SIZE_MAX;
    capacity = grow(b->capacity_bytes, BUF_BYTES_MIN, need, most);
    data = realloc(b->data, capacity);
    b->no_memory = data == NULL;
    if (!data)
        return false;
    b->data = data;
    b->capacity_bytes = capacity;
    return true;
}

bool buf_append(struct buf *b, const void *data, size_t n_bytes)
{
    if (!buf_reserve(b, n_bytes)) {
        b->overflow = true;
        return false;
    }
    if (n_bytes)
        memcpy(b->data + b->size_bytes, data, n_bytes);
    b->size_bytes += n_bytes;
    b->data[b->size_bytes] = '\0';
    return true;
}

bool buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

bool buf_putc(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

bool buf_printf(struct buf *b, const char *format, ...)
{
    char small[256];
    char *text = small;
    va_list args, again;
    bool ok = false;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(small, sizeof small, format, args);
    if (n >= (int)sizeof small)
        n = vasprintf(&text, format, again);
    if (n >= 0)
        ok = buf_append(b, text, (size_t)n);
    else
        b->overflow = true;
    if (n >= (int)sizeof small)
        free(text);
    va_end(again);
    va_end(args);
    return ok;
}

enum osp_status buf_failure(const struct buf *b, const char *what)
{
    if (b->no_memory)
        return fail(OSP_ENOMEM, "%s: no memory to grow beyond %zu bytes", what, b->size_bytes);
    return fail(OSP_ELIMIT, "%s: exceeds the limit of %zu bytes", what, b->limit_bytes);
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *text = b->data ? b->data : mem_strdup("");

    b->data = NULL;
    buf_release(b);
    return text;
}

/* The escape of a byte that a JSON string cannot contain literally, or NULL. */
static const char *json_escape(unsigned char c, char scratch[8])
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        if (c >= 0x20)
            return NULL;
        snprintf(scratch, 8, "\\u%04x", (unsigned)c);
        return scratch;
    }
}

bool buf_json_string(struct buf *b, const char *s, size_t n_bytes)
{
    size_t plain = 0; /* start of the bytes not copied yet */
    size_t i = 0;
    char scratch[8];

    buf_putc(b, '"');
    while (i < n_bytes) {
        uint32_t code_point;
        bool valid;
        size_t n = utf8_read(s + i, n_bytes - i, &code_point, &valid);
        const char *instead = valid ? json_escape((unsigned char)s[i], scratch) : "\xEF\xBF\xBD";

        if (instead) {
            buf_append(b, s + plain, i - plain);
            buf_puts(b, instead);
            plain = i + n;
        }
        i += n;
    }
    buf_append(b, s + plain, n_bytes - plain);
    return buf_putc(b, '"');
}

size_t buf_json_bytes(const char *s, size_t n_bytes)
{
    size_t n_written = 0;
    char scratch[8];

    for (size_t i = 0; i < n_bytes;) {
        uint32_t code_point;
        bool valid;
        size_t n = utf8_read(s + i, n_bytes - i, &code_point, &valid);
        const char *instead = valid ? json_escape((unsigned char)s[i], scratch) : "\xEF\xBF\xBD";

        n_written += instead ? strlen(instead) : n;
        i += n;
    }
    return n_written;
}

enum osp_status ids_failure(const struct ids *v, const char *what)
{
    if (v->no_memory)
        return fail(OSP_ENOMEM, "%s: no memory to grow beyond %zu tokens", what, v->n);
    return fail(OSP_ELIMIT, "%s: exceeds the limit of %zu tokens", what, v->limit);
}

void ids_init(struct ids *v, size_t limit)
{
    *v = (struct ids){.limit = limit};
}

void ids_release(struct ids *v)
{
    free(v->data);
    ids_init(v, v->limit);
}

void ids_clear(struct ids *v)
{
    v->n = 0;
    v->overflow = v->no_memory = false;
}

static bool ids_reserve(struct ids *v, size_t n)
{
    size_t capacity, size_bytes;
    int32_t *data;

    if (v->overflow || n > v->limit - v->n)
        return false;
    if (v->n + n <= v->capacity)
        return true;
    capacity = grow(v->capacity, IDS_MIN, v->n + n, v->limit);
    if (!mul_size(capacity, sizeof *data, &size_bytes))
        return false;
    data = realloc(v->data, size_bytes);
    v->no_memory = data == NULL;
    if (!data)
        return false;
    v->data = data;
    v->capacity = capacity;
    return true;
}

bool ids_append(struct ids *v, const int32_t *data, size_t n)
{
    if (!ids_reserve(v, n)) {
        v->overflow = true;
        return false;
    }
    if (n)
        memcpy(v->data + v->n, data, n * sizeof *data);
    v->n += n;
    return true;
}

bool ids_push(struct ids *v, int32_t id)
{
    return ids_append(v, &id, 1);
}
