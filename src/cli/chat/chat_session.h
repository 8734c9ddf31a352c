/* The conversation at the terminal: lines, slash commands, answers, until Ctrl-D. */
#ifndef CLI_CHAT_CHAT_SESSION_H
#define CLI_CHAT_CHAT_SESSION_H

#include "cli/chat/chat_source.h"

struct chat_setup {
    struct chat_source source;
    struct osp_request_options request;
    struct answer_style style;
    const char *system, *effort; /* NULL: no instruction, the model's default effort */
    bool quiet;                  /* no token rates */
};

/* Fills an empty conversation with the system prompt and the effort of the setup. */
CHECKED enum osp_status chat_start(struct conversation *out, const struct chat_setup *setup);

CHECKED enum osp_status chat_session_run(const struct chat_setup *setup);

#endif
