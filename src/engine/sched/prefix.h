/* The prefix cache: a tree of pages by the tokens that they hold. A node is a page of the full
 * group with its tokens; the path from the root to it is the prefix before it. Pages are shared and
 * never written: a sequence that goes on inside a page gets a copy. Nodes are found by hash and
 * verified by comparing tokens.
 *
 * Sliding-window layers can resume at a position only if the pages of the window before it are
 * kept. A node keeps its page of the window group while pages are free. Those at ends of prompts,
 * messages and answers, and at fixed intervals (snapshots), are evicted last.
 *
 * Clean positions were computed by the prefill arithmetic, as were all positions before them: their
 * bits depend on the tokens alone. From the first decoded position on no position is clean.
 *
 * Each salt has a tree of its own. Owned by the scheduler; uses its pools of pages. */
#ifndef ENGINE_SCHED_PREFIX_H
#define ENGINE_SCHED_PREFIX_H

#include "engine/sched/pages.h"
#include "engine/sched/prefix_log.h"

enum {
    SNAPSHOT_TOKENS = 512, /* interval of snapshots */
    MESSAGE_END_SLACK = 8, /* after a message's end: the next header, in which prompts may differ */
    SIBLINGS_READ_MAX = 256 /* children of a node that are searched for a partial match */
};

struct prefix_node {
    struct prefix_node *parent; /* NULL: a root */
    struct prefix_node *first_child, *before_sibling, *after_sibling;
    struct prefix_node *next_in_bucket;
    struct prefix_node *before, *after;               /* in the list of idle nodes */
    struct prefix_node *before_window, *after_window; /* in a list of nodes with window pages */
    char *salt;                                       /* a root's; owned */
    uint64_t hash, used;                              /* used: time of the last use */
    int32_t page[N_PAGE_GROUPS];                      /* window group: -1 = not kept */
    int n_tokens, n_clean, n_users;                   /* n_users: sequences whose chain ends here */
    bool is_idle, is_snapshot, is_bad;
    int32_t tokens[PAGE_TOKENS];
};

struct node_list {
    struct prefix_node *first, *last;
};

struct prefix {
    struct pages *pages; /* (N_PAGE_GROUPS) borrowed */
    int window_tokens;
    struct prefix_node **buckets;
    size_t n_buckets;
    struct prefix_node **path[2]; /* (n_path_max) of the last look-ups */
    int n_path_max;
    struct node_list idle;       /* unreferenced leaves, least recently used first */
    struct node_list windows[2]; /* nodes with a window page: plain, snapshots; likewise */
    uint64_t now;
    int64_t n_nodes;
    struct prefix_log *log; /* where changes are recorded; borrowed; NULL: nowhere */
};

/* For sequences of at most n_path_max full pages. */
CHECKED enum osp_status prefix_init(struct prefix *p, struct pages pages[N_PAGE_GROUPS],
                                    int window_tokens, int n_path_max);
void prefix_release(
    struct prefix *p); /* accepts a zeroed one; releases all pages; no sequence may use it */

struct prefix_query {
    const char *salt; /* NULL counts as "" */
    const int32_t *tokens;
    int n_tokens; /* at most so many are looked up */
    bool clean_only;
};

/* Where a sequence can resume: at position n_tokens, with the pages of `path`, and a copy of the
 * beginning of `partial`'s page if that is not NULL. Valid until the next call of any function. */
struct prefix_hit {
    struct prefix_node **path; /* (depth) */
    int depth, n_tokens;
    int n_clean; /* of the positions; INT_MAX: all */
    struct prefix_node *partial;
};

struct prefix_hit prefix_find(struct prefix *p, const struct prefix_query *query);
/* The last hit cut to whole pages, so that it needs no copy. */
void prefix_without_partial(const struct prefix *p, struct prefix_hit *h);
/* The last hit without the last position of its partial page: the copy's key of a draft head there
 * was computed with another next token. */
void prefix_without_last(const struct prefix *p, struct prefix_hit *h);
/* The first page of the window group, counted from position 0, that is needed to resume at
 * n_tokens; the last one is the page of position n_tokens - 1. */
int prefix_first_window(const struct prefix *p, int n_tokens);

/* The root of a salt; made if it does not exist. NULL: no memory. */
struct prefix_node *prefix_root(struct prefix *p, const char *salt);
/* A sequence's chain ends at the node: the node and its ancestors are kept. */
void prefix_ref(struct prefix *p, struct prefix_node *node);
void prefix_unref(struct prefix *p, struct prefix_node *node);
/* A chain that ended at `from` now ends at its child `to`. */
void prefix_move_ref(struct prefix *p, struct prefix_node *from, struct prefix_node *to);

struct prefix_entry {
    const int32_t *tokens;
    int n_tokens, n_clean;
    int32_t page[N_PAGE_GROUPS]; /* window group: may be -1 */
    bool is_snapshot;
};
/* A child with these tokens, whole pages only, that can replace this entry; NULL: there is no such
 * child. */
struct prefix_node *prefix_find_equal(struct prefix *p, struct prefix_node *parent,
                                      const struct prefix_entry *e);
/* True when a child begins with these tokens, at least as clean, and has its window page. */
bool prefix_covers(const struct prefix_node *parent, const struct prefix_entry *e);
/* Adds a child of a node that the caller references; its pages get a reference. Returns the node,
 * not yet referenced; NULL: no memory, nothing has changed. */
struct prefix_node *prefix_add(struct prefix *p, struct prefix_node *parent,
                               const struct prefix_entry *e);
/* Gives a node its missing window page, if e's page is as clean as the node, and makes the node a
 * snapshot if e is one. */
void prefix_add_window(struct prefix *p, struct prefix_node *node, const struct prefix_entry *e);
/* The node and its ancestors are not found any more: something there is not finite. */
void prefix_invalidate(struct prefix_node *node);
/* Frees a page of the group that only the cache holds. False: there is no such page. */
bool prefix_evict(struct prefix *p, enum page_group group);

/* True when page `index` of a sequence with these tokens is a snapshot. */
struct message_end_ids {
    const int32_t *ids; /* tokens that end a message */
    int n;
};
bool prefix_is_snapshot(const struct prefix *p, int index, const int32_t *tokens, int n_tokens,
                        int n_prompt, struct message_end_ids message_ends);

#endif
