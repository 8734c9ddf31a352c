/* Words and modules of the parts that can be MXFP4. */
#include "store/mxfp4_parts.h"

#include <string.h>

static const char *const words_of_parts[] = {
#define MXFP4_PART_WORD(part, word) word,
    MXFP4_PART_LIST(MXFP4_PART_WORD)
#undef MXFP4_PART_WORD
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

/* Adds the part of one word of n bytes; false for an unknown one. */
static bool add_word(unsigned *parts, const char *word, size_t n)
{
    for (unsigned i = 0; i < N_MXFP4_PARTS; i++)
        if (strlen(words_of_parts[i]) == n && memcmp(words_of_parts[i], word, n) == 0) {
            *parts |= 1u << i;
            return true;
        }
    return false;
}

enum osp_status mxfp4_parts_parse(unsigned *parts, const char *words)
{
    const char *at = words;
    unsigned found = MXFP4_NONE;

    *parts = MXFP4_NONE;
    if (words == NULL || strcmp(words, "none") == 0)
        return OSP_OK;
    if (strcmp(words, "all") == 0) {
        *parts = MXFP4_ALL;
        return OSP_OK;
    }
    for (;;) {
        size_t n = strcspn(at, ",");

        if (!add_word(&found, at, n))
            return fail(OSP_EINVAL,
                        "MXFP4 layers \"%.64s\": \"%.*s\" is none of moe, qkv, o, lm_head, embed "
                        "(or all or none, alone)",
                        words, n < 64 ? (int)n : 64, at);
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    *parts = found;
    return OSP_OK;
}

char *mxfp4_parts_text(char out[MXFP4_PARTS_TEXT_BYTES], unsigned parts)
{
    char *end = out;

    for (unsigned i = 0; i < N_MXFP4_PARTS; i++)
        if (parts & 1u << i) {
            if (end > out)
                *end++ = ',';
            end = stpcpy(end, words_of_parts[i]);
        }
    if (end == out)
        strcpy(out, "none");
    return out;
}
