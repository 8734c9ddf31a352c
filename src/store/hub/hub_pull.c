#include "store/hub/hub_pull.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/hub/hub_fetch.h"
#include "store/hub/hub_url.h"

enum {
    PAGES_MAX = 64,
    SPACE_MARGIN_BYTES = 16 << 20 /* for links and folders */
};

struct pull {
    const struct hub_pull_options *options;
    struct hub_settings settings;
    struct hub_model_paths paths;
    struct hub_listing listing;
    struct hub_choice choice;
    struct hub_progress *total;
    char *commit;
    const struct hub_file *gguf;
};

/* ---- the listing ---- */

static bool is_stopped(void *ctx)
{
    const struct pull *p = ctx;

    return p->options->stop != NULL && *p->options->stop;
}

static void note(void *ctx, const char *text)
{
    struct pull *p = ctx;

    p->total->n_retries++;
    p->total->note = text;
    if (p->options->progress != NULL)
        p->options->progress(p->options->ctx, p->total);
    p->total->note = NULL;
}

/* "ENDPOINT/api/models/REPO/MIDDLE/REVISION END"; a string to free() */
static char *api_url(const struct pull *p, const char *middle, const char *revision,
                     const char *end)
{
    struct buf url;

    buf_init(&url, HUB_URL_BYTES_MAX);
    buf_printf(&url, "%s/api/models/", p->settings.endpoint);
    hub_url_add(&url, p->options->name.repo);
    buf_printf(&url, "/%s/", middle);
    for (const char *c = revision; *c; c++) /* its slashes are no separators of the path */
        buf_printf(&url, *c == '/' ? "%%2F" : "%c", *c);
    buf_puts(&url, end);
    return buf_take(&url);
}

static enum osp_status read_commit(struct pull *p, struct hub_http *http,
                                   const struct hub_watch *watch, struct buf *text)
{
    const struct hub_name *name = &p->options->name;
    char *url = api_url(p, "revision", name->revision, ""), *next = NULL;
    char *what = mem_printf("%s@%s", name->repo, name->revision);
    enum osp_status st;

    TRY(hub_fetch_text(text, &next, http, &p->settings, watch, url, what));
    TRY(hub_commit_read(p->commit, buf_text(text), text->size_bytes, what));
    if (hub_commit_is(name->revision) && strcmp(name->revision, p->commit) != 0)
        st = fail(OSP_EFORMAT, "%s: the hub answers with commit %s", what, p->commit);
out:
    free(next);
    free(url);
    free(what);
    return st;
}

static enum osp_status read_files(struct pull *p, struct hub_http *http,
                                  const struct hub_watch *watch, struct buf *text)
{
    const char *repo = p->options->name.repo;
    char *url = api_url(p, "tree", p->commit, "?recursive=true");
    enum osp_status st = OSP_OK;

    for (int i = 0; url != NULL; i++) {
        char *next = NULL;

        if (i == PAGES_MAX)
            st = fail(OSP_ELIMIT, "%s: the listing has more than %d pages", repo, (int)PAGES_MAX);
        else
            st = hub_fetch_text(text, &next, http, &p->settings, watch, url, repo);
        if (st == OSP_OK)
            st = hub_listing_add_page(&p->listing, buf_text(text), text->size_bytes, repo);
        free(url);
        url = st == OSP_OK ? next : NULL;
        if (st != OSP_OK)
            free(next);
    }
    return st == OSP_OK ? hub_listing_check(&p->listing, repo) : st;
}

static enum osp_status list_files(struct pull *p)
{
    const struct hub_watch watch = {.is_stopped = is_stopped, .note = note, .ctx = p};
    struct hub_http *http = NULL;
    struct buf text;
    enum osp_status st;

    buf_init(&text, HUB_LISTING_BYTES_MAX);
    TRY(hub_http_open(&http));
    TRY(read_commit(p, http, &watch, &text));
    TRY(read_files(p, http, &watch, &text));
out:
    buf_release(&text);
    hub_http_close(http);
    return st;
}

/* ---- the choice ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

/* Chooses as if the cache were the repository: of several GGUF models the one that is there, and
 * all files that are there. A repair without a tag must not fetch another model. */
static enum osp_status choose_repair(struct pull *p, struct hub_listing *cached)
{
    const char *repo = p->options->name.repo;
    struct hub_choice choice = p->choice;
    const struct hub_file *gguf = NULL;
    enum osp_status st;

    if (choice.file == NULL && hub_choose(&gguf, cached, &choice, repo) == OSP_OK && gguf != NULL)
        choice.file = gguf->path;
    TRY(hub_choose(&p->gguf, &p->listing, &choice, repo));
    for (size_t i = 0; i < p->listing.n && cached->n > 0; i++) {
        struct hub_file *file = &p->listing.files[i];

        if (bsearch(file, cached->files, cached->n, sizeof *file, by_path) != NULL)
            file->is_wanted = true;
    }
out:
    return st;
}

/* Sets is_wanted of the listing, and the first GGUF file. */
static enum osp_status choose(struct pull *p)
{
    char commit[HUB_REVISION_BYTES_MAX + 1], *snapshot;
    struct hub_listing cached = {0};
    enum osp_status st;

