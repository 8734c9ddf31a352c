/* Inside of a constraint: readings, and the frames that they return to. */
#ifndef TEXT_GRAMMAR_CONSTRAINT_PARTS_H
#define TEXT_GRAMMAR_CONSTRAINT_PARTS_H

#include "text/grammar/constraint.h"
#include "text/grammar/grammar_parts.h"

/* One way to read the text so far: within this terminal, at this state of it. */
struct reading {
    int32_t term, frame;     /* frame: where it goes on when the terminal ends */
    uint32_t state, n_chars; /* n_chars: of a TERM_STRING, no further than is of importance */
};

struct readings {
    struct reading *items;
    size_t n, capacity;
};

/* Goes on at a position, and at its rule's end in the frame `parent`. Frames are never changed and the same
 * one is never made twice. Frame 0: the end of the answer. */
struct frame {
    int32_t position, parent, depth;
    int32_t first, n; /* its beginnings, in constraint.beginnings; n < 0: not known yet */
    bool ends;        /* the answer may end here */
};

enum {
    KEPT_MASKS = 4,
    FEW_READINGS = 32, /* are searched one after the other, more by hash */
    READING_SLOTS = 4 * CONSTRAINT_READINGS_MAX
};

/* A mask and the readings that it is for. */
struct kept_mask {
    struct readings readings;
    uint32_t *bits;
    bool complete;
};

struct constraint {
    struct grammar *g;
    const struct token_index *x;
    int32_t stops[CONSTRAINT_STOPS_MAX];
    int n_stops;
    struct readings now, then; /* then: scratch */
    uint16_t *seen;            /* (READING_SLOTS) by hash: reading of `then` + 1; while has_seen */
    bool has_seen;
    bool is_complete, is_done;

    struct frame *frames;
    size_t n_frames, capacity_frames;
    int32_t *slots; /* of frames, by hash: frame + 1 */
    struct readings beginnings;

    struct kept_mask kept[KEPT_MASKS];
    int n_kept, next_kept;
};

CHECKED enum osp_status readings_add(struct readings *r, struct reading reading);
/* What can be read when frame `index` goes on, and whether the answer may end there. They stay where they
 * are until the next accepted token; the pointer, until the next call. */
CHECKED enum osp_status constraint_beginnings(struct constraint *c, int32_t frame, size_t *first,
                                              size_t *n, bool *ends);

struct taken {
    bool lives, ends; /* the terminal goes on; it may end here */
};

/* Reads one byte. Forced into its callers, whose loops are what masks cost. */
static inline __attribute__((always_inline)) struct taken
reading_step(const struct term *t, enum term_kind kind, const struct json_strings *json,
             uint32_t *state, uint32_t *n_chars, unsigned char byte)
{
    if (kind == TERM_LITERAL) {
        if (*state >= t->n_bytes || (unsigned char)t->bytes[*state] != byte)
            return (struct taken){false, false};
        ++*state;
        return (struct taken){*state < t->n_bytes, *state == t->n_bytes};
    }
    if (kind == TERM_DFA) {
        *state = dfa_step(t->dfa, *state, byte);
        return (struct taken){t->dfa->goes_on[*state], t->dfa->accepts[*state]};
    }
    if (*state == json->between && (byte == '"' ? *n_chars < t->least : *n_chars >= t->most))
        return (struct taken){false, false};
    if (*state == json->before) {
        *state = dfa_step(json->dfa, *state, byte);
        return (struct taken){*state != DFA_DEAD, false};
    }
    *state = dfa_step(json->dfa, *state, byte);
    if (*state == json->between && (t->most != UNLIMITED_CHARS || *n_chars < t->least))
        ++*n_chars;
    return (struct taken){*state != DFA_DEAD && *state != json->after, *state == json->after};
}

#endif
