/* `osprey validate`: checks that a checkpoint is complete, and prints its contents and the memory
 * that serving it needs. */
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
    MODEL_RANK_SIZE_ROW(T, model),
    MODEL_REPLICA_ROW(T, model),
    TEXT_ROW(T, model.options.device, "device", NULL, "NAME",
             "device to describe and check: auto, cpu or cuda (default auto)"),
    TEXT_ROW(T, model.options.cpu_features, "cpu-features", NULL, "ISA",
             "with --device cpu: ISA of the kernels to check"),
    MODEL_KERNEL_ROWS(T, model),
    FLAG_ROW(T, read_all, "read-all", NULL,
             "also read every byte: finds disk errors and warms the page cache"),
    FLAG_ROW(T, json, "json", NULL, "print the report as JSON"),
    {0},
};

/* The numbers of the report. X(member, text, kind): kind `n` is a number, `bytes` a size */
#define REPORT_LIST(X)                                                                             \
    X(n_files, "files", n)                                                                         \
    X(n_tensors, "tensors", n)                                                                     \
    X(file_bytes, "size of files", bytes)                                                          \
    X(n_layers, "layers", n)                                                                       \
    X(n_sliding_layers, "sliding-window layers", n)                                                \
    X(window_tokens, "sliding window, tokens", n)                                                  \
    X(width, "width", n)                                                                           \
    X(n_heads, "query heads", n)                                                                   \
    X(n_kv_heads, "key/value heads", n)                                                            \
    X(head_width, "head width", n)                                                                 \
    X(n_experts, "experts", n)                                                                     \
    X(n_experts_active, "active experts per token", n)                                             \
    X(expert_width, "expert width", n)                                                             \
    X(vocab_size, "vocabulary", n)                                                                 \
    X(n_token_ids, "tokenizer ids", n)                                                             \
    X(n_parameters, "parameters", n)                                                               \
    X(n_active_parameters, "active parameters per token", n)                                       \
    X(embed_bytes, "embedding", bytes)                                                             \
    X(attn_bytes, "attention", bytes)                                                              \
    X(router_bytes, "routers", bytes)                                                              \
    X(experts_bytes, "experts' weights", bytes)                                                    \
    X(norm_bytes, "norms", bytes)                                                                  \
    X(head_bytes, "output head", bytes)                                                            \
    X(context_model_tokens, "model context, tokens", n)                                            \
    X(context_tokens_max, "served context, tokens", n)                                             \
    X(n_seqs_max, "maximum sequences per step", n)                                                 \
    X(n_batch_tokens_max, "maximum tokens per step", n)                                            \
    X(kv_cache_bytes, "KV cache, maximum", bytes)                                                  \
    X(activation_bytes, "activations", bytes)                                                      \
    X(total_bytes, "memory to serve, maximum", bytes)                                              \
    X(host_available_bytes, "available host memory", bytes)                                        \
    X(device_available_bytes, "available device memory", bytes)

static void print_n(const char *text, int64_t n)
{
    printf("%-30s %" PRId64 "\n", text, n);
}

static void print_bytes(const char *text, int64_t n_bytes)
{
    char human[16];

    printf("%-30s %s\n", text, format_bytes(human, (double)n_bytes));
}

static bool fits(const struct osp_validate_report *r)
{
    const int n_sharing = r->replicas_share_memory ? r->n_replicas : 1;

    return r->total_bytes * n_sharing <= r->device_available_bytes;
}

static void print_replicas(const struct osp_validate_report *r)
{
    char one[16], all[16];

    if (r->n_replicas > 1)
        printf("%-30s %d, each with %s; together %s\n", "replicas", r->n_replicas,
               format_bytes(one, (double)r->total_bytes),
               format_bytes(all, (double)r->total_bytes * r->n_replicas));
}

/* The part of each rank and its memory. */
static void print_ranks(const struct osp_validate_report *r)
{
    char weights[16], kv[16], activations[16], total[16];

    for (int i = 0; i < r->n_ranks; i++) {
        const struct osp_validate_rank *k = &r->ranks[i];

        printf("rank %-25d %d of %d key/value heads, %d of %d expert columns, %d of %d vocabulary "
               "rows\n",
               i, k->n_kv_heads, r->n_kv_heads, k->expert_width, r->expert_width, k->vocab_size,
               r->vocab_size);
        printf("%-30s %s of weights, %s of KV cache, %s of activations: %s\n", "",
               format_bytes(weights, (double)k->weight_bytes),
               format_bytes(kv, (double)k->kv_cache_bytes),
               format_bytes(activations, (double)k->activation_bytes),
               format_bytes(total, (double)k->total_bytes));
    }
}

