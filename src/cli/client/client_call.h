/* HTTP requests to servers, over libcurl, for osprey bench, chat and status. The library is loaded
 * when it is needed, so that every other use of osprey starts faster and works without libcurl. */
#ifndef CLI_CLIENT_CLIENT_CALL_H
#define CLI_CLIENT_CLIENT_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Called with bytes of the response body as they arrive, if the status is 200. False: nothing more
 * is wanted; the call ends without an error, whatever the server still sends. */
typedef bool client_body_fn(void *ctx, const char *bytes, size_t n_bytes);

struct client_call {
    const char *url, *body; /* body NULL: GET */
    const char *api_key;    /* may be NULL */
    long timeout_s;         /* of the whole call; 0: none */
    bool is_cancelable;     /* the call ends when cancel_descriptor is readable */
    int cancel_descriptor;
    bool any_status; /* on_body gets the body whatever the status, which is then no error, except
                        a redirect */
    long *status;    /* receives the HTTP status, 0 without a response; may be NULL */
    client_body_fn *on_body;
    void *ctx;
};

/* Loads libcurl, once, from the main thread. OSP_EUNAVAILABLE names the package to install. */
CHECKED enum osp_status client_load(void);
/* From any thread after that. OSP_EIO: no response, or a status other than 200; the message then
 * has the error message of the response. OSP_ECANCELED: the call was canceled. */
CHECKED enum osp_status client_run(const struct client_call *call);

#endif
