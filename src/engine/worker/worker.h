/* The worker: a process that holds a model and its engine, for a parent that outlives it
 * (worker_client.h). It knows tokens alone: the tokenizer, conversations and events are its
 * parent's. */
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H

/* The word with which a program starts itself as a worker; no command of people's has such a
 * name. */
#define WORKER_ARGUMENT "--osprey-worker"

/* Exit statuses, told in its parent's log. */
enum {
    WORKER_EXIT_DEVICE = 70,  /* its device has failed, as its last pulse says */
    WORKER_EXIT_PROTOCOL = 71 /* its parent sent what it should not, or there was no memory */
};

#endif
