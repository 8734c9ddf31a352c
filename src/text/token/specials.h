/* Control tokens by name: texts such as "<|start|>" that stand for one id. Ordinary text is never
 * encoded as a control token. An id may have several names. Filled once by a reader, then
 * immutable. */
#ifndef TEXT_TOKEN_SPECIALS_H
#define TEXT_TOKEN_SPECIALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SPECIAL_BYTES_MAX = 255, SPECIALS_MAX = 8192 };

struct special {
    char *text;
    size_t n_bytes;
    int32_t id;
};

struct specials {
    struct special *items; /* sorted by text after specials_sort() */
    size_t n;
    size_t shortest_bytes, longest_bytes;
    unsigned char begins[256]; /* 1: some name begins with this byte */
};

void specials_release(struct specials *s); /* accepts a zeroed set, which is empty */
CHECKED enum osp_status specials_add(struct specials *s, const char *text, size_t n_bytes,
                                     int32_t id);
/* Call after the last specials_add(). OSP_EFORMAT if two ids have the same name. */
CHECKED enum osp_status specials_sort(struct specials *s);

/* Id of this name, or -1. */
int32_t specials_find(const struct specials *s, const char *text, size_t n_bytes);
/* The first name in text, the longest if several start at the same position. Returns its start;
 * n_text_bytes: the text has no name, and *id and *n_bytes are not set. */
size_t specials_search(const struct specials *s, const char *text, size_t n_text_bytes, int32_t *id,
                       size_t *n_bytes);

#endif
