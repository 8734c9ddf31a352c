/* Compiles the grammars of requests before the engine gets them: requests wait in a bounded
 * queue, from which two background threads take them. One of the threads takes requests whose
 * grammars were compiled lately and only need a look-up, so that they do not wait behind new ones.
 * No other thread compiles: neither the submitting threads, one of which is the loop of a worker's
 * socket, nor the engine's thread. */
#ifndef ENGINE_CORE_GRAMMAR_QUEUE_H
#define ENGINE_CORE_GRAMMAR_QUEUE_H

#include "engine/core/request_grammar.h"

enum {
    /* New grammars that wait to be compiled; the worst takes 10 to 60 ms, the usual one less
     * than 1 ms. Requests for the same grammar count once. */
    GRAMMARS_WAITING_MAX = 256,
    GRAMMARS_WAITING_MAX_PER_CLIENT =
        128, /* of one osp_request_options.client; NULL is one client, too */
    GRAMMARS_WAITING_BYTES_MAX = 64 << 20 /* of their texts */
};

struct grammar_queue;

/* The engine is borrowed. Threads are started with the first request. */
struct grammar_queue *grammar_queue_new(struct osp_engine *engine);
/* Waiting requests will not be compiled any more. */
void grammar_queue_end(struct grammar_queue *q);
/* Waits for the current compilation; waiting requests end as canceled. Accepts NULL. */
void grammar_queue_free(struct grammar_queue *q);

/* Compiles for r and passes it to the engine, then calls request_accept(); or ends r with the error
 * of its grammar. The source is copied, r is retained. From any thread; does not wait. OSP_EBUSY:
 * a limit is reached. */
CHECKED enum osp_status grammar_queue_submit(struct grammar_queue *q, struct osp_request *r,
                                             const struct grammar_source *source);
/* Number of requests in the queue. */
int grammar_queue_count(struct grammar_queue *q);

#endif
