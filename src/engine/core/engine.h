/* The engine: one thread that owns the device and advances all requests together, one batch a step.
 * Clients send requests through its inbox and read results from their requests' outboxes. engine.c
 * is the thread; engine_local.c opens and closes; engine_api.c has the public functions. */
#ifndef ENGINE_CORE_ENGINE_H
#define ENGINE_CORE_ENGINE_H

#include "base/queue.h"
#include "engine/core/drafts.h"
#include "engine/core/model_api.h"
#include "engine/core/request.h"

struct grammar_queue;
struct kv_publisher;
struct mask_thread;
struct step_driver;

struct osp_engine;

/* Of queue_requests_max. Beyond this, clients should wait: each holds its prompt's tokens. */
enum { QUEUE_REQUESTS_MAX = 65536 };

/* Where an engine runs: in this process (local_engine_ops), or in a worker process
 * (worker_engine_ops of worker/worker_client.h). With a worker, only `model`, `ops` and `options`
 * are used here. One thread calls open, start, close and release in this order, without close when
 * start failed; any thread calls the others between start and close. */
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
    /* Of engines with several replicas, for replica 0 <= i < n_replicas(); otherwise NULL. */
    int (*n_replicas)(struct osp_engine *e);
    void (*get_replica_stats)(struct osp_engine *e, int i, struct osp_engine_stats *out);
    void (*get_replica_metrics)(struct osp_engine *e, int i, struct osp_engine_metrics *out);
    void (*get_replica_health)(struct osp_engine *e, int i, struct osp_engine_health *out);
};
extern const struct engine_ops local_engine_ops; /* engine_local.c */

/* How steps overlap with each other and with the host's work. */
enum pipeline_depth {
    DEPTH_SYNC,  /* model_step() returns when the step has run; steps follow each other */
    DEPTH_ASYNC, /* model_step() returns before: the next step is planned while this one runs */
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
    int64_t n_submitted,
        n_left_queue;                 /* under the lock: n_submitted - n_left_queue requests wait */
    struct osp_engine_stats stats;    /* under the lock: as of the last step */
    int64_t n_prompt_submitted;       /* under the lock: tokens of all prompts, */
    int64_t n_prompt_running;         /* and those of running requests that are not computed yet */
    int64_t n_refused;                /* under the lock */
    struct metrics metrics_published; /* under the lock: as of the last step */
    struct kv_publisher *kv_events;   /* NULL: changes of the prefix cache are not published */
    /* Of the step in flight: when it began (0: no step) and when it counts as stuck. */
    _Atomic uint64_t step_begin_ns, step_limit_ns;

    /* for the engine's own thread */
    pthread_t thread;
    struct sched *sched;
    struct metrics metrics;
    int64_t n_drained;               /* requests taken from the inbox */
    void *batch_memory[2];           /* of the step in flight and of the next one */
    char *host_pages[N_PAGE_GROUPS]; /* (n_host_pages) of swapped requests */
    size_t host_page_bytes[N_PAGE_GROUPS];
    int32_t *tokens;              /* (n_samples_max) sampled in the last step */
    float *logprobs;              /* (n_samples_max) */
    int32_t *top_tokens;          /* (n_samples_max, TOP_LOGPROBS_MAX) for rows that ask for them */
    float *top_logprobs;          /* likewise */
    uint64_t ticket, next_ticket; /* of the step in flight, and of the step that was sent */
    const struct step_driver *driver; /* of the device; see step_driver.h */
    enum pipeline_depth depth;        /* the driver's, or DEPTH_SYNC without async scheduling */
    uint64_t device_ns;               /* total time in which the device had work */
    uint64_t idle_ns;     /* total time in which it had none, though there were requests */
    uint64_t begun_ns;    /* begin of the step in flight */
    uint64_t launched_ns; /* when model_step() returned for the step in flight */
    uint64_t results_ns;  /* when the last step's results came; 0: there was no work since */
    uint64_t step_ns;     /* time of the last step that was collected */
    bool step_is_graph;   /* and whether it was one launch */
    struct osp_step_stats steps[OSP_N_STEP_KINDS];
    uint64_t device_end_ns; /* its end by the clock of a device that queues steps */
    struct engine_drafts drafts;
    struct prefix_log prefix_log;             /* changes since the last step */
    int n_masks_pending;                      /* requests whose mask the mask thread makes */
    bool awaits_masks;                        /* every request waits for such a mask */
    bool has_updates;                         /* since the last notify */
    char dead_reason[FAIL_MESSAGE_BYTES_MAX]; /* why the device failed */
};

/* The thread's function; arg is the engine. */
void *engine_main(void *arg);
/* One turn of the loop is these two calls; the simulator makes them without a thread. */
void engine_poll(struct osp_engine *e); /* the inbox, cancels, time limits */
void engine_advance(
    struct osp_engine *e); /* runs a step, if there is work, and publishes its results */
void engine_finish(struct osp_engine *e);

/* An engine without its thread: osp_engine_open() starts it, osp_engine_close() joins it. */
CHECKED enum osp_status engine_make(struct osp_engine **out, struct osp_model *model,
                                    const struct osp_engine_options *opt);
void engine_free(struct osp_engine *e);

/* Writes e->stats; called by the engine's thread, or before it starts. */
void engine_publish_stats(struct osp_engine *e);

/* Passes r, made with these options, to the engine's thread, which takes a reference of its own.
 * From any thread. OSP_EBUSY: the queue is full. OSP_EUNAVAILABLE: the engine is closing or its
 * device has failed. */
CHECKED enum osp_status engine_submit(struct osp_engine *e, struct osp_request *r,
                                      const struct osp_request_options *opt);
/* engine_metrics.c, for local_engine_ops. */
void local_get_stats(struct osp_engine *e, struct osp_engine_stats *out);
void local_get_metrics(struct osp_engine *e, struct osp_engine_metrics *out);
void local_get_health(struct osp_engine *e, struct osp_engine_health *out);

/* Counts a request that was refused with OSP_EBUSY before it reached the inbox. From any thread. */
void engine_count_refusal(struct osp_engine *e);

#endif
