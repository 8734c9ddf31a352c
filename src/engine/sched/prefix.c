/* The tree's nodes: adding, referencing, evicting; prefix_find.c looks up. */
#include "engine/sched/prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "engine/sched/prefix_hash.h"

enum { PLAIN, SNAPSHOTS };

enum osp_status prefix_init(struct prefix *p, struct pages pages[N_PAGE_GROUPS], int window_tokens,
                            int n_path_max)
{
    size_t n_pages = (size_t)pages[GROUP_FULL].n_pages;
    enum osp_status st;

    memset(p, 0, sizeof *p);
    p->pages = pages;
    p->window_tokens = window_tokens;
    p->n_path_max = n_path_max;
    p->n_buckets = 64;
    while (p->n_buckets < n_pages)
        p->n_buckets *= 2;
    TRY(mem_try_array(&p->buckets, p->n_buckets, sizeof(struct prefix_node *), "prefix table"));
    for (int i = 0; i < 2; i++)
        TRY(mem_try_array(&p->path[i], (size_t)n_path_max, sizeof(struct prefix_node *),
                          "prefix path"));
out:
    if (st != OSP_OK)
        prefix_release(p);
    return st;
}

void prefix_release(struct prefix *p)
{
    p->log = NULL;
    while (p->idle.first != NULL)
        (void)prefix_evict(p, GROUP_FULL);
    assert(p->n_nodes == 0);
    free(p->buckets);
    for (int i = 0; i < 2; i++)
        free(p->path[i]);
    memset(p, 0, sizeof *p);
}

/* ---- lists and links ---- */

static void idle_insert_before(struct prefix *p, struct prefix_node *node,
                               struct prefix_node *after)
{
    node->after = after;
    node->before = after != NULL ? after->before : p->idle.last;
    if (node->before != NULL)
        node->before->after = node;
    else
        p->idle.first = node;
    if (after != NULL)
        after->before = node;
    else
        p->idle.last = node;
    node->is_idle = true;
}

static void idle_unlink(struct prefix *p, struct prefix_node *node)
{
    if (!node->is_idle)
        return;
    if (node->before != NULL)
        node->before->after = node->after;
    else
        p->idle.first = node->after;
    if (node->after != NULL)
        node->after->before = node->before;
    else
        p->idle.last = node->before;
    node->is_idle = false;
}

static void window_append(struct prefix *p, struct prefix_node *node)
{
    struct node_list *l = &p->windows[node->is_snapshot];

    node->before_window = l->last;
    node->after_window = NULL;
    if (l->last != NULL)
        l->last->after_window = node;
    else
        l->first = node;
    l->last = node;
}

static void window_unlink(struct prefix *p, struct prefix_node *node)
{
    struct node_list *l = &p->windows[node->is_snapshot];

    if (node->before_window != NULL)
        node->before_window->after_window = node->after_window;
    else
        l->first = node->after_window;
    if (node->after_window != NULL)
        node->after_window->before_window = node->before_window;
    else
        l->last = node->before_window;
}

static void window_give_up(struct prefix *p, struct prefix_node *node)
{
    if (node->page[GROUP_WINDOW] < 0)
        return;
    window_unlink(p, node);
    pages_uncache(&p->pages[GROUP_WINDOW], node->page[GROUP_WINDOW]);
    node->page[GROUP_WINDOW] = -1;
}

static void table_insert(struct prefix *p, struct prefix_node *node)
{
    struct prefix_node **bucket = &p->buckets[node->hash & (p->n_buckets - 1)];

    node->next_in_bucket = *bucket;
    *bucket = node;
}

static void table_remove(struct prefix *p, struct prefix_node *node)
{
    struct prefix_node **link = &p->buckets[node->hash & (p->n_buckets - 1)];

    while (*link != node)
        link = &(*link)->next_in_bucket;
    *link = node->next_in_bucket;
}

static void child_link(struct prefix_node *parent, struct prefix_node *node)
{
    node->parent = parent;
    node->after_sibling = parent->first_child;
    if (parent->first_child != NULL)
        parent->first_child->before_sibling = node;
    parent->first_child = node;
}

