#include "store/hub/hub_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "store/shard_list.h"

enum { FOLDER_MODE = 0777 /* less the umask */ };

void hub_model_paths_init(struct hub_model_paths *p, const char *cache, const char *repo)
{
    const char *slash = strchr(repo, '/');
    char *entry = mem_printf("models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
    char *all_locks = path_join(cache, ".locks");

    *p = (struct hub_model_paths){.cache = mem_strdup(cache), .folder = path_join(cache, entry)};
    p->blobs = path_join(p->folder, "blobs");
    p->snapshots = path_join(p->folder, "snapshots");
    p->refs = path_join(p->folder, "refs");
    p->locks = path_join(all_locks, entry);
    free(entry);
    free(all_locks);
}

void hub_model_paths_release(struct hub_model_paths *p)
{
    free(p->cache);
    free(p->folder);
    free(p->blobs);
    free(p->snapshots);
    free(p->refs);
    free(p->locks);
    *p = (struct hub_model_paths){0};
}

/* ---- folders ---- */

/* mkdir -p */
static enum osp_status make_folders(const char *path)
{
    char *copy = mem_strdup(path);
    enum osp_status st = OSP_OK;

    for (char *c = copy + 1; st == OSP_OK; c++) {
        const char end = *c;

        if (end != '/' && end != '\0')
            continue;
        *c = '\0';
        if (mkdir(copy, FOLDER_MODE) != 0 && errno != EEXIST)
            st = fail(OSP_EIO, "%s: cannot create the folder: %s", copy, strerror(errno));
        *c = end;
        if (end == '\0')
            break;
    }
    free(copy);
    return st;
}

enum osp_status hub_cache_make_folders(const struct hub_model_paths *p)
{
    enum osp_status st;

    TRY(make_folders(p->blobs));
    TRY(make_folders(p->snapshots));
    TRY(make_folders(p->refs));
    TRY(make_folders(p->locks));
out:
    return st;
}

bool hub_cache_has_blob(const struct hub_model_paths *p, const char *etag, int64_t size)
{
    char *path = path_join(p->blobs, etag);
    struct stat info;
    const bool found = stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;

    free(path);
    return found;
}

/* ---- publishing ---- */

/* Opens the folder of a file below an open folder, component by component, so that a link that
 * someone planted there leads nowhere. *name: the last component. Gives a descriptor to close(), or
 * -1 with errno. */
static int open_parent(int folder, const char *path, const char **name)
{
    int at = dup(folder);

    for (*name = path; at >= 0 && strchr(*name, '/') != NULL; *name = strchr(*name, '/') + 1) {
        char *part = mem_strndup(*name, strcspn(*name, "/"));
        int next = -1;

        if (mkdirat(at, part, FOLDER_MODE) == 0 || errno == EEXIST)
            next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        free(part);
        close(at);
        at = next;
    }
    return at;
}

/* "../../blobs/ETAG" for a file in the snapshot's top folder */
static char *link_target(const char *path, const char *etag)
{
    char up[3 * (HUB_PATH_DEPTH_MAX + 2) + 1] = "../../";

    for (const char *c = strchr(path, '/'); c != NULL; c = strchr(c + 1, '/'))
        strcat(up, "../"); /* fits: hub_path_is_sane() bounds the depth */
    return mem_printf("%sblobs/%s", up, etag);
}

static bool is_link_to(int folder, const char *name, const char *target)
{
    char text[HUB_PATH_BYTES_MAX];
    const ssize_t n = readlinkat(folder, name, text, sizeof text);

    return n == (ssize_t)strlen(target) && memcmp(text, target, (size_t)n) == 0;
}

/* A new link takes the place of an old one in one step. */
static enum osp_status put_link(int snapshot, const struct hub_file *file)
{
    const char *name;
    char *target = link_target(file->path, file->etag), *temporary = NULL;
    const int folder = open_parent(snapshot, file->path, &name);
    enum osp_status st = OSP_OK;

    if (folder >= 0 && is_link_to(folder, name, target))
        goto out;
    temporary = mem_printf("%s.%ld.tmp", name, (long)getpid());
    if (folder >= 0)
        (void)unlinkat(folder, temporary, 0);
    if (folder < 0 || symlinkat(target, folder, temporary) != 0 ||
        renameat(folder, temporary, folder, name) != 0)
        st = fail(OSP_EIO, "%s: cannot create the link in the snapshot: %s", file->path,
                  strerror(errno));
out:
    if (folder >= 0)
        close(folder);
    free(target);
    free(temporary);
    return st;
}

/* The files whose presence tells others that the snapshot is complete. */
static bool is_last(const struct hub_file *file)
{
    return strcmp(file->path, "config.json") == 0;
}

static enum osp_status put_links(const char *path, const struct hub_listing *listing)
{
    const int snapshot = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum osp_status st = OSP_OK;

    if (snapshot < 0)
        return fail(OSP_EIO, "%s: cannot open: %s", path, strerror(errno));
    for (int last = 0; last < 2; last++)
        for (size_t i = 0; i < listing->n && st == OSP_OK; i++)
            if (listing->files[i].is_wanted && is_last(&listing->files[i]) == (last == 1))
                st = put_link(snapshot, &listing->files[i]);
    (void)fsync(snapshot);
    close(snapshot);
    return st == OSP_OK ? st : fail_prefix(st, "%s", path);
}

/* refs/REVISION by a rename. The revision may have folders: "refs/pr/1". */
static enum osp_status put_ref(const struct hub_model_paths *p, const char *revision,
                               const char *commit)
{
    const int refs = open(p->refs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *name = revision;
    const int folder = refs < 0 ? -1 : open_parent(refs, revision, &name);
    char *temporary = mem_printf("%s.%ld.tmp", name, (long)getpid());
    int fd = -1;
    enum osp_status st = OSP_OK;

    if (folder >= 0) {
        (void)unlinkat(folder, temporary, 0);
        fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0 || write(fd, commit, strlen(commit)) != (ssize_t)strlen(commit) || fsync(fd) != 0 ||
        renameat(folder, temporary, folder, name) != 0)
        st = fail(OSP_EIO, "%s/%s: cannot write: %s", p->refs, revision, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    if (refs >= 0)
        close(refs);
    free(temporary);
    return st;
}

enum osp_status hub_cache_publish(const struct hub_model_paths *p,
                                  const struct hub_listing *listing, const char *commit,
                                  const char *revision)
{
    char *snapshot = path_join(p->snapshots, commit);
    enum osp_status st;

    TRY(make_folders(snapshot));
    TRY(put_links(snapshot, listing));
    if (strcmp(revision, commit) != 0)
        TRY(put_ref(p, revision, commit));
out:
    free(snapshot);
    return st;
}

/* ---- finding ---- */

void hub_cache_commit(char out[HUB_REVISION_BYTES_MAX + 1], const struct hub_model_paths *p,
                      const char *revision)
{
    char *path = path_join(p->refs, revision), *text = NULL;
    size_t n_bytes;

    snprintf(out, HUB_REVISION_BYTES_MAX + 1, "%s", revision);
    if (path_is_file(path) && file_read(&text, &n_bytes, path, HUB_REVISION_BYTES_MAX) == OSP_OK) {
        text[strcspn(text, " \t\r\n")] = '\0';
        if (hub_revision_is_sane(text) && strchr(text, '/') == NULL)
            snprintf(out, HUB_REVISION_BYTES_MAX + 1, "%s", text);
    }
    free(text);
    free(path);
}

/* The digest that the link of a file names; "": it is no link to a blob. */
static void etag_of_link(char out[HUB_ETAG_BYTES_MAX + 1], const char *path)
{
    char target[HUB_PATH_BYTES_MAX];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    const char *name;

    out[0] = '\0';
    if (n <= 0)
        return;
    target[n] = '\0';
    name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    if (strstr(target, "blobs/") != NULL && hub_etag_is(name))
        memcpy(out, name, strlen(name) + 1);
}

static enum osp_status add_found(struct hub_listing *out, const char *path, const char *relative,
                                 bool with_missing)
{
    struct stat info;
    const bool found = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    enum osp_status st;

    if (!found && !with_missing)
        return OSP_OK; /* a link whose blob is missing */
    st = hub_listing_add(out, relative, found ? (int64_t)info.st_size : -1);
    if (st == OSP_OK)
        etag_of_link(out->files[out->n - 1].etag, path);
    return st;
}

static bool is_real_folder(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static enum osp_status list_folder(struct hub_listing *out, const char *folder, const char *prefix,
                                   bool with_missing)
{
    DIR *dir = opendir(folder);
    enum osp_status st = OSP_OK;

    if (dir == NULL)
        return errno == ENOENT ? OSP_OK
                               : fail(OSP_EIO, "%s: cannot list: %s", folder, strerror(errno));
    for (struct dirent *e = readdir(dir); e != NULL && st == OSP_OK; e = readdir(dir)) {
        char *path = path_join(folder, e->d_name),
             *relative = mem_printf("%s%s", prefix, e->d_name);

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            str_ends_with(e->d_name, ".tmp") || !hub_path_is_sane(relative)) {
            /* not a file of the model */
        } else if (!is_real_folder(path)) {
            st = add_found(out, path, relative, with_missing);
        } else { /* hub_path_is_sane() bounds the depth */
            char *below = mem_printf("%s/", relative);

            st = list_folder(out, path, below, with_missing);
            free(below);
        }
        free(path);
        free(relative);
    }
    closedir(dir);
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

enum osp_status hub_cache_list_files(struct hub_listing *out, const char *snapshot,
                                     bool with_missing)
{
    enum osp_status st;

    *out = (struct hub_listing){0};
    st = list_folder(out, snapshot, "", with_missing);
    if (st == OSP_OK && out->n > 0)
        qsort(out->files, out->n, sizeof *out->files, by_path);
    return st;
}

static enum osp_status incomplete(const char *name, const char *path)
{
    return fail(OSP_ENOTFOUND,
                "%s: the local Hugging Face cache has only a part of this model, %s is missing",
                name, path);
}

/* The shards must be there: another program may have fetched some files only. A broken index is not
 * looked into here; opening the model reports it. */
static enum osp_status check_shards(const char *snapshot, const char *name)
{
    struct shard_list shards = {0};
    char *original = path_join(snapshot, "original");
    enum osp_status st = shard_list_read(&shards, snapshot);

    if (st == OSP_ENOTFOUND && !path_is_folder(original))
        st = incomplete(name, "model.safetensors.index.json");
    else
        st = OSP_OK;
    for (int i = 0; i < shards.n && st == OSP_OK; i++) {
        char *path = path_join(snapshot, shards.names[i]);

        if (!path_is_file(path))
            st = incomplete(name, path);
        free(path);
    }
    shard_list_release(&shards);
    free(original);
    return st;
}

static bool has_gguf(const struct hub_listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (str_ends_with(l->files[i].path, ".gguf"))
            return true;
    return false;
}

/* A checkpoint of the other layouts, and not a folder of GGUF files beside a config.json. */
static bool is_checkpoint(const struct hub_listing *l)
{
    bool has_config = false, has_shard = false;

    for (size_t i = 0; i < l->n; i++) {
        has_config = has_config || strcmp(l->files[i].path, "config.json") == 0;
        has_shard = has_shard || str_ends_with(l->files[i].path, ".safetensors");
    }
    return has_config && (has_shard || !has_gguf(l));
}

static enum osp_status choose_in_snapshot(char **out, const char *snapshot,
                                          struct hub_listing *files, const char *name,
                                          const struct hub_choice *choice)
{
    const bool by_tag = choice->tag != NULL && *choice->tag;
    const struct hub_file *gguf = NULL;
    char *where = mem_printf("%s in the local Hugging Face cache", name);
    const enum osp_status st = hub_choose(&gguf, files, choice, where);

    free(where);
    if (gguf != NULL && st == OSP_OK) {
        *out = path_join(snapshot, gguf->path);
        return OSP_OK;
    }
    if (st != OSP_OK && has_gguf(files))
        return st; /* the message lists them, or counts the parts */
    return fail(OSP_ENOTFOUND, "%s is not in the local Hugging Face cache (expected %s/%s)", name,
                snapshot,
                choice->file ? choice->file
                : by_tag     ? "*.gguf"
                             : "config.json");
}

static enum osp_status find_in_snapshot(char **out, const char *snapshot, const char *name,
                                        const struct hub_choice *choice)
{
    const bool by_name = choice->file != NULL || (choice->tag != NULL && *choice->tag);
    struct hub_listing files = {0};
    enum osp_status st;

    TRY(hub_cache_list_files(&files, snapshot, false));
    if (!by_name && is_checkpoint(&files)) {
        *out = mem_strdup(snapshot);
        TRY(check_shards(snapshot, name));
    } else {
        TRY(choose_in_snapshot(out, snapshot, &files, name, choice));
    }
out:
    hub_listing_release(&files);
    if (st != OSP_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}

enum osp_status hub_cache_find(char **out, const char *cache, const struct hub_name *name,
                               const struct hub_choice *choice)
{
    struct hub_choice with_tag = *choice;
    char commit[HUB_REVISION_BYTES_MAX + 1], *snapshot, *shown;
    struct hub_model_paths paths;
    enum osp_status st;

    *out = NULL;
    with_tag.tag = choice->tag && *choice->tag ? choice->tag : name->tag;
    hub_model_paths_init(&paths, cache, name->repo);
    hub_cache_commit(commit, &paths, name->revision);
    snapshot = path_join(paths.snapshots, commit);
    shown = mem_printf("%s%s%s%s%s", name->repo, *with_tag.tag ? ":" : "", with_tag.tag,
                       strcmp(name->revision, "main") == 0 ? "" : "@",
                       strcmp(name->revision, "main") == 0 ? "" : name->revision);
    st = find_in_snapshot(out, snapshot, shown, &with_tag);
    free(snapshot);
    free(shown);
    hub_model_paths_release(&paths);
    return st;
}
