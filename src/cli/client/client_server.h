/* A server as the commands name it: its URL and its API key. */
#ifndef CLI_CLIENT_CLIENT_SERVER_H
#define CLI_CLIENT_CLIENT_SERVER_H

#include "base/buf.h"

struct client_server {
    char *root;          /* "http://127.0.0.1:8000", without /v1 and without a slash at the end */
    const char *api_key; /* borrowed; NULL: none is sent */
    bool is_cancelable;  /* client_server_get() ends when cancel_descriptor is readable */
    int cancel_descriptor;
};

/* Loads libcurl and reads the URL, with or without /v1; without a scheme it is http. The key must
 * be one header value. Release it also after a failure. */
CHECKED enum osp_status client_server_open(struct client_server *s, const char *url,
                                           const char *api_key);
void client_server_release(struct client_server *s); /* accepts a zeroed one */

/* "ROOT/v1/models" of "/v1/models": a string to free(). */
char *client_server_url(const struct client_server *s, const char *path);

/* The body of a GET within timeout_s. status NULL: every HTTP status but 200 is an error;
 * otherwise *status receives it, 0 without a response, and only redirects are errors. */
CHECKED enum osp_status client_server_get(const struct client_server *s, const char *path,
                                          long timeout_s, struct buf *out, long *status);

/* The ids of /v1/models. Release it also after a failure. */
struct client_models {
    char **ids; /* (n) */
    size_t n;
};
/* At least one model, or OSP_EFORMAT. */
CHECKED enum osp_status client_models_get(struct client_models *m, const struct client_server *s);
void client_models_release(struct client_models *m); /* accepts a zeroed list */

/* The id of the first model of /v1/models, a string to free(). */
CHECKED enum osp_status client_server_first_model(const struct client_server *s, char **out);

#endif
