/* Parse states and frames: how a byte, and so a token, changes them. */
#include "text/grammar/constraint_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    SLOTS = 4 * CONSTRAINT_FRAMES_MAX,
    FRAME_STARTS_MAX = 16 * CONSTRAINT_FRAMES_MAX,
    FRAME_END = 0,
    UNKNOWN = -1
};

enum osp_status parse_states_add(struct parse_states *r, struct parse_state parse_state)
{
    enum osp_status st;

    TRY(mem_try_grow(&r->items, r->n, &r->capacity, sizeof *r->items,
                     "the parse states of a grammar"));
    r->items[r->n++] = parse_state;
out:
    return st;
}

/* ---- frames ---- */

static uint32_t slot_of(int32_t grammar_node, int32_t parent)
{
    return ((uint32_t)grammar_node * 2654435761U ^ (uint32_t)parent * 2246822519U) & (SLOTS - 1);
}

/* The frame that continues at `position` and then in `parent`. A position at the end of its rule
 * needs no frame of its own, so that lists written as right recursion do not grow the stack. */
static enum osp_status frame_of(struct constraint *c, int32_t grammar_node, int32_t parent,
                                int32_t depth, int32_t *frame)
{
    const struct grammar_node *p = &c->g->nodes[grammar_node];
    uint32_t slot = slot_of(grammar_node, parent);
    enum osp_status st;

    *frame = parent;
    if (p->is_end && p->first_edge < 0)
        return OSP_OK;
    for (; c->slots[slot] != 0; slot = (slot + 1) & (SLOTS - 1)) {
        *frame = c->slots[slot] - 1;
        if (c->frames[*frame].grammar_node == grammar_node && c->frames[*frame].parent == parent)
            return OSP_OK;
    }
    if (c->n_frames == CONSTRAINT_FRAMES_MAX)
        return fail(OSP_ELIMIT, "the grammar: the answer needs more than %d parser frames",
                    (int)CONSTRAINT_FRAMES_MAX);
    TRY(mem_try_grow(&c->frames, c->n_frames, &c->capacity_frames, sizeof *c->frames,
                     "the parser frames of a grammar"));
    *frame = (int32_t)c->n_frames++;
    c->frames[*frame] = (struct frame){
        .grammar_node = grammar_node, .parent = parent, .depth = depth, .n = UNKNOWN};
    c->slots[slot] = *frame + 1;
out:
    return st;
}

static uint32_t first_state(const struct term *t)
{
    if (t->kind == TERM_LITERAL)
        return 0;
    return t->kind == TERM_STRING ? json_strings()->before : t->dfa->start;
}

/* Adds what can be read at a position whose rule continues in `parent` when it ends. */
static enum osp_status add_starts_at(struct constraint *c, int32_t grammar_node, int32_t parent,
                                     bool *ends)
{
    const struct grammar *g = c->g;
    const struct grammar_node *p = &g->nodes[grammar_node];
    int32_t depth = c->frames[parent].depth, frame;
    enum osp_status st = OSP_OK;

    for (int32_t i = p->first_edge; i >= 0; i = g->edges[i].next) {
        struct edge e = g->edges[i];

        if (depth + e.height > GRAMMAR_DEPTH_MAX)
            continue;
        if (e.kind == EDGE_EPSILON) {
            TRY(add_starts_at(c, e.to, parent, ends));
            continue;
        }
        TRY(frame_of(c, e.to, parent, depth + (e.kind == EDGE_RULE), &frame));
        if (e.kind == EDGE_RULE) {
            TRY(add_starts_at(c, e.target, frame, ends));
            continue;
        }
        if (c->frame_starts.n > FRAME_STARTS_MAX)
            return fail(OSP_ELIMIT,
                        "the grammar: too many alternatives at one place of the answer");
        TRY(parse_states_add(
            &c->frame_starts,
            (struct parse_state){e.target, frame, first_state(&g->terms[e.target]), 0}));
    }
    if (p->is_end && parent == FRAME_END)
        *ends = true;
    else if (p->is_end)
        TRY(add_starts_at(c, c->frames[parent].grammar_node, c->frames[parent].parent, ends));
out:
    return st;
}

enum osp_status constraint_frame_starts(struct constraint *c, int32_t frame, size_t *first,
                                        size_t *n, bool *ends)
{
    struct frame f = c->frames[frame];
    enum osp_status st = OSP_OK;

    if (f.n == UNKNOWN) {
        f.first = (int32_t)c->frame_starts.n;
        f.ends = frame == FRAME_END;
        if (frame != FRAME_END)
            TRY(add_starts_at(c, f.grammar_node, f.parent, &f.ends));
        f.n = (int32_t)c->frame_starts.n - f.first;
        c->frames[frame] = f;
    }
    *first = (size_t)f.first;
    *n = (size_t)f.n;
    *ends = f.ends;
out:
    return st;
}

