/* `osprey eval nano`: how much of what osprey-nano should know does it know, with the attention's
 * sinks and without. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/model_args.h"

struct eval_args {
    struct model_args model;
    const char *file, *ability;
    int n_max, n_wrong_shown;
    bool json, skip_ablation, strict;
};

static const struct option_row OPTIONS[] = {
    {.name = "model",
     .aliases = "-m",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct eval_args, model.path),
     .value = "FOLDER",
     .help = "checkpoint to ask (default: the bundled osprey-nano)"},
    {.name = "file",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct eval_args, file),
     .value = "FILE",
     .help = "prompts and expectations (default: eval.jsonl beside the model)"},
    {.name = "ability",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct eval_args, ability),
     .value = "NAME",
     .help =
         "only this one: capital, arithmetic, instruction, recall, tool_call, tool_result, copy"},
    {.name = "limit",
     .kind = OPTION_INT,
     .offset = offsetof(struct eval_args, n_max),
     .min = 0,
     .max = 1000000,
     .value = "N",
     .help = "only the first N prompts of each ability"},
    {.name = "show-wrong",
     .kind = OPTION_INT,
     .offset = offsetof(struct eval_args, n_wrong_shown),
     .min = 0,
     .max = 1000000,
     .value = "N",
     .help = "write up to N wrong answers to standard error"},
    {.name = "skip-ablation",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct eval_args, skip_ablation),
     .help = "do not run everything again without sinks"},
    {.name = "strict",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct eval_args, strict),
     .help = "exit status 1 unless every goal is met"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct eval_args, json),
     .help = "print the table as JSON"},
    MODEL_SIZE_ROWS(struct eval_args, model),
    MODEL_DEVICE_ROWS(struct eval_args, model),
    {0},
};

/* Both passes of an evaluation, and the model's figures, whose strings are copies. */
struct eval {
    const struct eval_args *args;
    struct eval_tasks tasks;
    struct eval_result *results; /* (tasks.n) */
    struct osp_model_info info;
    char *name, *device;
};

static enum osp_status open_model(struct osp_model **out, const struct eval_args *args,
                                  bool no_sinks)
{
    struct model_args model = args->model;
    const struct option_rest none = {0};

    model.no_sinks = no_sinks;
    return model_args_open(out, &model, &none, args->json);
}

static enum osp_status read_tasks(struct eval *e, const struct osp_model *model)
{
    struct eval_filter filter = {.ability = e->args->ability, .n_max = e->args->n_max};
    char *path;
    enum osp_status st;

    osp_model_get_info(model, &e->info);
    e->name = mem_strdup(e->info.name);
    e->device = mem_strdup(e->info.device);
    path =
        e->args->file != NULL ? mem_strdup(e->args->file) : path_join(e->info.path, "eval.jsonl");
    st = eval_tasks_read(&e->tasks, path, &filter);
    free(path);
    e->info.name = e->name;
    e->info.device = e->device;
    return st;
}

/* One pass over all prompts. */
static enum osp_status run_pass(struct eval *e, struct eval_score *out, bool no_sinks)
{
    struct eval_run_options opt = {
        .n_wrong_shown = e->args->n_wrong_shown,
        .progress = isatty(STDERR_FILENO) != 0,
        .what = no_sinks ? "without sinks" : "with sinks",
    };
    struct osp_model *model = NULL;
    enum osp_status st;

    TRY(open_model(&model, e->args, no_sinks));
    if (e->tasks.n == 0) {
        TRY(read_tasks(e, model));
        TRY(mem_try_array(&e->results, e->tasks.n, sizeof *e->results, "results"));
    }
    TRY(eval_run(e->results, &e->tasks, model, &opt));
    *out = eval_score_of(&e->tasks, e->results);
out:
    osp_model_close(model);
    return st;
}

static enum osp_status run_passes(struct eval *e, bool *met)
{
    struct eval_score with, without;
    struct eval_report report = {.model = &e->info};
    uint64_t begin_ns = clock_ns();
    enum osp_status st = OSP_OK;

    if (!e->args->model.no_sinks) {
        TRY(run_pass(e, &with, false));
        report.with_sinks = &with;
    }
    if (e->args->model.no_sinks || !e->args->skip_ablation) {
        TRY(run_pass(e, &without, true));
        report.without_sinks = &without;
    }
    report.seconds = (double)(clock_ns() - begin_ns) * 1e-9;
    if (e->args->json)
        eval_print_json(stdout, &report);
    else
        eval_print_table(stdout, &report);
    *met = eval_targets_met(&report);
out:
    return st;
}

static int cmd_eval(int argc, char **argv)
{
    struct eval_args args = {0};
    struct eval e = {.args = &args};
    struct option_rest rest;
    bool met = false;
    enum osp_status st;

    if (options_parse(&command_eval, argc, argv, &args, &rest) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (rest.n != 1 || strcmp(rest.words[0], "nano") != 0)
        return command_fail(EXIT_USAGE, "name what to run: osprey eval nano");
    st = run_passes(&e, &met);
    eval_tasks_release(&e.tasks);
    free(e.results);
    free(e.name);
    free(e.device);
    if (st != OSP_OK)
        return command_fail(EXIT_FAILURE, osp_error());
    return args.strict && !met ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct command_example EXAMPLES[] = {
    {"osprey eval nano", "the table of what the bundled model can do"},
    {"osprey eval nano --json > nano.json", "the same for a program"},
    {"osprey eval nano --ability copy --limit 20 --show-wrong 5", "a quick look at one ability"},
    {NULL, NULL},
};

const struct command command_eval = {
    .name = "eval",
    .summary = "measure what osprey-nano can do",
    .usage = "nano [options]",
    .about =
        "Prompts that training never saw are answered greedily and judged: capitals, arithmetic,\n"
        "instructions, recall, function calls, copies. A second pass switches the attention's\n"
        "sinks off, which must cost the model dearly if they carry mass.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_words_max = 1,
    .run = cmd_eval,
};
