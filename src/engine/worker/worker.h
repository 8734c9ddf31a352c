/* The worker: a process that holds a model and its engine, for a parent that survives it
 * (worker_client.h). It handles tokens alone: the tokenizer, conversations and events are in the
 * parent. */
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H

/* The argument with which a program starts itself as a worker; no command has this name. */
#define WORKER_ARGUMENT "--osprey-worker"

/* Exit statuses, for the parent's log. */
enum {
    WORKER_EXIT_DEVICE = 70,  /* its device has failed; its last pulse has the reason */
    WORKER_EXIT_PROTOCOL = 71 /* its parent sent an invalid frame, or there was no memory */
};

#endif