static void child_unlink(struct prefix_node *node)
{
    if (node->before_sibling != NULL)
        node->before_sibling->after_sibling = node->after_sibling;
    else
        node->parent->first_child = node->after_sibling;
    if (node->after_sibling != NULL)
        node->after_sibling->before_sibling = node->before_sibling;
}

/* ---- life of a node ---- */

/* NULL: no memory; the page is not kept and will be recomputed. */
static struct prefix_node *node_new(struct prefix *p, uint64_t hash)
{
    struct prefix_node *node;

    if (mem_try_array(&node, 1, sizeof *node, "a node of the prefix cache") != OSP_OK)
        return NULL;
    node->hash = hash;
    node->used = p->now;
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        node->page[g] = -1;
    table_insert(p, node);
    p->n_nodes++;
    return node;
}

static void node_free(struct prefix *p, struct prefix_node *node)
{
    assert(node->first_child == NULL);
    assert(node->n_users == 0);
    table_remove(p, node);
    free(node->salt);
    free(node);
    p->n_nodes--;
}

/* A page may be there twice, clean and not clean: its hash is added with the first of them, and
 * removed with the last. */
static bool has_twin(const struct prefix *p, const struct prefix_node *node)
{
    const struct prefix_node *i = p->buckets[node->hash & (p->n_buckets - 1)];

    for (; i != NULL; i = i->next_in_bucket)
        if (i != node && i->hash == node->hash && i->parent != NULL && i->n_tokens == PAGE_TOKENS)
            return true;
    return false;
}

static void log_change(const struct prefix *p, const struct prefix_node *node,
                       enum prefix_change_kind kind)
{
    const struct prefix_node *parent = node->parent;
    struct prefix_change change;

    if (p->log == NULL || node->n_tokens != PAGE_TOKENS || has_twin(p, node))
        return;
    change = (struct prefix_change){.kind = kind, .hash = node->hash, .parent = parent->hash};
    change.is_first = parent->parent == NULL;
    if (change.is_first && parent->salt[0] != '\0')
        change.salt = parent->hash;
    memcpy(change.tokens, node->tokens, sizeof change.tokens);
    prefix_log_add(p->log, &change);
}

/* An unreferenced leaf is put into the idle list by its last use; a root without children and an
 * invalidated leaf are freed. Returns the parent of a freed node, or NULL. */
static struct prefix_node *settle(struct prefix *p, struct prefix_node *node)
{
    struct prefix_node *i = p->idle.first, *parent = node->parent;

    if (node->first_child != NULL || node->n_users > 0 || node->is_idle)
        return NULL;
    if (parent == NULL) {
        node_free(p, node);
        return NULL;
    }
    if (!node->is_bad) {
        if (p->idle.last != NULL && p->idle.last->used <= node->used)
            i = NULL; /* the usual case: it was just used */
        while (i != NULL && i->used < node->used)
            i = i->after;
        idle_insert_before(p, node, i);
        return NULL;
    }
    log_change(p, node, PREFIX_REMOVED);
    child_unlink(node);
    window_give_up(p, node);
    pages_uncache(&p->pages[GROUP_FULL], node->page[GROUP_FULL]);
    node_free(p, node);
    return parent;
}

static void settle_up(struct prefix *p, struct prefix_node *node)
{
    while (node != NULL)
        node = settle(p, node);
}

static void evict(struct prefix *p, struct prefix_node *node)
{
    idle_unlink(p, node);
    node->is_bad = true;
    settle_up(p, node);
}

/* Evicts the oldest window page of the list that only the cache holds. */
static bool evict_window(struct prefix *p, int list)
{
    struct pages *pages = &p->pages[GROUP_WINDOW];

    for (struct prefix_node *i = p->windows[list].first; i != NULL; i = i->after_window)
        if (pages->page[i->page[GROUP_WINDOW]].n_refs == 1) {
            window_give_up(p, i);
            return true;
        }
    return false;
}

bool prefix_evict(struct prefix *p, enum page_group group)
{
    if (group == GROUP_WINDOW)
        return evict_window(p, PLAIN) || evict_window(p, SNAPSHOTS);
    if (p->idle.first == NULL)
        return false;
    evict(p, p->idle.first);
    return true;
}

