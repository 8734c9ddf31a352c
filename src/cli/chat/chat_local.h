/* Answers of the engine in this process. */
#ifndef CLI_CHAT_CHAT_LOCAL_H
#define CLI_CHAT_CHAT_LOCAL_H

#include "cli/chat/chat_source.h"

/* Borrows both. */
struct chat_local {
    struct osp_model *model;
    struct osp_engine *engine;
};

struct chat_source chat_local_source(struct chat_local *l);

#endif
