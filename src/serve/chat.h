/* A chat completion from request to response. A job is one of them: read and submitted on a worker
 * thread, then heard by the loop whenever the engine has stepped. */
#ifndef SERVE_CHAT_H
#define SERVE_CHAT_H

#include "serve/server.h"

void chat_jobs_hear(struct server *s);   /* the engine has news */
void chat_jobs_cancel(struct server *s); /* the shutdown's time is up: end them with an error */
void chat_jobs_tick(struct server *s);   /* ends those whose time is up */
void chat_jobs_close(struct server *s);  /* after the loop: whatever is left */

#endif
