/* The config.json of a checkpoint that is written: that of the one it is made from, with another
 * quantization_config; from the original/ layout, one of the Hugging Face layout. */
#ifndef STORE_CONFIG_WRITE_H
#define STORE_CONFIG_WRITE_H

#include "store/hf_config.h"

/* Gives the text to free(). `folder` has the config.json that `c` was read from; `parts` (enum
 * mxfp4_layer, MOE among them) are those that the written tensors have as MXFP4. */
CHECKED enum osp_status config_write(char **out, const struct gptoss_config *c, const char *folder,
                                     unsigned layers);

#endif
