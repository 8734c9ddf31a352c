/* Opens a model from files: finds the checkpoint, names the model, opens the draft head. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/gguf_files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/printable.h"
#include "engine/bundled.h"
#include "engine/model_internal.h"
#include "engine/rank_start.h"
#include "model/shard.h"

/* Last part of a path: "gpt-oss-20b" of "/models/gpt-oss-20b/". Returns a string to free(). */
static char *last_part(const char *path)
{
    size_t n = strlen(path), begin;
    char *name, *shown;

    while (n > 1 && path[n - 1] == '/')
        n--;
    begin = n;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    name = mem_strndup(path + begin, n - begin);
    shown = printable_new(name); /* it is shown in logs, on terminals and to clients */
    free(name);
    return shown;
}

/* The absolute path of a file, whose own name is kept: in the Hugging Face cache, a GGUF file is a
 * link to a file named by its hash. */
static char *absolute_file(const char *given)
{
    const char *slash = strrchr(given, '/');
    char *folder = slash == given  ? mem_strdup("/")
                   : slash != NULL ? mem_strndup(given, (size_t)(slash - given))
                                   : mem_strdup(".");
    char *real = realpath(folder, NULL), *path;

    path = path_join(real != NULL ? real : folder, slash != NULL ? slash + 1 : given);
    free(real);
    free(folder);
    return path;
}

static enum osp_status find_path(struct osp_model *m, const char *given)
{
    char *real;

    if (given == NULL)
        return bundled_model_path(&m->path);
    if (path_is_file(given)) {
        m->path = absolute_file(given);
        return OSP_OK;
    }
    real = realpath(given, NULL); /* "." has a name, too */
    m->path = real != NULL ? real : mem_strdup(given);
    return OSP_OK;
}

/* A model's name is that of its folder or GGUF file. */
static char *name_of(const char *path)
{
    char *model = path_is_file(path) ? gguf_model_name(path) : mem_strdup(path);
    char *name = last_part(model);

    free(model);
    return name;
}

static enum osp_status check_load_format(const struct gptoss_config *c, const char *path,
                                         const char *load_format)
{
    const bool is_gguf = c->layout == CHECKPOINT_GGUF;

    if (load_format == NULL || strcmp(load_format, "auto") == 0 ||
        is_gguf == (strcmp(load_format, "gguf") == 0))
        return OSP_OK;
    return fail(OSP_EINVAL, "load format %s: %s is %s; leave the format out, or name another model",
                load_format, path, is_gguf ? "a GGUF file" : "a folder of safetensors");
}

static enum osp_status open_draft(struct draft_files *out, const char *path,
                                  struct gptoss_config *target)
{
    char *bundled = NULL;
    enum osp_status st = OSP_OK;

    if (strcmp(path, "bundled") == 0)
        TRY(bundled_draft_path(&bundled));
    TRY(draft_files_open(out, bundled != NULL ? bundled : path, target));
out:
    free(bundled);
    return st;
}

/* A rank plans with the bytes of its own part. */
static enum osp_status plan_source(struct osp_model *m, const struct osp_model_options *opt,
                                   const struct model_source *source,
                                   const struct draft_files *draft)
{
    const struct shard shard = {0, ranks_wanted(opt), ranks_shard_rule(opt)};
    struct weights_report report = source->report;
    enum osp_status st;

    if (shard.n_ranks > 1)
        TRY(shard_report(&source->weights, &source->checkpoint, shard, &report));
    TRY(model_plan_memory(m, opt, &source->checkpoint.config, weights_report_bytes(&report),
                          &report, draft));
out:
    return st;
}

static bool is_draft_quantized(const struct osp_model *m, const struct osp_model_options *opt)
{
    if (opt->draft_model == NULL || opt->draft_quantization == NULL)
        return opt->draft_model != NULL && (m->mxfp4_layers & MXFP4_QKV) != 0;
    return strcmp(opt->draft_quantization, "mxfp4") == 0;
}

/* A worker's parent needs the config alone, and opens the files to report what is wrong with them
 * before it starts a worker; the worker opens and binds them for itself. */
static enum osp_status open_source(struct model_source *out, struct draft_files *draft,
                                   struct osp_model *m, const struct osp_model_options *opt)
{
    enum osp_status st;

    if (m->is_in_worker)
        TRY(checkpoint_open(&out->checkpoint, m->path));
    else
        TRY(model_source_open(out, m->path));
    TRY(check_load_format(&out->checkpoint.config, out->checkpoint.path, opt->load_format));
    TRY(shard_check(&out->checkpoint.config, ranks_wanted(opt), ranks_shard_rule(opt)));
    if (opt->draft_model != NULL)
        TRY(open_draft(draft, opt->draft_model, &out->checkpoint.config));
    if (is_draft_quantized(m, opt) && !m->is_in_worker)
        TRY(draft_files_quantize(draft, opt->n_threads));
    if (!m->is_in_worker)
        TRY(plan_source(m, opt, out, draft));
out:
    return st;
}

enum osp_status model_open_files(struct osp_model *m, const struct osp_model_options *opt)
{
    struct model_source source = {.checkpoint = {.path = NULL}};
    struct draft_files draft = {.checkpoint = {.path = NULL}};
    uint64_t since_ns = clock_ns();
    enum osp_status st;

    TRY(find_path(m, opt->path));
    m->name = opt->path == NULL ? mem_strdup(BUNDLED_MODEL_NAME) : name_of(m->path);
    TRY(open_source(&source, &draft, m, opt));
    if (source.checkpoint.config.layout == CHECKPOINT_GGUF) {
        free(m->path); /* the file in the folder */
        m->path = mem_strdup(source.checkpoint.path);
    }
    log_debug("start: files and memory plan %.3f s", clock_lap_s(&since_ns));
    TRY(model_open_tokenizer(m, opt->tokenizer, source.checkpoint.path));
    TRY(model_check_vocabulary(m, &source.checkpoint.config));
    log_debug("start: tokenizer %.3f s", clock_lap_s(&since_ns));
    if (!m->is_in_worker)
        TRY(model_open_weights(m, opt, &source, &draft));
out:
    draft_files_close(&draft);
    model_source_close(&source);
    return st;
}
