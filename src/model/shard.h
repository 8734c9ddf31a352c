/* Tensor parallelism: which part of a model a rank has. Query and key/value heads go by key/value
 * head, experts by slices of their units (backend/residual_sum.h; slice j to rank j mod N, so that
 * every rank has a part of every expert), embedding and head by rows of the vocabulary. Routers and
 * norms are whole on every rank; biases of sums belong to rank 0. On GPUs (SHARD_FOR_GPU) slices
 * are longer, every rank has the bias of attn_out, and the embedding is whole: an exchange of its
 * rows would cost more than its memory. */
#ifndef MODEL_SHARD_H
#define MODEL_SHARD_H

#include "backend/exchange.h"
#include "backend/random_weights.h"
#include "model/weights.h"

/* OSP_EINVAL if a model of this config cannot be divided among so many ranks; the message lists the
 * numbers that can be. */
CHECKED enum osp_status shard_check(const struct gptoss_config *c, int n_ranks,
                                    enum shard_rule rule);

/* Units of 64 columns in a slice of the sum over an expert's columns, which ranks share out. c: of
 * the whole model. */
int shard_slice_units(const struct gptoss_config *c, enum shard_rule rule);

/* The config of one rank's part: fewer heads and units, the same vocabulary. Only for a shard that
 * shard_check() accepts. */
void shard_config(struct gptoss_config *out, const struct gptoss_config *c, struct shard shard);

/* Reduces bound weights of a checkpoint with config *c to a rank's part, and *report to its bytes.
 * Parts that lie together stay mapped; others are gathered when they are loaded (convert.h). GGUF
 * is OSP_EUNSUPPORTED. */
CHECKED enum osp_status weights_shard(struct weights *w, const struct checkpoint *c,
                                      struct shard shard, struct weights_report *report);

/* The bytes of a rank's part of such weights; w is not changed. */
CHECKED enum osp_status shard_report(const struct weights *w, const struct checkpoint *c,
                                     struct shard shard, struct weights_report *report);

/* Of a slot whose pieces are gathered when it is loaded: the whole tensor, and where the pieces of
 * its data and scales are. Returns false for other slots. */
bool weights_part(const struct weights *w, const struct tensor *slot, struct tensor *whole,
                  struct random_part *data, struct random_part *scales);

#endif
