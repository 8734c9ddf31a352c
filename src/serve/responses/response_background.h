/* Background responses: the client gets the response at once, with the status queued, and polls,
 * follows or cancels it by its id. The job goes on without a connection. All functions are called
 * on the loop. */
#ifndef SERVE_RESPONSES_RESPONSE_BACKGROUND_H
#define SERVE_RESPONSES_RESPONSE_BACKGROUND_H

#include "serve/job/job.h"

struct background;

/* For struct job_kind. */
bool response_detach(struct job *job, struct buf *out);
void response_detached(struct job *job, const struct buf *out, bool is_over);

/* Answers a request about a background response that is being generated. False: there is none
 * with this id, and nothing was answered. */
bool response_background_get(struct server *s, struct http_exchange *x, const char *id);
bool response_background_cancel(struct server *s, struct http_exchange *x, const char *id);
/* Stops it without storing it; the caller answers. */
bool response_background_delete(struct server *s, const struct http_exchange *x, const char *id);
/* Answers with the events of a background response, finished or not. False: it is not known any
 * more, and nothing was answered. */
bool response_background_follow(struct server *s, struct http_exchange *x, const char *id,
                                int64_t after);

/* Called at every tick. While the server drains, responses that nobody follows are canceled:
 * their results would end with the process. */
void response_background_tick(struct server *s);

#endif