    if (!p->options->is_repair)
        return hub_choose(&p->gguf, &p->listing, &p->choice, p->options->name.repo);
    hub_cache_commit(commit, &p->paths, p->options->name.revision);
    snapshot = path_join(p->paths.snapshots, commit);
    TRY(hub_cache_list_files(&cached, snapshot, true));
    TRY(choose_repair(p, &cached));
out:
    hub_listing_release(&cached);
    free(snapshot);
    return st;
}

/* ---- the plan ---- */

static int64_t free_bytes(const char *folder)
{
    struct statvfs info;

    return statvfs(folder, &info) == 0 ? (int64_t)info.f_bavail * (int64_t)info.f_frsize
                                       : INT64_MAX;
}

static struct hub_plan plan_of(const struct pull *p)
{
    const struct hub_name *name = &p->options->name;
    struct hub_plan plan = {.repo = name->repo,
                            .revision = name->revision,
                            .commit = p->commit,
                            .cache = p->paths.cache,
                            .listing = &p->listing,
                            .free_bytes = free_bytes(p->paths.blobs)};

    for (size_t i = 0; i < p->listing.n; i++)
        if (p->listing.files[i].is_wanted) {
            plan.n_files++;
            plan.total_bytes += p->listing.files[i].size; /* 20,000 of 1 TiB fit */
        }
    plan.needed_bytes = hub_download_needs_bytes(&p->paths, &p->listing);
    return plan;
}

static enum osp_status check_space(const struct hub_plan *plan)
{
    char needed[16], available[16];

    if (plan->needed_bytes == 0 || plan->free_bytes - SPACE_MARGIN_BYTES >= plan->needed_bytes)
        return OSP_OK;
    return fail(OSP_EIO,
                "%s: the download needs %s on the disk, %s are free; free some, or choose another "
                "disk with HF_HOME or --download-dir",
                plan->cache, format_bytes(needed, (double)plan->needed_bytes),
                format_bytes(available, (double)plan->free_bytes));
}

static enum osp_status make_plan(struct pull *p)
{
    const struct hub_pull_options *opt = p->options;
    struct hub_plan plan;
    enum osp_status st;

    TRY(choose(p));
    TRY(hub_cache_make_folders(&p->paths));
    plan = plan_of(p);
    TRY(check_space(&plan));
    if (opt->confirm != NULL && !opt->confirm(opt->ctx, &plan))
        st = fail(OSP_ECANCELED, "%s: not downloaded", opt->name.repo);
out:
    return st;
}

/* ---- the pull ---- */

static enum osp_status download(struct pull *p)
{
    const struct hub_pull_options *opt = p->options;
    const struct hub_download_options download = {
        .paths = &p->paths,
        .settings = &p->settings,
        .listing = &p->listing,
        .repo = opt->name.repo,
        .commit = p->commit,
        .n_connections = opt->n_connections > 0 ? opt->n_connections : HUB_CONNECTIONS_DEFAULT,
        .stop = opt->stop,
        .progress = opt->progress,
        .ctx = opt->ctx};
    const int n_before = p->total->n_retries;
    enum osp_status st = hub_download(p->total, &download);

    p->total->n_retries += n_before;
    if (opt->progress != NULL)
        opt->progress(opt->ctx, p->total);
    return st;
}

/* A token that anyone on the way can read. */
static void warn_plain_token(const struct hub_settings *s)
{
    struct hub_origin origin;

    if (s->token != NULL && hub_origin_read(&origin, s->endpoint) == OSP_OK && !origin.is_https &&
        strcmp(origin.host, "localhost") != 0 && strncmp(origin.host, "127.", 4) != 0)
        log_warn("%s is not encrypted, and the token is sent to it", origin.text);
}

static enum osp_status run(char **path, struct pull *p)
{
    const struct hub_name *name = &p->options->name;
    char *snapshot;
    enum osp_status st;

    if (p->options->is_offline || p->settings.offline)
        return fail(OSP_EUNAVAILABLE,
                    "%s: nothing is downloaded while HF_HUB_OFFLINE or --offline is set",
                    name->repo);
    warn_plain_token(&p->settings);
    TRY(list_files(p));
    TRY(make_plan(p));
    TRY(download(p));
    TRY(hub_cache_publish(&p->paths, &p->listing, p->commit, name->revision));
    snapshot = path_join(p->paths.snapshots, p->commit);
    *path = p->gguf ? path_join(snapshot, p->gguf->path) : mem_strdup(snapshot);
    free(snapshot);
out:
    return st;
}

enum osp_status hub_pull(char **path, struct hub_progress *total, char commit[HUB_COMMIT_BYTES + 1],
                         const struct hub_pull_options *options)
{
    struct pull p = {
        .options = options, .choice = options->choice, .total = total, .commit = commit};
    char *cache = hub_cache_folder(options->cache);
    enum osp_status st;

    *path = NULL;
    *total = (struct hub_progress){.repo = options->name.repo};
    commit[0] = '\0';
    if (options->name.tag[0] != '\0')
        p.choice.tag = options->name.tag;
    hub_model_paths_init(&p.paths, cache, options->name.repo);
    TRY(hub_settings_read(&p.settings, options->token));
    TRY(run(path, &p));
out:
    hub_listing_release(&p.listing);
    hub_model_paths_release(&p.paths);
    hub_settings_release(&p.settings);
    free(cache);
    return st;
}
