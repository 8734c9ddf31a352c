/* `osprey quantize`: writes a checkpoint again with more of its matrices quantized to MXFP4. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/options/commands.h"
#include "cli/options/model_args.h"
#include "cli/terminal/progress.h"
#include "osprey_tools.h"

enum { WORDS = 2 }; /* IN and OUT */

struct quantize_args {
    struct model_args in; /* of which only the hub's members are used */
    const char *mxfp4_layers;
    int64_t shard_bytes_max;
    int n_threads;
    bool force;
};

#define T struct quantize_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, mxfp4_layers, "mxfp4-layers", NULL, "LIST",
             "layers to quantize to MXFP4: all, or a list of moe,qkv,o,lm_head,embed (default "
             "all)"),
    BYTES_ROW(T, shard_bytes_max, "shard-size", "--max-shard-size", 1 << 20, 1e15,
              "maximum size of the tensors in one file, such as 512M or 4G (default 5 GB)"),
    LIMIT_ROW(T, n_threads, "threads", "-t", 4096, "N",
              "number of compute threads (default: all CPUs that the process may use)"),
    FLAG_ROW(T, force, "force", NULL, "replace the folder OUT if it is a checkpoint"),
    MODEL_HUB_ROWS(T, in),
    {0},
};

static volatile int stopped;

static void on_signal(int number)
{
    stopped = number;
}

static void catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static void print_report(const struct osp_quantize_report *r, const char *out)
{
    char from[16], to[16];

    printf("%s: %" PRId64 " tensors in %d file%s, %s (before: %s)\n", out, r->n_tensors, r->n_files,
           r->n_files == 1 ? "" : "s", format_bytes(to, (double)r->to_bytes),
           format_bytes(from, (double)r->from_bytes));
    printf("quantized to MXFP4: %s; MXFP4 in the result: %s\n", r->new_layers, r->layers);
}

static enum osp_status quantize(const struct quantize_args *args,
                                const struct positional_args *positional,
                                struct osp_quantize_report *report)
{
    const struct positional_args in = {.n = 1, .words = positional->words};
    struct progress progress;
    struct osp_quantize_options options = {.out = positional->words[1],
                                           .mxfp4_layers = args->mxfp4_layers,
                                           .force = args->force,
                                           .shard_bytes_max = args->shard_bytes_max,
                                           .n_threads = args->n_threads,
                                           .stop = &stopped,
                                           .progress = progress_show,
                                           .progress_ctx = &progress};
    enum osp_status st;

    TRY(model_args_path(&options.path, &args->in, &in, false));
    catch_signals();
    progress_init(&progress, "writing", false);
    st = osp_quantize(&options, report);
    progress_clear(&progress);
out:
    return st;
}

static int cmd_quantize(int argc, char **argv)
{
    struct quantize_args args = {0};
    struct osp_quantize_report report;
    struct positional_args positional;
    enum osp_status st;

    if (options_parse(&command_quantize, argc, argv, &args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (positional.n != WORDS)
        return command_fail(EXIT_USAGE, "quantize needs two arguments: IN, the checkpoint to read, "
                                        "and OUT, the checkpoint to write");
    st = quantize(&args, &positional, &report);
    if (st == OSP_ECANCELED && stopped)
        return command_fail(EXIT_SIGNAL + stopped, osp_error());
    if (st != OSP_OK)
        return command_fail(st == OSP_EINVAL ? EXIT_USAGE : EXIT_FAILURE, osp_error());
    print_report(&report, positional.words[1]);
    return 0;
}

static const struct command_example EXAMPLES[] = {
    {"osprey quantize gpt-oss-20b gpt-oss-20b-mxfp4", "quantize all layers that can be MXFP4"},
    {"osprey quantize openai/gpt-oss-20b gpt-oss-20b-mxfp4 --pull",
     "the same of a model on Hugging Face"},
    {"osprey quantize gpt-oss-20b-bf16 gpt-oss-20b --mxfp4-layers moe",
     "convert a BF16 release to the published layout"},
    {"osprey quantize gpt-oss-20b-Q4_K_M.gguf gpt-oss-20b --mxfp4-layers moe",
     "convert a GGUF file to the published layout"},
    {NULL, NULL},
};

const struct command command_quantize = {
    .name = "quantize",
    .summary = "quantize a checkpoint to MXFP4",
    .usage = "IN OUT [options]",
    .about =
        "Reads the checkpoint IN, a folder or file in any layout that osprey serves or the name of "
        "a\n"
        "model on Hugging Face, and writes the folder OUT in the Hugging Face layout, with the\n"
        "tokenizer and the other small files. If the command fails, there is no folder OUT.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = WORDS,
    .run = cmd_quantize,
};
