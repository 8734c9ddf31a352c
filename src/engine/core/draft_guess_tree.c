/* Guesses of trees, level by level. The first pass of the head gives the nodes of the first level.
 * Each later pass has a row for every node of a level that has children: the row's candidates are
 * the children. A row sees the head's keys and values of its ancestors, which earlier passes stored
 * in slots of their own behind the request's known positions (backend/tree_mask.h). They are
 * computed again when the states of the target are known. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/core/draft_model_internal.h"

/* The tree of one request while it is guessed. */
struct growing {
    struct draft_request *request;
    int32_t tokens[DRAFTS_MAX]; /* of the shape's nodes; < 0: there is none */
    uint32_t masks[DRAFTS_MAX]; /* of the nodes that have a row; 0: it has none */
    int samples[DRAFTS_MAX];    /* of these rows, in the pass of their level */
    int first_sample;           /* in the first pass */
    int n_slots;                /* that rows have taken */
};

/* A pass of rows of one level. */
struct level {
    struct batch *batch;
    int depth; /* of its nodes */
    int n_seqs, n_rows, n_pages;
    int *from; /* (n_rows): the sample of the pass before whose state the row continues */
};

/* Slots behind the last known position that the request's pages have. */
static int n_free_slots(const struct seq *q)
{
    return page_list_end(&q->pages[GROUP_FULL]) - (q->n_tokens - 1);
}

/* Whether a node of this level has a row: its children are guessed from it. */
static bool has_row(const struct growing *g, int node, int depth)
{
    const struct draft_shape *s = g->request->shape;
    const int parent = s->parents[node];

    return draft_depth(s->parents, node) == depth && draft_shape_has_child(s, node) &&
           g->tokens[node] >= 0 && (parent < 0 || g->masks[parent] != 0);
}

/* ---- the candidates of a pass ---- */

/* The children of a node, or of the root, -1, get the candidates of that sample. */
static void take_children(struct growing *g, int parent, const int32_t *candidates)
{
    const struct draft_shape *s = g->request->shape;

    for (int i = parent + 1; i < s->n; i++)
        if (s->parents[i] == parent)
            g->tokens[i] = candidates[s->ranks[i]];
}

/* ---- a level ---- */

static void *at_offset(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

/* Counts the rows of a level, and gives each its slot; a node without a slot has no row, and so no
 * children. */
static void begin_rows(struct growing *g, int depth, struct batch_counts *counts)
{
    const struct draft_shape *s = g->request->shape;
    const int n_slots_max = n_free_slots(g->request->q), n_before = counts->n_rows;

    for (int i = 0; i < s->n; i++)
        if (has_row(g, i, depth) && g->n_slots < n_slots_max) {
            const uint32_t above = s->parents[i] < 0 ? 0 : g->masks[s->parents[i]];

            g->masks[i] = above | 1u << g->n_slots++;
            counts->n_rows++;
        }
    counts->n_seqs += counts->n_rows > n_before;
    counts->n_pages += counts->n_rows > n_before ? g->request->q->pages[GROUP_FULL].n : 0;
}

static void fill_row(struct level *l, struct growing *g, int node)
{
    const struct draft_shape *s = g->request->shape;
    const struct seq *q = g->request->q;
    const int row = l->n_rows++, parent = s->parents[node];
    struct batch *b = l->batch;

    ((int32_t *)at_offset(b, b->offset_tokens))[row] = g->tokens[node];
    ((int32_t *)at_offset(b, b->offset_positions))[row] = q->n_tokens - 2 + l->depth;
    ((int32_t *)at_offset(b, b->offset_row_seq))[row] = l->n_seqs;
    ((int32_t *)at_offset(b, b->offset_phases))[row] = PHASE_DECODE;
    ((uint32_t *)at_offset(b, b->offset_tree_masks))[row] = g->masks[node];
    ((struct batch_sample *)at_offset(b, b->offset_samples))[row] =
        draft_sample_of(q, row, q->n_tokens + l->depth);
    l->from[row] = parent < 0 ? g->first_sample : g->samples[parent];
    g->samples[node] = row;
}

static void fill_request(struct level *l, struct growing *g)
{
    const struct draft_shape *s = g->request->shape;
    const struct page_list *full = &g->request->q->pages[GROUP_FULL];
    struct draft_segment segment = {
        .pages = full->numbers, .first_page = full->first, .n_pages = full->n};
    const int first_row = l->n_rows;

    for (int i = 0; i < s->n; i++)
        if (g->masks[i] != 0 && draft_depth(s->parents, i) == l->depth)
            fill_row(l, g, i);
    segment.n_rows = l->n_rows - first_row;
    if (segment.n_rows == 0)
        return;
    draft_fill_seq(l->batch, &segment, l->n_seqs++, first_row, l->n_pages);
    l->n_pages += full->n;
}

/* Row i continues the state of sample from[i], which does not fall: so a state that moves back is
 * not replaced before it is read if lower rows come first, and one that moves on if higher ones
 * do. */
static enum osp_status place_states(struct draft_model *d, const int *from, int n)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i++)
        if (from[i] > i)
            TRY(model_draft_move(d->model, from[i], i));
    for (int i = n - 1; i >= 0; i--)
        if (from[i] < i)
            TRY(model_draft_move(d->model, from[i], i));
