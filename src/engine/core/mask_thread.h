/* Makes the token masks that would delay a step (answer_grammar.h): most masks take some
 * microseconds and are made by the engine's thread, the longest take 20 ms. A request whose mask
 * is made here has no rows until the mask is ready; other requests go on. First come, first
 * served. */
#ifndef ENGINE_CORE_MASK_THREAD_H
#define ENGINE_CORE_MASK_THREAD_H

#include "base/queue.h"
#include "engine/core/request.h"

struct mask_thread;

/* `inbox`, borrowed, is woken for every finished mask. The thread is started when it is first
 * needed. */
struct mask_thread *mask_thread_new(struct queue *inbox);
void mask_thread_free(struct mask_thread *t); /* waits for the current mask; accepts NULL */

/* Retains r, whose grammar has accepted its last token. False: the thread cannot be started; the
 * caller makes the mask. */
bool mask_thread_push(struct mask_thread *t, struct osp_request *r);
/* A request whose mask is made, or whose grammar_status is set; the caller calls request_drop().
 * NULL: there is none. */
struct osp_request *mask_thread_pop(struct mask_thread *t);

#endif
