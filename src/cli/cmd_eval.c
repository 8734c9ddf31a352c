/* `osprey eval nano`: scores the abilities of osprey-nano, with attention sinks and without.
 * `osprey eval drafts`: acceptance of drafts in the same answers.
 * `osprey eval quality`: compares predictions under the given options with the reference's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/options/commands.h"
#include "cli/eval/eval.h"
#include "cli/eval/eval_drafts.h"
#include "cli/options/model_args.h"
#include "cli/eval/quality.h"

struct eval_args {
    struct model_args model;
    const char *file, *ability;
    const char *reference;
    int n_max, n_wrong_shown, n_tokens_max;
    bool json, skip_ablation, strict, decode, alone;
    struct option_float kl_max, same_top_min;
};

#define T struct eval_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, file, "file", NULL, "FILE",
             "nano, drafts: prompts with expected answers (default: eval.jsonl in the model's "
             "folder); "
             "quality: a plain text (default: built-in paragraphs, and the prompts of eval.jsonl)"),
    TEXT_ROW(
        T, ability, "ability", NULL, "NAME",
        "nano, drafts: run only this ability: capital, arithmetic, instruction, recall, tool_call, "
        "tool_result or copy"),
    INT_ROW(T, n_max, "limit", NULL, 0, 1000000, "N",
            "run only the first N prompts of each "
            "ability"),
    INT_ROW(T, n_wrong_shown, "show-wrong", NULL, 0, 1000000, "N",
            "nano: print up to N wrong answers to standard error"),
    FLAG_ROW(T, skip_ablation, "skip-ablation", NULL,
             "nano: skip the second pass, which runs without attention sinks"),
    FLAG_ROW(T, strict, "strict", NULL, "nano: exit with status 1 unless every target is met"),
    FLAG_ROW(T, json, "json", NULL, "print the table as JSON"),
    FLAG_ROW(T, decode, "decode", NULL,
             "quality: measure the decode kernels instead of the prefill kernels"),
    TEXT_ROW(T, reference, "reference", NULL, "FOLDER",
             "quality: reference checkpoint, such as the one before quantization (default: the "
             "same checkpoint with float32 kernels)"),
    FLAG_ROW(T, alone, "alone", NULL, "quality: measure only perplexity, without a reference"),
    INT_ROW(T, n_tokens_max, "max-tokens", NULL, 2, 1e9, "N",
            "quality: use only the first N tokens of --file"),
    FLOAT_ROW(T, kl_max, "kl-max", NULL, 0, 1e9, "NATS",
              "quality: exit with status 1 if the mean KL divergence is larger than this"),
    FLOAT_ROW(T, same_top_min, "same-top-min", NULL, 0, 100, "PERCENT",
              "quality: exit with status 1 if model and reference have the same most likely "
              "token in fewer positions than this"),
    MODEL_PATH_ROWS(T, model),
    MODEL_SIZE_ROWS(T, model),
    MODEL_DEVICE_ROWS(T, model),
    MODEL_DUMMY_ROWS(T, model),
    MODEL_DRAFT_ROWS(T, model),
    {0},
};

/* Both passes of an evaluation, and facts of the model, whose strings are copies. */
struct eval {
    const struct eval_args *args;
    const struct positional_args *model;
    struct eval_tasks tasks;
    struct eval_result *results; /* (tasks.n) */
    struct osp_model_info info;
    char *name, *device;
};

static enum osp_status open_model(struct osp_model **out, const struct eval *e, bool no_sinks)
{
    struct model_args model = e->args->model;

    model.options.no_sinks = no_sinks;
    return model_args_open(out, &model, e->model, e->args->json);
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
        e->args->file != NULL ? mem_strdup(e->args->file) : path_beside(e->info.path, "eval.jsonl");
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

    TRY(open_model(&model, e, no_sinks));
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

