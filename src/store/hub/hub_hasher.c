/* Computes the digest of each blob behind the connections that bring its blocks, compares it with
 * the listing, and publishes the blob. Blocks of an earlier run are compared with the journal
 * first. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "store/hub/hub_job.h"
#include "store/hub/hub_lock.h"

/* A blob of which no hasher takes care yet; waits for one. NULL: the download is finished. */
static struct hub_blob *take_blob(struct hub_job *job)
{
    struct hub_blob *found = NULL;

    pthread_mutex_lock(&job->mutex);
    while (found == NULL && job->n_done < (int)job->n && !hub_job_is_stopped(job)) {
        for (size_t i = 0; i < job->n && found == NULL; i++)
            if (job->blobs[i].state == BLOB_OPEN && !job->blobs[i].has_hasher)
                found = &job->blobs[i];
        if (found == NULL)
            pthread_cond_wait(&job->changed, &job->mutex);
    }
    if (found != NULL)
        found->has_hasher = true;
    pthread_mutex_unlock(&job->mutex);
    return found;
}

/* Waits until the block is on the disk; false: the download stops. */
static bool wait_for_block(enum part_state *state, struct hub_job *job, const struct hub_blob *blob,
                           int block)
{
    pthread_mutex_lock(&job->mutex);
    while (!hub_job_is_stopped(job) && blob->part.states[block] < PART_INHERITED)
        pthread_cond_wait(&job->changed, &job->mutex);
    *state = blob->part.states[block];
    pthread_mutex_unlock(&job->mutex);
    return !hub_job_is_stopped(job);
}

/* A block that is not what the journal says is downloaded again. */
static void forget_block(struct hub_job *job, struct hub_blob *blob, int block)
{
    pthread_mutex_lock(&job->mutex);
    blob->part.states[block] = PART_MISSING;
    if (block < blob->first_missing)
        blob->first_missing = block;
    job->progress.done_bytes -= part_file_block_bytes(&blob->part, block);
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->mutex);
}

static enum osp_status compare_block(bool *is_same, const struct hub_blob *blob, int block,
                                     const void *bytes, size_t n_bytes)
{
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    struct hub_digest d = {0};
    enum osp_status st;

    TRY(hub_digest_start_sha256(&d));
    hub_digest_add(&d, bytes, n_bytes);
    hub_digest_finish(&d, digest);
    *is_same = memcmp(digest, blob->part.digests[block], sizeof digest) == 0;
out:
    return st;
}

/* Adds one block to the digest of the blob. */
static enum osp_status add_block(struct hub_digest *d, struct hub_job *job, struct hub_blob *blob,
                                 int block, void *bytes)
{
    const size_t n_bytes = (size_t)part_file_block_bytes(&blob->part, block);
    enum part_state state;
    bool is_same = false;
    enum osp_status st = OSP_OK;

    while (!is_same) {
        if (!wait_for_block(&state, job, blob, block))
            return fail(OSP_ECANCELED, "stopped");
        TRY(part_file_read(&blob->part, (int64_t)block * PART_BLOCK_BYTES, bytes, n_bytes));
        is_same = state == PART_DONE;
        if (!is_same)
            TRY(compare_block(&is_same, blob, block, bytes, n_bytes));
        if (!is_same)
            forget_block(job, blob, block);
    }
    hub_digest_add(d, bytes, n_bytes);
out:
    return st;
}

/* A connection that has completed its last block may still be reading from the network. False: the
 * download stops. */
static bool wait_for_connections(struct hub_job *job, const struct hub_blob *blob)
{
    pthread_mutex_lock(&job->mutex);
    while (blob->n_taken > 0 && !hub_job_is_stopped(job))
        pthread_cond_wait(&job->changed, &job->mutex);
    pthread_mutex_unlock(&job->mutex);
    return !hub_job_is_stopped(job);
}

static enum osp_status publish(struct hub_job *job, struct hub_blob *blob)
{
    char *path = path_join(job->options->paths->blobs, blob->file->etag);
    enum osp_status st;

    TRY(part_file_publish(&blob->part, path));
    pthread_mutex_lock(&job->mutex);
    part_file_close(&blob->part);
    hub_lock_release(&blob->lock);
    hub_job_blob_is_done(job, blob);
    pthread_mutex_unlock(&job->mutex);
out:
    free(path);
    return st;
}

/* All bytes are there and their digest is wrong: a server sent other bytes. It is tried once
 * more. */
