/* The messages of a chat. The engine in this process or a server answers them. */
#ifndef CLI_CHAT_CONVERSATION_H
#define CLI_CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct chat_message {
    char *role;                /* "system", "developer", "user" or "assistant" */
    char *content, *reasoning; /* reasoning NULL: none */
};

/* Zeroed: an empty conversation. A system prompt is the first message. */
struct conversation {
    struct chat_message *messages; /* (n) */
    size_t n, capacity;
    char *effort; /* reasoning effort; NULL: the default of the model */
};

void conversation_release(struct conversation *c); /* leaves it empty */

/* Copies the texts; reasoning may be NULL. */
void conversation_add(struct conversation *c, const char *role, const char *content,
                      const char *reasoning);
void conversation_drop_last(struct conversation *c);

const char *conversation_system(const struct conversation *c); /* NULL: no system prompt */
/* Removes all messages but the system prompt. */
void conversation_restart(struct conversation *c);
/* Starts anew with this system prompt; NULL: without one. */
void conversation_set_system(struct conversation *c, const char *system);
/* OSP_EINVAL lists the allowed values. */
CHECKED enum osp_status conversation_set_effort(struct conversation *c, const char *effort);

#endif