static struct prefix_node *root_new(struct prefix *p, const char *salt, uint64_t hash)
{
    struct prefix_node *root;
    char *copy;

    if (str_copy(&copy, salt, "the cache's salt") != OSP_OK)
        return NULL;
    root = node_new(p, hash);
    if (root != NULL)
        root->salt = copy;
    else
        free(copy);
    return root;
}

struct prefix_node *prefix_root(struct prefix *p, const char *salt)
{
    uint64_t hash;
    struct prefix_node *root;

    if (salt == NULL)
        salt = "";
    hash = prefix_hash_salt(salt);
    root = prefix_find_root(p, salt, hash);
    return root != NULL ? root : root_new(p, salt, hash);
}

void prefix_ref(struct prefix *p, struct prefix_node *node)
{
    idle_unlink(p, node);
    node->n_users++;
    p->now++;
    for (struct prefix_node *i = node; i != NULL; i = i->parent)
        i->used = p->now;
}

void prefix_unref(struct prefix *p, struct prefix_node *node)
{
    assert(node->n_users > 0);
    node->n_users--;
    p->now++;
    for (struct prefix_node *i = node; i != NULL; i = i->parent)
        i->used = p->now;
    settle_up(p, node);
}

void prefix_move_ref(struct prefix *p, struct prefix_node *from, struct prefix_node *to)
{
    assert(to->parent == from);
    assert(from->n_users > 0);
    idle_unlink(p, to);
    to->n_users++;
    to->used = ++p->now;
    from->n_users--;
}

/* Leaves that hold a beginning of e's tokens, no cleaner than e, are useless beside e. */
static void drop_beginnings(struct prefix *p, struct prefix_node *parent,
                            const struct prefix_entry *e)
{
    struct prefix_node *i = parent->first_child, *after;

    for (int n = 0; i != NULL && n < SIBLINGS_READ_MAX; i = after, n++) {
        after = i->after_sibling;
        if (i->is_idle && i->n_tokens < e->n_tokens &&
            (i->n_clean <= e->n_clean) && /* the caller uses the parent, which stays */
            memcmp(i->tokens, e->tokens, (size_t)i->n_tokens * sizeof *i->tokens) == 0)
            evict(p, i);
    }
}

struct prefix_node *prefix_add(struct prefix *p, struct prefix_node *parent,
                               const struct prefix_entry *e)
{
    struct prefix_node *node;

    assert(parent->n_users > 0);
    assert(e->n_tokens > 0 && e->n_tokens <= PAGE_TOKENS);
    node = node_new(p, prefix_hash_tokens(parent, e->tokens, e->n_tokens));
    if (node == NULL)
        return NULL;
    drop_beginnings(p, parent, e);
    memcpy(node->tokens, e->tokens, (size_t)e->n_tokens * sizeof *e->tokens);
    node->n_tokens = e->n_tokens;
    node->n_clean = e->n_clean;
    node->page[GROUP_FULL] = e->page[GROUP_FULL];
    pages_cache(&p->pages[GROUP_FULL], node->page[GROUP_FULL]);
    child_link(parent, node);
    log_change(p, node, PREFIX_STORED);
    prefix_add_window(p, node, e);
    return node;
}

void prefix_add_window(struct prefix *p, struct prefix_node *node, const struct prefix_entry *e)
{
    int32_t page = e->page[GROUP_WINDOW];

    if (node->page[GROUP_WINDOW] >= 0) {
        window_unlink(p, node);
    } else if (page >= 0 && e->n_clean >= node->n_clean &&
               !p->pages[GROUP_WINDOW].page[page].is_cached) {
        node->page[GROUP_WINDOW] = page;
        pages_cache(&p->pages[GROUP_WINDOW], page);
    }
    node->is_snapshot = node->is_snapshot || e->is_snapshot;
    if (node->page[GROUP_WINDOW] >= 0)
        window_append(p, node);
}

void prefix_invalidate(struct prefix_node *node)
{
    for (struct prefix_node *i = node; i->parent != NULL; i = i->parent)
        i->is_bad = true;
}
