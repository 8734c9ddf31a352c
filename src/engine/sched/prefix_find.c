/* Look-up: the longest chain of pages with the requested tokens at whose end the window is kept,
 * too. */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "engine/sched/prefix.h"
#include "engine/sched/prefix_hash.h"

static uint64_t mixed(uint64_t h)
{
    h = (h ^ h >> 31) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

uint64_t prefix_hash_salt(const char *salt)
{
    uint64_t h = 1;

    for (const char *s = salt; *s != '\0'; s++)
        h = mixed(h + (unsigned char)*s);
    return h;
}

uint64_t prefix_hash_next(uint64_t parent, const int32_t *tokens, int n)
{
    uint64_t h = mixed(parent + (uint64_t)n);

    for (int i = 0; i < n; i++)
        h = mixed(h + (uint32_t)tokens[i]);
    return h;
}

uint64_t prefix_hash_tokens(const struct prefix_node *parent, const int32_t *tokens, int n)
{
    return prefix_hash_next(parent->hash, tokens, n);
}

struct prefix_node *prefix_find_root(const struct prefix *p, const char *salt, uint64_t hash)
{
    struct prefix_node *i = p->buckets[hash & (p->n_buckets - 1)];

    while (i != NULL && (i->salt == NULL || strcmp(i->salt, salt) != 0))
        i = i->next_in_bucket;
    return i;
}

/* A child that is a whole page with these tokens, clean or not clean as asked. */
static struct prefix_node *whole_child(const struct prefix *p, const struct prefix_node *parent,
                                       const int32_t *tokens, bool clean)
{
    uint64_t hash = prefix_hash_tokens(parent, tokens, PAGE_TOKENS);
    struct prefix_node *i = p->buckets[hash & (p->n_buckets - 1)];

    for (; i != NULL; i = i->next_in_bucket)
        if (i->parent == parent && i->n_tokens == PAGE_TOKENS && !i->is_bad &&
            (i->n_clean == PAGE_TOKENS) == clean &&
            memcmp(i->tokens, tokens, sizeof i->tokens) == 0)
            return i;
    return NULL;
}

struct prefix_node *prefix_find_equal(struct prefix *p, struct prefix_node *parent,
                                      const struct prefix_entry *e)
{
    assert(e->n_tokens == PAGE_TOKENS);
    return whole_child(p, parent, e->tokens, e->n_clean == PAGE_TOKENS);
}

int prefix_first_window(const struct prefix *p, int n_tokens)
{
    int oldest = n_tokens - p->window_tokens + 1;

    if (oldest >= n_tokens) /* a window of one position: no page before */
        return n_tokens / PAGE_TOKENS;
    return oldest > 0 ? oldest / PAGE_TOKENS : 0;
}

/* True when the chain has the window pages before n_tokens. */
static bool has_window(const struct prefix *p, const struct prefix_hit *h, int n_tokens)
{
    for (int i = prefix_first_window(p, n_tokens); i * PAGE_TOKENS < n_tokens; i++) {
        const struct prefix_node *node = i < h->depth ? h->path[i] : h->partial;

        if (node->page[GROUP_WINDOW] < 0)
            return false;
    }
    return true;
}

static int n_alike(const struct prefix_node *node, const int32_t *tokens, int n)
{
    int i = 0;

    while (i < n && i < node->n_tokens && node->tokens[i] == tokens[i])
        i++;
    return i;
}

/* The child of the chain's end with the longest match of the next tokens; returns its length. */
static int partial_child(const struct prefix_node *parent, const struct prefix_query *w, int first,
                         struct prefix_node **out)
{
    int n_best = 0, n_read = 0;
    int n_max = w->n_tokens - first < PAGE_TOKENS ? w->n_tokens - first : PAGE_TOKENS - 1;

    *out = NULL; /* a whole page is no partial match: try_branch() finds it */
    for (struct prefix_node *i = parent->first_child; i != NULL && n_read < SIBLINGS_READ_MAX;
         i = i->after_sibling, n_read++) {
        int n = i->is_bad ? 0 : n_alike(i, w->tokens + first, n_max);

        if (w->clean_only && n > i->n_clean)
            n = i->n_clean;
        if (n > n_best) {
            n_best = n;
            *out = i;
        }
    }
    return n_best;
}

/* Follows whole-page matches from `node`, which is at `depth`. */
static int descend(const struct prefix *p, struct prefix_node *node, int depth,
                   const struct prefix_query *w, bool clean, struct prefix_node **path)
{
    while ((depth + 1) * PAGE_TOKENS <= w->n_tokens && depth < p->n_path_max) {
        node = whole_child(p, node, w->tokens + depth * PAGE_TOKENS, clean);
        if (node == NULL)
            break;
        path[depth++] = node;
    }
    return depth;
}

/* Sets the furthest position of that chain at which a sequence can resume. */
static void choose_end(const struct prefix *p, struct prefix_node *root,
                       const struct prefix_query *w, struct prefix_hit *h)
{
    int n = h->depth * PAGE_TOKENS;
    int n_more = partial_child(h->depth > 0 ? h->path[h->depth - 1] : root, w, n, &h->partial);

    if (n_more > 0 && has_window(p, h, n + n_more)) {
        h->n_tokens = n + n_more;
        return;
    }
    prefix_without_partial(p, h);
}

void prefix_without_partial(const struct prefix *p, struct prefix_hit *h)
{
    h->partial = NULL;
    while (h->depth > 0 && !has_window(p, h, h->depth * PAGE_TOKENS))
        h->depth--;
    h->n_tokens = h->depth * PAGE_TOKENS;
}

bool prefix_covers(const struct prefix_node *parent, const struct prefix_entry *e)
{
    int n_read = 0;

    for (const struct prefix_node *i = parent->first_child; i != NULL && n_read < SIBLINGS_READ_MAX;
         i = i->after_sibling, n_read++)
        if (!i->is_bad && i->page[GROUP_WINDOW] >= 0 && i->n_clean >= e->n_clean &&
            n_alike(i, e->tokens, e->n_tokens) == e->n_tokens)
            return true;
    return false;
}

static int clean_of(const struct prefix_hit *h)
{
    for (int i = 0; i < h->depth; i++)
        if (h->path[i]->n_clean < PAGE_TOKENS)
            return i * PAGE_TOKENS + h->path[i]->n_clean;
    if (h->partial != NULL && h->partial->n_clean < h->n_tokens % PAGE_TOKENS)
        return h->depth * PAGE_TOKENS + h->partial->n_clean;
    return INT_MAX;
}

/* Tries a chain that leaves the clean one at `depth` for pages that are not clean, if it is
 * longer. */
static void try_branch(struct prefix *p, struct prefix_node *root, const struct prefix_query *w,
                       int depth, struct prefix_hit *best)
{
    const struct prefix_node *from = depth > 0 ? p->path[0][depth - 1] : root;
    struct prefix_hit h = {.path = p->path[1]};

    if (from->first_child == NULL ||
        (from->first_child->after_sibling == NULL && from->first_child->n_clean == PAGE_TOKENS))
        return; /* there is only the clean chain */
    memcpy(h.path, p->path[0], (size_t)depth * sizeof *h.path);
    h.depth = descend(p, depth > 0 ? h.path[depth - 1] : root, depth, w, false, h.path);
    if (h.depth == depth)
        return;
    choose_end(p, root, w, &h);
    if (h.n_tokens <= best->n_tokens)
        return;
    memcpy(p->path[0] + depth, h.path + depth, (size_t)(h.depth - depth) * sizeof *h.path);
    h.path = p->path[0];
    *best = h;
}

void prefix_without_last(const struct prefix *p, struct prefix_hit *h)
{
    if (h->partial == NULL)
        return;
    h->n_tokens--;
    if (h->n_tokens == h->depth * PAGE_TOKENS || !has_window(p, h, h->n_tokens))
        prefix_without_partial(p, h);
    h->n_clean = clean_of(h);
}

struct prefix_hit prefix_find(struct prefix *p, const struct prefix_query *w)
{
    const char *salt = w->salt != NULL ? w->salt : "";
    struct prefix_node *root = prefix_find_root(p, salt, prefix_hash_salt(salt));
    struct prefix_hit h = {.path = p->path[0], .n_clean = INT_MAX};
    int n_clean_pages;

    if (root == NULL)
        return h;
    n_clean_pages = h.depth = descend(p, root, 0, w, true, h.path);
    choose_end(p, root, w, &h);
    if (!w->clean_only)
        for (int i = n_clean_pages; i >= 0; i--)
            try_branch(p, root, w, i, &h);
    h.n_clean = clean_of(&h);
    return h;
}

bool prefix_is_snapshot(const struct prefix *p, int index, const int32_t *tokens, int n_tokens,
                        int n_prompt, struct message_end_ids message_ends)
{
    int first = index * PAGE_TOKENS, end = first + PAGE_TOKENS + p->window_tokens - 1;
    int next = first / SNAPSHOT_TOKENS * SNAPSHOT_TOKENS + SNAPSHOT_TOKENS;

    if (n_prompt > first && n_prompt < end)
        return true;
    if (next < end)
        return true;
    for (int i = first > MESSAGE_END_SLACK ? first - MESSAGE_END_SLACK : 0;
         i + 1 < end && i < n_tokens; i++)
        for (int k = 0; k < message_ends.n; k++)
            if (tokens[i] == message_ends.ids[k])
                return true;
    return false;
}
