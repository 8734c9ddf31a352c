/* The slash commands of the terminal chat. */
#ifndef CLI_CHAT_CHAT_COMMANDS_H
#define CLI_CHAT_CHAT_COMMANDS_H

#include "cli/chat/chat_keys.h"
#include "cli/chat/chat_source.h"

/* The state of a chat at the terminal. */
struct chat_session {
    struct chat_source source;
    struct conversation conversation;
    struct osp_request_options request;
    char *file; /* the last file that was saved or loaded; NULL: none */
    int n_answers;
    int64_t n_prompt_tokens, n_tokens;
    double generation_seconds;
    bool is_done;
};

/* `line` is without the slash. OSP_EINVAL: an unknown command, or a wrong argument. */
CHECKED enum osp_status chat_command_run(struct chat_session *s, const char *line);

/* A chat_complete_fn: names of commands, the values of /effort, and files. */
void chat_command_complete(struct completions *out, const char *line);

#endif