static enum osp_status refetch(struct hub_job *job, struct hub_blob *blob, const char *found)
{
    const char *kind = hub_etag_kind(blob->file->etag);
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&job->mutex);
    job->progress.done_bytes -= blob->part.size;
    st = part_file_reset(&blob->part);
    blob->first_missing = 0;
    free(blob->location);
    blob->location = NULL;
    pthread_mutex_unlock(&job->mutex);
    if (st != OSP_OK)
        return st;
    (void)fail(OSP_EFORMAT,
               "%s: %s: wrong content: its %s is %s, and the listing has %s; none of it was kept",
               job->options->repo, blob->file->path, kind, found, blob->file->etag);
    if (blob->is_refetched) {
        part_file_discard(&blob->part);
        return OSP_EFORMAT;
    }
    blob->is_refetched = true;
    hub_job_note(job, fail_message());
    pthread_mutex_lock(&job->mutex);
    blob->has_hasher = false;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->mutex);
    return OSP_OK;
}

static enum osp_status hash_blob(struct hub_job *job, struct hub_blob *blob, void *bytes)
{
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    char text[HUB_ETAG_BYTES_MAX + 1];
    struct hub_digest d = {0};
    enum osp_status st;

    TRY(hub_digest_start(&d, blob->file->etag, blob->file->size));
    for (int i = 0; i < blob->part.n_blocks; i++)
        TRY(add_block(&d, job, blob, i, bytes));
    hub_digest_text(text, digest, hub_digest_finish(&d, digest));
    if (!wait_for_connections(job, blob))
        return fail(OSP_ECANCELED, "stopped");
    st = strcmp(text, blob->file->etag) == 0 ? publish(job, blob) : refetch(job, blob, text);
out:
    hub_digest_release(&d);
    return st;
}

/* ---- blobs of other processes ---- */

static enum osp_status digest_of_file(char out[HUB_ETAG_BYTES_MAX + 1], struct hub_job *job,
                                      const struct hub_blob *blob, const char *path, void *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    struct hub_digest d = {0};
    ssize_t n;
    enum osp_status st;

    if (fd < 0)
        return fail(OSP_EIO, "%s: cannot open: %s", path, strerror(errno));
    TRY(hub_digest_start(&d, blob->file->etag, blob->file->size));
    while ((n = read(fd, bytes, PART_BLOCK_BYTES)) > 0 && !hub_job_is_stopped(job))
        hub_digest_add(&d, bytes, (size_t)n);
    if (n < 0)
        st = fail(OSP_EIO, "%s: cannot read: %s", path, strerror(errno));
    else if (n > 0)
        st = fail(OSP_ECANCELED, "stopped");
    hub_digest_text(out, digest, hub_digest_finish(&d, digest));
out:
    hub_digest_release(&d);
    close(fd);
    return st;
}

/* The blob is wrong: it is removed and downloaded here. */
static enum osp_status replace_blob(struct hub_job *job, struct hub_blob *blob, const char *path)
{
    enum osp_status st;

    (void)fail(OSP_EFORMAT,
               "%s: %s: another program put wrong content into the cache; replacing it",
               job->options->repo, blob->file->path);
    hub_job_note(job, fail_message());
    if (unlink(path) != 0)
        return fail(OSP_EIO, "%s: cannot remove: %s", path, strerror(errno));
    pthread_mutex_lock(&job->mutex);
    blob->is_unchecked = blob->has_hasher = false;
    job->progress.done_bytes -= blob->file->size;
    st = hub_job_open_part(job, blob);
    pthread_mutex_unlock(&job->mutex);
    return st;
}

static enum osp_status check_blob(struct hub_job *job, struct hub_blob *blob, void *bytes)
{
    char *path = path_join(job->options->paths->blobs, blob->file->etag);
    char text[HUB_ETAG_BYTES_MAX + 1];
    enum osp_status st;

    TRY(digest_of_file(text, job, blob, path, bytes));
    if (strcmp(text, blob->file->etag) == 0) {
        pthread_mutex_lock(&job->mutex);
        hub_lock_release(&blob->lock);
        hub_job_blob_is_done(job, blob);
        pthread_mutex_unlock(&job->mutex);
    } else {
        st = replace_blob(job, blob, path);
    }
out:
    free(path);
    return st;
}

void *hub_hasher_run(void *ctx)
{
    struct hub_job *job = ctx;
    struct hub_blob *blob;
    void *bytes = NULL;
    enum osp_status st = mem_try_array(&bytes, PART_BLOCK_BYTES, 1, "block of a download");

    while (st == OSP_OK && (blob = take_blob(job)) != NULL)
        st = (blob->is_unchecked ? check_blob : hash_blob)(job, blob, bytes);
    if (st != OSP_OK)
        hub_job_fail(job, st);
    free(bytes);
    return NULL;
}
