/* The conversation at the terminal: lines, slash commands, answers, until Ctrl-D. */
#ifndef CLI_TERMINAL_CHAT_SESSION_H
#define CLI_TERMINAL_CHAT_SESSION_H

#include "cli/terminal/chat_answer.h"

struct chat_setup {
    struct osp_model *model;
    struct osp_engine *engine;
    struct osp_request_options request;
    struct answer_style style;
    const char *system, *effort; /* NULL: no instruction, effort medium */
    bool quiet;                  /* no token rates */
};

/* Starts a conversation with this instruction and effort. Gives a chat to osp_chat_free(). */
CHECKED enum osp_status chat_start(struct osp_chat **out, const char *system, const char *effort);

CHECKED enum osp_status chat_session_run(const struct chat_setup *setup);

#endif
