/* A /v1/responses request from its body to what the engine is asked: on the worker thread. */
#ifndef SERVE_RESPONSES_RESPONSE_REQUEST_H
#define SERVE_RESPONSES_RESPONSE_REQUEST_H

#include "serve/openai/job.h"
#include "serve/responses/response_input.h"
#include "serve/responses/response_tools.h"
#include "serve/responses/response_writer.h"

/* A job's own state. */
struct response_state {
    char *owner; /* the bearer token that came with it, "" if none; owned */
    bool is_stored;
    const struct stored_response *previous; /* held */
    struct response_input input;            /* after submitting only what is kept of it */
    struct response_tools tools;            /* then only their names */
    char *echo;                             /* owned */
    bool include_encrypted, include_summary;
    struct response_writer writer;
};

/* Whose responses a request's are: whoever sends the same bearer token is the same client. A
 * proxy may have checked it, if not this server. Borrowed from the request. */
const char *response_owner(const struct http_request *r);

/* Reads job->json and submits it; a request without any input has no choices. */
CHECKED enum osp_status response_submit(struct job *job);

#endif
