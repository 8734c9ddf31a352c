/* Drafters: they propose the next tokens of an answer, which the model then verifies
 * (docs/drafts.md). One interface, whatever a drafter works from:
 *   ngram       the request's own tokens: what followed the last tokens when they occurred before
 *   prediction  a text that the client expects to be most of the answer
 *   eagle3      a draft head (model/draft.h), which guesses for all requests of a step together and
 *               so has no drafter object: engine/core/draft_model.h
 * A drafter belongs to one request and is used by the engine's thread. */
#ifndef ENGINE_DRAFT_DRAFTER_H
#define ENGINE_DRAFT_DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* X(member, name) */
#define DRAFT_SOURCE_LIST(X)                                                                       \
    X(DRAFT_PREDICTION, "prediction")                                                              \
    X(DRAFT_NGRAM, "ngram")                                                                        \
    X(DRAFT_EAGLE3, "eagle3")

enum draft_source {
#define DRAFT_SOURCE_ENUM(member, name) member,
    DRAFT_SOURCE_LIST(DRAFT_SOURCE_ENUM)
#undef DRAFT_SOURCE_ENUM
        N_DRAFT_SOURCES
};

struct drafter;

struct drafter_ops {
    enum draft_source source;
    /* Writes up to n_max tokens that may follow tokens[0 .. n_tokens), and returns their number.
     * Between two calls the list has only grown. */
    int (*propose)(struct drafter *d, const int32_t *tokens, int n_tokens, int32_t *out, int n_max);
    void (*free)(struct drafter *d);
};

/* The first member of every drafter. */
struct drafter {
    const struct drafter_ops *ops;
};

static inline void drafter_free(struct drafter *d) /* accepts NULL */
{
    if (d != NULL)
        d->ops->free(d);
}

/* Prompt lookup: the longest suffix of lookup_min to lookup_max tokens that occurred before, and of
 * equally long ones the newest. For lists of up to n_tokens_max tokens. OSP_ENOMEM. */
CHECKED enum osp_status ngram_drafter_new(struct drafter **out, int n_tokens_max, int lookup_min,
                                          int lookup_max);

/* The text expected after tokens[0 .. n_prompt), as tokens; copied. Where the answer differs, the
 * drafter goes on behind the next n-gram that both have, or as if tokens had been replaced one by
 * one. OSP_ENOMEM. */
CHECKED enum osp_status prediction_drafter_new(struct drafter **out, const int32_t *prediction,
                                               int n_prediction, int n_prompt);

#endif
