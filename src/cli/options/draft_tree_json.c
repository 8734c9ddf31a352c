#include "cli/options/draft_tree_json.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"

#define TREE_EXAMPLE "\"[(0,), (1,), (0, 0), (0, 1)]\""

/* Of the text of a tree, whose 16 paths have at most 16 ranks. */
enum { TREE_BYTES_MAX = 4096 };

/* The ranks on a node's path. */
struct tree_path {
    int n, ranks[OSP_DRAFTS_MAX];
};

static enum osp_status read_path(struct tree_path *out, const json_t *value, int node)
{
    *out = (struct tree_path){.n = (int)json_array_size(value)};
    if (out->n == 0 || json_array_size(value) > OSP_DRAFTS_MAX)
        return fail(OSP_EINVAL,
                    DRAFT_OPTION ": " DRAFT_TREE_MEMBER
                                 ": node %d must be a path of 1 to %d ranks, for example (0, 1)",
                    node, OSP_DRAFTS_MAX);
    for (int i = 0; i < out->n; i++) {
        const json_t *rank = json_array_get(value, (size_t)i);

        if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
            json_integer_value(rank) >= OSP_DRAFTS_MAX)
            return fail(OSP_EINVAL,
                        DRAFT_OPTION ": " DRAFT_TREE_MEMBER
                                     ": node %d: a rank must be an integer from 0 "
                                     "to %d",
                        node, OSP_DRAFTS_MAX - 1);
        out->ranks[i] = (int)json_integer_value(rank);
    }
    return OSP_OK;
}

/* By levels, then by ranks, as vLLM sorts them. */
static int by_level(const void *a, const void *b)
{
    const struct tree_path *left = a, *right = b;

    if (left->n != right->n)
        return left->n - right->n;
    for (int i = 0; i < left->n; i++)
        if (left->ranks[i] != right->ranks[i])
            return left->ranks[i] - right->ranks[i];
    return 0;
}

/* The node with the first n ranks of a path; -1: there is none. */
static int find_node(const struct tree_path *nodes, int n_nodes, const struct tree_path *path,
                     int n)
{
    struct tree_path wanted = *path;

    wanted.n = n;
    for (int i = 0; i < n_nodes; i++)
        if (by_level(&nodes[i], &wanted) == 0)
            return i;
    return -1;
}

/* The nodes are sorted: each comes behind its parent, and behind its sibling of the rank before. */
static enum osp_status link_nodes(struct osp_speculative *s, const struct tree_path *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        const int parent = find_node(nodes, i, &nodes[i], nodes[i].n - 1);
        const int rank = nodes[i].ranks[nodes[i].n - 1];
        int n_before = 0; /* siblings */

        for (int k = 0; k < i; k++)
            n_before += nodes[k].n == nodes[i].n && s->tree_parents[k] == parent;
        if (nodes[i].n > 1 && parent < 0)
            return fail(OSP_EINVAL,
                        DRAFT_OPTION ": " DRAFT_TREE_MEMBER
                                     ": a node of level %d has no parent: every "
                                     "path needs its shorter paths, too, as in " TREE_EXAMPLE,
                        nodes[i].n);
        if (i > 0 && by_level(&nodes[i], &nodes[i - 1]) == 0)
            return fail(OSP_EINVAL,
                        DRAFT_OPTION ": " DRAFT_TREE_MEMBER ": a node of level %d comes twice",
                        nodes[i].n);
        if (rank != n_before)
            return fail(OSP_EINVAL,
                        DRAFT_OPTION ": " DRAFT_TREE_MEMBER
                                     ": a node of level %d has rank %d, but not all "
                                     "better ranks are there; ranks start at 0",
                        nodes[i].n, rank);
        s->tree_parents[i] = (signed char)parent;
    }
    s->n_tree = n;
    return OSP_OK;
}

/* Python's tuples become lists: "(0,)" becomes "[0]". */
static json_t *list_of_tuples(const char *text)
{
    struct buf json;
    json_t *list;

    buf_init(&json, TREE_BYTES_MAX);
    for (const char *c = text; *c != '\0'; c++) {
        const bool is_last_comma = *c == ',' && c[1 + strspn(c + 1, " ")] == ')';

        if (!is_last_comma)
            buf_append(&json, *c == '(' ? "[" : *c == ')' ? "]" : c, 1);
    }
    list = json.overflow ? NULL : json_loadb(json.data, json.size_bytes, 0, NULL);
    buf_release(&json);
    return list;
}

enum osp_status draft_tree_read(struct osp_speculative *s, struct json_t *value)
{
    const char *text = json_string_value(value);
    json_t *list = text != NULL ? list_of_tuples(text) : json_incref(value);
    struct tree_path nodes[OSP_DRAFTS_MAX];
    const size_t n = json_array_size(list);
    enum osp_status st = OSP_OK;

    if (!json_is_array(list) || n == 0) {
        st = fail(OSP_EINVAL, DRAFT_OPTION ": " DRAFT_TREE_MEMBER
                                           " must be a list of paths, such as " TREE_EXAMPLE);
        goto out;
    }
    if (n > OSP_DRAFTS_MAX) {
        st = fail(OSP_EINVAL, DRAFT_OPTION ": " DRAFT_TREE_MEMBER " has %zu nodes, the limit is %d",
                  n, OSP_DRAFTS_MAX);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        TRY(read_path(&nodes[i], json_array_get(list, i), (int)i));
    qsort(nodes, n, sizeof *nodes, by_level);
    TRY(link_nodes(s, nodes, (int)n));
out:
    json_decref(list);
    return st;
}
