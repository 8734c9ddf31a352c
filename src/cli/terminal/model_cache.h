/* Models that Hugging Face's tools have fetched, by their names: where `hf download` and vLLM
 * keep them. */
#ifndef CLI_TERMINAL_MODEL_CACHE_H
#define CLI_TERMINAL_MODEL_CACHE_H

#include <stdbool.h>

#include "base/status.h"

/* "openai/gpt-oss-20b": two names of letters, digits, dashes, dots and underscores. */
bool model_cache_is_name(const char *word);

/* Gives the folder of a model's snapshot to free(). cache: NULL is $HF_HUB_CACHE, else
 * $HF_HOME/hub, else huggingface/hub in $XDG_CACHE_HOME or ~/.cache. revision: a branch, tag or
 * commit; NULL is main. OSP_ENOTFOUND says where was looked. */
CHECKED enum osp_status model_cache_find(char **out, const char *name, const char *cache,
                                         const char *revision);

#endif
