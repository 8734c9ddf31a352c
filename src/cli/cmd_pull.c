/* `osprey pull`: downloads a model into the Hugging Face cache, and lists, verifies and removes
 * what is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/options/commands.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/pull_line.h"
#include "cli/terminal/pull_run.h"

struct pull_args {
    struct osp_pull_options pull;
    bool dry_run, list, verify, repair, remove, yes, quiet;
};

#define T struct pull_args

static const struct option_row OPTIONS[] = {
    TEXT_ROW(T, pull.revision, "revision", NULL, "NAME",
             "branch, tag or commit, same as @REVISION (default main)"),
    TEXT_ROW(T, pull.file, "file", "--hf-file,-hff", "FILE",
             "a GGUF file of the repository, with all of its parts (default: chosen by the tag)"),
    TEXT_ROW(T, pull.include, "include", NULL, "PATTERN[,PATTERN]",
             "also download files that match, such as \"original/*\""),
    TEXT_ROW(T, pull.cache, "download-dir", "--cache-dir", "FOLDER",
             "the Hugging Face cache (default: $HF_HUB_CACHE, $HF_HOME/hub or "
             "~/.cache/huggingface/hub)"),
    TEXT_ROW(T, pull.token, "hf-token", "-hft,--token", "TOKEN",
             "token of the hub; other users of the machine can read the command line, so prefer "
             "HF_TOKEN (default: $HF_TOKEN, or the file $HF_HOME/token of hf auth login)"),
    INT_ROW(T, pull.n_connections, "connections", NULL, 1, 32, "N",
            "number of connections (default 8)"),
    FLAG_ROW(T, pull.offline, "offline", NULL, "do not use the network, as HF_HUB_OFFLINE=1"),
    FLAG_ROW(T, dry_run, "dry-run", NULL, "print the files and their sizes; download nothing"),
    FLAG_ROW(T, list, "list", NULL, "list the models of the cache"),
    FLAG_ROW(T, verify, "verify", NULL,
             "compare the files of the model in the cache with their digests, without the network"),
    FLAG_ROW(T, repair, "repair", NULL,
             "as --verify, then download the files again that are corrupt or missing"),
    FLAG_ROW(T, remove, "remove", NULL,
             "remove the model from the cache; with a revision, only that snapshot"),
    FLAG_ROW(T, yes, "yes", "-y", "remove without a question"),
    FLAG_ROW(T, quiet, "quiet", "-q", "no progress"),
    {0},
};

/* ---- --list ---- */

struct table {
    int n;
    int64_t n_bytes;
};

static void put_model(void *ctx, const struct osp_hub_model *m)
{
    struct table *table = ctx;
    char size[16], unfinished[16];

    if (table->n++ == 0)
        printf("%-40s %-12s %-12s %10s  %s\n", "MODEL", "REVISION", "COMMIT", "SIZE", "STATE");
    printf("%-40s %-12s %-12.12s %10s  ", m->repo, *m->refs ? m->refs : "-",
           *m->commit ? m->commit : "-", format_bytes(size, (double)m->n_bytes));
    format_bytes(unfinished, (double)m->unfinished_bytes);
    if (m->unfinished_bytes > 0)
        printf("%s, %s of an unfinished download\n", m->is_complete ? "complete" : "incomplete",
               unfinished);
    else
        puts(m->is_complete ? "complete" : "not for osprey, or incomplete");
    table->n_bytes += m->n_bytes + m->unfinished_bytes;
}

static enum osp_status list(const struct pull_args *args)
{
    struct table table = {0};
    const enum osp_status st = osp_hub_list(args->pull.cache, put_model, &table);
    char size[16];

    if (st == OSP_OK && table.n == 0)
        fputs("the cache has no models\n", stderr);
    else if (st == OSP_OK)
        printf("%d snapshot%s, %s\n", table.n, table.n == 1 ? "" : "s",
               format_bytes(size, (double)table.n_bytes));
    return st;
}

/* ---- --verify ---- */

struct check {
    struct progress progress;
    bool quiet;
};

static void put_check(void *ctx, const char *path, const char *result)
{
    struct check *check = ctx;

    progress_clear(&check->progress);
    if (!check->quiet || strcmp(result, "ok") != 0)
        printf("%-8s %s\n", result, path);
    fflush(stdout);
}

static void show_check(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct check *check = ctx;

    progress_show(&check->progress, done_bytes, total_bytes);
}

static enum osp_status verify(const struct pull_args *args)
{
    struct check check = {.quiet = args->quiet};
    struct osp_hub_verify_options options = {.name = args->pull.name,
                                             .revision = args->pull.revision,
                                             .cache = args->pull.cache,
                                             .repair = args->repair,
                                             .put = put_check,
                                             .progress = show_check,
                                             .ctx = &check};
    enum osp_status st;

    progress_init(&check.progress, "verifying", args->quiet);
    options.stop = pull_signals_begin();
    st = osp_hub_verify(&options);
    progress_clear(&check.progress);
    pull_signals_end();
    return st;
}

/* ---- --remove ---- */

static enum osp_status remove_model(const struct pull_args *args)
{
    char size[16], *question;
    bool agreed = args->yes;
    int64_t freed_bytes = 0;
    enum osp_status st;