out:
    return st;
}

static enum osp_status run_level(struct draft_model *d, struct growing *list, int n, int depth,
                                 bool *has_run)
{
    struct batch_counts counts = {.has_trees = true};
    struct level l = {.depth = depth, .from = NULL};
    uint64_t ticket;
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i++)
        begin_rows(&list[i], depth, &counts);
    *has_run = counts.n_rows > 0;
    if (!*has_run)
        return OSP_OK;
    counts.n_samples = counts.n_rows;
    assert(counts.n_rows <= d->n_rows_max && counts.n_samples <= d->n_samples_max);
    l.batch = batch_init(d->batch_memory, counts);
    l.batch->n_candidates = d->n_candidates;
    l.from = mem_new((size_t)counts.n_rows * sizeof *l.from);
    for (int i = 0; i < n; i++)
        fill_request(&l, &list[i]);
    TRY(place_states(d, l.from, l.n_rows));
    TRY(model_draft_again(d->model, l.batch, &ticket));
    TRY(draft_read_candidates(d, ticket, l.n_rows, depth));
    for (int i = 0; i < n; i++)
        for (int node = 0; node < list[i].request->shape->n; node++)
            if (list[i].masks[node] != 0 &&
                draft_depth(list[i].request->shape->parents, node) == depth)
                take_children(&list[i], node,
                              d->candidates + list[i].samples[node] * DRAFT_CANDIDATES_MAX);
out:
    free(l.from);
    return st;
}

/* ---- all levels ---- */

static enum osp_status run_first_level(struct draft_model *d, struct draft_request *const *at,
                                       int n, struct growing *list)
{
    uint64_t ticket;
    enum osp_status st;

    TRY(draft_start_first(d, at, n, &ticket));
    TRY(draft_read_candidates(d, ticket, n, 0));
    for (int i = 0; i < n; i++) {
        list[i] = (struct growing){.request = at[i], .first_sample = i};
        memset(list[i].tokens, -1, sizeof list[i].tokens);
        take_children(&list[i], -1, d->candidates + i * DRAFT_CANDIDATES_MAX);
    }
out:
    return st;
}

enum osp_status draft_guess_trees(struct draft_model *d, struct draft_request *const *at, int n)
{
    struct growing *list = mem_new((size_t)n * sizeof *list);
    bool has_run = true;
    enum osp_status st;

    for (int i = 0; i < n; i++) {
        const int n_candidates = draft_shape_candidates(at[i]->shape);

        d->n_candidates = n_candidates > d->n_candidates ? n_candidates : d->n_candidates;
    }
    TRY(run_first_level(d, at, n, list));
    for (int depth = 1; has_run; depth++)
        TRY(run_level(d, list, n, depth, &has_run));
    for (int i = 0; i < n; i++)
        at[i]->n = draft_shape_walk(at[i]->shape, list[i].tokens, at[i]->tokens, at[i]->parents);
out:
    d->n_candidates = 0;
    free(list);
    return st;
}
