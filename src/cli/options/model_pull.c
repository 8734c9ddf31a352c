#include "cli/options/model_pull.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/terminal/pull_run.h"

static struct osp_pull_options options_of(const struct model_args *args, const char *name)
{
    return (struct osp_pull_options){.name = name,
                                     .revision = args->revision,
                                     .cache = args->download_dir,
                                     .file = args->hf_file,
                                     .token = args->hf_token,
                                     .offline = args->offline};
}

/* Completes the error of osp_hub_find() with the command that downloads the same files. */
static enum osp_status not_downloaded(const struct model_args *args, const char *name, bool offline)
{
    char *missing = mem_strdup(fail_message());
    char *command =
        mem_printf("osprey pull %s%s%s%s%s", name, args->revision ? " --revision " : "",
                   args->revision ? args->revision : "", args->hf_file ? " --hf-file " : "",
                   args->hf_file ? args->hf_file : "");
    enum osp_status st;

    if (offline)
        st = fail(OSP_ENOTFOUND,
                  "%s; HF_HUB_OFFLINE or --offline is set, without them %s downloads it", missing,
                  command);
    else
        st = fail(OSP_ENOTFOUND, "%s; run %s, or add --pull", missing, command);
    free(missing);
    free(command);
    return st;
}

static enum osp_status pull(char **out, const struct pull_request *request)
{
    struct osp_pull_report report = {0};
    const enum osp_status st = pull_run(&report, request);

    *out = report.path;
    report.path = NULL;
    osp_pull_report_release(&report);
    return st;
}

enum osp_status model_pull_path(char **out, const struct model_args *args, const char *name,
                                bool quiet)
{
    const bool offline = args->offline || osp_hub_is_offline();
    const bool wanted = args->pull || args->hf_repo != NULL;
    struct pull_request request = {.options = options_of(args, name), .quiet = quiet};
    enum osp_status st = osp_hub_find(out, &request.options);

    if (st != OSP_ENOTFOUND)
        return st;
    request.ask = !wanted && pull_can_ask();
    if (offline || (!wanted && !request.ask))
        return not_downloaded(args, name, offline);
    return pull(out, &request);
}
