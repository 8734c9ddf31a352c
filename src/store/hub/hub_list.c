/* Lists the models of the cache. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "store/hub/hub_manage.h"
#include "store/hub/hub_settings.h"

enum { REFS_BYTES_MAX = 1024, MODELS_MAX = 10000 };

#define MODEL_PREFIX "models--"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **list; /* (n), owned */
    size_t n, capacity;
};

static void names_release(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->list[i]);
    free(names->list);
}

/* The entries of a folder, sorted, without those that begin with a dot. A folder that cannot be
 * read has none. */
static struct names names_of(const char *folder)
{
    struct names names = {0};
    DIR *dir = opendir(folder);

    for (struct dirent *e = dir ? readdir(dir) : NULL; e != NULL; e = readdir(dir))
        if (e->d_name[0] != '.' && names.n < MODELS_MAX) {
            mem_grow(&names.list, names.n, &names.capacity, sizeof *names.list);
            names.list[names.n++] = mem_strdup(e->d_name);
        }
    if (dir != NULL)
        closedir(dir);
    if (names.n > 0)
        qsort(names.list, names.n, sizeof *names.list, by_name);
    return names;
}

/* "models--openai--gpt-oss-20b" as "openai/gpt-oss-20b"; false: another entry. */
static bool repo_of(char out[HUB_REPO_BYTES_MAX + 1], const char *entry)
{
    const char *owner = entry + strlen(MODEL_PREFIX), *dashes;

    if (strncmp(entry, MODEL_PREFIX, strlen(MODEL_PREFIX)) != 0 ||
        (dashes = strstr(owner, "--")) == NULL || strlen(owner) - 1 > HUB_REPO_BYTES_MAX)
        return false;
    snprintf(out, HUB_REPO_BYTES_MAX + 1, "%.*s/%s", (int)(dashes - owner), owner, dashes + 2);
    return hub_name_is(out);
}

/* Appends the names of the refs that hold the commit. */
static void add_refs(struct buf *out, const char *folder, const char *prefix, const char *commit)
{
    struct names names = names_of(folder);

    for (size_t i = 0; i < names.n; i++) {
        char *path = path_join(folder, names.list[i]), *text = NULL;
        char *name = mem_printf("%s%s", prefix, names.list[i]);
        size_t n_bytes;

        if (!hub_revision_is_sane(name)) {
            /* not a ref */
        } else if (path_is_folder(path)) {
            char *below = mem_printf("%s/", name);

            add_refs(out, path, below, commit);
            free(below);
        } else if (file_read(&text, &n_bytes, path, HUB_REVISION_BYTES_MAX) == OSP_OK &&
                   strncmp(text, commit, strlen(commit)) == 0) {
            buf_printf(out, "%s%s", out->size_bytes ? "," : "", name);
        }
        free(text);
        free(name);
        free(path);
    }
    names_release(&names);
}

static int64_t unfinished_bytes(const char *blobs)
{
    struct names names = names_of(blobs);
    int64_t n_bytes = 0;

    for (size_t i = 0; i < names.n; i++) {
        char *path = path_join(blobs, names.list[i]);
        struct stat info;

        if ((str_ends_with(path, ".osprey-part") || str_ends_with(path, ".incomplete")) &&
            lstat(path, &info) == 0)
            n_bytes += (int64_t)info.st_blocks * 512;
        free(path);
    }
    names_release(&names);
    return n_bytes;
}

static bool is_complete(const char *cache, const struct hub_cached *cached)
{
    static const struct hub_choice any = {0};
    struct hub_name name = {0};
    char *path = NULL;
    bool complete;

    snprintf(name.repo, sizeof name.repo, "%s", cached->repo);
    snprintf(name.revision, sizeof name.revision, "%s", cached->commit);
    complete = hub_cache_find(&path, cache, &name, &any) == OSP_OK;
    free(path);
    return complete;
}

static enum osp_status put_snapshot(struct hub_cached *cached, const struct hub_model_paths *paths,
                                    const char *commit, hub_cached_fn *put, void *ctx)
{
    char *snapshot = path_join(paths->snapshots, commit);
    struct hub_listing files = {0};
    struct buf refs;
    enum osp_status st;

    buf_init(&refs, REFS_BYTES_MAX);
    TRY(hub_cache_list_files(&files, snapshot, false));
    cached->commit = commit;
    cached->n_files = (int)files.n;
    cached->n_bytes = 0;
    for (size_t i = 0; i < files.n; i++)
        cached->n_bytes += files.files[i].size;
    add_refs(&refs, paths->refs, "", commit);
    cached->refs = buf_text(&refs);
    cached->is_complete = is_complete(paths->cache, cached);
    put(ctx, cached);
out:
    buf_release(&refs);
    hub_listing_release(&files);
    free(snapshot);
    return st;
}

static enum osp_status put_model(const char *cache, const char *repo, hub_cached_fn *put, void *ctx)
{
    struct hub_cached cached = {.commit = "", .refs = ""};
    struct hub_model_paths paths;
    struct names snapshots;
    enum osp_status st = OSP_OK;

    hub_model_paths_init(&paths, cache, repo);
    snprintf(cached.repo, sizeof cached.repo, "%s", repo);
    snapshots = names_of(paths.snapshots);
    cached.unfinished_bytes = unfinished_bytes(paths.blobs);
    for (size_t i = 0; i < snapshots.n && st == OSP_OK; i++) {
        st = put_snapshot(&cached, &paths, snapshots.list[i], put, ctx);
        cached.unfinished_bytes = 0; /* they are the model's: once */
    }
    if (snapshots.n == 0 && cached.unfinished_bytes > 0)
        put(ctx, &cached);
    names_release(&snapshots);
    hub_model_paths_release(&paths);
    return st;
}

enum osp_status hub_list(const char *cache, hub_cached_fn *put, void *ctx)
{
    char *folder = hub_cache_folder(cache);
    struct names names = names_of(folder);
    char repo[HUB_REPO_BYTES_MAX + 1];
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < names.n && st == OSP_OK; i++)
        if (repo_of(repo, names.list[i]))
            st = put_model(folder, repo, put, ctx);
    names_release(&names);
    free(folder);
    return st;
}
