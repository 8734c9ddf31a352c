/* The validated config of a model, on which the forward pass and the engine rely. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "backend/args.h"
#include "store/hf_config.h"

/* Checks the numbers that a gpt-oss forward pass needs: heads are a multiple of key/value heads,
 * the head width is even and at most 256, widths are multiples of 32 for MXFP4, active <= experts,
 * window >= 1, and so on. Errors name the key, the value and the rule. */
CHECKED enum osp_status model_config_check(const struct gptoss_config *c);

/* Checks that the matrices of these layers (store/mxfp4_layers.h) have columns in whole MXFP4
 * blocks. */
CHECKED enum osp_status model_config_check_mxfp4(const struct gptoss_config *c,
                                                 unsigned mxfp4_layers);

/* The rotary table's frequencies: YaRN, untruncated unless the config says so (gpt-oss.md C.4). */
void rope_init(struct rope *out, const struct gptoss_config *c);

#endif
