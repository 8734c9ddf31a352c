/* What the files of worker_client.h share: worker_client.c (for other threads),
 * worker_supervisor.c (start, watch, restart) and worker_protocol.c (frames of the worker, and the
 * requests that it has). */
#ifndef ENGINE_WORKER_WORKER_CLIENT_INTERNAL_H
#define ENGINE_WORKER_WORKER_CLIENT_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "engine/worker/worker_client.h"

/* State of the worker process. */
enum worker_state {
    WORKER_STATE_NONE,    /* to be started at start_ns */
    WORKER_STATE_OPENING, /* opens the model */
    WORKER_STATE_READY,
    WORKER_STATE_STOPPING, /* lost or told to quit; has not exited yet */
    WORKER_STATE_DEAD      /* is not restarted */
};

/* A request that the worker has; its id is made of its slot and `serial`. */
struct inflight {
    struct osp_request *request; /* holds a reference; NULL: a free slot */
    uint32_t serial;
    int next_free;        /* slot, or -1 */
    bool is_canceled;     /* the worker knows */
    int n_pending;        /* tokens of its prompt that are not known to be computed */
    struct orphan orphan; /* of replicas, until it has a token: what another one gets */
};

struct worker_client {
    struct osp_model_options options;   /* strings are in open_frame */
    struct buf open_frame;              /* content of FRAME_OPEN */
    int silence_ms, opening_silence_ms; /* the latter until it has opened the model */
    int restarts_max;
    bool has_ranks; /* it is rank 0 of several */
    struct worker_owner owner;
    char name[32]; /* " of replica 1", for messages */
    pthread_t supervisor;
    int wake[2]; /* a pipe */
    atomic_bool has_cancels;

    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t changed;
    enum worker_state worker_state;
    bool quits;             /* worker_client_close() waits */
    bool was_opened;        /* once: then it is restarted when it ends */
    struct wire_model made; /* by the first worker that opened the model */
    struct wire_progress progress;
    struct wire_outcome outcome; /* of the first open, or of opening an engine */
    struct osp_engine_options engine_options;
    bool has_engine;                         /* the parent's */
    bool engine_is_open, engine_is_answered; /* in the current worker process */
    bool has_updates, is_notifying;
    struct wire wire;
    struct inflight *inflight; /* (n_slots) */
    size_t n_slots, slots_capacity;
    int n_inflight, first_free;
    int64_t n_pending_tokens; /* of all requests */
    struct orphan *orphans;   /* (n_orphans) of the worker that was lost, for the owner */
    size_t n_orphans;
    bool is_lost; /* the owner has not placed them yet */
    struct osp_engine_stats stats,
        stats_before; /* of this process; sums over the processes before */
    struct osp_engine_metrics metrics, metrics_before; /* likewise */
    struct osp_engine_health health;                   /* of this process, as the worker reports */
    char reason[OSP_REASON_BYTES];                     /* of the last failure */
    int n_restarts;
    int64_t n_refused; /* requests, here */

    /* used by the supervisor alone */
    pid_t pid; /* 0: there is no process */
    int pidfd;
    uint64_t start_ns;               /* when it is to be started, or was */
    uint64_t loop_ns;                /* of the supervisor's loop */
    uint64_t received_ns, pinged_ns; /* last pulse; the ping that has no pulse yet, 0: none */
    uint64_t ping_ns;                /* last ping */
    uint64_t wedged_ns;   /* since when the worker reports a stuck step; 0: it does not */
    uint64_t kill_ns;     /* when a worker that was told to quit is killed */
    int n_idle_exits;     /* in a row, of workers that made no progress */
    double restarts_left; /* grows back over RESTART_WINDOW_S */
    uint64_t restarts_counted_ns;
};

static inline bool worker_client_is_running(const struct worker_client *r)
{
    return r->worker_state == WORKER_STATE_OPENING || r->worker_state == WORKER_STATE_READY;
}

/* ---- worker_supervisor.c ---- */

void *worker_supervise(void *arg);
void worker_client_wake(struct worker_client *r); /* from any thread */
/* Under the lock: the health of a worker that has an engine, with the reason of its failure if it
 * is about to end. */
void worker_client_live_health(const struct worker_client *r, struct osp_engine_health *out);

/* Under the lock: sums over all processes of the worker. */
void worker_client_sum_stats(const struct worker_client *r, struct osp_engine_stats *out);
void worker_client_sum_metrics(const struct worker_client *r, struct osp_engine_metrics *out);

/* ---- worker_protocol.c; all under the lock ---- */

/* Handles the frames that have arrived. Fails when one is invalid, or the other end is closed. */
CHECKED enum osp_status worker_client_receive(struct worker_client *r);
/* Gives the request a slot, with a reference; returns its id. */
CHECKED enum osp_status worker_client_add(struct worker_client *r, struct osp_request *request,
                                          uint64_t *id);
void worker_client_remove(struct worker_client *r, uint64_t id);
/* Moves the requests that another replica can have to r->orphans. */
void worker_client_collect_orphans(struct worker_client *r);
void worker_client_set_pending(struct worker_client *r, uint64_t id, int n_tokens);
struct inflight *worker_client_find(struct worker_client *r, uint64_t id);
/* Sends cancels for requests that were canceled. */
CHECKED enum osp_status worker_client_send_cancels(struct worker_client *r);
/* Ends all requests: canceled, or with a failure's status and message. */
void worker_client_end_all(struct worker_client *r, enum seq_end end, enum osp_status status,
                           const char *message);
/* Sends the engine's options to a worker that has opened the model. */
CHECKED enum osp_status worker_client_send_engine(struct worker_client *r);

#endif
