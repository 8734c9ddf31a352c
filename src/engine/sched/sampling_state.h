/* The lists of a sequence's sampling parameters, beside the numbers of its batch_sample: the ids
 * of prompt and answer (for penalties), biases, and a token mask. The sequence owns them, and they
 * grow with its tokens; every step gets a copy, so that a device keeps nothing between steps.
 * Zeroed: no lists. */
#ifndef ENGINE_SCHED_SAMPLING_STATE_H
#define ENGINE_SCHED_SAMPLING_STATE_H

#include <stdbool.h>

#include "backend/batch.h"
#include "base/status.h"
#include "osprey.h"

/* Of one sequence: those of the request and those of the ids that end it. */
enum { SAMPLING_BIASES_MAX = OSP_LOGIT_BIASES_MAX + OSP_STOP_TOKENS_MAX + 64 };

struct sampling_state {
    struct batch_seen *seen; /* (n_seen) by rising id; NULL: no penalties */
    int n_seen;
    struct batch_bias *biases; /* (n_biases) by rising id */
    int n_biases;
    struct batch_bias
        *min_biases; /* (n_min_biases) biases, and all stop tokens at -infinity; used instead */
    int n_min_biases;
    int tokens_min; /* they apply while the answer has fewer tokens than this */
    uint32_t *mask; /* (n_mask_words) */
    int n_mask_words;
    bool has_grammar; /* the mask is a grammar's: it is made anew for each sample */
};

struct sampling_state_config {
    int n_ids; /* size of the vocabulary: ids are checked against it */
    const struct osp_request_options *options;
    const int32_t *prompt; /* (n_prompt) */
    int n_prompt, n_tokens_max;
    const int32_t
        *stop_ids; /* (n_stop_ids) that end the answer, at most 64 + OSP_STOP_TOKENS_MAX */
    int n_stop_ids;
};

/* OSP_EINVAL: an id or a number is out of range; the message names the field. */
CHECKED enum osp_status sampling_state_init(struct sampling_state *d,
                                            const struct sampling_state_config *config);
void sampling_state_release(struct sampling_state *d); /* accepts a zeroed one */

/* Ensures that there is a mask of the allowed ids; a new one is zero. The caller fills it. */
CHECKED enum osp_status sampling_state_need_mask(struct sampling_state *d, int n_ids);

/* A token was sampled. */
void sampling_state_add_token(struct sampling_state *d, int32_t token);

/* Adds to `counts` the most that sampling the token after n_generated others needs: before
 * tokens_min a grammar may need less. */
void sampling_state_count(const struct sampling_state *d, int n_generated,
                          struct batch_counts *counts);
/* Writes the lists into the batch after what `filled` counts, and adds them to it. */
void sampling_state_fill(const struct sampling_state *d, int n_generated, struct batch *b,
                         struct batch_sample *sample, struct batch_counts *filled);

/* Draft tokens after the answer's tokens, as if the answer had them. */
struct draft_list {
    const int32_t *tokens; /* (n) */
    int n;
    int first_mask_word; /* of the sample before them: it has the same mask */
};
/* The same for the sample after n drafts; its mask is not written again. */
void sampling_state_count_after(const struct sampling_state *d, int n_generated, int n_drafts,
                                struct batch_counts *counts);
void sampling_state_fill_after(const struct sampling_state *d, int n_generated,
                               struct draft_list drafts, struct batch *b,
                               struct batch_sample *sample, struct batch_counts *filled);

/* The most that a step can have, all sequences together; the other counts are 0. */
struct batch_counts sampling_state_max(int n_seqs_max, int context_tokens_max, int n_ids);

#endif
