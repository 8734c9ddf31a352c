/* The configuration of a gpt-oss model in the keys of a GGUF file. Private to store/. */
#ifndef STORE_GGUF_CONFIG_H
#define STORE_GGUF_CONFIG_H

#include "base/gguf.h"
#include "store/hf_config.h"

/* Reads all that keys say: architectures gpt-oss (llama.cpp) and gptoss (Ollama). What tensors say
 * (vocab_size, tied_embeddings, which matrices are MXFP4) is left to the caller. Errors name file,
 * key, value and range. */
CHECKED enum osp_status gguf_config_read(struct gptoss_config *out, const struct gguf_header *keys);

#endif
