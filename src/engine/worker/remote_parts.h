/* What the files of remote.h share: remote.c (for other threads), remote_keeper.c (the worker's life) and
 * remote_news.c (what it says, and the requests that it has). */
#ifndef ENGINE_WORKER_REMOTE_PARTS_H
#define ENGINE_WORKER_REMOTE_PARTS_H

#include <pthread.h>
#include <sys/types.h>

#include "engine/worker/remote.h"

/* Of the worker's process. */
enum life {
    LIFE_NONE,    /* to be started at start_ns */
    LIFE_OPENING, /* opens the model */
    LIFE_READY,
    LIFE_ENDING, /* lost or told to quit; not gone yet */
    LIFE_OVER    /* never again */
};

/* A request that the worker has; its id is made of its place and `serial`. */
struct live {
    struct osp_request *request; /* NULL: a free place; else a reference */
    uint32_t serial;
    int next_free;    /* place, or -1 */
    bool is_canceled; /* the worker knows */
};

struct remote {
    struct osp_model_options options; /* strings lie in open_frame */
    struct buf open_frame;            /* what FRAME_OPEN holds */
    int silence_ms, restarts_max;
    pthread_t keeper;
    int wake[2]; /* a pipe */
    atomic_bool has_cancels;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    enum life life;
    bool quits;             /* remote_close() waits */
    bool was_opened;        /* once: then it is started again when it ends */
    struct wire_model made; /* by the first that was opened */
    struct wire_progress progress;
    struct wire_outcome outcome; /* of opening the first, or of opening an engine */
    struct osp_engine_options engine_options;
    bool has_engine;                         /* of the parent */
    bool engine_is_open, engine_is_answered; /* in this life of the worker */
    bool has_news, is_notifying;
    struct wire wire;
    struct live *live; /* (n_places) */
    size_t n_places, places_capacity;
    int n_live, first_free;
    struct osp_engine_stats stats, stats_before;       /* of this life; sums of those before */
    struct osp_engine_metrics metrics, metrics_before; /* likewise */
    struct osp_engine_health health;                   /* of this life, as the worker says */
    char reason[OSP_REASON_BYTES];                     /* of the last end */
    int n_restarts;
    int64_t n_refused; /* requests, here */

    /* the keeper's alone */
    pid_t pid; /* 0: none */
    int pidfd;
    uint64_t start_ns; /* when it is to be started, or was */
    uint64_t turn_ns;  /* of the keeper's loop */
    uint64_t heard_ns,
        pinged_ns;        /* last sign of life; of the ping that waits for one, 0: none waits */
    uint64_t ping_ns;     /* last ping */
    uint64_t wedged_ns;   /* since when the worker says that a step is stuck; 0: it does not */
    uint64_t kill_ns;     /* of a worker that was told to quit */
    int n_idle_ends;      /* in a row, of workers that got nothing done */
    double restarts_left; /* grows back over RESTART_WINDOW_S */
    uint64_t restarts_counted_ns;
};

static inline bool remote_is_running(const struct remote *r)
{
    return r->life == LIFE_OPENING || r->life == LIFE_READY;
}

/* ---- remote_keeper.c ---- */

void *remote_keep(void *arg);
void remote_wake(struct remote *r); /* from any thread */
/* Under the lock: the health of a worker that has an engine; its reason may be that of its end to come. */
void remote_living_health(const struct remote *r, struct osp_engine_health *out);

/* Under the lock: over all lives of the worker. */
void remote_sum_stats(const struct remote *r, struct osp_engine_stats *out);
void remote_sum_metrics(const struct remote *r, struct osp_engine_metrics *out);

/* ---- remote_news.c; all under the lock ---- */

/* Obeys what has arrived. Fails when that cannot be, or the other end is gone. */
CHECKED enum osp_status remote_hear(struct remote *r);
/* A place for the request, with a reference; its id. */
CHECKED enum osp_status remote_take(struct remote *r, struct osp_request *request, uint64_t *id);
void remote_untake(struct remote *r, uint64_t id);
/* Tells the worker of requests that were canceled. */
CHECKED enum osp_status remote_tell_cancels(struct remote *r);
/* Ends them all: canceled, or with a failure's status and message. */
void remote_end_all(struct remote *r, enum seq_end end, enum osp_status status,
                    const char *message);
/* Sends the engine's options to a worker that has opened the model. */
CHECKED enum osp_status remote_ask_engine(struct remote *r);

#endif
