/* The config.json of a new checkpoint: the config of its source with another quantization_config. A
 * source in the original/ layout, or in GGUF, is converted to the Hugging Face layout. */
#ifndef STORE_CONFIG_WRITE_H
#define STORE_CONFIG_WRITE_H

#include "store/hf_config.h"

/* Gives the text to free(). `folder` contains the config.json that `c` was read from.
 * `mxfp4_layers` (enum mxfp4_layer, MOE among them) are the layers whose written tensors are
 * MXFP4. */
CHECKED enum osp_status config_write(char **out, const struct gptoss_config *c, const char *folder,
                                     unsigned mxfp4_layers);

#endif
