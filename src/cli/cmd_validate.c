/* `osprey validate`: is this checkpoint whole, what is in it, and what does serving it need. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/options/commands.h"
#include "cli/options/model_args.h"
#include "cli/terminal/progress.h"
#include "cli/validate_device.h"
#include "osprey_tools.h"

struct validate_args {
    struct model_args model;
    bool read_all, json;
};

#define T struct validate_args

static const struct option_row OPTIONS[] = {
    MODEL_PATH_ROWS(T, model),
    MODEL_SIZE_ROWS(T, model),
    TEXT_ROW(T, model.options.device, "device", NULL, "NAME",
             "the device to describe and to check: auto, cpu or cuda (default auto)"),
    TEXT_ROW(T, model.options.cpu_features, "cpu-features", NULL, "LEVEL",
             "with --device cpu: the level to check"),
    MODEL_KERNEL_ROWS(T, model),
    FLAG_ROW(T, read_all, "read-all", NULL,
             "also read every byte: finds a failing disk, warms the cache"),
    FLAG_ROW(T, json, "json", NULL, "print the report as JSON"),
    {0},
};

/* The report's figures. X(member, text, kind): kind `n` is a number, `bytes` a size */
#define REPORT_LIST(X)                                                                             \
    X(n_files, "files", n)                                                                         \
    X(n_tensors, "tensors", n)                                                                     \
    X(file_bytes, "bytes of files", bytes)                                                         \
    X(n_layers, "layers", n)                                                                       \
    X(n_sliding_layers, "layers with a window", n)                                                 \
    X(window_tokens, "window, tokens", n)                                                          \
    X(width, "width", n)                                                                           \
    X(n_heads, "query heads", n)                                                                   \
    X(n_kv_heads, "key/value heads", n)                                                            \
    X(head_width, "head width", n)                                                                 \
    X(n_experts, "experts", n)                                                                     \
    X(n_experts_active, "experts a token", n)                                                      \
    X(expert_width, "expert width", n)                                                             \
    X(vocab_size, "vocabulary", n)                                                                 \
    X(n_token_ids, "ids of the tokenizer", n)                                                      \
    X(n_parameters, "parameters", n)                                                               \
    X(n_active_parameters, "parameters a token", n)                                                \
    X(embed_bytes, "embedding", bytes)                                                             \
    X(attn_bytes, "attention", bytes)                                                              \
    X(router_bytes, "routers", bytes)                                                              \
    X(experts_bytes, "experts' weights", bytes)                                                    \
    X(norm_bytes, "norms", bytes)                                                                  \
    X(head_bytes, "output head", bytes)                                                            \
    X(context_model_tokens, "context of the model, tokens", n)                                     \
    X(context_tokens_max, "context served, tokens", n)                                             \
    X(n_seqs_max, "requests at once", n)                                                           \
    X(n_batch_tokens_max, "tokens a step", n)                                                      \
    X(kv_cache_bytes, "KV cache, when full", bytes)                                                \
    X(activation_bytes, "activations", bytes)                                                      \
    X(total_bytes, "memory to serve, at most", bytes)                                              \
    X(host_available_bytes, "memory of the host, available", bytes)                                \
    X(device_available_bytes, "memory of the device, available", bytes)

static void print_n(const char *text, int64_t n)
{
    printf("%-30s %" PRId64 "\n", text, n);
}

static void print_bytes(const char *text, int64_t n_bytes)
{
    char human[16];

    printf("%-30s %s\n", text, format_bytes(human, (double)n_bytes));
}

static void print_text(const struct osp_validate_report *r, const struct validate_device *device)
{
    printf("%-30s %s\n", "layout", r->layout);
    printf("%-30s %s\n", "MXFP4 layers", r->mxfp4_layers);
    printf("%-30s %s\n", "KV cache type", r->kv_cache_dtype);
#define REPORT_PRINT(member, text, kind) print_##kind(text, (int64_t)r->member);
    REPORT_LIST(REPORT_PRINT)
#undef REPORT_PRINT
    validate_device_print(device);
    puts(r->total_bytes <= r->device_available_bytes
             ? "The checkpoint is whole and can be served here."
             : "The checkpoint is whole, but this machine has too little free memory to serve it.");
}

static void print_json(const struct osp_validate_report *r, const struct validate_device *device)
{
    printf("{\"layout\":\"%s\",\"mxfp4_layers\":\"%s\",\"kv_cache_dtype\":\"%s\"", r->layout,
           r->mxfp4_layers, r->kv_cache_dtype);
#define REPORT_PRINT(member, text, kind) printf(",\"" #member "\":%" PRId64, (int64_t)r->member);
    REPORT_LIST(REPORT_PRINT)
#undef REPORT_PRINT
    validate_device_print_json(device);
    puts("}");
}

static enum osp_status validate(const struct validate_args *args,
                                const struct positional_args *positional,
                                struct osp_validate_report *report)
{
    struct progress progress;
    struct osp_validate_options opt = {
        .tokenizer = args->model.options.tokenizer,
        .context_tokens_max = args->model.options.context_tokens_max,
        .n_seqs_max = args->model.options.n_seqs_max,
        .n_batch_tokens_max = args->model.options.n_batch_tokens_max,
        .device = args->model.options.device,
        .read_all = args->read_all,
        .progress = progress_show,
        .progress_ctx = &progress,
    };
    enum osp_status st;

    progress_init(&progress, "reading", args->json);
    TRY(model_args_path(&opt.path, &args->model, positional));
    TRY(model_args_kv_type(&opt.kv_cache_dtype, &args->model));
    st = osp_validate(&opt, report);
    progress_clear(&progress);
out:
    return st;
}

static int cmd_validate(int argc, char **argv)
{
    struct validate_args args = {0};
    struct osp_validate_report report;
    struct validate_device device = {0};
    struct positional_args positional;
    int n_failed;

    if (options_parse(&command_validate, argc, argv, &args, &positional) != OSP_OK)
        return command_fail(EXIT_USAGE, fail_message());
    if (validate(&args, &positional, &report) != OSP_OK ||
        validate_device_read(&device, &args.model) != OSP_OK)
        return command_fail(EXIT_FAILURE, osp_error());
    if (args.json)
        print_json(&report, &device);
    else
        print_text(&report, &device);
    n_failed = validate_device_failures(&device);
    validate_device_release(&device);
    return n_failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct command_example EXAMPLES[] = {
    {"osprey validate gpt-oss-20b", "every header, name, shape and size of a checkpoint"},
    {"osprey validate --device cuda", "the card, its kernels, and whether they compute rightly"},
    {"osprey validate gpt-oss-20b -c 131072 -np 4", "the memory for four requests of full length"},
    {NULL, NULL},
};

const struct command command_validate = {
    .name = "validate",
    .summary = "check a checkpoint and print what serving it needs",
    .usage = "[MODEL] [options]",
    .about =
        "Nothing is served: headers, names, shapes, sizes, configuration and tokenizer are\n"
        "checked, and an error names the file, the tensor, what was expected and what was found.\n"
        "With a card, or with --device, also the device: what it is, which kernel each stage uses\n"
        "and why, and every stage once against the CPU's float32 reference on a small model.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_validate,
};
