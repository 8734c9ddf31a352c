/* A conversation for the engine: the messages, functions, effort and date of an osp_chat, and their
 * rendering as a prompt. The public functions are in osprey.h; chat.c keeps the conversation,
 * chat_json.c reads it from an OpenAI request. A chat owns copies of everything passed to it. */
#ifndef ENGINE_CHAT_CHAT_H
#define ENGINE_CHAT_CHAT_H

#include "osprey.h"
#include "text/harmony/harmony.h"

enum {
    CHAT_MESSAGES_MAX = 16384,               /* ten times the longest agent session seen */
    CHAT_FUNCTIONS_MAX = 512,                /* OpenAI allows 128 */
    CHAT_CALL_ID_BYTES_MAX = 256,            /* ids of other servers have up to 64 */
    CHAT_BYTES_MAX = 64 * 1024 * 1024,       /* of all text; 131,072 tokens are about 0.6 MiB */
    CHAT_JSON_BYTES_MAX = 256 * 1024 * 1024, /* of a request: CHAT_BYTES_MAX of text, escaped */
    CHAT_TOKENS_MAX = 32 * 1024 * 1024       /* of a rendered prompt, far past any context */
};

/* Appends the prompt's ids, which end in <|start|>assistant, up to the limit of `out`. OSP_EINVAL
 * when there is neither a message nor an instruction. */
CHECKED enum osp_status chat_render_ids(const struct osp_chat *chat, const struct tokenizer *t,
                                        struct ids *out);

/* The same; answers of the conversation that `replay` finds become the tokens that the model
 * wrote. */
struct chat_cached;
CHECKED enum osp_status chat_render_cached(const struct osp_chat *chat, const struct tokenizer *t,
                                           struct chat_cached *replay, struct ids *out);

/* Names of the functions offered, for harmony_parser_set_tools; owned by the chat. */
const char *const *chat_function_names(const struct osp_chat *chat, size_t *n);

/* The functions offered, owned by the chat. */
struct chat_functions {
    const struct harmony_tool *items;
    const bool *is_strict;
    size_t n;
};
struct chat_functions chat_get_functions(const struct osp_chat *chat);

/* osp_chat_add and its relatives, for text that may hold NUL bytes; data NULL = absent. */
CHECKED enum osp_status chat_add_text(struct osp_chat *chat, const char *role, const char *name,
                                      struct harmony_text content);
CHECKED enum osp_status chat_add_assistant_text(struct osp_chat *chat,
                                                struct harmony_text reasoning,
                                                struct harmony_text content);
/* The text added last is a preamble, which does not complete the turn; no effect without such
 * text. */
void chat_make_preamble(struct osp_chat *chat);
CHECKED enum osp_status chat_add_call_text(struct osp_chat *chat, const char *id, const char *name,
                                           struct harmony_text arguments);
/* OSP_EINVAL unless osp_chat_set_effort() accepts the name. */
CHECKED enum osp_status chat_check_effort(const char *effort);
/* A line "Reasoning: high" of the system and developer messages sets the effort: the last line with
 * a level that the model knows. The line stays in its message. */
void chat_take_effort_of_instructions(struct osp_chat *chat);

CHECKED enum osp_status chat_add_result_text(struct osp_chat *chat, const char *call_id,
                                             struct harmony_text content);

#endif
