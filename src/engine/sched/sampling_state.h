/* The lists that go with a sequence's draws, beside the numbers of its batch_sample: the ids
 * that prompt and answer have (for penalties), biases, and a mask. They are the sequence's own
 * and grow with its tokens; every step gets a copy, so that a device keeps nothing from step to
 * step. Zeroed: none. */
#ifndef ENGINE_SCHED_SAMPLING_STATE_H
#define ENGINE_SCHED_SAMPLING_STATE_H

#include <stdbool.h>

#include "backend/batch.h"
#include "base/status.h"
#include "osprey.h"

/* Of one sequence: those of the request and the ids that end it. */
enum { SAMPLING_BIASES_MAX = OSP_LOGIT_BIASES_MAX + OSP_STOP_TOKENS_MAX + 64 };

struct sampling_state {
    struct batch_seen *seen; /* (n_seen) by rising id; NULL: no penalties */
    int n_seen;
    struct batch_bias *biases; /* (n_biases) by rising id */
    int n_biases;
    struct batch_bias *
        min_biases; /* (n_min_biases) the same with all stop tokens at -infinity: instead of biases, */
    int n_min_biases;
    int tokens_min; /* as long as the answer has fewer tokens than this */
    uint32_t *mask; /* (n_mask_words) */
    int n_mask_words;
    bool has_grammar; /* the mask is a form's: it is made anew for each draw */
};

struct sampling_state_config {
    int n_ids; /* of the vocabulary: all others are checked against it */
    const struct osp_request_options *options;
    const int32_t *prompt; /* (n_prompt) */
    int n_prompt, n_tokens_max;
    const int32_t
        *stop_ids; /* (n_stop_ids) that end the answer, at most 64 + OSP_STOP_TOKENS_MAX */
    int n_stop_ids;
};

/* OSP_EINVAL: an id or a number that cannot be; the message names the field. */
CHECKED enum osp_status sampling_state_init(struct sampling_state *d,
                                            const struct sampling_state_config *config);
void sampling_state_release(struct sampling_state *d); /* accepts a zeroed one */

/* There is a mask, as it was or of zeros: of what may be drawn, whatever it is filled with. */
CHECKED enum osp_status sampling_state_need_mask(struct sampling_state *d, int n_ids);

/* A token was drawn. */
void sampling_state_add_token(struct sampling_state *d, int32_t token);

/* Adds what the draw of the token behind n_generated others needs to counts, at most: before
 * tokens_min a form may yet want less. */
void sampling_state_count(const struct sampling_state *d, int n_generated,
                          struct batch_counts *counts);
/* Puts it into the batch, behind what `filled` counts, which it adds to. */
void sampling_state_fill(const struct sampling_state *d, int n_generated, struct batch *b,
                         struct batch_sample *sample, struct batch_counts *filled);

/* What a step can have at most, all sequences together; the rest of the counts is 0. */
struct batch_counts sampling_state_max(int n_seqs_max, int context_tokens_max, int n_ids);

#endif
