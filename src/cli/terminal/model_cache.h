/* Finds models by name in the Hugging Face cache, where `hf download` and vLLM store them. */
#ifndef CLI_TERMINAL_MODEL_CACHE_H
#define CLI_TERMINAL_MODEL_CACHE_H

#include <stdbool.h>

#include "base/status.h"

/* "openai/gpt-oss-20b": two names of letters, digits, dashes, dots and underscores. */
bool model_cache_is_name(const char *word);

/* Gives the folder of a model's snapshot, or its GGUF file, to free(). cache: the cache folder;
 * NULL: $HF_HUB_CACHE, or $HF_HOME/hub, or huggingface/hub in $XDG_CACHE_HOME or ~/.cache.
 * revision: a branch, tag or commit; NULL: main. OSP_ENOTFOUND names the folder that was
 * searched. */
CHECKED enum osp_status model_cache_find(char **out, const char *name, const char *cache,
                                         const char *revision);

#endif
