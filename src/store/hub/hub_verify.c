/* Compares the files of a snapshot with the digests that name their blobs. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "store/hub/hub_lock.h"
#include "store/hub/hub_manage.h"
#include "store/hub/hub_settings.h"

enum { THREADS_MAX = 8, READ_BYTES = 1 << 20 };

struct verify {
    const struct hub_verify_options *options;
    struct hub_model_paths paths;
    char *snapshot;
    struct hub_listing files;
    pthread_mutex_t mutex; /* for everything below, and the callbacks */
    size_t next;
    int n_corrupt;
    int64_t done_bytes, total_bytes;
    enum osp_status status;
    char message[FAIL_MESSAGE_BYTES_MAX];
};

static bool is_stopped(const struct verify *v)
{
    return v->options->stop != NULL && *v->options->stop;
}

static void add_progress(struct verify *v, size_t n_bytes)
{
    pthread_mutex_lock(&v->mutex);
    v->done_bytes += (int64_t)n_bytes;
    if (v->options->progress != NULL)
        v->options->progress(v->options->ctx, v->done_bytes, v->total_bytes);
    pthread_mutex_unlock(&v->mutex);
}

static enum osp_status add_file(struct hub_digest *d, struct verify *v, int fd, const char *path)
{
    char *bytes = mem_new(READ_BYTES);
    ssize_t n;

    while ((n = read(fd, bytes, READ_BYTES)) > 0 && !is_stopped(v)) {
        hub_digest_add(d, bytes, (size_t)n);
        add_progress(v, (size_t)n);
    }
    free(bytes);
    if (n < 0)
        return fail(OSP_EIO, "%s: cannot read: %s", path, strerror(errno));
    return is_stopped(v) ? fail(OSP_ECANCELED, "stopped") : OSP_OK;
}

static enum osp_status digest_file(bool *is_same, struct verify *v, const struct hub_file *file)
{
    char *path = path_join(v->snapshot, file->path), text[HUB_ETAG_BYTES_MAX + 1];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    struct hub_digest d = {0};
    enum osp_status st;

    if (fd < 0) {
        st = fail(OSP_EIO, "%s: cannot open: %s", path, strerror(errno));
        goto out;
    }
    TRY(hub_digest_start(&d, file->etag, file->size));
    TRY(add_file(&d, v, fd, path));
    hub_digest_text(text, digest, hub_digest_finish(&d, digest));
    *is_same = strcmp(text, file->etag) == 0;
out:
    hub_digest_release(&d);
    if (fd >= 0)
        close(fd);
    free(path);
    return st;
}

/* Under the lock of the blob, so that no download is disturbed. */
static enum osp_status remove_blob(const struct verify *v, const char *etag)
{
    char *lock_path = mem_printf("%s/%s.lock", v->paths.locks, etag);
    char *blob = path_join(v->paths.blobs, etag);
    int lock = -1;
    enum osp_status st;

    TRY(hub_lock_try(&lock, lock_path));
    if (lock < 0)
        st = fail(OSP_EBUSY, "%s: another process downloads it; try again later", blob);
    else if (unlink(blob) != 0 && errno != ENOENT)
        st = fail(OSP_EIO, "%s: cannot remove: %s", blob, strerror(errno));
out:
    hub_lock_release(&lock);
    free(blob);
    free(lock_path);
    return st;
}

static enum osp_status check_file(struct verify *v, const struct hub_file *file)
{
    enum hub_check check = HUB_UNNAMED;
    bool is_same = false;
    enum osp_status st = OSP_OK;

    if (file->etag[0] != '\0') {
        if (file->size >= 0)
            TRY(digest_file(&is_same, v, file));
        check = is_same ? HUB_SOUND : HUB_CORRUPT;
    }
    if (check == HUB_CORRUPT && v->options->repair)
        TRY(remove_blob(v, file->etag));
    pthread_mutex_lock(&v->mutex);
    v->n_corrupt += check == HUB_CORRUPT;
    v->options->put(v->options->ctx, file->path, check);
    pthread_mutex_unlock(&v->mutex);
out:
    return st;
}

static const struct hub_file *take_file(struct verify *v)
{
    const struct hub_file *file = NULL;

    pthread_mutex_lock(&v->mutex);
    if (v->status == OSP_OK && v->next < v->files.n)
        file = &v->files.files[v->next++];
    pthread_mutex_unlock(&v->mutex);
    return file;
}

static void *run_thread(void *ctx)
{
    struct verify *v = ctx;
    const struct hub_file *file;
    enum osp_status st = OSP_OK;

    while (st == OSP_OK && (file = take_file(v)) != NULL)
        st = check_file(v, file);
    if (st != OSP_OK) {
        pthread_mutex_lock(&v->mutex);
        if (v->status == OSP_OK)
            snprintf(v->message, sizeof v->message, "%s", fail_message());
        v->status = v->status == OSP_OK ? st : v->status;
        pthread_mutex_unlock(&v->mutex);
    }
    return NULL;
}

static enum osp_status run_threads(struct verify *v)
{
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int n_wanted = n_cpus < THREADS_MAX ? (int)n_cpus : THREADS_MAX;
    pthread_t threads[THREADS_MAX];
    int n = 0;

    while (n < n_wanted - 1 && pthread_create(&threads[n], NULL, run_thread, v) == 0)
        n++;
    run_thread(v); /* this thread, too */
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return v->status == OSP_OK ? OSP_OK : fail(v->status, "%s", v->message);
}

enum osp_status hub_verify(const struct hub_verify_options *options)
{
    struct verify v = {.options = options, .mutex = PTHREAD_MUTEX_INITIALIZER};
    char *cache = hub_cache_folder(options->cache), commit[HUB_REVISION_BYTES_MAX + 1];
    enum osp_status st;

    hub_model_paths_init(&v.paths, cache, options->name.repo);
    hub_cache_commit(commit, &v.paths, options->name.revision);
    v.snapshot = path_join(v.paths.snapshots, commit);
    TRY(hub_cache_list_files(&v.files, v.snapshot, true));
    if (v.files.n == 0) {
        st = fail(OSP_ENOTFOUND, "%s: not in the local Hugging Face cache (expected %s)",
                  options->name.repo, v.snapshot);
        goto out;
    }
    for (size_t i = 0; i < v.files.n; i++)
        v.total_bytes +=
            v.files.files[i].etag[0] && v.files.files[i].size > 0 ? v.files.files[i].size : 0;
    TRY(run_threads(&v));
    if (v.n_corrupt > 0)
        st = fail(OSP_EFORMAT, "%s: %d of %zu files %s", options->name.repo, v.n_corrupt, v.files.n,
                  options->repair ? "were corrupt and have been removed"
                                  : "are corrupt or missing; osprey pull --repair fetches them "
                                    "again");
out:
    hub_listing_release(&v.files);
    hub_model_paths_release(&v.paths);
    pthread_mutex_destroy(&v.mutex);
    free(v.snapshot);
    free(cache);
    return st;
}