/* ---- creation ---- */

static enum osp_status start(struct constraint *c)
{
    size_t first, n;
    int32_t frame;
    enum osp_status st;

    TRY(mem_try_grow(&c->frames, 0, &c->capacity_frames, sizeof *c->frames,
                     "the parser frames of a grammar"));
    c->frames[c->n_frames++] = (struct frame){.grammar_node = -1, .parent = -1, .n = UNKNOWN};
    TRY(frame_of(c, c->g->start, FRAME_END, 0, &frame));
    TRY(constraint_frame_starts(c, frame, &first, &n, &c->is_complete));
    for (size_t i = 0; i < n; i++)
        TRY(parse_states_add(&c->states, c->frame_starts.items[first + i]));
out:
    return st;
}

enum osp_status constraint_new(struct constraint **out, struct grammar *g,
                               const struct token_index *x, const int32_t *stops, int n_stops)
{
    struct constraint *c = mem_new(sizeof *c);
    enum osp_status st = OSP_OK;

    *out = NULL;
    c->g = grammar_ref(g);
    c->x = x;
    if (n_stops > CONSTRAINT_STOPS_MAX)
        TRY(fail(OSP_ELIMIT, "%d stop tokens, limit is %d", n_stops, (int)CONSTRAINT_STOPS_MAX));
    while (c->n_stops < n_stops) {
        c->stops[c->n_stops] = stops[c->n_stops];
        c->n_stops++;
    }
    TRY(mem_try_array(&c->slots, SLOTS, sizeof *c->slots, "the parser frames of a grammar"));
    TRY(start(c));
    *out = c;
out:
    if (st != OSP_OK)
        constraint_free(c);
    return st;
}

void constraint_free(struct constraint *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < CACHED_MASKS; i++) {
        free(c->cached[i].parse_states.items);
        free(c->cached[i].bits);
    }
    free(c->states.items);
    free(c->next_states.items);
    free(c->seen);
    free(c->frames);
    free(c->slots);
    free(c->frame_starts.items);
    grammar_unref(c->g);
    free(c);
}

bool constraint_is_complete(const struct constraint *c)
{
    return c->is_complete;
}

bool constraint_is_done(const struct constraint *c)
{
    return c->is_done;
}

size_t constraint_n_states(const struct constraint *c)
{
    return c->states.n;
}

/* ---- accepting ---- */

static bool states_equal(const struct parse_state *a, const struct parse_state *b)
{
    return a->term == b->term && a->frame == b->frame && a->state == b->state &&
           a->n_chars == b->n_chars;
}

/* The slot of a parse state, or the free slot where it belongs. */
static uint16_t *seen_slot(const struct constraint *c, const struct parse_state *r)
{
    uint32_t slot = (uint32_t)r->term * 2654435761U ^ (uint32_t)r->frame * 2246822519U ^
                    r->state * 3266489917U ^ r->n_chars * 668265263U;

    for (slot ^= slot >> 15;; slot++) {
        uint16_t *at = &c->seen[slot % STATE_SLOTS];

        if (*at == 0 || states_equal(&c->next_states.items[*at - 1], r))
            return at;
    }
}

static enum osp_status init_seen(struct constraint *c)
{
    enum osp_status st = OSP_OK;

    if (c->seen == NULL)
        TRY(mem_try_array(&c->seen, STATE_SLOTS, sizeof *c->seen, "the parse states of a grammar"));
    memset(c->seen, 0, STATE_SLOTS * sizeof *c->seen);
    for (size_t i = 0; i < c->next_states.n; i++)
        *seen_slot(c, &c->next_states.items[i]) = (uint16_t)(i + 1);
    c->has_seen = true;
out:
    return st;
}

static bool is_seen(const struct constraint *c, const struct parse_state *r)
{
    if (c->has_seen)
        return *seen_slot(c, r) != 0;
    for (size_t i = 0; i < c->next_states.n; i++)
        if (states_equal(&c->next_states.items[i], r))
            return true;
    return false;
}

/* Adds a parse state unless it is there already. */
static enum osp_status add_new(struct constraint *c, struct parse_state parse_state)
{
    enum osp_status st;

