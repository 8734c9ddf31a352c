#include "store/hub/hub_download.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "store/hub/hub_job.h"
#include "store/hub/hub_lock.h"

enum {
    CONNECTIONS_MAX = 64,
    HASHERS_MAX = 4,
    RANGE_BLOCKS_MAX = 16, /* 64 MiB: the time of a redirect hardly counts */
    PROGRESS_MS = 100,
    LOCK_RETRY_MS = 300
};

/* ---- state ---- */

bool hub_job_is_stopped(void *ctx)
{
    struct hub_job *job = ctx;

    return atomic_load(&job->is_stopping);
}

void hub_job_fail(struct hub_job *job, enum osp_status st)
{
    pthread_mutex_lock(&job->mutex);
    if (job->status == OSP_OK) {
        job->status = st;
        snprintf(job->message, sizeof job->message, "%s", fail_message());
    }
    atomic_store(&job->is_stopping, true);
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->mutex);
}

void hub_job_note(struct hub_job *job, const char *text)
{
    pthread_mutex_lock(&job->mutex);
    snprintf(job->note, sizeof job->note, "%s", text);
    job->has_note = true;
    job->progress.n_retries++;
    pthread_mutex_unlock(&job->mutex);
}

static struct hub_blob *find_blob(struct hub_job *job, const char *etag)
{
    for (size_t i = 0; i < job->n; i++)
        if (strcmp(job->blobs[i].file->etag, etag) == 0)
            return &job->blobs[i];
    return NULL;
}

/* One blob for all files with the same content. */
static enum osp_status add_blobs(struct hub_job *job)
{
    const struct hub_listing *l = job->options->listing;
    enum osp_status st = mem_try_array(&job->blobs, l->n, sizeof *job->blobs, "list of downloads");

    for (size_t i = 0; i < l->n && st == OSP_OK; i++) {
        struct hub_blob *blob = l->files[i].is_wanted ? find_blob(job, l->files[i].etag) : NULL;

        if (!l->files[i].is_wanted)
            continue;
        if (blob == NULL) {
            blob = &job->blobs[job->n++];
            *blob = (struct hub_blob){.file = &l->files[i], .lock = -1};
            job->progress.total_bytes += l->files[i].size;
        }
        if (blob->file->size != l->files[i].size)
            return fail(OSP_EFORMAT, "%s: %s and %s have the same digest and different sizes",
                        job->options->repo, blob->file->path, l->files[i].path);
        blob->n_files++;
        job->progress.n_files++;
    }
    return st;
}

void hub_job_blob_is_done(struct hub_job *job, struct hub_blob *blob)
{
    blob->state = BLOB_DONE;
    job->n_done++;
    job->progress.n_files_done += blob->n_files;
    pthread_cond_broadcast(&job->changed);
}

/* ---- opening blobs ---- */

static bool has_blob(const struct hub_job *job, const struct hub_blob *blob)
{
    return hub_cache_has_blob(job->options->paths, blob->file->etag, blob->file->size);
}

enum osp_status hub_job_open_part(struct hub_job *job, struct hub_blob *blob)
{
    enum osp_status st;

    TRY(part_file_open(&blob->part, job->options->paths->blobs, blob->file->etag,
                       blob->file->size));
    for (int i = 0; i < blob->part.n_blocks; i++)
        if (blob->part.states[i] == PART_INHERITED)
            job->progress.done_bytes += part_file_block_bytes(&blob->part, i);
    blob->state = BLOB_OPEN;
    pthread_cond_broadcast(&job->changed);
out:
    return st;
}

/* Takes the blob's lock unless another process has it. With the lock the blob may be there
 * already. */
static enum osp_status open_blob(struct hub_job *job, struct hub_blob *blob)
{
    bool was_elsewhere;
    char *path;
    enum osp_status st;

    if (blob->is_elsewhere && clock_ns() < blob->try_lock_ns)
        return OSP_OK;
    path = mem_printf("%s/%s.lock", job->options->paths->locks, blob->file->etag);
    st = hub_lock_try(&blob->lock, path);
    free(path);
    if (st != OSP_OK)
        return st;
    was_elsewhere = blob->is_elsewhere;
    job->progress.n_waiting += (blob->lock < 0) - was_elsewhere;
    blob->is_elsewhere = blob->lock < 0;
    blob->try_lock_ns = clock_ns() + (uint64_t)LOCK_RETRY_MS * 1000000;
    if (blob->lock < 0)
        return OSP_OK;
    if (!has_blob(job, blob))
        return hub_job_open_part(job, blob);
    job->progress.done_bytes += blob->file->size;
    if (was_elsewhere) { /* huggingface_hub compares no digests */
        blob->is_unchecked = true;
        blob->state = BLOB_OPEN;
        pthread_cond_broadcast(&job->changed);
        return OSP_OK;
    }
    hub_lock_release(&blob->lock);
    hub_job_blob_is_done(job, blob);
    return OSP_OK;
}

