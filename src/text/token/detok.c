/* The bytes of an incomplete character are buffered until it is complete or ill-formed. */
#include "text/token/detok.h"

#include "base/utf8.h"

static const char replacement[] = "\xEF\xBF\xBD";
enum { REPLACEMENT_BYTES = sizeof replacement - 1 };

void detok_init(struct detok *d)
{
    *d = (struct detok){0};
}

/* Adds one byte to the buffered bytes and appends the result: the complete character, or a
 * replacement character if this byte does not continue the buffered bytes. */
static bool push_byte(struct detok *d, char byte, struct buf *out)
{
    uint32_t code_point;
    bool valid, ok = true;
    size_t n;

    d->pending[d->n_pending++] = byte;
    n = utf8_read(d->pending, (size_t)d->n_pending, &code_point, &valid);
    if (!valid && n < (size_t)d->n_pending) { /* the byte begins another character */
        ok = buf_append(out, replacement, REPLACEMENT_BYTES);
        d->pending[0] = byte;
        d->n_pending = 1;
        utf8_read(d->pending, 1, &code_point, &valid);
    }
    if (valid) {
        ok = buf_append(out, d->pending, (size_t)d->n_pending) && ok;
        d->n_pending = 0;
    } else if (!utf8_incomplete_tail(d->pending, (size_t)d->n_pending)) {
        ok = buf_append(out, replacement, REPLACEMENT_BYTES) && ok;
        d->n_pending = 0;
    }
    return ok;
}

bool detok_push(struct detok *d, const char *bytes, size_t n_bytes, struct buf *out)
{
    bool ok = true;

    for (size_t i = 0; i < n_bytes; i++)
        ok = push_byte(d, bytes[i], out) && ok;
    return ok;
}

bool detok_finish(struct detok *d, struct buf *out)
{
    bool ok = !d->n_pending || buf_append(out, replacement, REPLACEMENT_BYTES);

    d->n_pending = 0;
    return ok;
}