    if (!c->has_seen && c->next_states.n == LINEAR_SEARCH_MAX)
        TRY(init_seen(c));
    if (is_seen(c, &parse_state))
        return OSP_OK;
    if (c->next_states.n == CONSTRAINT_STATES_MAX)
        return fail(OSP_ELIMIT,
                    "the grammar is too ambiguous: the answer has more than %d parse states",
                    (int)CONSTRAINT_STATES_MAX);
    TRY(parse_states_add(&c->next_states, parse_state));
    if (c->has_seen)
        *seen_slot(c, &parse_state) = (uint16_t)c->next_states.n;
out:
    return st;
}

static enum osp_status step_one(struct constraint *c, struct parse_state r, unsigned char byte)
{
    const struct term *t = &c->g->terms[r.term];
    struct step_result step_result =
        parse_state_step(t, t->kind, json_strings(), &r.state, &r.n_chars, byte);
    size_t first, n;
    bool ends;
    enum osp_status st = OSP_OK;

    if (step_result.is_live)
        TRY(add_new(c, r));
    if (!step_result.ends)
        return OSP_OK;
    TRY(constraint_frame_starts(c, r.frame, &first, &n, &ends));
    c->is_complete = c->is_complete || ends;
    for (size_t i = 0; i < n; i++)
        TRY(add_new(c, c->frame_starts.items[first + i]));
out:
    return st;
}

static enum osp_status step_all(struct constraint *c, unsigned char byte)
{
    struct parse_states old = c->states;
    enum osp_status st = OSP_OK;

    c->next_states.n = 0;
    c->has_seen = false;
    c->is_complete = false;
    for (size_t i = 0; i < old.n; i++)
        TRY(step_one(c, old.items[i], byte));
    c->states = c->next_states;
    c->next_states = old;
    if (c->states.n == 0 && !c->is_complete)
        st = fail(OSP_EINVAL, "a byte is not allowed by the grammar");
out:
    return st;
}

/* ---- garbage collection of frames ---- */

/* Copies a frame of the old table, with its parents, into the new one. *moved: old index -> new
 * index, or -1. */
static enum osp_status move_frame(struct constraint *c, const struct frame *old, int32_t *moved,
                                  int32_t frame)
{
    int32_t parent;
    enum osp_status st = OSP_OK;

    if (moved[frame] >= 0)
        return OSP_OK;
    TRY(move_frame(c, old, moved, old[frame].parent));
    parent = moved[old[frame].parent];
    TRY(frame_of(c, old[frame].grammar_node, parent, old[frame].depth, &moved[frame]));
out:
    return st;
}

static enum osp_status collect_frames(struct constraint *c)
{
    struct frame *old = c->frames;
    int32_t *moved = NULL;
    enum osp_status st;

    TRY(mem_try_array(&moved, c->n_frames, sizeof *moved, "the parser frames of a grammar"));
    memset(moved, -1, c->n_frames * sizeof *moved);
    moved[FRAME_END] = FRAME_END;
    memset(c->slots, 0, SLOTS * sizeof *c->slots);
    c->frames = NULL;
    c->capacity_frames = 0;
    c->n_frames = 0;
    c->frame_starts.n = 0;
    TRY(mem_try_grow(&c->frames, 0, &c->capacity_frames, sizeof *c->frames,
                     "the parser frames of a grammar"));
    c->frames[c->n_frames++] = (struct frame){.grammar_node = -1, .parent = -1, .n = UNKNOWN};
    for (size_t i = 0; i < c->states.n; i++) {
        TRY(move_frame(c, old, moved, c->states.items[i].frame));
        c->states.items[i].frame = moved[c->states.items[i].frame];
    }
    c->n_cached = 0;
out:
    free(moved);
    free(old);
    return st;
}

enum osp_status constraint_accept(struct constraint *c, int32_t token)
{
    const char *bytes;
    size_t n;
    enum osp_status st = OSP_OK;

    for (int i = 0; i < c->n_stops; i++)
        if (token == c->stops[i] && c->is_complete && !c->is_done) {
            c->is_done = true;
            return OSP_OK;
        }
    if (c->is_done || token < 0 || token >= c->x->n_tokens)
        return fail(OSP_EINVAL, "token %d is not allowed by the grammar", (int)token);
    bytes = token_index_bytes(c->x, token, &n);
    if (n == 0)
        return fail(OSP_EINVAL, "token %d is not allowed by the grammar", (int)token);
    for (size_t i = 0; i < n; i++)
        TRY(step_all(c, (unsigned char)bytes[i]));
    if (c->n_frames > CONSTRAINT_FRAMES_MAX / 2 || c->frame_starts.n > FRAME_STARTS_MAX / 2)
        TRY(collect_frames(c));
out:
    return st;
}
