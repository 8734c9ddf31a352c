/* Kernels asked for by name, as on the command line, and the names that people bring from vLLM. */
#ifndef BACKEND_KERNEL_OPTIONS_H
#define BACKEND_KERNEL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

/* NULL or "auto": the device's choice. open() refuses what the device does not have, and names
 * what it has. */
struct kernel_options {
    const char *mxfp4_backend, *attention_backend, *moe_tile;
};

/* X(name): vLLM's kernels for MXFP4 experts, and for attention. Every device accepts them, and
 * reports which kernels it uses instead. */
#define FOREIGN_MXFP4_LIST(X) X(MARLIN) X(TRITON) X(CUTLASS) X(TRTLLM) X(TRTLLM_MXFP8)
#define FOREIGN_ATTENTION_LIST(X)                                                                  \
    X(FLASH_ATTN) X(FLASHINFER) X(TRITON_ATTN) X(FLEX_ATTENTION) X(TORCH_SDPA)

enum foreign_mxfp4 {
#define FOREIGN_ENUM(name) FOREIGN_MXFP4_##name,
    FOREIGN_MXFP4_LIST(FOREIGN_ENUM)
#undef FOREIGN_ENUM
        N_FOREIGN_MXFP4
};

static inline bool kernel_is_auto(const char *word)
{
    return word == NULL || word[0] == '\0' || strcasecmp(word, "auto") == 0;
}

/* N_FOREIGN_MXFP4: none of them. */
static inline enum foreign_mxfp4 foreign_mxfp4_find(const char *word)
{
    static const char *const names[] = {
#define FOREIGN_NAME(name) #name,
        FOREIGN_MXFP4_LIST(FOREIGN_NAME)};
    int i = 0;

    while (i < N_FOREIGN_MXFP4 && strcasecmp(word, names[i]) != 0)
        i++;
    return (enum foreign_mxfp4)i;
}

static inline bool foreign_attention_is(const char *word)
{
    static const char *const names[] = {FOREIGN_ATTENTION_LIST(FOREIGN_NAME)};
#undef FOREIGN_NAME

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(word, names[i]) == 0)
            return true;
    return false;
}

#endif
