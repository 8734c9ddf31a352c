/* osp_pull, osp_hub_find and others over store/hub. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "osprey_tools.h"
#include "store/hub/hub_manage.h"
#include "store/hub/hub_pull.h"
#include "store/hub/hub_settings.h"

static_assert(sizeof((struct osp_pull_report){0}).commit == HUB_COMMIT_BYTES + 1, "a commit fits");

bool osp_hub_name_is(const char *word)
{
    return hub_name_is(word);
}

bool osp_hub_is_offline(void)
{
    return hub_is_offline();
}

char *osp_hub_cache(const char *cache)
{
    return hub_cache_folder(cache);
}

/* ---- pull ---- */

struct pull {
    const struct osp_pull_options *options;
    enum osp_status st; /* of a callback */
};

static bool confirm(void *ctx, const struct hub_plan *plan)
{
    struct pull *p = ctx;
    struct osp_pull_file *files;
    struct osp_pull_plan shown = {.repo = plan->repo,
                                  .revision = plan->revision,
                                  .commit = plan->commit,
                                  .cache = plan->cache,
                                  .total_bytes = plan->total_bytes,
                                  .needed_bytes = plan->needed_bytes,
                                  .free_bytes = plan->free_bytes};
    bool answer;

    p->st = mem_try_array(&files, (size_t)plan->n_files, sizeof *files, "list of files");
    if (p->st != OSP_OK)
        return false;
    for (size_t i = 0; i < plan->listing->n; i++)
        if (plan->listing->files[i].is_wanted)
            files[shown.n_files++] = (struct osp_pull_file){
                .path = plan->listing->files[i].path, .n_bytes = plan->listing->files[i].size};
    shown.files = files;
    answer = p->options->confirm(p->options->ctx, &shown);
    free(files);
    return answer;
}

static struct osp_pull_progress progress_of(const struct hub_progress *p)
{
    return (struct osp_pull_progress){.repo = p->repo,
                                      .total_bytes = p->total_bytes,
                                      .done_bytes = p->done_bytes,
                                      .received_bytes = p->received_bytes,
                                      .n_files = p->n_files,
                                      .n_files_done = p->n_files_done,
                                      .n_waiting = p->n_waiting,
                                      .n_retries = p->n_retries,
                                      .note = p->note};
}

static void progress(void *ctx, const struct hub_progress *p)
{
    const struct pull *pull = ctx;
    const struct osp_pull_progress shown = progress_of(p);

    pull->options->progress(pull->options->ctx, &shown);
}

enum osp_status osp_pull(struct osp_pull_report *report, const struct osp_pull_options *options)
{
    struct pull p = {.options = options};
    struct hub_pull_options pull = {.choice = {.file = options->file, .include = options->include},
                                    .cache = options->cache,
                                    .token = options->token,
                                    .n_connections = options->n_connections,
                                    .is_offline = options->offline,
                                    .is_repair = options->repair,
                                    .stop = options->stop,
                                    .confirm = options->confirm ? confirm : NULL,
                                    .progress = options->progress ? progress : NULL,
                                    .ctx = &p};
    struct hub_progress total = {0};
    enum osp_status st;

    *report = (struct osp_pull_report){.path = NULL};
    if (options->n_connections < 0 || options->n_connections > HUB_CONNECTIONS_MAX)
        return fail(OSP_EINVAL, "%d connections: must be between 1 and %d", options->n_connections,
                    (int)HUB_CONNECTIONS_MAX);
    TRY(hub_name_parse(&pull.name, options->name, options->revision));
    st = hub_pull(&report->path, &total, report->commit, &pull);
    if (p.st != OSP_OK)
        st = p.st;
    report->total = progress_of(&total);
    report->total.repo = report->total.note = NULL;
out:
    return st;
}

void osp_pull_report_release(struct osp_pull_report *report)
{
    free(report->path);
    *report = (struct osp_pull_report){.path = NULL};
}

/* ---- the cache ---- */

enum osp_status osp_hub_find(char **path, const struct osp_pull_options *options)
{
    const struct hub_choice choice = {.file = options->file};
    char *cache = hub_cache_folder(options->cache);
    struct hub_name name;
    enum osp_status st;

    *path = NULL;
    TRY(hub_name_parse(&name, options->name, options->revision));
    TRY(hub_cache_find(path, cache, &name, &choice));
out:
    free(cache);
    return st;
}

struct list {
    osp_hub_model_fn *put;
    void *ctx;
};

static void put_cached(void *ctx, const struct hub_cached *c)
{
    const struct list *list = ctx;

    list->put(list->ctx, &(struct osp_hub_model){.repo = c->repo,
                                                 .refs = c->refs,
                                                 .commit = c->commit,
                                                 .n_files = c->n_files,
                                                 .n_bytes = c->n_bytes,
                                                 .unfinished_bytes = c->unfinished_bytes,
                                                 .is_complete = c->is_complete});
}

enum osp_status osp_hub_list(const char *cache, osp_hub_model_fn *put, void *ctx)
{
    struct list list = {.put = put, .ctx = ctx};

    return hub_list(cache, put_cached, &list);
}

static void put_check(void *ctx, const char *path, enum hub_check check)
{
    const struct osp_hub_verify_options *options = ctx;

    options->put(options->ctx, path,
                 check == HUB_SOUND     ? "ok"
                 : check == HUB_CORRUPT ? "corrupt"
                                        : "unknown");
}

static void put_progress(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    const struct osp_hub_verify_options *options = ctx;

    options->progress(options->ctx, done_bytes, total_bytes);
}

enum osp_status osp_hub_verify(const struct osp_hub_verify_options *options)
{
    struct osp_hub_verify_options copy = *options;
    struct hub_verify_options verify = {.cache = options->cache,
                                        .repair = options->repair,
                                        .stop = options->stop,
                                        .put = put_check,
                                        .progress = options->progress ? put_progress : NULL,
                                        .ctx = &copy};
    enum osp_status st;

    TRY(hub_name_parse(&verify.name, options->name, options->revision));
    TRY(hub_verify(&verify));
out:
    return st;
}

enum osp_status osp_hub_remove(int64_t *freed_bytes, const char *name, const char *revision,
                               const char *cache)
{
    const bool whole_model = revision == NULL && strchr(name, '@') == NULL;
    struct hub_name parsed;
    enum osp_status st;

    *freed_bytes = 0;
    TRY(hub_name_parse(&parsed, name, revision));
    TRY(hub_remove(freed_bytes, cache, &parsed, whole_model));
out:
    return st;
}
