/* One chat completion: read and submitted on a worker thread (chat_submit.c), then heard by the loop
 * (chat.c). The two never have it at the same time. */
#ifndef SERVE_CHAT_JOB_H
#define SERVE_CHAT_JOB_H

#include "serve/errors.h"
#include "serve/json_in.h"
#include "serve/reply.h"
#include "serve/server.h"

struct chat_choice {
    struct osp_request *request; /* NULL: not submitted */
    struct reply reply;
    bool is_over; /* it has given its last event */
};

struct chat_job {
    struct server *server;
    struct http_exchange *x; /* NULL once the client has gone or has its answer */
    char *body;
    size_t n_body_bytes;
    struct chat_params params;
    struct chat_choice *choices; /* (n_choices) once submitting has begun; owned */
    int n_choices, n_over;
    enum osp_status status; /* of reading and submitting */
    struct api_error error;
    uint64_t deadline_ns; /* --request-time-limit; UINT64_MAX: none */
    bool heard;           /* the worker is through with it: `request` is the loop's */
    struct chat_job *prev, *next;
};

/* On a worker thread: reads job->body, submits, sets `status` and `error`. ctx is the job. */
void chat_job_submit(void *ctx);

#endif
