/* Renders earlier answers of a conversation as the tokens that the model wrote, which it looks up
 * in the completion cache (completion_cache.h). */
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
    int n_reused; /* answers that were found */
};

/* The hook for harmony_render(). */
struct harmony_cache chat_cached_hook(struct chat_cached *r);
/* The prompt's hash, once it is rendered. */
uint64_t chat_cached_prompt(struct chat_cached *r, const struct ids *prompt);

#endif
