/* Internals of a constraint: parse states, and the frames that they return to. */
#ifndef TEXT_GRAMMAR_CONSTRAINT_INTERNAL_H
#define TEXT_GRAMMAR_CONSTRAINT_INTERNAL_H

#include "text/grammar/constraint.h"
#include "text/grammar/grammar_internal.h"

/* One way to parse the text so far: inside this terminal, at this state of it. */
struct parse_state {
    int32_t term, frame; /* frame: continues there when the terminal ends */
    /* n_chars: of a TERM_STRING, counted only as far as its bounds require */
    uint32_t state, n_chars;
};

struct parse_states {
    struct parse_state *items;
    size_t n, capacity;
};

/* Continues at a position, and at the end of its rule in the frame `parent`. Frames are immutable
 * and unique. Frame 0 is the end of the answer. */
struct frame {
    int32_t grammar_node, parent, depth;
    int32_t first, n; /* its first terminals, in constraint.beginnings; n < 0: not computed yet */
    bool ends;        /* the answer may end here */
};

enum {
    CACHED_MASKS = 4,
    LINEAR_SEARCH_MAX = 32, /* up to this size sets are searched linearly, above it by hash */
    STATE_SLOTS = 4 * CONSTRAINT_STATES_MAX
};

/* A mask and the parse states that it was computed for. */
struct cached_mask {
    struct parse_states parse_states;
    uint32_t *bits;
    bool complete;
};

struct constraint {
    struct grammar *g;
    const struct token_index *x;
    int32_t stops[CONSTRAINT_STOPS_MAX];
    int n_stops;
    struct parse_states states, next_states; /* next_states: scratch */
    uint16_t *seen; /* (STATE_SLOTS) by hash: index in next_states + 1; valid while has_seen */
    bool has_seen;
    bool is_complete, is_done;

    struct frame *frames;
    size_t n_frames, capacity_frames;
    int32_t *slots; /* hash table of frames: frame + 1 */
    struct parse_states frame_starts;

    struct cached_mask cached[CACHED_MASKS];
    int n_cached, next_cached;
};

CHECKED enum osp_status parse_states_add(struct parse_states *r, struct parse_state parse_state);
/* The terminals that can be read when frame `index` continues, and whether the answer may end
 * there. The entries stay valid until the next accepted token, the pointer only until the next
 * call. */
CHECKED enum osp_status constraint_frame_starts(struct constraint *c, int32_t frame, size_t *first,
                                                size_t *n, bool *ends);

struct step_result {
    bool is_live, ends; /* is_live: the terminal can continue; ends: it may end here */
};

/* Reads one byte. Always inlined: the loops of its callers dominate the cost of a mask. */
static inline __attribute__((always_inline)) struct step_result
parse_state_step(const struct term *t, enum term_kind kind, const struct json_strings *json,
                 uint32_t *state, uint32_t *n_chars, unsigned char byte)
{
    if (kind == TERM_LITERAL) {
        if (*state >= t->n_bytes || (unsigned char)t->bytes[*state] != byte)
            return (struct step_result){false, false};
        ++*state;
        return (struct step_result){*state < t->n_bytes, *state == t->n_bytes};
    }
    if (kind == TERM_DFA) {
        *state = dfa_step(t->dfa, *state, byte);
        return (struct step_result){t->dfa->can_continue[*state], t->dfa->accepts[*state]};
    }
    if (*state == json->between &&
        (byte == '"' ? *n_chars < t->min_count : *n_chars >= t->max_count))
        return (struct step_result){false, false};
    if (*state == json->before) {
        *state = dfa_step(json->dfa, *state, byte);
        return (struct step_result){*state != DFA_DEAD, false};
    }
    *state = dfa_step(json->dfa, *state, byte);
    if (*state == json->between && (t->max_count != UNLIMITED_CHARS || *n_chars < t->min_count))
        ++*n_chars;
    return (struct step_result){*state != DFA_DEAD && *state != json->after, *state == json->after};
}

#endif
