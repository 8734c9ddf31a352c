/* Makes the token masks that would hold up a step (answer_grammar.h): most take some
 * microseconds and are made by the engine's thread, the longest take 20 ms. A request whose mask
 * is made here sits out the steps until it is there; the others go on. First come, first served,
 * so that each has its turn. */
#ifndef ENGINE_CORE_MASK_THREAD_H
#define ENGINE_CORE_MASK_THREAD_H

#include "base/queue.h"
#include "engine/core/request.h"

struct mask_thread;

/* `inbox`, borrowed, is woken for every mask that is made. The thread is started when it is
 * first needed. */
struct mask_thread *mask_thread_new(struct queue *inbox);
void mask_thread_free(struct mask_thread *t); /* waits for the mask under way; accepts NULL */

/* Retains r, whose form has taken its last token. False: there can be no thread; the caller
 * makes the mask. */
bool mask_thread_push(struct mask_thread *t, struct osp_request *r);
/* One whose mask was made, or has its grammar_status set, to request_drop(); NULL: none. */
struct osp_request *mask_thread_pop(struct mask_thread *t);

#endif
