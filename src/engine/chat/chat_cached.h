/* Renders what the model wrote as it wrote it: looks each answer of a conversation up in the
 * store (completion_cache.h). */
#ifndef ENGINE_CHAT_CHAT_CACHED_H
#define ENGINE_CHAT_CHAT_CACHED_H

#include "engine/chat/completion_cache.h"
#include "text/harmony/harmony.h"

struct chat_cached {
    struct completion_cache
        *store; /* borrowed; NULL: nothing is looked up, but prompts are hashed */
    const struct tokenizer *tokenizer;
    const char *const *functions; /* offered, (n_functions) borrowed */
    size_t n_functions;
    uint64_t prompt; /* hash of the first n_hashed ids */
    size_t n_hashed;
    int n_reused; /* answers */
};

/* The hook for harmony_render(). */
struct harmony_cache chat_cached_hook(struct chat_cached *r);
/* The prompt's hash, once it is rendered. */
uint64_t chat_cached_prompt(struct chat_cached *r, const struct ids *prompt);

#endif
