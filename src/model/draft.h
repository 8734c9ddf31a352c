/* The Eagle3 draft head of a model: a program of its own beside the model's forward pass. Position
 * p of the head combines the target's states of p with the token at p + 1, and its logits guess the
 * token at p + 2. The next guess takes the head's own state in place of the target's.
 *
 * The head's KV cache is one more layer in the pages of GROUP_FULL: it is shared, copied and
 * swapped with them. Who runs the head decides which positions it has (engine/core/draft_model.h).
 * Used by the thread that runs the model, between two steps. */
#ifndef MODEL_DRAFT_H
#define MODEL_DRAFT_H

#include "backend/backend.h"
#include "model/draft_weights.h"

struct model;

/* An opened head, for model_open(). Zeroed: none. */
struct draft_files {
    struct checkpoint checkpoint;
    struct draft_config config;
    struct draft_weights weights;
};

/* Opens the folder `path` of a head for this target. OSP_EFORMAT, OSP_EUNSUPPORTED: see
 * draft_config.h and draft_weights.h. */
CHECKED enum osp_status draft_files_open(struct draft_files *out, const char *path,
                                         struct gptoss_config *target);
/* Makes the head's BF16 matrices MXFP4. n_threads: 0 = all usable. OSP_EFORMAT: a value is not
 * finite; OSP_ENOMEM. */
CHECKED enum osp_status draft_files_quantize(struct draft_files *s, int n_threads);
/* A generated head with the shape of NVIDIA's v3, for a target with generated weights.
 * is_filled_by_device: the device generates the matrices (backend_ops.fill_random). OSP_ENOMEM. */
CHECKED enum osp_status draft_files_generate(struct draft_files *out, struct gptoss_config *target,
                                             bool is_filled_by_device);
bool draft_files_is_open(const struct draft_files *s); /* not zeroed */
void draft_files_close(struct draft_files *s);         /* accepts a zeroed one */
/* Sets what the memory of a target with this head depends on. */
void draft_add_to_target(struct gptoss_config *target, const struct draft_config *c);

/* Bytes of the activations of a head for steps of n_rows_max rows, and of n_kept rows of states. */
int64_t draft_activation_bytes(const struct draft_config *c, int n_rows_max, int n_seqs_max,
                               int n_kept);

/* Whether the head reads a state behind the last layer. */
bool model_draft_reads_last_layer(const struct model *m);
/* Whether the model was opened with a head. */
bool model_has_draft(const struct model *m);

/* States of the target's last step wait in places [0, n_kept) until the head runs over them: rows
 * `from` of the step go to places `to`. */
CHECKED enum osp_status model_draft_keep(struct model *m, const struct row_copy *rows, int n);
/* Moves one state that waits to another place. */
CHECKED enum osp_status model_draft_keep_move(struct model *m, int from, int to);
/* Makes states the head's input: rows [row, row + n_rows), from rows of the target's last step, or
 * from the places where they wait. */
CHECKED enum osp_status model_draft_take_step(struct model *m, int step_row, int n_rows, int row);
CHECKED enum osp_status model_draft_take_kept(struct model *m, int place, int n_rows, int row);

/* Runs the head over the batch: positions are those of the states, tokens the ones that follow
 * them. Stores keys and values of every row, and guesses for the rows that samples name. It is a
 * step of the device, which model_draft_tokens() waits for. */
CHECKED enum osp_status model_draft_run(struct model *m, const struct batch *b, uint64_t *ticket);
/* The same over the states of the target's last step: row i is that of the step's row i, of all of
 * them. Where it is pipelined (below), the step's tokens need not be known. */
CHECKED enum osp_status model_draft_behind(struct model *m, const struct batch *b,
                                           uint64_t *ticket);
/* The same over the states of its last guesses, row i that of sample i; the batch names rows and
 * samples alike, all or the first ones. */
CHECKED enum osp_status model_draft_again(struct model *m, const struct batch *b, uint64_t *ticket);
/* Whether model_draft_again() may be called before the guesses of the pass before have been read:
 * with tokens that stand for these guesses (batch_token_sampled()). */
bool model_draft_is_pipelined(const struct model *m);
/* Copies the state of guess `from` to guess `to`, for model_draft_again() with other rows. */
CHECKED enum osp_status model_draft_move(struct model *m, int from, int to);
/* Waits for the pass and gets its first n guesses as token ids of the target; negative: none could
 * be sampled. */
CHECKED enum osp_status model_draft_tokens(struct model *m, uint64_t ticket, int n,
                                           int32_t *tokens);
/* After model_draft_tokens(), of a batch with n_candidates > 0: (n, DRAFT_CANDIDATES_MAX) token ids
 * of the target, the best guesses of each sample, as sample_args.candidates. */
CHECKED enum osp_status model_draft_candidates(struct model *m, int n, int32_t *tokens);
/* The logits of the last guesses, (n, draft_vocab_size); for tests. */
CHECKED enum osp_status model_draft_logits(struct model *m, int n, float *logits);

#endif
