/* Renders what the model wrote as it wrote it: looks each answer of a conversation up in the store (replay.h). */
#ifndef ENGINE_CHAT_CHAT_REPLAY_H
#define ENGINE_CHAT_CHAT_REPLAY_H

#include "engine/chat/replay.h"
#include "text/harmony/harmony.h"

struct chat_replay {
    struct replay *store; /* borrowed; NULL: nothing is looked up, but prompts are hashed */
    const struct tokenizer *tokenizer;
    const char *const *functions; /* offered, (n_functions) borrowed */
    size_t n_functions;
    uint64_t prompt; /* hash of the first n_hashed ids */
    size_t n_hashed;
    int n_replayed; /* answers */
};

/* The hook for harmony_render(). */
struct harmony_replay chat_replay_hook(struct chat_replay *r);
/* The prompt's hash, once it is rendered. */
uint64_t chat_replay_prompt(struct chat_replay *r, const struct ids *prompt);

#endif
