/* Answers of a server, over /v1/chat/completions. */
#ifndef CLI_CHAT_CHAT_REMOTE_H
#define CLI_CHAT_CHAT_REMOTE_H

#include "cli/client/client_server.h"
#include "cli/chat/chat_source.h"

struct chat_remote {
    struct client_server server;
    char *model;
};

/* model NULL: the first one that the server lists. Borrows api_key, which may be NULL. Release it
 * also after a failure. */
CHECKED enum osp_status chat_remote_open(struct chat_remote *r, const char *url,
                                         const char *api_key, const char *model);
void chat_remote_release(struct chat_remote *r);

struct chat_source chat_remote_source(struct chat_remote *r);

#endif
