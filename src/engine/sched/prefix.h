/* The prefix cache: a tree of pages by the tokens that they hold. A node is a page of the full
 * group with its tokens; the way from the root to it is what came before. Pages are shared,
 * never written: who goes on inside a page gets a copy. Found by hash, believed by tokens.
 *
 * Window layers can go on at a position only where the pages of the window before it are still
 * kept. A node keeps its page of the window group while there is room; those at ends of prompts,
 * of messages and of answers, and at fixed intervals (snapshots) are the last to be given up.
 *
 * Clean positions were computed by the prompt's arithmetic, as were all before them: their bits
 * depend on the tokens alone. From the first generated position on nothing is clean.
 *
 * Each salt has a tree of its own. Owned by the scheduler; uses its pools of pages. */
#ifndef ENGINE_SCHED_PREFIX_H
#define ENGINE_SCHED_PREFIX_H

#include "engine/sched/pages.h"

enum {
    SNAPSHOT_TOKENS = 512,  /* the interval */
    MESSAGE_END_SLACK = 8,  /* behind a message's end: the header in which another one may differ */
    SIBLINGS_READ_MAX = 256 /* children of a node that are looked through for a partial match */
};

struct prefix_node {
    struct prefix_node *parent; /* NULL: a root */
    struct prefix_node *first_child, *before_sibling, *after_sibling;
    struct prefix_node *next_in_bucket;
    struct prefix_node *before, *after;               /* in the list of the idle */
    struct prefix_node *before_window, *after_window; /* in a list of those with window pages */
    char *salt;                                       /* a root's; owned */
    uint64_t hash, used;                              /* when it was last used */
    int32_t page[N_PAGE_GROUPS];                      /* the window's: -1 = not kept */
    int n_tokens, n_clean, n_users;                   /* sequences whose chain ends here, so far */
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
    struct prefix_node **path[2]; /* (n_path_max) of the last finds */
    int n_path_max;
    struct node_list idle;       /* leaves that nobody uses, least recently used first */
    struct node_list windows[2]; /* nodes that keep a window page: plain, snapshots; likewise */
    uint64_t now;
    int64_t n_nodes;
};

/* For sequences of at most n_path_max full pages. */
CHECKED enum osp_status prefix_init(struct prefix *p, struct pages pages[N_PAGE_GROUPS],
                                    int window_tokens, int n_path_max);
void prefix_release(
    struct prefix *p); /* accepts a zeroed one; gives all pages back; nobody may use it */

struct prefix_query {
    const char *salt; /* NULL counts as "" */
    const int32_t *tokens;
    int n_tokens; /* at most so many are wanted */
    bool clean_only;
};

/* Where one can go on: at position n_tokens, with the pages of `path`, and a copy of the
 * beginning of `partial`'s if that is not NULL. Valid until anything else is called. */
struct prefix_hit {
    struct prefix_node **path; /* (depth) */
    int depth, n_tokens;
    int n_clean; /* of the positions; INT_MAX: all */
    struct prefix_node *partial;
};

struct prefix_hit prefix_find(struct prefix *p, const struct prefix_query *query);
/* The last hit as far as it goes without a copy. */
void prefix_without_partial(const struct prefix *p, struct prefix_hit *h);
/* The first page of the window group, counted from position 0, that going on at n_tokens needs;
 * up to the one with position n_tokens - 1. */
int prefix_first_window(const struct prefix *p, int n_tokens);

/* The root of a salt; made if there is none. NULL: no memory. */
struct prefix_node *prefix_root(struct prefix *p, const char *salt);
/* A sequence's chain ends at the node: it and all before it stay. */
void prefix_ref(struct prefix *p, struct prefix_node *node);
void prefix_unref(struct prefix *p, struct prefix_node *node);
/* A chain that ended at `from` ends at its child `to` now. */
void prefix_move_ref(struct prefix *p, struct prefix_node *from, struct prefix_node *to);

struct prefix_entry {
    const int32_t *tokens;
    int n_tokens, n_clean;
    int32_t page[N_PAGE_GROUPS]; /* the window's may be -1 */
    bool is_snapshot;
};
/* A child with these tokens, whole pages only, that can stand for this one; NULL: none. */
struct prefix_node *prefix_find_equal(struct prefix *p, struct prefix_node *parent,
                                      const struct prefix_entry *e);
/* A child that begins with these tokens, at least as clean, and has its window: e adds nothing. */
bool prefix_covers(const struct prefix_node *parent, const struct prefix_entry *e);
/* Adds a child of a node that the caller uses; its pages get a reference. The node, not yet
 * used; NULL: no memory, nothing has changed. */
struct prefix_node *prefix_add(struct prefix *p, struct prefix_node *parent,
                               const struct prefix_entry *e);
/* Gives a node the window page that it lacks, if e's is as clean as the node says, and makes it
 * a snapshot if e is one. */
void prefix_add_window(struct prefix *p, struct prefix_node *node, const struct prefix_entry *e);
/* The node and all before it are not to be found any more: something there is not finite. */
void prefix_invalidate(struct prefix_node *node);
/* Frees a page of the group that only the cache holds. False: there is none. */
bool prefix_evict(struct prefix *p, enum page_group group);

/* Which position's pages matter as a snapshot: page `index` of a sequence with these tokens. */
struct message_end_ids {
    const int32_t *ids; /* tokens that end a message */
    int n;
};
bool prefix_is_snapshot(const struct prefix *p, int index, const int32_t *tokens, int n_tokens,
                        int n_prompt, struct message_end_ids message_ends);

#endif
