/* Control tokens by name: a sorted array with binary search. */
#include "text/token/specials.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/memory.h"

void specials_release(struct specials *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->items[i].text);
    free(s->items);
    *s = (struct specials){0};
}

enum osp_status specials_add(struct specials *s, const char *text, size_t n_bytes, int32_t id)
{
    enum osp_status st = OSP_OK;

    if (n_bytes < 1 || n_bytes > SPECIAL_BYTES_MAX)
        return fail(OSP_EFORMAT, "special token %d has a name of %zu bytes, expected 1 to %d",
                    (int)id, n_bytes, SPECIAL_BYTES_MAX);
    if (s->n == SPECIALS_MAX)
        return fail(OSP_ELIMIT, "more than %d special tokens", SPECIALS_MAX);
    if (!s->items)
        TRY(mem_try_array(&s->items, SPECIALS_MAX, sizeof *s->items, "special tokens"));
    s->items[s->n++] = (struct special){mem_strndup(text, n_bytes), n_bytes, id};
    if (n_bytes > s->longest_bytes)
        s->longest_bytes = n_bytes;
    if (!s->shortest_bytes || n_bytes < s->shortest_bytes)
        s->shortest_bytes = n_bytes;
    s->begins[(unsigned char)text[0]] = 1;
out:
    return st;
}

static int compare(const void *left, const void *right)
{
    const struct special *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);

    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

enum osp_status specials_sort(struct specials *s)
{
    if (s->n)
        qsort(s->items, s->n, sizeof *s->items, compare);
    for (size_t i = 1; i < s->n; i++)
        if (compare(&s->items[i - 1], &s->items[i]) == 0)
            return fail(OSP_EFORMAT,
                        "special tokens %d and %d are both \"%s\", expected different names",
                        (int)s->items[i - 1].id, (int)s->items[i].id, s->items[i].text);
    return OSP_OK;
}

int32_t specials_find(const struct specials *s, const char *text, size_t n_bytes)
{
    struct special key = {(char *)(uintptr_t)text, n_bytes, 0};
    const struct special *found = NULL;

    if (s->n && n_bytes)
        found = bsearch(&key, s->items, s->n, sizeof key, compare);
    return found ? found->id : -1;
}

/* For bsearch: compares the key, no longer than any name, with the beginning of a name. */
static int compare_beginning(const void *key, const void *item)
{
    const struct special *beginning = key, *whole = item;

    return memcmp(beginning->text, whole->text, beginning->n_bytes);
}

/* The longest name that is a prefix of text: its id and length, or -1. */
static int32_t longest_name(const struct specials *s, const char *text, size_t n_text_bytes,
                            size_t *n_bytes)
{
    struct special key = {(char *)(uintptr_t)text, s->shortest_bytes, 0};
    size_t n = n_text_bytes < s->longest_bytes ? n_text_bytes : s->longest_bytes;

    if (n < key.n_bytes || !bsearch(&key, s->items, s->n, sizeof key, compare_beginning))
        return -1;
    for (; n >= s->shortest_bytes; n--) {
        int32_t id = specials_find(s, text, n);

        *n_bytes = n;
        if (id >= 0)
            return id;
    }
    return -1;
}

size_t specials_search(const struct specials *s, const char *text, size_t n_text_bytes, int32_t *id,
                       size_t *n_bytes)
{
    for (size_t at = 0; at < n_text_bytes; at++) {
        if (!s->begins[(unsigned char)text[at]])
            continue;
        if (cancel_is_set()) /* the caller encodes the text before it and checks the flag, too */
            break;
        *id = longest_name(s, text + at, n_text_bytes - at, n_bytes);
        if (*id >= 0)
            return at;
    }
    return n_text_bytes;
}
