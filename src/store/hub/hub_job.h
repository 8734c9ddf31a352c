/* The state of a download that its threads share; private to hub_download*.c. Everything is
 * protected by `mutex` unless marked. */
#ifndef STORE_HUB_HUB_JOB_H
#define STORE_HUB_HUB_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/hub/hub_download.h"
#include "store/hub/hub_fetch.h"
#include "store/hub/part_file.h"

enum blob_state {
    BLOB_WAITING, /* not opened yet, or another process has its lock */
    BLOB_OPEN,
    BLOB_DONE
};

struct hub_blob {
    const struct hub_file *file; /* the first one with this content */
    int n_files;
    enum blob_state state;
    bool is_elsewhere;    /* another process has its lock */
    bool is_unchecked;    /* another process brought it; only its digest is missing */
    uint64_t try_lock_ns; /* when to try the lock again */
    int lock;             /* -1: not held */
    struct part_file part;
    int first_missing; /* no block before it is PART_MISSING */
    int n_taken;       /* ranges in flight */
    bool has_hasher;
    bool is_refetched; /* its digest was wrong once */
    /* where the bytes are */
    char *location;    /* URL of the last redirect; NULL: ask the hub */
    bool is_resolving; /* a connection asks; others wait */
    bool is_direct;    /* the hub itself sends the bytes */
    int n_refused;     /* times that the storage refused a location, without a byte in between */
    bool no_ranges;    /* the server sends the whole file whatever is asked */
};

struct hub_job {
    const struct hub_download_options *options;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct hub_blob *blobs; /* (n) */
    size_t n;
    int n_done;
    struct hub_progress progress;
    char note[FAIL_MESSAGE_BYTES_MAX];
    bool has_note;
    uint64_t pause_until_ns; /* the hub asked all of us to wait */
    enum osp_status status;  /* of the first failure */
    char message[FAIL_MESSAGE_BYTES_MAX];
    atomic_bool is_stopping; /* read without the mutex */
};

/* A run of blocks for one connection. */
struct hub_range {
    struct hub_blob *blob;
    int first, n; /* blocks; with no_ranges all of them */
    bool is_whole;
};

/* Records the calling thread's failure, if it is the first, and stops all threads. */
void hub_job_fail(struct hub_job *job, enum osp_status st);
void hub_job_note(struct hub_job *job, const char *text);
void hub_job_blob_is_done(struct hub_job *job, struct hub_blob *blob); /* with the mutex */
/* Opens the partial file of a blob whose lock is held; with the mutex. */
CHECKED enum osp_status hub_job_open_part(struct hub_job *job, struct hub_blob *blob);
bool hub_job_is_stopped(void *job); /* for struct hub_watch and hub_request */

/* Downloads the blocks of the range; they are PART_DONE or PART_MISSING afterwards. Not OSP_OK: the
 * whole download has failed. Called without the mutex. */
CHECKED enum osp_status hub_range_run(struct hub_job *job, struct hub_http *http,
                                      const struct hub_range *range);

/* The thread that computes digests and publishes blobs. */
void *hub_hasher_run(void *job);

#endif
