/* Removes models from the cache. Links are removed and never followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "store/hub/hub_lock.h"
#include "store/hub/hub_manage.h"
#include "store/hub/hub_settings.h"

enum { DESCRIPTORS = 16 };

/* ---- trees ---- */

static _Thread_local int64_t tree_bytes; /* removed by remove_entry() */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)kind, (void)at;
    if (remove(path) != 0)
        return -1;
    tree_bytes +=
        S_ISREG(info->st_mode) && info->st_nlink == 1 ? (int64_t)info->st_blocks * 512 : 0;
    return 0;
}

static enum osp_status remove_tree(int64_t *freed_bytes, const char *path)
{
    const int error =
        (tree_bytes = 0, nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT));

    *freed_bytes += tree_bytes;
    return error == 0 ? OSP_OK : fail(OSP_EIO, "%s: cannot remove: %s", path, strerror(errno));
}

/* Renames the tree first, so that nobody finds a half of it. */
static enum osp_status remove_at_once(int64_t *freed_bytes, const char *path)
{
    char *aside = mem_printf("%s.removed-%ld", path, (long)getpid());
    enum osp_status st;

    if (rename(path, aside) == 0)
        st = remove_tree(freed_bytes, aside);
    else
        st = fail(errno == ENOENT ? OSP_ENOTFOUND : OSP_EIO, "%s: cannot remove: %s", path,
                  strerror(errno));
    free(aside);
    return st;
}

/* ---- locks ---- */

/* The locks of all blobs that were ever downloaded for the model. */
struct locks {
    int *list; /* (n) */
    size_t n, capacity;
};

static void locks_release(struct locks *locks)
{
    for (size_t i = 0; i < locks->n; i++)
        hub_lock_release(&locks->list[i]);
    free(locks->list);
}

static enum osp_status take_locks(struct locks *locks, const struct hub_model_paths *paths,
                                  const char *repo)
{
    DIR *dir = opendir(paths->locks);
    enum osp_status st = OSP_OK;

    for (struct dirent *e = dir ? readdir(dir) : NULL; e != NULL && st == OSP_OK;
         e = readdir(dir)) {
        char *path = path_join(paths->locks, e->d_name);
        int lock = -1;

        if (str_ends_with(e->d_name, ".lock"))
            st = hub_lock_try(&lock, path);
        if (lock >= 0) {
            mem_grow(&locks->list, locks->n, &locks->capacity, sizeof *locks->list);
            locks->list[locks->n++] = lock;
        } else if (st == OSP_OK && str_ends_with(e->d_name, ".lock")) {
            st = fail(OSP_EBUSY, "%s: another process downloads it; stop that first", repo);
        }
        free(path);
    }
    if (dir != NULL)
        closedir(dir);
    return st;
}

/* ---- one snapshot ---- */

/* Whether a link of any other snapshot leads to the blob. */
static bool is_used(const struct hub_model_paths *paths, const char *etag)
{
    DIR *dir = opendir(paths->snapshots);
    bool used = false;

    for (struct dirent *e = dir ? readdir(dir) : NULL; e != NULL && !used; e = readdir(dir)) {
        char *snapshot = path_join(paths->snapshots, e->d_name);
        struct hub_listing files = {0};

        if (e->d_name[0] != '.' && strstr(e->d_name, ".removed-") == NULL)
            used = hub_cache_list_files(&files, snapshot, true) != OSP_OK;
        for (size_t i = 0; i < files.n; i++)
            used = used || strcmp(files.files[i].etag, etag) == 0;
        hub_listing_release(&files);
        free(snapshot);
    }
    if (dir != NULL)
        closedir(dir);
    return used;
}

static void remove_blob(int64_t *freed_bytes, const struct hub_model_paths *paths, const char *etag)
{
    char *path = path_join(paths->blobs, etag);
    struct stat info;

    if (lstat(path, &info) == 0 && unlink(path) == 0 && S_ISREG(info.st_mode))
        *freed_bytes += (int64_t)info.st_blocks * 512;
    free(path);
}

static enum osp_status remove_snapshot(int64_t *freed_bytes, const struct hub_model_paths *paths,
                                       const struct hub_name *name)
{
    char commit[HUB_REVISION_BYTES_MAX + 1], *snapshot;
    char *ref = path_join(paths->refs, name->revision);
    struct hub_listing files = {0};
    enum osp_status st;

    hub_cache_commit(commit, paths, name->revision);
    snapshot = path_join(paths->snapshots, commit);
    TRY(hub_cache_list_files(&files, snapshot, true));
    if (path_is_file(ref) && unlink(ref) != 0) {
        st = fail(OSP_EIO, "%s: cannot remove: %s", ref, strerror(errno));
        goto out;
    }
    TRY(remove_at_once(freed_bytes, snapshot));
    for (size_t i = 0; i < files.n; i++)
        if (files.files[i].etag[0] != '\0' && !is_used(paths, files.files[i].etag))
            remove_blob(freed_bytes, paths, files.files[i].etag);
out:
    hub_listing_release(&files);
    free(snapshot);
    free(ref);
    return st;
}

/* ---- both ---- */

enum osp_status hub_remove(int64_t *freed_bytes, const char *cache, const struct hub_name *name,
                           bool whole_model)
{
    char *folder = hub_cache_folder(cache);
    struct hub_model_paths paths;
    struct locks locks = {0};
    enum osp_status st;

    *freed_bytes = 0;
    hub_model_paths_init(&paths, folder, name->repo);
    if (!path_is_folder(paths.folder)) {
        st = fail(OSP_ENOTFOUND, "%s: not in the local Hugging Face cache (expected %s)",
                  name->repo, paths.folder);
        goto out;
    }
    TRY(take_locks(&locks, &paths, name->repo));
    st = whole_model ? remove_at_once(freed_bytes, paths.folder)
                     : remove_snapshot(freed_bytes, &paths, name);
out:
    locks_release(&locks);
    hub_model_paths_release(&paths);
    free(folder);
    return st;
}
