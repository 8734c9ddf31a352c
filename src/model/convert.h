/* Converts weights of GGUF files, one at a time and when they are needed, so that a checkpoint is
 * never in memory twice: MXFP4 blocks to the layout of safetensors, without changing a bit of a
 * value; all other types of matrices to BF16, rounded to nearest even; vectors to F32. Weights
 * without a source need nothing. */
#ifndef MODEL_CONVERT_H
#define MODEL_CONVERT_H

#include "base/pool.h"
#include "model/weights.h"

/* Whether any weight has a source. */
bool weights_need_conversion(const struct weights *w);

/* Makes the slot's data readable; `slot` is in `w`. Does nothing for a weight that is. OSP_EFORMAT
 * names the tensor and the value that is NaN or infinite, or the MXFP4 scale that is NaN. */
CHECKED enum osp_status weight_load(struct weights *w, const struct tensor *slot,
                                    struct pool *pool);
/* The weight will not be read for a while: returns its memory, or the pages of the file. */
void weight_unload(struct weights *w, const struct tensor *slot);
/* The same, and the slot gets other data now: it will not be loaded again. */
void weight_detach(struct weights *w, const struct tensor *slot);

/* Loads and unloads every weight, to check its values. progress counts stored bytes; may be
 * NULL. */
CHECKED enum osp_status weights_check_values(struct weights *w, int n_threads,
                                             load_progress_fn *progress, void *ctx);

#endif
