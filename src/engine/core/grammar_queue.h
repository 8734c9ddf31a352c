/* Compiles the grammars of requests before the engine gets them: requests wait in a bounded
 * queue, two background threads take them from it. One of them takes requests whose grammars
 * were compiled lately and only have to be looked up, so that they do not wait behind new ones.
 * Nobody else ever compiles: neither the threads that submit, as the loop of a worker's socket,
 * nor the engine's own. */
#ifndef ENGINE_CORE_GRAMMAR_QUEUE_H
#define ENGINE_CORE_GRAMMAR_QUEUE_H

#include "engine/core/request_grammar.h"

enum {
    /* New grammars that wait to be compiled; the worst takes 10 to 60 ms, the usual one less
     * than 1. Requests for the same grammar count once. */
    GRAMMARS_WAITING_MAX = 256,
    GRAMMARS_WAITING_MAX_PER_CLIENT = 128, /* osp_request_options.client; NULL is one client, too */
    GRAMMARS_WAITING_BYTES_MAX = 64 << 20  /* of their texts */
};

struct grammar_queue;

/* The engine is borrowed. Threads are started when there is something to do. */
struct grammar_queue *grammar_queue_new(struct osp_engine *engine);
/* What waits will not be compiled any more. */
void grammar_queue_end(struct grammar_queue *q);
/* Waits for what is being compiled; requests that wait end as canceled. Accepts NULL. */
void grammar_queue_free(struct grammar_queue *q);

/* Compiles for r and hands it to the engine, which r tells by request_accept(), or ends it with
 * what is wrong. The source is copied, r is retained. From any thread; does not wait. OSP_EBUSY:
 * a limit is reached. */
CHECKED enum osp_status grammar_queue_submit(struct grammar_queue *q, struct osp_request *r,
                                             const struct grammar_source *source);
/* Requests in it. */
int grammar_queue_count(struct grammar_queue *q);

#endif
