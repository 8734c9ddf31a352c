/* A checkpoint without files: a shape of a built-in table and generated weights in anonymous
 * memory, so that real sizes can be measured where no checkpoint is. What such a model says
 * means nothing. */
#ifndef MODEL_DUMMY_H
#define MODEL_DUMMY_H

#include "backend/random_weights.h"
#include "store/checkpoint.h"

struct dummy;

/* The config of that shape ("gpt-oss-20b", ...) with n_layers layers, 0 = all of the shape, and
 * these layers (store/mxfp4_layers.h) as MXFP4 besides the experts. OSP_EINVAL lists the
 * shapes. */
CHECKED enum osp_status dummy_config(struct gptoss_config *out, const char *shape, int n_layers,
                                     unsigned mxfp4_layers);

/* Bytes of all tensors of a checkpoint with this config. */
int64_t dummy_bytes(const struct gptoss_config *c);

struct dummy_options {
    bool vectors_only;          /* a device makes the rest: it is not to be read */
    int n_threads;              /* 0 = all usable */
    load_progress_fn *progress; /* may be NULL */
    void *progress_ctx;
};

/* Gives a checkpoint to checkpoint_close(), and what it is made of to dummy_close(), before or
 * after. The values depend on the config alone: matrices are normal with a deviation of about 1
 * / sqrt(columns), norms near 1, biases and sinks small, the embedding 4, attention's output
 * matrix half as strong as others, MXFP4 blocks uniform with scales that give the same
 * deviation. Parts that the config has as MXFP4 are made so. */
CHECKED enum osp_status dummy_open(struct dummy **out, struct checkpoint *checkpoint,
                                   const struct gptoss_config *c, const struct dummy_options *opt);
void dummy_close(struct dummy *d); /* accepts NULL */

/* How the values of a weight that was bound to the checkpoint are made; false: it is none (d may
 * be NULL). */
bool dummy_find(struct random_weight *out, const struct dummy *d, const struct tensor *t);

#endif
