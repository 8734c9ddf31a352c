/* A checkpoint without files: a built-in shape and generated weights in anonymous memory, to
 * measure real sizes where no checkpoint is available. The output of such a model is
 * meaningless. */
#ifndef MODEL_DUMMY_H
#define MODEL_DUMMY_H

#include "backend/random_weights.h"
#include "store/checkpoint.h"

struct dummy;

/* The config of a built-in shape ("gpt-oss-20b", ...) with n_layers layers (0 = all of the shape),
 * and with these layers (store/mxfp4_layers.h) as MXFP4 in addition to the experts. OSP_EINVAL
 * lists the shapes. */
CHECKED enum osp_status dummy_config(struct gptoss_config *out, const char *shape, int n_layers,
                                     unsigned mxfp4_layers);

/* Bytes of all tensors of a checkpoint with this config. */
int64_t dummy_bytes(const struct gptoss_config *c);

struct dummy_options {
    bool vectors_only;          /* the device generates the rest; the host must not read it */
    int n_threads;              /* 0 = all usable */
    load_progress_fn *progress; /* may be NULL */
    void *progress_ctx;
};

/* Generates a checkpoint, to be closed with checkpoint_close(), and its description, to be closed
 * with dummy_close(), in any order. The values depend only on the config: matrices are normal with
 * a standard deviation of about 1 / sqrt(columns), norms near 1, biases and sinks small, the
 * embedding 4, attention's output matrix half as strong as others, MXFP4 blocks uniform with scales
 * for the same deviation. Parts that are MXFP4 in the config are generated as MXFP4. */
CHECKED enum osp_status dummy_open(struct dummy **out, struct checkpoint *checkpoint,
                                   const struct gptoss_config *c, const struct dummy_options *opt);
void dummy_close(struct dummy *d); /* accepts NULL */

/* The values of a generated MXFP4 matrix with that many columns; the keys select random streams. */
void dummy_matrix(struct random_weight *out, int64_t n_columns, uint64_t data_key,
                  uint64_t scales_key);

/* Describes how to generate a weight that was bound to the checkpoint, or rows of it. Returns false
 * if d is NULL or the weight is not one of its tensors. */
bool dummy_find(struct random_weight *out, const struct dummy *d, const struct tensor *t);

#endif