    if (!agreed && !pull_can_ask())
        return fail(OSP_EINVAL, "%s: without a terminal --remove needs --yes", args->pull.name);
    if (!agreed) {
        question = mem_printf("Remove %s from the cache?", args->pull.name);
        agreed = pull_ask(question, false);
        free(question);
    }
    if (!agreed)
        return fail(OSP_ECANCELED, "%s: not removed", args->pull.name);
    st = osp_hub_remove(&freed_bytes, args->pull.name, args->pull.revision, args->pull.cache);
    if (st == OSP_OK)
        printf("%s: removed, %s are free again\n", args->pull.name,
               format_bytes(size, (double)freed_bytes));
    return st;
}

/* ---- the download ---- */

static void print_report(const struct osp_pull_report *r, const char *name)
{
    char received[16];

    if (r->total.received_bytes == 0)
        fprintf(stderr, "%s: complete, nothing to download\n", name);
    else
        fprintf(stderr, "%s: downloaded %s in %d files; every digest is right\n", name,
                format_bytes(received, (double)r->total.received_bytes), r->total.n_files);
}

static enum osp_status download(const struct pull_args *args)
{
    const struct pull_request request = {
        .options = args->pull, .dry_run = args->dry_run, .quiet = args->quiet};
    struct osp_pull_report report = {0};
    enum osp_status st = pull_run(&report, &request);

    if (st == OSP_ECANCELED && args->dry_run && pull_signal() == 0)
        st = OSP_OK;
    else if (st == OSP_OK) {
        if (!args->quiet)
            print_report(&report, args->pull.name);
        puts(report.path);
    }
    osp_pull_report_release(&report);
    return st;
}

static enum osp_status repair(const struct pull_args *args)
{
    struct pull_args again = *args;
    const enum osp_status st = verify(args);

    if (st != OSP_OK && st != OSP_EFORMAT)
        return st;
    if (st == OSP_EFORMAT)
        fprintf(stderr, "osprey: %s\n", fail_message());
    again.pull.repair = true;
    return download(&again);
}

/* ---- the command ---- */

static enum osp_status take_name(struct pull_args *args, const struct positional_args *positional)
{
    const int n_modes = args->list + args->verify + args->repair + args->remove + args->dry_run;

    if (n_modes > 1)
        return fail(OSP_EINVAL, "only one of --list, --verify, --repair, --remove and --dry-run "
                                "can be given");
    if (positional->n == 0)
        return args->list ? OSP_OK
                          : fail(OSP_EINVAL, "pull needs the name of a model, such as "
                                             "openai/gpt-oss-20b");
    if (args->list)
        return fail(OSP_EINVAL, "--list lists all models and takes no name");
    args->pull.name = positional->words[0];
    return osp_hub_name_is(args->pull.name)
               ? OSP_OK
               : fail(OSP_EINVAL,
                      "%s: not the name of a model, expected USER/MODEL[:TAG][@REVISION] such as "
                      "openai/gpt-oss-20b",
                      args->pull.name);
}

static int cmd_pull(int argc, char **argv)
{
    struct pull_args args = {0};
    struct positional_args positional;
    enum osp_status st;

    if (options_parse(&command_pull, argc, argv, &args, &positional) != OSP_OK ||
        take_name(&args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (args.list)
        st = list(&args);
    else if (args.remove)
        st = remove_model(&args);
    else if (args.repair)
        st = repair(&args);
    else
        st = (args.verify ? verify : download)(&args);
    if (st == OSP_OK)
        return EXIT_SUCCESS;
    return command_fail(st == OSP_EINVAL ? EXIT_USAGE : EXIT_FAILURE, fail_message());
}

static const struct command_example EXAMPLES[] = {
    {"osprey pull openai/gpt-oss-20b", "the files that osprey needs, about 14 GB"},
    {"osprey pull openai/gpt-oss-120b@main --dry-run", "what would be downloaded"},
    {"osprey pull ggml-org/gpt-oss-20b-GGUF", "a GGUF file, chosen as llama-server's -hf does"},
    {"osprey pull unsloth/gpt-oss-20b-GGUF:Q8_0", "the GGUF file with that tag"},
    {"osprey pull --list", "what is in the cache"},
    {"osprey pull openai/gpt-oss-20b --verify", "compare every file with its digest"},
    {"osprey pull openai/gpt-oss-20b --remove", "free the disk"},
    {NULL, NULL},
};

const struct command command_pull = {
    .name = "pull",
    .summary = "download a model from Hugging Face, list, verify or remove models",
    .usage = "USER/MODEL[:TAG][@REVISION] [options]",
    .about =
        "Downloads the config, the tokenizer, the chat template and the .safetensors files of a\n"
        "model, or a GGUF file, into the Hugging Face cache, which transformers, vLLM, llama.cpp\n"
        "and hf share. Prints the path. Every file is compared with the SHA-256 of the hub's\n"
        "listing before it appears there. After Ctrl-C, a crash or a lost connection the same\n"
        "command continues. HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE,\n"
        "HF_HUB_DOWNLOAD_TIMEOUT, SSL_CERT_FILE, http_proxy, https_proxy and no_proxy apply.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_pull,
};
