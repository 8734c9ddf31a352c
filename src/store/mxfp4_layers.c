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

/* Adds the layers of one word with n bytes; false for an unknown word. */
static bool add_word(unsigned *layers, const char *word, size_t n)
{
    for (unsigned i = 0; i < N_MXFP4_LAYERS; i++)
        if (strlen(layer_names[i]) == n && memcmp(layer_names[i], word, n) == 0) {
            *layers |= 1u << i;
            return true;
        }
    return false;
}

enum osp_status mxfp4_layers_parse(unsigned *layers, const char *words)
{
    const char *at = words;
    unsigned found = MXFP4_NONE;

    *layers = MXFP4_NONE;
    if (words == NULL || strcmp(words, "none") == 0)
        return OSP_OK;
    if (strcmp(words, "all") == 0) {
        *layers = MXFP4_ALL;
        return OSP_OK;
    }
    for (;;) {
        size_t n = strcspn(at, ",");

        if (!add_word(&found, at, n))
            return fail(OSP_EINVAL,
                        "MXFP4 layers \"%.64s\": \"%.*s\" is unknown, expected a list of moe, qkv, "
                        "o, lm_head, embed, or one of all and none",
                        words, n < 64 ? (int)n : 64, at);
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    *layers = found;
    return OSP_OK;
}

char *mxfp4_layers_text(char out[MXFP4_LAYERS_TEXT_BYTES], unsigned layers)
{
    char *end = out;

    for (unsigned i = 0; i < N_MXFP4_LAYERS; i++)
        if (layers & 1u << i) {
            if (end > out)
                *end++ = ',';
            end = stpcpy(end, layer_names[i]);
        }
    if (end == out)
        strcpy(out, "none");
    return out;
}
