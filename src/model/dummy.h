/* A checkpoint without files: a shape of a built-in table and generated weights in anonymous memory,
 * so that real sizes can be measured where no checkpoint is. What such a model says means nothing. */
#ifndef MODEL_DUMMY_H
#define MODEL_DUMMY_H

#include "store/checkpoint.h"

/* The config of that shape ("gpt-oss-20b", ...) with n_layers layers, 0 = all of the shape.
 * OSP_EINVAL lists the shapes. */
CHECKED enum osp_status dummy_config(struct gptoss_config *out, const char *shape, int n_layers);

/* Bytes of all tensors of a checkpoint with this config. */
int64_t dummy_bytes(const struct gptoss_config *c);

/* Gives a checkpoint to checkpoint_close(). The values depend on the config alone: matrices are
 * normal with a deviation of about 1 / sqrt(columns), norms near 1, biases and sinks small, MXFP4
 * blocks uniform with scales that give the same deviation. */
CHECKED enum osp_status dummy_checkpoint(struct checkpoint *out, const struct gptoss_config *c,
                                         int n_threads, load_progress_fn *progress, void *ctx);

#endif
