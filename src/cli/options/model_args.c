#include "cli/options/model_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/options/kernel_json.h"
#include "cli/options/model_pull.h"
#include "cli/terminal/progress.h"
#include "osprey_tools.h"

enum { HUB_NAME_BYTES_MAX = 256 }; /* of USER/MODEL:TAG */

#define ATTENTION_BACKEND "attention-backend"

static enum osp_status check_exists(const char *path)
{
    if (path == NULL || path_is_folder(path) || path_is_file(path))
        return OSP_OK;
    if (str_ends_with(path, ".gguf"))
        return fail(OSP_ENOTFOUND, "%s: no such file", path);
    return fail(OSP_ENOTFOUND,
                "%s: no such folder; a checkpoint is a folder with config.json and "
                ".safetensors files, or a GGUF file",
                path);
}

static const char *path_arg(const struct model_args *args, const struct positional_args *positional)
{
    if (positional->n > 0)
        return positional->words[0];
    return args->options.path ? args->options.path : args->hf_repo;
}

/* The name of a model on the hub, with its revision; NULL: the model is a folder or the bundled
 * one. */
static const char *hub_name(const struct model_args *args, const struct positional_args *positional)
{
    const char *given = path_arg(args, positional);

    return given && !path_is_folder(given) && !path_is_file(given) && osp_hub_name_is(given) ? given
                                                                                             : NULL;
}

/* -hf is another way to give MODEL; both are an error unless they agree. */
static enum osp_status check_hub_args(const struct model_args *args, const char *given,
                                      const char *name)
{
    if (args->hf_repo != NULL && given != NULL && strcmp(given, args->hf_repo) != 0)
        return fail(OSP_EINVAL, "the model is given twice: %s, and --hf-repo %s", given,
                    args->hf_repo);
    if (args->hf_repo != NULL && name == NULL)
        return fail(OSP_EINVAL,
                    "--hf-repo %s: expected USER/MODEL[:TAG] such as "
                    "ggml-org/gpt-oss-20b-GGUF",
                    args->hf_repo);
    if (args->hf_file != NULL && name == NULL)
        return fail(OSP_EINVAL, "--hf-file %s needs the name of a model on the hub (--hf-repo)",
                    args->hf_file);
    return OSP_OK;
}

const char *model_args_cache_name(const struct model_args *args,
                                  const struct positional_args *positional)
{
    static char name[HUB_NAME_BYTES_MAX];
    const char *found = hub_name(args, positional);

    if (found == NULL)
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(found, "@"), found);
    return name;
}

enum osp_status model_args_path(const char **out, const struct model_args *args,
                                const struct positional_args *positional, bool quiet)
{
    static char *found; /* *out points to it until the next call */
    const char *name = hub_name(args, positional);
    enum osp_status st;

    *out = path_arg(args, positional);
    TRY(check_hub_args(args, *out, name));
    if (name == NULL)
        return check_exists(*out);
    osp_free(found);
    st = model_pull_path(&found, args, name, quiet);
    *out = found;
out:
    return st;
}

static const char *attention_backend(const struct option_pairs *pairs)
{
    for (int i = 0; i < pairs->n; i++)
        if (strcmp(pairs->list[i].name, ATTENTION_BACKEND) == 0)
            return pairs->list[i].value;
    return NULL;
}

enum osp_status model_args_device_options(struct option_pairs *out, const struct model_args *args)
{
    static char *from_json; /* the list points to it until the next call */
    const char *given = attention_backend(&args->device_options);
    enum osp_status st = OSP_OK;

    *out = args->device_options;
    if (args->attention_config == NULL)
        return OSP_OK;
    free(from_json);
    from_json = NULL;
    TRY(kernel_json_backend(&from_json, args->attention_config));
    if (from_json == NULL)
        return OSP_OK;
    if (given && strcmp(given, from_json) != 0)
        return fail(OSP_EINVAL, "--attention-backend %s and --attention-config %s differ", given,
                    args->attention_config);
    if (!option_pairs_set(out, ATTENTION_BACKEND, from_json))
        st = fail(OSP_ELIMIT, "--attention-config: at most %d device options can be set",
                  (int)OSP_DEVICE_OPTIONS_MAX);
out:
    return st;
}

