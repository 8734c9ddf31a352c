/* A /v1/responses request, from its body to the submitted request. Runs on a worker thread. */
#ifndef SERVE_RESPONSES_RESPONSE_REQUEST_H
#define SERVE_RESPONSES_RESPONSE_REQUEST_H

#include "serve/job/job.h"
#include "serve/responses/response_input.h"
#include "serve/responses/response_tools.h"
#include "serve/responses/response_writer.h"

/* The state of a job. */
struct response_state {
    char *owner; /* the bearer token of the request; "": none; owned */
    bool is_stored, is_background;
    bool is_reserved;                       /* counted by backgrounds_reserve() */
    struct background *background;          /* while the job goes on without its client */
    const struct stored_response *previous; /* a reference; NULL: none */
    char *conversation;          /* its id, which the items are added to; NULL: none; owned */
    bool has_history;            /* there are items before `input` */
    struct response_input input; /* after submission only the items to store */
    struct response_tools tools; /* after submission only their names */
    char *echo;                  /* owned */
    bool include_encrypted, include_summary;
    struct response_writer writer;
    size_t n_input_tokens; /* set by response_count() */
};

/* The owner of the request's responses: the API key of this server that admitted the request. A
 * server without keys takes the token of the request, which a proxy may have checked; requests
 * without a token share one owner. Borrowed from the server or the request. */
const char *response_owner(const struct server *s, const struct http_request *r);

/* Reads job->json and submits it. A request without input gets no choices. */
CHECKED enum osp_status response_submit(struct job *job);

/* Reads job->json in the same way, and counts the tokens of the prompt instead of submitting it. */
CHECKED enum osp_status response_count(struct job *job);

/* Sets *id, a copy to free(), from the field "conversation"; NULL: absent. Errors are about it. */
CHECKED enum osp_status response_conversation_id(const json_t *body, char **id);
/* Sets job->error: 404, there is no such conversation. */
CHECKED enum osp_status response_refuse_conversation(struct job *job, const char *id);

/* responses.c: stores the response as it is. */
void response_keep(struct job *job);

#endif
