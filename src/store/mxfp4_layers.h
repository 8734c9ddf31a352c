/* mxfp4_layers: the kinds of layers of a gpt-oss model whose matrices can be MXFP4, in every
 * transformer block at once. Their names on a command line (--mxfp4-layers), and their modules in
 * the quantization_config of a config.json. */
#ifndef STORE_MXFP4_LAYERS_H
#define STORE_MXFP4_LAYERS_H

#include <stdbool.h>

#include "base/status.h"

/* X(layer, name) */
#define MXFP4_LAYER_LIST(X)                                                                        \
    X(MOE, "moe")                                                                                  \
    X(QKV, "qkv")                                                                                  \
    X(O, "o")                                                                                      \
    X(LM_HEAD, "lm_head")                                                                          \
    X(EMBED, "embed")

enum mxfp4_layer_index {
#define MXFP4_LAYER_INDEX(layer, word) MXFP4_##layer##_INDEX,
    MXFP4_LAYER_LIST(MXFP4_LAYER_INDEX) N_MXFP4_LAYERS
#undef MXFP4_LAYER_INDEX
};

/* mxfp4_layers as a set of bits. */
enum mxfp4_layer {
    MXFP4_NONE = 0,
#define MXFP4_LAYER_BIT(layer, word) MXFP4_##layer = 1 << MXFP4_##layer##_INDEX,
    MXFP4_LAYER_LIST(MXFP4_LAYER_BIT)
#undef MXFP4_LAYER_BIT
        MXFP4_ALL = (1 << N_MXFP4_LAYERS) - 1
};

/* Reads "moe,qkv", "all" or "none"; NULL means none. OSP_EINVAL names the wrong name and lists the
 * allowed ones. */
CHECKED enum osp_status mxfp4_layers_parse(unsigned *mxfp4_layers, const char *text);

/* Writes "moe,qkv" or "none" into out; returns out. */
enum { MXFP4_LAYERS_TEXT_BYTES = 32 };
char *mxfp4_layers_text(char out[MXFP4_LAYERS_TEXT_BYTES], unsigned mxfp4_layers);

/* The key of quantization_config for the MXFP4 modules besides the experts, and the experts' own
 * module, which modules_to_not_convert contains if they are BF16. */
#define MXFP4_MODULES_KEY "osprey_mxfp4_modules"
#define EXPERTS_MODULE    "model.layers.*.mlp.experts"

/* A module as config.json names it, with "*" for the number of the transformer block, and its
 * layer. */
struct mxfp4_module {
    const char *name;
    unsigned layer;
};
extern const struct mxfp4_module mxfp4_modules[];
extern const int n_mxfp4_modules;

#endif