static void print_json_ranks(const struct osp_validate_report *r)
{
    if (r->n_ranks == 0)
        return;
    printf(",\"ranks\":[");
    for (int i = 0; i < r->n_ranks; i++) {
        const struct osp_validate_rank *k = &r->ranks[i];

        printf("%s{\"n_heads\":%d,\"n_kv_heads\":%d,\"expert_width\":%d,\"vocab_size\":%d,"
               "\"weight_bytes\":%" PRId64 ",\"kv_cache_bytes\":%" PRId64
               ",\"activation_bytes\":%" PRId64 ",\"total_bytes\":%" PRId64 "}",
               i > 0 ? "," : "", k->n_heads, k->n_kv_heads, k->expert_width, k->vocab_size,
               k->weight_bytes, k->kv_cache_bytes, k->activation_bytes, k->total_bytes);
    }
    putchar(']');
}

static void print_text(const struct osp_validate_report *r, const struct validate_device *device)
{
    printf("%-30s %s\n", "layout", r->layout);
    printf("%-30s %s\n", "types of tensors", r->types);
    printf("%-30s %s\n", "MXFP4 layers", r->mxfp4_layers);
    printf("%-30s %s\n", "KV cache type", r->kv_cache_dtype);
#define REPORT_PRINT(member, text, kind) print_##kind(text, (int64_t)r->member);
    REPORT_LIST(REPORT_PRINT)
#undef REPORT_PRINT
    print_ranks(r);
    print_replicas(r);
    validate_device_print(device);
    puts(fits(r)
             ? "The checkpoint is complete and can be served on this machine."
             : "The checkpoint is complete, but this machine has too little free memory to serve "
               "it.");
}

static void print_json(const struct osp_validate_report *r, const struct validate_device *device)
{
    printf("{\"layout\":\"%s\",\"types\":\"%s\",\"mxfp4_layers\":\"%s\","
           "\"kv_cache_dtype\":\"%s\"",
           r->layout, r->types, r->mxfp4_layers, r->kv_cache_dtype);
#define REPORT_PRINT(member, text, kind) printf(",\"" #member "\":%" PRId64, (int64_t)r->member);
    REPORT_LIST(REPORT_PRINT)
#undef REPORT_PRINT
    printf(",\"n_replicas\":%d", r->n_replicas);
    print_json_ranks(r);
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
        .tensor_parallel_size = args->model.options.tensor_parallel_size,
        .data_parallel_size = args->model.options.data_parallel_size,
        .read_all = args->read_all,
        .progress = progress_show,
        .progress_ctx = &progress,
    };
    enum osp_status st;

    progress_init(&progress, "reading", args->json);
    TRY(model_args_path(&opt.path, &args->model, positional, args->json));
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
    {"osprey validate gpt-oss-20b", "check every header, name, shape and size of a checkpoint"},
    {"osprey validate gpt-oss-20b-Q8_0.gguf --read-all",
     "the same of a GGUF file, its types, and every value"},
    {"osprey validate --device cuda", "describe the GPU and its kernels, and check their results"},
    {"osprey validate gpt-oss-120b --tensor-parallel-size 4", "memory of each of four ranks"},
    {"osprey validate gpt-oss-20b --data-parallel-size 2", "memory of each of two replicas"},
    {"osprey validate gpt-oss-20b -c 131072 -np 4", "memory for four requests of maximum length"},
    {NULL, NULL},
};

const struct command command_validate = {
    .name = "validate",
    .summary = "check a checkpoint and print the memory that serving it needs",
    .usage = "[MODEL] [options]",
    .about = "Checks headers, names, shapes, sizes, configuration and tokenizer of a checkpoint "
             "without\n"
             "serving it. An error names the file, the tensor, the expected and the found value. "
             "With a\n"
             "GPU, or with --device, osprey also describes the device, lists which kernel each "
             "stage uses\n"
             "and why, and compares every stage with the CPU's float32 reference on a small model.",
    .examples = EXAMPLES,
    .options = OPTIONS,
    .n_positional_max = 1,
    .run = cmd_validate,
};
