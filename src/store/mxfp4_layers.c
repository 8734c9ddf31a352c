/* Command-line words and config modules of the layers that can be MXFP4. */
#include "store/mxfp4_layers.h"

#include <string.h>

static const char *const layer_names[] = {
#define MXFP4_LAYER_WORD(layer, word) word,
    MXFP4_LAYER_LIST(MXFP4_LAYER_WORD)
#undef MXFP4_LAYER_WORD
};

const struct mxfp4_module mxfp4_modules[] = {
    {EXPERTS_MODULE, MXFP4_MOE},
    {"model.layers.*.self_attn.q_proj", MXFP4_QKV},
    {"model.layers.*.self_attn.k_proj", MXFP4_QKV},
    {"model.layers.*.self_attn.v_proj", MXFP4_QKV},
    {"model.layers.*.self_attn.o_proj", MXFP4_O},
    {"lm_head", MXFP4_LM_HEAD},
    {"model.embed_tokens", MXFP4_EMBED},
};
const int n_mxfp4_modules = sizeof mxfp4_modules / sizeof mxfp4_modules[0];

/* Adds the layer with this name of n bytes; false: the name is unknown. */
static bool add_layer(unsigned *mxfp4_layers, const char *name, size_t n)
{
    for (unsigned i = 0; i < N_MXFP4_LAYERS; i++)
        if (strlen(layer_names[i]) == n && memcmp(layer_names[i], name, n) == 0) {
            *mxfp4_layers |= 1u << i;
            return true;
        }
    return false;
}

enum osp_status mxfp4_layers_parse(unsigned *mxfp4_layers, const char *text)
{
    const char *at = text;
    unsigned found = MXFP4_NONE;

    *mxfp4_layers = MXFP4_NONE;
    if (text == NULL || strcmp(text, "none") == 0)
        return OSP_OK;
    if (strcmp(text, "all") == 0) {
        *mxfp4_layers = MXFP4_ALL;
        return OSP_OK;
    }
    for (;;) {
        size_t n = strcspn(at, ",");

        if (!add_layer(&found, at, n))
            return fail(OSP_EINVAL,
                        "MXFP4 layers \"%.64s\": \"%.*s\" is unknown, expected a list of moe, qkv, "
                        "o, lm_head, embed, or one of all and none",
                        text, n < 64 ? (int)n : 64, at);
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    *mxfp4_layers = found;
    return OSP_OK;
}

char *mxfp4_layers_text(char out[MXFP4_LAYERS_TEXT_BYTES], unsigned mxfp4_layers)
{
    char *end = out;

    for (unsigned i = 0; i < N_MXFP4_LAYERS; i++)
        if (mxfp4_layers & 1u << i) {
            if (end > out)
                *end++ = ',';
            end = stpcpy(end, layer_names[i]);
        }
    if (end == out)
        strcpy(out, "none");
    return out;
}
