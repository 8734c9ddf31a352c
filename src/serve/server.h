/* The server's own noun: the model it answers with, its engine, its HTTP side, its running jobs. One
 * thread, the HTTP loop's, owns all of it. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <stdint.h>

#include "serve/http.h"
#include "serve/serve.h"

enum { SERVER_NAMES_MAX = 8 };

struct chat_job;

/* What the loading thread makes, and the loop takes over when it is done. */
struct loading {
    struct serve_model made;
    struct osp_engine *engine;
    enum osp_status status;
    char message[FAIL_MESSAGE_BYTES_MAX];
};

struct server {
    struct serve_options opt;
    struct http_server *http;
    struct loading loading; /* the loading thread's while is_loading */
    bool is_loading;
    struct osp_engine *engine;     /* owned; NULL while the model is being loaded */
    struct osp_model_info info;    /* likewise */
    char *names[SERVER_NAMES_MAX]; /* of the model; the first is told */
    int n_names;
    int64_t start_unix_s;
    struct chat_job *jobs; /* those that are heard through events */
};

bool server_has_model(const struct server *s, const char *name);

#endif