/* ---- dealing out ranges ---- */

static int64_t missing_blocks(const struct hub_job *job)
{
    int64_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        const struct hub_blob *blob = &job->blobs[i];

        if (blob->state == BLOB_OPEN)
            n += blob->part.n_blocks - blob->first_missing;
        else if (blob->state == BLOB_WAITING)
            n += blob->file->size / PART_BLOCK_BYTES + 1;
    }
    return n;
}

/* Long ranges while much is left, short ones at the end, so that all connections end together. */
static int range_blocks(const struct hub_job *job)
{
    const int64_t n = missing_blocks(job) / (2 * job->options->n_connections);

    return n < 1 ? 1 : n > RANGE_BLOCKS_MAX ? RANGE_BLOCKS_MAX : (int)n;
}

static bool take_whole(struct hub_range *out, struct hub_blob *blob)
{
    struct part_file *p = &blob->part;
    bool is_missing = false;

    for (int i = 0; i < p->n_blocks; i++)
        is_missing = is_missing || p->states[i] == PART_MISSING;
    if (!is_missing || blob->n_taken > 0)
        return false;
    for (int i = 0; i < p->n_blocks; i++)
        if (p->states[i] == PART_MISSING)
            p->states[i] = PART_TAKEN;
    *out = (struct hub_range){.blob = blob, .n = p->n_blocks, .is_whole = true};
    return true;
}

static bool take_blocks(struct hub_range *out, const struct hub_job *job, struct hub_blob *blob)
{
    struct part_file *p = &blob->part;
    const int n_max = range_blocks(job);
    int n = 0;

    while (blob->first_missing < p->n_blocks && p->states[blob->first_missing] != PART_MISSING)
        blob->first_missing++;
    while (n < n_max && blob->first_missing + n < p->n_blocks &&
           p->states[blob->first_missing + n] == PART_MISSING)
        p->states[blob->first_missing + n++] = PART_TAKEN;
    *out = (struct hub_range){.blob = blob, .first = blob->first_missing, .n = n};
    blob->first_missing += n;
    return n > 0;
}

/* The next range, from the first blob that has one; out->blob NULL: none now. */
static enum osp_status take_range(struct hub_range *out, struct hub_job *job)
{
    enum osp_status st = OSP_OK;

    out->blob = NULL;
    for (size_t i = 0; i < job->n && st == OSP_OK; i++) {
        struct hub_blob *blob = &job->blobs[i];

        if (blob->state == BLOB_WAITING)
            st = open_blob(job, blob);
        if (st == OSP_OK && blob->state == BLOB_OPEN && !blob->is_unchecked &&
            (blob->no_ranges ? take_whole(out, blob) : take_blocks(out, job, blob))) {
            blob->n_taken++;
            return OSP_OK;
        }
    }
    out->blob = NULL;
    return st;
}

/* Waits for a change of the state, at most so long. The mutex is held. */
static void wait_for_change(struct hub_job *job, int ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&job->changed, &job->mutex, &until);
}

static bool is_finished(const struct hub_job *job)
{
    return job->n_done == (int)job->n || atomic_load(&job->is_stopping);
}

/* False: the download is finished. */
static bool next_range(struct hub_range *range, struct hub_job *job)
{
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&job->mutex);
    range->blob = NULL;
    while (!is_finished(job) && (st = take_range(range, job)) == OSP_OK && range->blob == NULL)
        wait_for_change(job, LOCK_RETRY_MS);
    pthread_mutex_unlock(&job->mutex);
    if (st != OSP_OK)
        hub_job_fail(job, st);
    return range->blob != NULL;
}

static void give_back(struct hub_job *job, struct hub_blob *blob)
{
    pthread_mutex_lock(&job->mutex);
    blob->n_taken--;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->mutex);
}

