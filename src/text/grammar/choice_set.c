/* A sorted list of texts. The texts that match the bytes read so far are a contiguous range of
 * it. */
#include "text/grammar/choice_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void choice_set_release(struct choice_set *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->items[i].text);
    free(p->items);
    *p = (struct choice_set){.items = NULL};
}

enum osp_status choice_set_add(struct choice_set *p, const char *text, struct choice choice)
{
    enum osp_status st;

    TRY(mem_try_grow(&p->items, p->n, &p->capacity, sizeof *p->items,
                     "the headers of the grammar"));
    choice.text = mem_strdup(text);
    choice.n_bytes = strlen(text);
    p->items[p->n++] = choice;
out:
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct choice *)a)->text, ((const struct choice *)b)->text);
}

void choice_set_sort(struct choice_set *p)
{
    if (p->n > 1)
        qsort(p->items, p->n, sizeof *p->items, by_text);
}

struct choice_cursor choice_cursor(const struct choice_set *p, unsigned kinds)
{
    return (struct choice_cursor){.choice_set = p, .end = p->n, .kinds = kinds};
}

/* ---- masks ---- */

static bool is_open(const struct choice_cursor *c, size_t i)
{
    return (c->choice_set->items[i].kind & c->kinds) != 0;
}

/* Whether some text of the range continues after n_read bytes. */
static bool can_continue(const struct choice_cursor *c)
{
    for (size_t i = c->first; i < c->end; i++)
        if (is_open(c, i) && c->choice_set->items[i].n_bytes >= c->n_read)
            return true;
    return false;
}

/* Narrows the range to the texts whose next byte is this one. */
static void take_byte(struct choice_cursor *c, unsigned char byte)
{
    const struct choice *items = c->choice_set->items;

    while (c->first < c->end && (items[c->first].n_bytes == c->n_read ||
                                 (unsigned char)items[c->first].text[c->n_read] < byte))
        c->first++;
    while (c->end > c->first && (unsigned char)items[c->end - 1].text[c->n_read] > byte)
        c->end--;
    c->n_read++;
}

/* The child of `node` for this byte; 0: no such child. */
static uint32_t child_of(const struct trie *t, uint32_t node, unsigned char byte)
{
    uint32_t i;

    if (node == 0)
        return t->children[byte];
    for (i = node + 1; i < t->nodes[node].end && t->nodes[i].byte < byte; i = t->nodes[i].end)
        continue;
    return i < t->nodes[node].end && t->nodes[i].byte == byte ? i : 0;
}

static void mask_below(const struct choice_cursor *c, const struct trie *t, uint32_t node,
                       uint32_t *bits)
{
    for (size_t i = c->first; i < c->end;) {
        const struct choice *p = &c->choice_set->items[i];
        struct choice_cursor next = *c;
        uint32_t child;

        if (p->n_bytes == c->n_read) {
            i++;
            continue;
        }
        take_byte(&next, (unsigned char)p->text[c->n_read]);
        i = next.end;
        child = can_continue(&next) ? child_of(t, node, (unsigned char)p->text[c->n_read]) : 0;
        if (child == 0)
            continue;
        if (t->nodes[child].token >= 0)
            mask_set(bits, t->nodes[child].token);
        mask_below(&next, t, child, bits);
    }
}

void choice_mask(const struct choice_cursor *c, const struct token_index *x, uint32_t *bits)
{
    for (size_t i = c->first; i < c->end; i++)
        if (is_open(c, i) && c->choice_set->items[i].n_bytes == c->n_read)
            mask_set(bits, c->choice_set->items[i].stop);
    mask_below(c, &x->all, 0, bits);
}

/* ---- tokens ---- */

enum osp_status choice_accept(struct choice_cursor *c, const struct token_index *x, int32_t token,
                              const struct choice **done)
{
    const char *bytes;
    size_t n;

    *done = NULL;
    for (size_t i = c->first; i < c->end && *done == NULL; i++) {
        const struct choice *p = &c->choice_set->items[i];

        if (is_open(c, i) && p->n_bytes == c->n_read && p->stop == token)
            *done = p;
    }
    if (*done != NULL)
        return OSP_OK;
    if (token < 0 || token >= x->n_tokens)
        return fail(OSP_EINVAL, "token %d is not allowed by the grammar", (int)token);
    bytes = token_index_bytes(x, token, &n);
    for (size_t i = 0; i < n; i++)
        take_byte(c, (unsigned char)bytes[i]);
    return n > 0 && can_continue(c)
               ? OSP_OK
               : fail(OSP_EINVAL, "token %d is not allowed by the grammar", (int)token);
}
