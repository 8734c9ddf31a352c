/* Streaming search for a handful of short strings. */
#include "engine/chat/stop_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"

enum {
    HELD_BYTES_MAX = 1 << 20
}; /* a held end is shorter than a stop string, a token's text short */

static enum osp_status check_string(const char *s, int i)
{
    if (s == NULL || s[0] == '\0')
        return fail(OSP_EINVAL, "stop[%d] is empty", i);
    if (strlen(s) > STOP_STRING_BYTES_MAX)
        return fail(OSP_EINVAL, "stop[%d] has %zu bytes, limit is %d", i, strlen(s),
                    STOP_STRING_BYTES_MAX);
    if (!utf8_is_valid(s, strlen(s)))
        return fail(OSP_EINVAL, "stop[%d] is not UTF-8", i);
    return OSP_OK;
}

enum osp_status stop_text_init(struct stop_text *s, const char *const *strings, int n)
{
    enum osp_status st = OSP_OK;

    memset(s, 0, sizeof *s);
    buf_init(&s->pending, HELD_BYTES_MAX);
    if (n < 0 || n > OSP_STOP_STRINGS_MAX)
        return fail(OSP_EINVAL, "%d stop strings, limit is %d", n, OSP_STOP_STRINGS_MAX);
    for (int i = 0; i < n; i++) {
        TRY(check_string(strings[i], i));
        TRY(str_copy(&s->strings[s->n], strings[i], "a stop string"));
        s->n++;
    }
out:
    if (st != OSP_OK)
        stop_text_release(s);
    return st;
}

void stop_text_release(struct stop_text *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->strings[i]);
    buf_release(&s->pending);
    s->n = 0;
}

/* Where the stop string begins that is complete first, the longest of those that end together; the
 * pending text's length when there is none; and the string, or NULL. The result does not depend on
 * the pieces in which the text comes. */
static size_t find_stop(const struct stop_text *s, const char **string)
{
    size_t at = s->pending.size_bytes, end = SIZE_MAX;

    *string = NULL;
    for (int i = 0; i < s->n; i++) {
        const size_t n = strlen(s->strings[i]);
        const char *hit = memmem(s->pending.data, s->pending.size_bytes, s->strings[i], n);
        const size_t begin = hit != NULL ? (size_t)(hit - s->pending.data) : 0;

        if (hit == NULL || begin + n > end || (begin + n == end && begin > at))
            continue;
        at = begin;
        end = begin + n;
        *string = s->strings[i];
    }
    return at;
}

static bool may_begin_stop(const struct stop_text *s, const char *end, size_t n_bytes)
{
    for (int i = 0; i < s->n; i++)
        if (strlen(s->strings[i]) > n_bytes && memcmp(s->strings[i], end, n_bytes) == 0)
            return true;
    return false;
}

/* Where the longest ending that may begin a stop string starts. */
static size_t find_partial(const struct stop_text *s)
{
    size_t n = s->pending.size_bytes;
    size_t at = n > STOP_STRING_BYTES_MAX ? n - STOP_STRING_BYTES_MAX : 0;

    while (at < n && !may_begin_stop(s, s->pending.data + at, n - at))
        at++;
    return at;
}

/* Outputs the first n_bytes of the pending text. */
static void give(struct stop_text *s, size_t n_bytes, struct buf *out)
{
    buf_append(out, s->pending.data, n_bytes);
    s->pending.size_bytes -= n_bytes;
    memmove(s->pending.data, s->pending.data + n_bytes, s->pending.size_bytes + 1);
}

void stop_text_push(struct stop_text *s, const char *text, size_t n_bytes, struct buf *out)
{
    size_t at;

    if (s->found != NULL || n_bytes == 0)
        return;
    if (s->n == 0) {
        buf_append(out, text, n_bytes);
        return;
    }
    if (!buf_append(&s->pending, text, n_bytes)) {
        out->overflow = out->no_memory = true;
        return;
    }
    at = find_stop(s, &s->found);
    if (s->found != NULL && s->keeps_stop)
        at += strlen(s->found);
    give(s, s->found != NULL ? at : find_partial(s), out);
}

void stop_text_finish(struct stop_text *s, struct buf *out)
{
    if (s->found == NULL && s->pending.size_bytes > 0)
        give(s, s->pending.size_bytes, out);
    buf_clear(&s->pending);
}