static void *run_connection(void *ctx)
{
    struct hub_job *job = ctx;
    struct hub_http *http = NULL;
    struct hub_range range;
    enum osp_status st = hub_http_open(&http);

    while (st == OSP_OK && next_range(&range, job)) {
        st = hub_range_run(job, http, &range);
        give_back(job, range.blob);
    }
    if (st != OSP_OK)
        hub_job_fail(job, st);
    hub_http_close(http);
    return NULL;
}

/* ---- the threads ---- */

/* Calls progress() and looks for a stop until the download is finished. */
static void watch(struct hub_job *job)
{
    const struct hub_download_options *opt = job->options;
    char note[FAIL_MESSAGE_BYTES_MAX];
    struct hub_progress p;

    pthread_mutex_lock(&job->mutex);
    while (!is_finished(job)) {
        wait_for_change(job, PROGRESS_MS);
        p = job->progress;
        p.note = job->has_note ? note : NULL;
        memcpy(note, job->note, sizeof note);
        job->has_note = false;
        pthread_mutex_unlock(&job->mutex);
        if (opt->progress != NULL)
            opt->progress(opt->ctx, &p);
        if (opt->stop != NULL && *opt->stop)
            hub_job_fail(job, fail(OSP_ECANCELED, "stopped"));
        pthread_mutex_lock(&job->mutex);
    }
    pthread_mutex_unlock(&job->mutex);
}

static enum osp_status start(pthread_t *thread, void *(*run)(void *), struct hub_job *job)
{
    const int error = pthread_create(thread, NULL, run, job);

    return error == 0
               ? OSP_OK
               : fail(OSP_ENOMEM, "a thread of the download cannot start: %s", strerror(error));
}

static void run_threads(struct hub_job *job)
{
    pthread_t threads[CONNECTIONS_MAX + HASHERS_MAX];
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int n_hashers = n_cpus < HASHERS_MAX ? (int)n_cpus : HASHERS_MAX;
    const int n_threads = job->options->n_connections + n_hashers;
    int n = 0;
    enum osp_status st = OSP_OK;

    for (; n < n_threads && st == OSP_OK; n += st == OSP_OK)
        st = start(&threads[n], n < n_hashers ? hub_hasher_run : run_connection, job);
    if (st != OSP_OK)
        hub_job_fail(job, st);
    watch(job);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- the download ---- */

static void release(struct hub_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        part_file_close(&job->blobs[i].part);
        hub_lock_release(&job->blobs[i].lock);
        free(job->blobs[i].location);
    }
    free(job->blobs);
    pthread_mutex_destroy(&job->mutex);
    pthread_cond_destroy(&job->changed);
}

/* What an earlier run left of a blob that is complete. Its lock keeps others away. */
static void clean(const struct hub_job *job, const char *etag)
{
    const struct hub_model_paths *paths = job->options->paths;
    char *path;
    int lock = -1;

    if (!part_file_is_left(paths->blobs, etag))
        return;
    path = mem_printf("%s/%s.lock", paths->locks, etag);
    if (hub_lock_try(&lock, path) == OSP_OK && lock >= 0)
        part_file_clean(paths->blobs, etag);
    hub_lock_release(&lock);
    free(path);
}

/* Blobs that are there already. */
static void count_present(struct hub_job *job)
{
    for (size_t i = 0; i < job->n; i++)
        if (has_blob(job, &job->blobs[i])) {
            clean(job, job->blobs[i].file->etag);
            job->progress.done_bytes += job->blobs[i].file->size;
            hub_job_blob_is_done(job, &job->blobs[i]);
        }
}

int64_t hub_download_needs_bytes(const struct hub_model_paths *paths,
                                 const struct hub_listing *listing)
{
    int64_t n_bytes = 0;

    for (size_t i = 0; i < listing->n; i++) {
        const struct hub_file *f = &listing->files[i];
        int64_t reserved;

        if (!f->is_wanted || hub_cache_has_blob(paths, f->etag, f->size))
            continue;
        reserved = part_file_disk_bytes(paths->blobs, f->etag);
        n_bytes += reserved < f->size ? f->size - reserved : 0;
    }
    return n_bytes;
}

enum osp_status hub_download(struct hub_progress *out, const struct hub_download_options *options)
{
    struct hub_job job = {.options = options,
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER,
                          .progress = {.repo = options->repo}};
    enum osp_status st;

    TRY(add_blobs(&job));
    count_present(&job);
    if (!is_finished(&job))
        run_threads(&job);
    if (job.status != OSP_OK)
        st = fail(job.status, "%s", job.message);
out:
    *out = job.progress;
    release(&job);
    return st;
}
