/* The server's own noun: the model it answers with, its engine, its HTTP side, its running jobs. One
 * thread, the HTTP loop's, owns all of it. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <stdint.h>

#include "serve/http.h"
#include "serve/serve.h"

enum { SERVER_NAMES_MAX = 8 };

struct chat_job;

struct server {
    struct serve_options opt;
    struct http_server *http;
    struct osp_model *model;   /* borrowed */
    struct osp_engine *engine; /* owned */
    struct osp_model_info info;
    char *names[SERVER_NAMES_MAX]; /* of the model; the first is told */
    int n_names;
    int64_t start_unix_s;
    struct chat_job *jobs; /* those that are heard through events */
};

bool server_has_model(const struct server *s, const char *name);

#endif
