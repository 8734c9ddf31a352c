/* What the files of worker.h share: worker.c (main loop, frames of the parent), worker_load.c (the
 * model), worker_requests.c and worker_publish.c (frames to the parent). All belong to the main
 * thread, except the loader's thread. */
#ifndef ENGINE_WORKER_WORKER_INTERNAL_H
#define ENGINE_WORKER_WORKER_INTERNAL_H

#include <pthread.h>

#include "engine/core/engine.h"
#include "engine/worker/worker.h"
#include "engine/worker/wire_fields.h"

/* A request with the id that the parent gave it. */
struct worker_request {
    uint64_t id;
    struct osp_request *request;
    int n_before;      /* tokens that were sent to the parent */
    bool is_accepted;  /* the parent knows that the engine has it */
    bool sent_ignored; /* the parent has its osp_request_ignored() */
    bool has_updates;  /* look_at_requests() found something to send */
};

struct worker {
    struct wire wire;
    int wake[2]; /* a pipe: the loader and the engine's thread write to it */
    struct worker_request *worker_request; /* (n_requests) in no order */
    size_t n_requests, requests_capacity;
    int64_t n_done_sent; /* requests done, in the last pulse */
    uint64_t pulse_ns;   /* when that was sent */
    bool has_frames;     /* frames that were read and not handled yet */
    struct osp_model *model;
    struct osp_engine *engine;
    bool is_over;

    /* the loader's thread */
    pthread_t loader;
    bool is_loading;
    char *options_bytes; /* of FRAME_OPEN: holds the strings of the options */
    struct osp_model_options options;
    wire_device_options device_options; /* the list of `options` */
    struct model_text text;
    struct wire_outcome outcome;
    uint64_t progress_sent_ns;
    atomic_bool is_loaded;
    _Atomic int64_t done_bytes, total_bytes;
};

/* worker.c. Wakes the loop; from any thread. ctx: the worker. */
void worker_wake(void *ctx);

/* worker_load.c. The frame's bytes are kept: the loader's thread reads the strings in them. */
CHECKED enum osp_status worker_open(struct worker *w, struct frame *f);
/* Sends the loader's progress, or its outcome. */
CHECKED enum osp_status worker_publish_loading(struct worker *w);

/* worker_requests.c */
CHECKED enum osp_status worker_submit(struct worker *w, struct frame *f);
CHECKED enum osp_status worker_cancel(struct worker *w, struct frame *f);
void worker_close_requests(struct worker *w);

/* worker_publish.c */
CHECKED enum osp_status worker_send(struct worker *w, enum frame_kind kind, const void *data,
                                    size_t n_bytes);
/* r: the request of the event; NULL: a request that does not exist here, without tokens. */
CHECKED enum osp_status worker_send_event(struct worker *w, const struct wire_event *event,
                                          const struct osp_request *r, const char *message);
/* Sends all metrics, and the engine's health. */
CHECKED enum osp_status worker_send_metrics(struct worker *w);
/* Sends what the engine's thread has done. Does not return when the device has failed and the error
 * of every request was sent. */
CHECKED enum osp_status worker_publish_engine(struct worker *w);

#endif
