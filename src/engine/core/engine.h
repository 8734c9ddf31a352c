/* The engine: one thread that owns the device and advances all requests together, one batch a step.
 * Clients reach it through its inbox and hear it through their requests' outboxes. engine.c is the
 * thread; engine_local.c is its parts; engine_api.c has the public functions. */
#ifndef ENGINE_CORE_ENGINE_H
#define ENGINE_CORE_ENGINE_H

#include "base/queue.h"
#include "engine/core/model_api.h"
#include "engine/core/request.h"

struct grammar_queue;
struct mask_thread;
struct step_driver;

struct osp_engine;

/* Where an engine runs: in this process (local_engine_ops), or in a worker process
 * (worker_engine_ops of worker/remote.h), in which case only `model`, `ops` and `options` are
 * used here. open, start, close and release are called in this order by one thread, and close is
 * left out when start failed; the others by any thread between start and close. */
struct engine_ops {
    CHECKED enum osp_status (*open)(struct osp_engine *e);
    CHECKED enum osp_status (*start)(struct osp_engine *e);
    void (*close)(struct osp_engine *e);
    void (*release)(struct osp_engine *e); /* also after open has failed */
    CHECKED enum osp_status (*submit)(struct osp_engine *e, struct osp_request *r,
                                      const struct osp_request_options *opt);
    void (*get_stats)(struct osp_engine *e, struct osp_engine_stats *out);
    void (*get_metrics)(struct osp_engine *e, struct osp_engine_metrics *out);
    void (*get_health)(struct osp_engine *e, struct osp_engine_health *out);
};
extern const struct engine_ops local_engine_ops; /* engine_local.c */

/* How steps overlap. */
enum pipeline_depth {
    DEPTH_SYNC,  /* model_step() returns when the step has run; steps follow each other */
    DEPTH_ASYNC, /* it returns before: the next step is planned while this one runs */
    DEPTH_QUEUED /* and the device queues the next step behind this one */
};

struct osp_engine {
    /* for every thread */
    struct osp_model *model;
    const struct engine_ops *ops;
    struct osp_engine_options options; /* immutable, as are the limits */
    struct sched_limits limits;
    struct queue *inbox;            /* of requests; the engine holds a reference to each */
    struct grammar_queue *grammars; /* compiles before requests come into the inbox */
    struct mask_thread *masks;      /* makes the masks that take long */
    atomic_bool closing, alive;
    pthread_mutex_t lock;
    int64_t n_submitted, n_left_queue; /* under the lock: their difference waits */
    struct osp_engine_stats stats;     /* under the lock: as of the last step */
    int64_t n_prompt_submitted;        /* under the lock: tokens of all prompts */
    int64_t n_refused;                 /* under the lock */
    struct metrics metrics_published;  /* under the lock: as of the last step */
    /* Of the step under way: when it began (0: none does) and when it is stuck. */
    _Atomic uint64_t step_begin_ns, step_limit_ns;

    /* for the engine's own thread */
    pthread_t thread;
    struct sched *sched;
    struct metrics metrics;
    int64_t n_drained; /* requests taken from the inbox */
    void *batch_memory;
    char *host_pages[N_PAGE_GROUPS]; /* (n_host_pages) of requests that gave way */
    size_t host_page_bytes[N_PAGE_GROUPS];
    int32_t *tokens;                  /* (n_seqs_max) drawn in the last step */
    float *logprobs;                  /* (n_seqs_max) */
    int32_t *top_tokens;              /* (n_seqs_max, TOP_LOGPROBS_MAX) of rows that ask */
    float *top_logprobs;              /* likewise */
    uint64_t ticket, next_ticket;     /* of the step under way, and of one that was sent */
    const struct step_driver *driver; /* of the device; see step_driver.h */
    enum pipeline_depth depth;        /* the driver's, or DEPTH_SYNC without async scheduling */
    uint64_t device_ns;               /* of all steps, in which the device had something to do; */
    uint64_t idle_ns;                 /* and in which it had not, though there was work */
    uint64_t begun_ns;                /* when the step under way began */
    uint64_t launched_ns;             /* when model_step() returned for the step under way */
    uint64_t results_ns;              /* when the last step's came; 0: nothing was to do since, */
    uint64_t step_ns;                 /* time of the last step that was collected */
    uint64_t device_end_ns;           /* its end by the clock of a device that queues steps */
    int n_masks_pending;              /* requests whose mask the mask thread makes */
    bool awaits_masks;                /* nothing but those can go on */
    bool has_updates;                 /* since the last notify */
    char dead_reason[FAIL_MESSAGE_BYTES_MAX]; /* why the device is no more */
};

/* The thread's function; arg is the engine. */
void *engine_main(void *arg);
/* Its turns, each two calls, and its end; the simulator makes them without a thread. */
void engine_poll(struct osp_engine *e); /* the inbox, cancels, time limits */
void engine_advance(
    struct osp_engine *e); /* a step, if there is anything to do, and who is told of it */
void engine_finish(struct osp_engine *e);

/* An engine without its thread: osp_engine_open() starts that, osp_engine_close() waits for it. */
CHECKED enum osp_status engine_make(struct osp_engine **out, struct osp_model *model,
                                    const struct osp_engine_options *opt);
void engine_free(struct osp_engine *e);

/* Writes e->stats, for whoever asks; the engine's thread, or before there is one. */
void engine_publish_stats(struct osp_engine *e);

/* Hands r, made with these options, to the engine's thread, which takes a reference of its own.
 * From any thread. OSP_EBUSY: the queue is full. OSP_EUNAVAILABLE: the engine is closing or its
 * device has failed. */
CHECKED enum osp_status engine_submit(struct osp_engine *e, struct osp_request *r,
                                      const struct osp_request_options *opt);
/* engine_metrics.c, for local_engine_ops. */
void local_get_stats(struct osp_engine *e, struct osp_engine_stats *out);
void local_get_metrics(struct osp_engine *e, struct osp_engine_metrics *out);
void local_get_health(struct osp_engine *e, struct osp_engine_health *out);

/* One was refused with OSP_EBUSY before it came so far. From any thread. */
void engine_count_refusal(struct osp_engine *e);

#endif