/* vLLM's other loaders of .safetensors files. */
static const char *known_load_format(const char *given)
{
    if (!given || !str_in_list("fastsafetensors,instanttensor,runai_streamer", given))
        return given;
    fprintf(stderr,
            "osprey: --load-format %s is ignored: osprey always maps checkpoints into memory\n",
            given);
    return "safetensors";
}

/* KV cache types of other servers in pasted command lines, and the nearest one of osprey. f16 is
 * llama-server's default. */
static const struct kv_type {
    const char *theirs, *ours;
} KV_TYPES[] = {
    {"f16", "bf16"},   {"float16", "bf16"}, {"half", "bf16"},   {"q8_0", "fp8"},
    {"q5_0", "fp8"},   {"q5_1", "fp8"},     {"q4_0", "fp8"},    {"q4_1", "fp8"},
    {"iq4_nl", "fp8"}, {"fp8_e5m2", "fp8"}, {"fp8_inc", "fp8"},
};

static const char *known_kv_type(const char *given)
{
    for (size_t i = 0; given && i < sizeof KV_TYPES / sizeof KV_TYPES[0]; i++)
        if (strcmp(given, KV_TYPES[i].theirs) == 0)
            return KV_TYPES[i].ours;
    return given;
}

enum osp_status model_args_kv_type(const char **out, const struct model_args *args)
{
    const char *given[] = {args->options.kv_cache_dtype, args->cache_type_k, args->cache_type_v};
    const char *first = NULL;

    *out = NULL;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        const char *known = known_kv_type(given[i]);

        if (*out && known && strcmp(*out, known) != 0)
            return fail(OSP_EINVAL,
                        "KV cache types %s and %s: keys and values must have the same type", first,
                        given[i]);
        if (known && known != given[i] && !*out)
            fprintf(stderr, "osprey: KV cache type %s is not supported; osprey uses %s\n", given[i],
                    known);
        first = first ? first : given[i];
        *out = known ? known : *out;
    }
    return OSP_OK;
}

enum osp_status model_args_sinks(bool *without, const struct model_args *args)
{
    const char *word = args->attention_sinks;

    *without = args->options.no_sinks || (word != NULL && strcmp(word, "off") == 0);
    if (word != NULL && !str_in_list("auto,on,off", word))
        return fail(OSP_EINVAL, "--attention-sinks %s: must be auto, on or off", word);
    if (args->options.no_sinks && word != NULL && strcmp(word, "on") == 0)
        return fail(OSP_EINVAL, "--no-sinks and --attention-sinks on cannot be combined");
    return OSP_OK;
}

enum osp_status model_args_open(struct osp_model **out, const struct model_args *args,
                                const struct positional_args *positional, bool quiet)
{
    struct progress progress;
    struct osp_model_options opt = args->options;
    struct draft_options drafts = {.model = NULL};
    struct option_pairs device_options;
    enum osp_status st;

    progress_init(&progress, "loading", quiet);
    opt.progress = progress_show;
    opt.progress_ctx = &progress;
    opt.load_format = known_load_format(opt.load_format);
    opt.gpu_memory_utilization = args->gpu_memory_utilization.value;
    opt.worker_silence_ms = args->worker_silence_s * 1000;
    TRY(model_args_path(&opt.path, args, positional, quiet));
    TRY(model_args_kv_type(&opt.kv_cache_dtype, args));
    TRY(model_args_sinks(&opt.no_sinks, args));
    TRY(draft_args_read(&drafts, &args->drafts));
    opt.draft_model = drafts.model;
    opt.draft_quantization = drafts.quantization;
    if (opt.n_draft_rows_max == 0)
        opt.n_draft_rows_max = draft_args_rows(&drafts.speculative, opt.n_seqs_max);
    TRY(model_args_device_options(&device_options, args));
    opt.device_options = device_options.list;
    opt.n_device_options = device_options.n;
    st = osp_model_open(out, &opt);
    progress_clear(&progress);
out:
    draft_options_release(&drafts);
    return st;
}

bool model_is_bundled(const struct osp_model *model)
{
    struct osp_model_info info;

    osp_model_get_info(model, &info);
    return strcmp(info.name, "osprey-nano") == 0;
}
