/* Who answers a conversation: the engine in this process (chat_local.h) or a server
 * (chat_remote.h). */
#ifndef CLI_CHAT_CHAT_SOURCE_H
#define CLI_CHAT_CHAT_SOURCE_H

#include "cli/chat/chat_answer.h"
#include "cli/chat/conversation.h"

struct chat_source {
    void *self;
    /* Answers the last message: prints the answer in this style and fills `out`, until it is
     * complete or Ctrl-C stops it (OSP_FINISH_CANCELED). */
    enum osp_status (*answer)(void *self, struct answer *out, const struct conversation *c,
                              const struct osp_request_options *opt,
                              const struct answer_style *style);
    const char *(*model)(void *self); /* the model's name; valid until it is switched */
    enum osp_status (*set_model)(void *self, const char *name);
    void (*describe)(void *self); /* prints the model and where it runs */
};

#endif
