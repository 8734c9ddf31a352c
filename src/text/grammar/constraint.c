/* Readings and frames: what a byte, and so a token, changes. */
#include "text/grammar/constraint_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    SLOTS = 4 * CONSTRAINT_FRAMES_MAX,
    BEGINNINGS_MAX = 16 * CONSTRAINT_FRAMES_MAX,
    FRAME_END = 0,
    UNKNOWN = -1
};

enum osp_status readings_add(struct readings *r, struct reading reading)
{
    enum osp_status st;

    TRY(mem_try_grow(&r->items, r->n, &r->capacity, sizeof *r->items, "an answer's readings"));
    r->items[r->n++] = reading;
out:
    return st;
}

/* ---- frames ---- */

static uint32_t slot_of(int32_t position, int32_t parent)
{
    return ((uint32_t)position * 2654435761U ^ (uint32_t)parent * 2246822519U) & (SLOTS - 1);
}

/* The frame that goes on at `position` and then in `parent`. A position that only ends its rule needs none of
 * its own, so that lists written as recursion do not grow. */
static enum osp_status frame_of(struct constraint *c, int32_t position, int32_t parent,
                                int32_t depth, int32_t *frame)
{
    const struct position *p = &c->g->positions[position];
    uint32_t slot = slot_of(position, parent);
    enum osp_status st;

    *frame = parent;
    if (p->is_end && p->first_edge < 0)
        return OSP_OK;
    for (; c->slots[slot] != 0; slot = (slot + 1) & (SLOTS - 1)) {
        *frame = c->slots[slot] - 1;
        if (c->frames[*frame].position == position && c->frames[*frame].parent == parent)
            return OSP_OK;
    }
    if (c->n_frames == CONSTRAINT_FRAMES_MAX)
        return fail(OSP_ELIMIT, "the answer has more than %d ways to go on",
                    (int)CONSTRAINT_FRAMES_MAX);
    TRY(mem_try_grow(&c->frames, c->n_frames, &c->capacity_frames, sizeof *c->frames,
                     "an answer's frames"));
    *frame = (int32_t)c->n_frames++;
    c->frames[*frame] =
        (struct frame){.position = position, .parent = parent, .depth = depth, .n = UNKNOWN};
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

/* Adds what can be read at a position whose rule goes on in `parent` when it ends. */
static enum osp_status begin_at(struct constraint *c, int32_t position, int32_t parent, bool *ends)
{
    const struct grammar *g = c->g;
    const struct position *p = &g->positions[position];
    int32_t depth = c->frames[parent].depth, frame;
    enum osp_status st = OSP_OK;

    for (int32_t i = p->first_edge; i >= 0; i = g->edges[i].next) {
        struct edge e = g->edges[i];

        if (depth + e.height > GRAMMAR_DEPTH_MAX)
            continue;
        if (e.kind == EDGE_NOTHING) {
            TRY(begin_at(c, e.to, parent, ends));
            continue;
        }
        TRY(frame_of(c, e.to, parent, depth + (e.kind == EDGE_RULE), &frame));
        if (e.kind == EDGE_RULE) {
            TRY(begin_at(c, e.what, frame, ends));
            continue;
        }
        if (c->beginnings.n > BEGINNINGS_MAX)
            return fail(OSP_ELIMIT, "the answer has too many ways to go on");
        TRY(readings_add(&c->beginnings,
                         (struct reading){e.what, frame, first_state(&g->terms[e.what]), 0}));
    }
    if (p->is_end && parent == FRAME_END)
        *ends = true;
    else if (p->is_end)
        TRY(begin_at(c, c->frames[parent].position, c->frames[parent].parent, ends));
out:
    return st;
}

enum osp_status constraint_beginnings(struct constraint *c, int32_t frame, size_t *first, size_t *n,
                                      bool *ends)
{
    struct frame f = c->frames[frame];
    enum osp_status st = OSP_OK;

    if (f.n == UNKNOWN) {
        f.first = (int32_t)c->beginnings.n;
        f.ends = frame == FRAME_END;
        if (frame != FRAME_END)
            TRY(begin_at(c, f.position, f.parent, &f.ends));
        f.n = (int32_t)c->beginnings.n - f.first;
        c->frames[frame] = f;
    }
    *first = (size_t)f.first;
    *n = (size_t)f.n;
    *ends = f.ends;
out:
    return st;
}

/* ---- life ---- */

static enum osp_status start(struct constraint *c)
{
    size_t first, n;
    int32_t frame;
    enum osp_status st;

    TRY(mem_try_grow(&c->frames, 0, &c->capacity_frames, sizeof *c->frames, "an answer's frames"));
    c->frames[c->n_frames++] = (struct frame){.position = -1, .parent = -1, .n = UNKNOWN};
    TRY(frame_of(c, c->g->start, FRAME_END, 0, &frame));
    TRY(constraint_beginnings(c, frame, &first, &n, &c->is_complete));
    for (size_t i = 0; i < n; i++)
        TRY(readings_add(&c->now, c->beginnings.items[first + i]));
out:
    return st;
}

enum osp_status constraint_new(struct constraint **out, struct grammar *g,
                               const struct token_index *x, const int32_t *stops, int n_stops)
{
    struct constraint *c = mem_new(sizeof *c);
    enum osp_status st = OSP_OK;

    *out = NULL;
    c->g = grammar_share(g);
    c->x = x;
    if (n_stops > CONSTRAINT_STOPS_MAX)
        TRY(fail(OSP_ELIMIT, "%d stop tokens, limit is %d", n_stops, (int)CONSTRAINT_STOPS_MAX));
    while (c->n_stops < n_stops) {
        c->stops[c->n_stops] = stops[c->n_stops];
        c->n_stops++;
    }
    TRY(mem_try_array(&c->slots, SLOTS, sizeof *c->slots, "an answer's frames"));
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
    for (int i = 0; i < KEPT_MASKS; i++) {
        free(c->kept[i].readings.items);
        free(c->kept[i].bits);
    }
    free(c->now.items);
    free(c->then.items);
    free(c->seen);
    free(c->frames);
    free(c->slots);
    free(c->beginnings.items);
    grammar_drop(c->g);
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

size_t constraint_n_readings(const struct constraint *c)
{
    return c->now.n;
}

/* ---- accepting ---- */

static bool same(const struct reading *a, const struct reading *b)
{
    return a->term == b->term && a->frame == b->frame && a->state == b->state &&
           a->n_chars == b->n_chars;
}

/* The slot of a reading, or the free one where it belongs. */
static uint16_t *seen_slot(const struct constraint *c, const struct reading *r)
{
    uint32_t slot = (uint32_t)r->term * 2654435761U ^ (uint32_t)r->frame * 2246822519U ^
                    r->state * 3266489917U ^ r->n_chars * 668265263U;

    for (slot ^= slot >> 15;; slot++) {
        uint16_t *at = &c->seen[slot % READING_SLOTS];

        if (*at == 0 || same(&c->then.items[*at - 1], r))
            return at;
    }
}

static enum osp_status begin_seen(struct constraint *c)
{
    enum osp_status st = OSP_OK;

    if (c->seen == NULL)
        TRY(mem_try_array(&c->seen, READING_SLOTS, sizeof *c->seen, "an answer's readings"));
    memset(c->seen, 0, READING_SLOTS * sizeof *c->seen);
    for (size_t i = 0; i < c->then.n; i++)
        *seen_slot(c, &c->then.items[i]) = (uint16_t)(i + 1);
    c->has_seen = true;
out:
    return st;
}

static bool is_seen(const struct constraint *c, const struct reading *r)
{
    if (c->has_seen)
        return *seen_slot(c, r) != 0;
    for (size_t i = 0; i < c->then.n; i++)
        if (same(&c->then.items[i], r))
            return true;
    return false;
}

/* Adds one that is not there yet. */
static enum osp_status add_new(struct constraint *c, struct reading reading)
{
    enum osp_status st;

    if (!c->has_seen && c->then.n == FEW_READINGS)
        TRY(begin_seen(c));
    if (is_seen(c, &reading))
        return OSP_OK;
    if (c->then.n == CONSTRAINT_READINGS_MAX)
        return fail(OSP_ELIMIT,
                    "the answer can be read in more than %d ways: its schema is too "
                    "ambiguous",
                    (int)CONSTRAINT_READINGS_MAX);
    TRY(readings_add(&c->then, reading));
    if (c->has_seen)
        *seen_slot(c, &reading) = (uint16_t)c->then.n;
out:
    return st;
}

static enum osp_status step_one(struct constraint *c, struct reading r, unsigned char byte)
{
    const struct term *t = &c->g->terms[r.term];
    struct taken taken = reading_step(t, t->kind, json_strings(), &r.state, &r.n_chars, byte);
    size_t first, n;
    bool ends;
    enum osp_status st = OSP_OK;

    if (taken.lives)
        TRY(add_new(c, r));
    if (!taken.ends)
        return OSP_OK;
    TRY(constraint_beginnings(c, r.frame, &first, &n, &ends));
    c->is_complete = c->is_complete || ends;
    for (size_t i = 0; i < n; i++)
        TRY(add_new(c, c->beginnings.items[first + i]));
out:
    return st;
}

static enum osp_status step_all(struct constraint *c, unsigned char byte)
{
    struct readings old = c->now;
    enum osp_status st = OSP_OK;

    c->then.n = 0;
    c->has_seen = false;
    c->is_complete = false;
    for (size_t i = 0; i < old.n; i++)
        TRY(step_one(c, old.items[i], byte));
    c->now = c->then;
    c->then = old;
    if (c->now.n == 0 && !c->is_complete)
        st = fail(OSP_EINVAL, "a byte that does not fit");
out:
    return st;
}

/* ---- forgetting frames that nothing returns to ---- */

/* Takes a frame of the old table, with those below it, into the new one. *moved: old -> new, or -1. */
static enum osp_status move_frame(struct constraint *c, const struct frame *old, int32_t *moved,
                                  int32_t frame)
{
    int32_t parent;
    enum osp_status st = OSP_OK;

    if (moved[frame] >= 0)
        return OSP_OK;
    TRY(move_frame(c, old, moved, old[frame].parent));
    parent = moved[old[frame].parent];
    TRY(frame_of(c, old[frame].position, parent, old[frame].depth, &moved[frame]));
out:
    return st;
}

static enum osp_status forget_frames(struct constraint *c)
{
    struct frame *old = c->frames;
    int32_t *moved = NULL;
    enum osp_status st;

    TRY(mem_try_array(&moved, c->n_frames, sizeof *moved, "an answer's frames"));
    memset(moved, -1, c->n_frames * sizeof *moved);
    moved[FRAME_END] = FRAME_END;
    memset(c->slots, 0, SLOTS * sizeof *c->slots);
    c->frames = NULL;
    c->capacity_frames = 0;
    c->n_frames = 0;
    c->beginnings.n = 0;
    TRY(mem_try_grow(&c->frames, 0, &c->capacity_frames, sizeof *c->frames, "an answer's frames"));
    c->frames[c->n_frames++] = (struct frame){.position = -1, .parent = -1, .n = UNKNOWN};
    for (size_t i = 0; i < c->now.n; i++) {
        TRY(move_frame(c, old, moved, c->now.items[i].frame));
        c->now.items[i].frame = moved[c->now.items[i].frame];
    }
    c->n_kept = 0;
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
        return fail(OSP_EINVAL, "token %d was not allowed", (int)token);
    bytes = token_index_bytes(c->x, token, &n);
    if (n == 0)
        return fail(OSP_EINVAL, "token %d was not allowed", (int)token);
    for (size_t i = 0; i < n; i++)
        TRY(step_all(c, (unsigned char)bytes[i]));
    if (c->n_frames > CONSTRAINT_FRAMES_MAX / 2 || c->beginnings.n > BEGINNINGS_MAX / 2)
        TRY(forget_frames(c));
out:
    return st;
}
