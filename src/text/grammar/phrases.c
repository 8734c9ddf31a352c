/* A sorted list: what fits the bytes read so far is a range of it. */
#include "text/grammar/phrases.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void phrases_release(struct phrases *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->items[i].text);
    free(p->items);
    *p = (struct phrases){.items = NULL};
}

enum osp_status phrases_add(struct phrases *p, const char *text, struct phrase phrase)
{
    enum osp_status st;

    TRY(mem_try_grow(&p->items, p->n, &p->capacity, sizeof *p->items, "an answer's headers"));
    phrase.text = mem_strdup(text);
    phrase.n_bytes = strlen(text);
    p->items[p->n++] = phrase;
out:
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct phrase *)a)->text, ((const struct phrase *)b)->text);
}

void phrases_sort(struct phrases *p)
{
    if (p->n > 1)
        qsort(p->items, p->n, sizeof *p->items, by_text);
}

struct phrase_cursor phrase_cursor(const struct phrases *p, unsigned kinds)
{
    return (struct phrase_cursor){.phrases = p, .end = p->n, .kinds = kinds};
}

/* ---- masks ---- */

static bool is_open(const struct phrase_cursor *c, size_t i)
{
    return (c->phrases->items[i].kind & c->kinds) != 0;
}

/* Some phrase of the range goes on behind n_read bytes. */
static bool goes_on(const struct phrase_cursor *c)
{
    for (size_t i = c->first; i < c->end; i++)
        if (is_open(c, i) && c->phrases->items[i].n_bytes >= c->n_read)
            return true;
    return false;
}

/* Leaves those phrases that have this byte next. */
static void take_byte(struct phrase_cursor *c, unsigned char byte)
{
    const struct phrase *items = c->phrases->items;

    while (c->first < c->end && (items[c->first].n_bytes == c->n_read ||
                                 (unsigned char)items[c->first].text[c->n_read] < byte))
        c->first++;
    while (c->end > c->first && (unsigned char)items[c->end - 1].text[c->n_read] > byte)
        c->end--;
    c->n_read++;
}

/* The child of `node` for this byte; 0: none. */
static uint32_t child_of(const struct trie *t, uint32_t node, unsigned char byte)
{
    uint32_t i;

    if (node == 0)
        return t->children[byte];
    for (i = node + 1; i < t->nodes[node].end && t->nodes[i].byte < byte; i = t->nodes[i].end)
        continue;
    return i < t->nodes[node].end && t->nodes[i].byte == byte ? i : 0;
}

static void mask_below(const struct phrase_cursor *c, const struct trie *t, uint32_t node,
                       uint32_t *bits)
{
    for (size_t i = c->first; i < c->end;) {
        const struct phrase *p = &c->phrases->items[i];
        struct phrase_cursor next = *c;
        uint32_t child;

        if (p->n_bytes == c->n_read) {
            i++;
            continue;
        }
        take_byte(&next, (unsigned char)p->text[c->n_read]);
        i = next.end;
        child = goes_on(&next) ? child_of(t, node, (unsigned char)p->text[c->n_read]) : 0;
        if (child == 0)
            continue;
        if (t->nodes[child].token >= 0)
            mask_set(bits, t->nodes[child].token);
        mask_below(&next, t, child, bits);
    }
}

void phrase_mask(const struct phrase_cursor *c, const struct token_index *x, uint32_t *bits)
{
    for (size_t i = c->first; i < c->end; i++)
        if (is_open(c, i) && c->phrases->items[i].n_bytes == c->n_read)
            mask_set(bits, c->phrases->items[i].stop);
    mask_below(c, &x->all, 0, bits);
}

/* ---- tokens ---- */

enum osp_status phrase_accept(struct phrase_cursor *c, const struct token_index *x, int32_t token,
                              const struct phrase **done)
{
    const char *bytes;
    size_t n;

    *done = NULL;
    for (size_t i = c->first; i < c->end && *done == NULL; i++) {
        const struct phrase *p = &c->phrases->items[i];

        if (is_open(c, i) && p->n_bytes == c->n_read && p->stop == token)
            *done = p;
    }
    if (*done != NULL)
        return OSP_OK;
    if (token < 0 || token >= x->n_tokens)
        return fail(OSP_EINVAL, "token %d was not allowed", (int)token);
    bytes = token_index_bytes(x, token, &n);
    for (size_t i = 0; i < n; i++)
        take_byte(c, (unsigned char)bytes[i]);
    return n > 0 && goes_on(c) ? OSP_OK : fail(OSP_EINVAL, "token %d was not allowed", (int)token);
}