    if (!e->args->model.options.no_sinks) {
        TRY(run_pass(e, &with, false));
        report.with_sinks = &with;
    }
    if (e->args->model.options.no_sinks || !e->args->skip_ablation) {
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

static enum osp_status run_nano(const struct eval_args *args, const struct positional_args *model,
                                bool *met)
{
    struct eval e = {.args = args, .model = model};
    enum osp_status st = run_passes(&e, met);

    eval_tasks_release(&e.tasks);
    free(e.results);
    free(e.name);
    free(e.device);
    *met = *met || !args->strict;
    return st;
}

/* Without an option that says which drafts: those of the bundled draft head. */
static struct model_args with_drafts(const struct eval_args *args)
{
    struct model_args model = args->model;
    const struct draft_args *d = &model.drafts;

    if (d->config == NULL && d->model == NULL)
        model.drafts.config = "{\"method\": \"eagle3\"}";
    return model;
}

static enum osp_status measure_drafts(struct eval *e, struct osp_model *model,
                                      const struct osp_speculative *speculative)
{
    const int n_drafts = draft_args_positions(speculative);
    struct eval_drafts all[N_ABILITIES];
    enum osp_status st;

    TRY(read_tasks(e, model));
    TRY(eval_drafts_run(all, &e->tasks, model, speculative,
                        isatty(STDERR_FILENO) != 0 && !e->args->json));
    if (e->args->json)
        eval_drafts_print_json(stdout, &e->info, all, n_drafts);
    else
        eval_drafts_print_table(stdout, all, n_drafts);
out:
    return st;
}

static enum osp_status run_drafts(const struct eval_args *args,
                                  const struct positional_args *positional, bool *met)
{
    struct eval e = {.args = args, .model = positional};
    const struct model_args model_args = with_drafts(args);
    struct draft_options drafts = {.model = NULL};
    struct osp_model *model = NULL;
    enum osp_status st;

    TRY(draft_args_read(&drafts, &model_args.drafts));
    TRY(model_args_open(&model, &model_args, positional, args->json));
    TRY(measure_drafts(&e, model, &drafts.speculative));
    *met = true;
out:
    draft_options_release(&drafts);
    eval_tasks_release(&e.tasks);
    osp_model_close(model);
    free(e.name);
    free(e.device);
    return st;
}

static bool quality_met(const struct eval_args *args, const struct osp_quality_result *r)
{
    if (args->kl_max.is_set && !(r->kl_mean <= args->kl_max.value))
        return false;
    return !args->same_top_min.is_set || 100 * r->same_top_share >= args->same_top_min.value;
}

static enum osp_status run_quality(const struct eval_args *args,
                                   const struct positional_args *model, bool *met)
{
    const struct quality_options opt = {
        .file = args->file,
        .reference = args->reference,
        .n_prompts = args->n_max,
        .n_tokens_max = args->n_tokens_max,
        .decode = args->decode,
        .alone = args->alone,
        .quiet = args->json,
    };
    struct quality q;
    enum osp_status st;

    TRY(quality_measure(&q, &args->model, model, &opt));
    if (args->json)
        quality_print_json(stdout, &q, &opt);
    else
        quality_print_table(stdout, &q, &opt);
    *met = args->alone || quality_met(args, &q.result);
    if (!*met)
        fprintf(stderr,
                "osprey: KL mean %.3g and same top %.3f %% do not meet --kl-max and "
                "--same-top-min\n",
                q.result.kl_mean, 100 * q.result.same_top_share);
out:
    return st;
}

enum task { TASK_NANO = 1, TASK_QUALITY = 2, TASK_DRAFTS = 4 };

static const struct eval_task_row {
    enum task task;
    const char *name;
    enum osp_status (*run)(const struct eval_args *args, const struct positional_args *model,
                           bool *met);
} TASKS[] = {{TASK_NANO, "nano", run_nano},
             {TASK_QUALITY, "quality", run_quality},
             {TASK_DRAFTS, "drafts", run_drafts}};
enum { N_TASKS = sizeof TASKS / sizeof TASKS[0] };

/* An option of another task would be ignored without a message. */
static enum osp_status check_options(const struct eval_args *a, const struct eval_task_row *task)
{
    const struct {
        const char *option;
        bool is_given;
        unsigned tasks;
        const char *of;
    } options[] = {
        {"--ability", a->ability != NULL, TASK_NANO | TASK_DRAFTS, "nano and drafts"},
        {"--show-wrong", a->n_wrong_shown > 0, TASK_NANO, "nano"},
        {"--skip-ablation", a->skip_ablation, TASK_NANO, "nano"},
        {"--strict", a->strict, TASK_NANO, "nano"},
        {"--decode", a->decode, TASK_QUALITY, "quality"},
        {"--reference", a->reference != NULL, TASK_QUALITY, "quality"},
        {"--alone", a->alone, TASK_QUALITY, "quality"},
        {"--max-tokens", a->n_tokens_max > 0, TASK_QUALITY, "quality"},
        {"--kl-max", a->kl_max.is_set, TASK_QUALITY, "quality"},
        {"--same-top-min", a->same_top_min.is_set, TASK_QUALITY, "quality"},
        {"--speculative-config", a->model.drafts.config != NULL, TASK_DRAFTS, "drafts"},
        {"--model-draft", a->model.drafts.model != NULL, TASK_DRAFTS, "drafts"},
        {"--draft-max", a->model.drafts.tokens_max > 0, TASK_DRAFTS, "drafts"},
        {"--draft-min", a->model.drafts.tokens_min > 0, TASK_DRAFTS, "drafts"},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].is_given && (options[i].tasks & task->task) == 0)
            return fail(OSP_EINVAL, "%s is an option of osprey eval %s", options[i].option,
                        options[i].of);
    if (a->alone && (a->reference != NULL || a->kl_max.is_set || a->same_top_min.is_set))
        return fail(OSP_EINVAL, "--alone runs without a reference: remove --reference, --kl-max "
                                "and --same-top-min");
    return OSP_OK;
}

static const struct eval_task_row *find_task(const struct positional_args *positional)
{
    for (int i = 0; i < N_TASKS && positional->n > 0; i++)
        if (strcmp(positional->words[0], TASKS[i].name) == 0)
            return &TASKS[i];
    return NULL;
}

static int cmd_eval(int argc, char **argv)
{
    struct eval_args args = {0};
    struct positional_args positional, model;
    const struct eval_task_row *task;
    bool met = false;

    log_set_level(LOG_WARN);
    if (options_parse(&command_eval, argc, argv, &args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    model = (struct positional_args){.n = positional.n - 1, .words = positional.words + 1};
    task = find_task(&positional);
    if (task == NULL)
        return command_fail(EXIT_USAGE,
                            "eval needs a task: osprey eval nano [MODEL], osprey eval drafts "
                            "[MODEL], or osprey eval quality [MODEL]");
    if (check_options(&args, task) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (task->run(&args, &model, &met) != OSP_OK)
        return command_fail(EXIT_FAILURE, osp_error());
    return met ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const struct command_example EXAMPLES[] = {
    {"osprey eval nano", "score the bundled model on all abilities"},
    {"osprey eval nano --json > nano.json", "the same as JSON"},
    {"osprey eval nano --ability copy --limit 20 --show-wrong 5", "a quick test of one ability"},
    {"osprey eval drafts", "acceptance of the bundled draft head"},
    {"osprey eval quality", "perplexity, and KL divergence of this CPU's kernels from the "
                            "reference"},
    {"osprey eval quality gpt-oss-20b --mxfp4-layers all --file book.txt --max-tokens 4096",
     "cost of a quantization, measured on a text of your own"},
    {NULL, NULL},
};

const struct command command_eval = {
    .name = "eval",
    .summary = "measure the abilities of a model and the accuracy of its kernels",
    .usage = "nano|drafts|quality [MODEL] [options]",
    .about =
        "nano: scores greedy answers to prompts that are not in the training data: capitals,\n"
        "arithmetic, instructions, recall, function calls, copies. A second pass runs without\n"
        "attention sinks; if the model uses them, its score drops.\n"
        "drafts: runs the same prompts with every draft verified, and prints the tokens of a step\n"
        "and how many drafts were accepted, by ability and by position in the draft.\n"
        "quality: perplexity of a text, and the KL divergence between the model under these "
        "options\n"
        "and the float32 reference at every position: mean, 99th percentile, maximum, and the "
        "share\n"
        "of positions where both have the same most likely token.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 2,
    .run = cmd_eval,
};
