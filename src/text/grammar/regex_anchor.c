/* Anchors and searches. Where an expression may match anywhere, "any text" is inserted before and
 * after it. ^ and $ are then the absence of that insertion, so they may stand only where the text
 * begins or ends. */
#include "text/grammar/regex_internal.h"

struct ends {
    bool begin, end; /* the node is where the text may begin or end */
};

static enum osp_status anchor(struct regex_tree *t, int node, struct ends at, bool search);

static enum osp_status any_text(struct regex_tree *t, int *node)
{
    size_t first = t->n_ranges;
    int set;
    enum osp_status st;

    TRY(regex_tree_range(t, 0, CODE_POINT_MAX));
    TRY(regex_tree_node(t, REGEX_SET, &set));
    t->nodes[set].first = (int)first;
    t->nodes[set].n = 1;
    TRY(regex_tree_node(t, REGEX_REPEAT, node));
    t->nodes[*node].max_count = REGEX_UNBOUNDED;
    regex_tree_append(t, *node, set);
out:
    return st;
}

/* Whether the subtree contains an anchor of this kind. */
static bool has_anchor(const struct regex_tree *t, int node)
{
    if (t->nodes[node].kind == REGEX_BEGIN || t->nodes[node].kind == REGEX_END)
        return true;
    for (int c = t->nodes[node].last; c != NO_NODE; c = t->nodes[c].previous)
        if (has_anchor(t, c))
            return true;
    return false;
}

/* Replaces an anchor with the empty text. */
static void replace_anchor(struct regex_tree *t, int node)
{
    t->nodes[node].kind = REGEX_CAT;
}

static bool is_group(const struct regex_tree *t, int node)
{
    return t->nodes[node].kind == REGEX_ALT;
}

/* A sequence: only its first item can have a ^ and only its last a $; without an anchor "any text"
 * is inserted on that side. */
static enum osp_status anchor_sequence(struct regex_tree *t, int node, struct ends at, bool search)
{
    int last = t->nodes[node].last, first = last, any;
    struct ends open = at;
    enum osp_status st = OSP_OK;

    while (first != NO_NODE && t->nodes[first].previous != NO_NODE)
        first = t->nodes[first].previous;
    if (at.begin && first != NO_NODE && t->nodes[first].kind == REGEX_BEGIN) {
        replace_anchor(t, first);
        open.begin = false;
    }
    if (at.end && last != NO_NODE && t->nodes[last].kind == REGEX_END) {
        replace_anchor(t, last);
        open.end = false;
    }
    for (int c = last; c != NO_NODE; c = t->nodes[c].previous) {
        struct ends here = {open.begin && c == first && is_group(t, c),
                            open.end && c == last && is_group(t, c)};

        TRY(anchor(t, c, here, search));
        open.begin = open.begin && !here.begin;
        open.end = open.end && !here.end;
    }
    if (search && open.begin) {
        TRY(any_text(t, &any));
        if (first != NO_NODE)
            t->nodes[first].previous = any;
        else
            t->nodes[node].last = any;
    }
    if (search && open.end) {
        TRY(any_text(t, &any));
        regex_tree_append(t, node, any);
    }
out:
    return st;
}

static enum osp_status anchor(struct regex_tree *t, int node, struct ends at, bool search)
{
    enum osp_status st = OSP_OK;

    if (t->nodes[node].kind == REGEX_CAT)
        return anchor_sequence(t, node, at, search);
    if (t->nodes[node].kind == REGEX_ALT) {
        for (int c = t->nodes[node].last; c != NO_NODE; c = t->nodes[c].previous)
            TRY(anchor(t, c, at, search));
    } else if (has_anchor(t, node)) {
        return fail(OSP_EINVAL,
                    "^ and $ are supported only at the beginning and the end of the expression");
    }
out:
    return st;
}

enum osp_status regex_tree_anchor(struct regex_tree *t, bool search)
{
    return anchor(t, t->root, (struct ends){true, true}, search);
}
