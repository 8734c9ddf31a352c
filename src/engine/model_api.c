/* Opens a model: finds checkpoint and tokenizer, plans the memory, binds the weights. */
#include "engine/core/model_api.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/gguf_files.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/printable.h"
#include "engine/bundled.h"
#include "engine/device_settings.h"
#include "engine/memory/kv_dtype.h"
#include "engine/memory/memory_table.h"
#include "engine/rank_start.h"
#include "engine/worker/replicas.h"
#include "engine/chat/completion_cache.h"
#include "model/dummy.h"
#include "model/quantize.h"
#include "model/shard.h"

/* The tokenizer's absolute path, for a worker with another folder. A path too long is left
 * empty. */
static void keep_path(struct osp_model *m, const char *path)
{
    char *absolute = realpath(path, NULL);

    if (absolute != NULL && strlen(absolute) < sizeof m->text.path)
        memcpy(m->text.path, absolute, strlen(absolute) + 1);
    free(absolute);
}

/* In a worker the parent has opened it already. */
static enum osp_status open_tokenizer(struct osp_model *m, const char *given, const char *folder)
{
    char *path = NULL;
    enum osp_status st;

    if (m->text.n_token_ids > 0)
        return OSP_OK;
    TRY(bundled_tokenizer_path(&path, given, folder));
    TRY(tokenizer_open(&m->tokenizer, path));
    m->text.n_token_ids = tokenizer_size(m->tokenizer);
    m->text.specials = *tokenizer_specials(m->tokenizer);
    keep_path(m, path);
out:
    free(path);
    return st;
}

static enum osp_status check_vocabulary(const struct osp_model *m, const struct gptoss_config *c)
{
    if (m->text.n_token_ids > c->vocab_size)
        return fail(OSP_EFORMAT, "%s: the tokenizer has %d ids, the model only %d", m->path,
                    (int)m->text.n_token_ids, c->vocab_size);
    return OSP_OK;
}

enum osp_status device_memory_get(struct device_memory_info *out, const char *device, int n_ranks,
                                  double share)
{
    const struct backend_ops *ops = backend_find(device);
    enum osp_status st;

    if (ops == NULL)
        return OSP_ENOTFOUND;
    *out = (struct device_memory_info){.host_bytes = host_available_bytes(), .share = share};
    TRY(ops->memory(&out->gpu, 0, n_ranks));
    out->free_bytes = out->allowed_bytes = out->host_bytes;
    if (out->gpu.total_bytes > 0) {
        out->free_bytes = device_share_bytes(&out->gpu, 0, out->host_bytes);
        out->allowed_bytes = device_share_bytes(&out->gpu, share, out->host_bytes);
    } else if (share > 0) {
        log_warn("gpu_memory_utilization has no effect: the model runs on the CPU");
    }
out:
    return st;
}

/* A rank's part of the shape, and of this host's memory. */
static enum osp_status plan_rank(struct memory_request *request, struct gptoss_config *part,
                                 const struct gptoss_config *c, const struct osp_model_options *opt)
{
    const int n_ranks = ranks_wanted(opt), n_local = ranks_on_this_host(opt);
    const enum shard_rule rule = ranks_shard_rule(opt);
    int n_sharing = n_local; /* ranks that share a memory */
    enum osp_status st;

    *part = *c;
    TRY(shard_check(c, n_ranks, rule));
    shard_config(part, c, (struct shard){0, n_ranks, rule});
    if (n_ranks == 1)
        return OSP_OK;
    if (rule == SHARD_FOR_GPU && request->info.gpu.n_devices > 0)
        n_sharing = (n_local + request->info.gpu.n_devices - 1) / request->info.gpu.n_devices;
    request->info.allowed_bytes /= n_sharing;
    request->n_ranks = n_ranks;
    request->n_threads = ranks_threads(opt, ranks_on_this_host(opt));
out:
    return st;
}

/* file_bytes, parts_of: with several ranks, of rank 0's part. draft: an opened draft head, or an
 * empty one; NULL: none. */
static enum osp_status plan_memory(struct osp_model *m, const struct osp_model_options *opt,
                                   const struct gptoss_config *whole, int64_t file_bytes,
                                   const struct weights_report *parts_of,
                                   const struct draft_files *draft)
{
    struct memory_request request = {
        .context_tokens_max = opt->context_tokens_max,
        .n_seqs_max = opt->n_seqs_max,
        .n_batch_tokens_max = opt->n_batch_tokens_max,
        .n_draft_rows_max = opt->n_draft_rows_max,
        .draft = draft != NULL && draft_files_is_open(draft) ? &draft->config : NULL,
        .kv_cache_bytes = opt->kv_cache_bytes,
        .n_threads = opt->n_threads,
        .device_options = device_settings_options(&m->device_settings),
    };
    struct gptoss_config part, *const c = &part;
    struct quantize_sizes sizes;
    unsigned mxfp4_layers;
    enum osp_status st;

    if (m->part != NULL) {
        m->plan = m->part->plan;
        return OSP_OK;
    }
    TRY(model_config_check(whole));
    TRY(device_memory_get(&request.info, opt->device, ranks_wanted(opt),
                          opt->gpu_memory_utilization));
    TRY(plan_rank(&request, &part, whole, opt));
    request.is_gpu = request.info.gpu.total_bytes > 0;
    if (!request.is_gpu) /* replicas on GPUs have memory of their own */
        request.info.allowed_bytes /= replicas_wanted(opt);
    request.step_bytes = backend_find(opt->device)->step_bytes;
    TRY(kv_dtype_choose(&request.kv_dtype, opt->kv_cache_dtype, opt->device, opt->cpu_features));
    TRY(quantize_layers_check(&mxfp4_layers, c, m->mxfp4_layers));
    sizes = quantize_sizes(c, mxfp4_layers);
    if (request.draft != NULL)
        file_bytes += draft->weights.data_bytes;
    TRY(memory_plan_make(&m->plan, c, &request, file_bytes - sizes.bf16_bytes + sizes.mxfp4_bytes,
                         request.info.allowed_bytes));
    memory_table_log(&m->plan, c, &request.info, parts_of);
out:
    return st;
}

#define DRAFT_GENERATED "dummy" /* osp_model_options.draft_model */

static bool is_dummy(const struct osp_model_options *opt)
{
    return opt->load_format != NULL && strcmp(opt->load_format, "dummy") == 0;
}

static const char *dummy_shape_of(const struct osp_model_options *opt)
{
    return opt->dummy_shape != NULL ? opt->dummy_shape : "gpt-oss-20b";
}

/* The exchange of this rank; NULL: there is one rank. On rank 0, the others are started first. */
static enum osp_status join_ranks(struct osp_model *m, const struct osp_model_options *opt,
                                  const struct model_source *source, struct exchange **out,
                                  int *n_local)
{
    const uint64_t fingerprint = source != NULL ? checkpoint_fingerprint(&source->checkpoint) : 0;
    enum osp_status st = OSP_OK;

    *out = NULL;
    *n_local = 1;
    if (ranks_wanted(opt) == 1)
        return OSP_OK;
    if (m->part != NULL) {
        *out = m->part->exchange;
        *n_local = m->part->n_local;
        return fingerprint == m->part->fingerprint
                   ? OSP_OK
                   : fail(OSP_EFORMAT, "%s has other weights than the model of rank 0", m->path);
    }
    TRY(ranks_start(m, opt, fingerprint));
    *out = rank_leader_exchange(m->ranks);
    *n_local = rank_leader_local(m->ranks);
out:
    return st;
}

/* Takes `source` and `draft` over, as model_open() does; NULL: generated weights, no draft head. */
static enum osp_status open_weights(struct osp_model *m, const struct osp_model_options *opt,
                                    struct model_source *source, struct draft_files *draft)
{
    struct model_options mo = {
        .source = source,
        .draft = draft,
        .n_draft_states_kept = memory_draft_states(m->plan.n_seqs_max),
        .dummy_shape = is_dummy(opt) ? dummy_shape_of(opt) : NULL,
        .dummy_layers = opt->dummy_layers,
        .device = opt->device,
        .cpu_features = opt->cpu_features,
        .cpu_affinity = opt->cpu_affinity != NULL ? opt->cpu_affinity : "auto",
        .n_threads = opt->n_threads,
        .n_rows_max = m->plan.n_batch_tokens_max,
        .n_samples_max = m->plan.n_samples_max,
        .n_seq_pages_max = m->plan.n_seq_pages_max,
        .edits = m->plan.lists,
        .kv_dtype = m->plan.kv_dtype,
        .no_sinks = opt->no_sinks,
        .mxfp4_layers = m->mxfp4_layers,
        .device_options = device_settings_options(&m->device_settings),
        .is_eager = opt->enforce_eager,
        .pack_cache = opt->pack_cache,
        .n_token_ids = m->text.n_token_ids,
        .progress = opt->progress,
        .progress_ctx = opt->progress_ctx,
    };

    int n_local;
    enum osp_status st;

    memcpy(mo.n_pages, m->plan.n_pages, sizeof mo.n_pages);
    TRY(join_ranks(m, opt, source, &mo.exchange, &n_local));
    mo.n_threads = ranks_threads(opt, n_local);
    TRY(model_open(&m->model, &mo));
    if (m->ranks != NULL)
        TRY(rank_leader_wait_ready(m->ranks));
out:
    return st;
}

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
    TRY(plan_memory(m, opt, &source->checkpoint.config, weights_report_bytes(&report), &report,
                    draft));
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

static enum osp_status open_folder(struct osp_model *m, const struct osp_model_options *opt)
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
    TRY(open_tokenizer(m, opt->tokenizer, source.checkpoint.path));
    TRY(check_vocabulary(m, &source.checkpoint.config));
    log_debug("start: tokenizer %.3f s", clock_lap_s(&since_ns));
    if (!m->is_in_worker)
        TRY(open_weights(m, opt, &source, &draft));
out:
    draft_files_close(&draft);
    model_source_close(&source);
    return st;
}

/* Of generated weights: on CPUs a rank generates all, on a GPU its part, with all of the head. */
static int64_t dummy_rank_bytes(const struct gptoss_config *c, const struct osp_model_options *opt)
{
    const struct shard shard = {0, ranks_wanted(opt), ranks_shard_rule(opt)};
    struct gptoss_config part;

    shard_config(&part, c, shard);
    return dummy_bytes(shard.rule == SHARD_FOR_GPU ? &part : c);
}

/* Unlike a mapped file, generated weights must fit in memory. */
static enum osp_status check_dummy_fits(const struct gptoss_config *c,
                                        const struct osp_model_options *opt)
{
    const int64_t need = dummy_rank_bytes(c, opt);
    struct device_memory_info info;
    char need_text[16], has_text[16];
    enum osp_status st;

    TRY(device_memory_get(&info, opt->device, ranks_wanted(opt), opt->gpu_memory_utilization));
    if (need > info.allowed_bytes)
        st = fail(OSP_ENOMEM, "dummy weights of %d layers take %s, only %s are free: ask for fewer",
                  c->n_layers, format_bytes(need_text, (double)need),
                  format_bytes(has_text, (double)info.allowed_bytes));
out:
    return st;
}

/* The draft head of generated weights, if one is wanted. */
static enum osp_status generate_draft(struct draft_files *out, struct gptoss_config *target,
                                      const struct osp_model_options *opt)
{
    struct device_memory memory;
    enum osp_status st = OSP_OK;

    if (opt->draft_model == NULL)
        return OSP_OK;
    TRY(backend_find(opt->device)->memory(&memory, 0, 1));
    TRY(draft_files_generate(out, target, memory.total_bytes > 0));
out:
    return st;
}

static enum osp_status open_dummy(struct osp_model *m, const struct osp_model_options *opt)
{
    struct gptoss_config config;
    struct draft_files draft = {.checkpoint = {.path = NULL}};
    char *folder = NULL;
    enum osp_status st;

    m->path = mem_strdup("dummy");
    m->name = mem_printf("%s-dummy", dummy_shape_of(opt));
    TRY(dummy_config(&config, dummy_shape_of(opt), opt->dummy_layers, m->mxfp4_layers));
    TRY(shard_check(&config, ranks_wanted(opt), ranks_shard_rule(opt)));
    if (!m->is_in_worker)
        TRY(check_dummy_fits(&config, opt));
    if (!m->is_in_worker)
        TRY(generate_draft(&draft, &config, opt));
    if (!m->is_in_worker)
        TRY(plan_memory(m, opt, &config, dummy_rank_bytes(&config, opt), NULL, &draft));
    if (opt->tokenizer == NULL)
        TRY(bundled_model_path(&folder));
    TRY(open_tokenizer(m, opt->tokenizer, folder));
    TRY(check_vocabulary(m, &config));
    if (!m->is_in_worker)
        TRY(open_weights(m, opt, NULL, &draft));
out:
    draft_files_close(&draft);
    free(folder);
    return st;
}

/* Whether the options allow a draft head; known before any file is read. */
static enum osp_status check_draft_device(const struct osp_model_options *opt)
{
    const struct backend_ops *ops = opt->draft_model != NULL ? backend_find(opt->device) : NULL;

    if (ops == NULL) /* an unknown device is reported later */
        return OSP_OK;
    if (ranks_wanted(opt) > 1)
        return fail(OSP_EUNSUPPORTED,
                    "a draft head and tensor parallelism cannot be combined yet: leave out the "
                    "draft model (method ngram works with ranks), or use one rank");
    if (!ops->runs_draft_heads)
        return fail(OSP_EUNSUPPORTED,
                    "draft model %s: the device %s cannot run draft heads (Eagle3); use method "
                    "ngram, which needs no draft model, or another device",
                    opt->draft_model, ops->name);
    if (is_dummy(opt) != (strcmp(opt->draft_model, DRAFT_GENERATED) == 0))
        return fail(OSP_EUNSUPPORTED,
                    "draft model %s: a model with generated weights (load format dummy) has a "
                    "generated draft head, \"" DRAFT_GENERATED "\", and no other model has it",
                    opt->draft_model);
    return OSP_OK;
}

static enum osp_status open_format(struct osp_model *m, const struct osp_model_options *opt)
{
    enum osp_status st;

    TRY(mxfp4_layers_parse(&m->mxfp4_layers, opt->mxfp4_layers));
    if (is_dummy(opt))
        return open_dummy(m, opt);
    if (opt->load_format != NULL && strcmp(opt->load_format, "auto") != 0 &&
        strcmp(opt->load_format, "safetensors") != 0 && strcmp(opt->load_format, "gguf") != 0)
        return fail(OSP_EINVAL, "load format %s: there are auto, safetensors, gguf, dummy",
                    opt->load_format);
    if (opt->dummy_shape != NULL || opt->dummy_layers != 0)
        return fail(OSP_EINVAL, "a shape and a number of layers need the load format dummy");
    st = open_folder(m, opt);
out:
    return st;
}

static void collect_facts(struct osp_model *m)
{
    const struct gptoss_config *c = model_config(m->model);
    const struct weights_report *w = model_weights_report(m->model);

    model_device_info(m->model, &m->device);
    m->facts = (struct model_facts){
        .n_layers = c->n_layers,
        .width = c->width,
        .n_experts = c->n_experts,
        .n_experts_active = c->n_experts_active,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .vocab_size = c->vocab_size,
        .window_tokens = c->window_tokens,
        .n_stop_ids = c->n_stop_ids,
        .n_threads = m->device.n_threads,
        .n_parameters = w->n_parameters,
        .n_active_parameters = w->n_active_parameters,
    };
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        m->facts.page_bytes[g] =
            model_page_bytes(model_part_config(m->model), (enum page_group)g, m->plan.kv_dtype);
    memcpy(m->facts.stop_ids, c->stop_ids, sizeof m->facts.stop_ids);
    memcpy(m->facts.device, m->device.name, sizeof m->facts.device);
}

/* Packing is the slow part of a start; with a cache it is done once. */
static void hint_at_cache(const struct osp_model *m, const struct osp_model_options *opt)
{
    enum { SLOW_SECONDS = 5 };
    char bytes[16];

    if (m->load_seconds < SLOW_SECONDS || is_dummy(opt) || opt->pack_cache != NULL ||
        m->device.pack_layout == NULL)
        return;
    log_info(
        "%s was ready after %.0f s: --pack-cache on keeps the packed weights (up to %s on disk), "
        "and the next start maps them",
        m->name, m->load_seconds, format_bytes(bytes, (double)m->plan.weight_bytes));
}

/* The parent opens names and text; the worker opens the rest. The parent opens the checkpoint
 * first, so that an error in its files is reported at once. */
static enum osp_status open_in_worker(struct osp_model *m, const struct osp_model_options *opt)
{
    struct osp_model_options absolute = *opt;
    char *draft = opt->draft_model != NULL ? realpath(opt->draft_model, NULL) : NULL;
    struct wire_model made;
    enum osp_status st;

    m->is_in_worker = true;
    m->engine_ops = &worker_engine_ops;
    TRY(open_format(m, opt));
    if (opt->path != NULL && !is_dummy(opt))
        absolute.path = m->path; /* later workers find it even if this process changes its folder */
    if (draft != NULL)
        absolute.draft_model = draft; /* "bundled" has no path */
    if (replicas_wanted(opt) > 1) {
        m->engine_ops = &replicas_engine_ops;
        TRY(replicas_open(&m->replicas, &absolute, &m->text, &made));
    } else {
        TRY(worker_client_open(&m->worker_client, &absolute, &m->text, &made));
    }
    m->plan = made.plan;
    m->facts = made.facts;
out:
    free(draft);
    return st;
}

static enum osp_status open_here(struct osp_model *m, const struct osp_model_options *opt)
{
    enum osp_status st;

    TRY(open_format(m, opt));
    collect_facts(m);
out:
    return st;
}

/* text: see model_open_tokens(); NULL: open the tokenizer. part: of a rank other than 0. */
static enum osp_status open_model(struct osp_model **out, const struct osp_model_options *opt,
                                  const struct model_text *text, const struct model_part *part)
{
    struct osp_model *m = mem_new(sizeof *m);
    uint64_t begin_ns = clock_ns();
    bool is_in_worker;
    enum osp_status st;

    *out = NULL;
    pthread_mutex_init(&m->costs_lock, NULL);
    m->forms = grammar_cache_new();
    m->completion_cache = text == NULL ? completion_cache_new(COMPLETION_CACHE_BYTES_MAX) : NULL;
    if (text == NULL && m->completion_cache == NULL)
        TRY(fail(OSP_ENOMEM, "no memory to keep answers"));
    if (text != NULL)
        m->text = *text;
    m->part = part;
    m->data_parallel_rank = opt->data_parallel_rank;
    TRY(worker_is_wanted(&is_in_worker, opt));
    is_in_worker |= text == NULL && (ranks_wanted(opt) > 1 || replicas_wanted(opt) > 1);
    if (text == NULL)
        TRY(replicas_check(opt));
    TRY(check_draft_device(opt));
    TRY(device_settings_make(&m->device_settings, opt));
    TRY(is_in_worker ? open_in_worker(m, opt) : open_here(m, opt));
    m->device_settings.n = 0; /* their strings are borrowed until here */
    m->part = NULL;
    m->load_seconds = (double)(clock_ns() - begin_ns) * 1e-9;
    hint_at_cache(m, opt);
    log_debug("%s: context %d, %d requests at once, %d full and %d window pages", m->name,
              m->plan.context_tokens_max, m->plan.n_seqs_max, m->plan.n_pages[GROUP_FULL],
              m->plan.n_pages[GROUP_WINDOW]);
    *out = m;
out:
    if (st != OSP_OK)
        osp_model_close(m);
    return st;
}

enum osp_status osp_model_open(struct osp_model **out, const struct osp_model_options *given)
{
    struct osp_model_options opt = {.path = NULL};

    if (given != NULL)
        opt = *given;
    return open_model(out, &opt, NULL, NULL);
}

enum osp_status model_open_tokens(struct osp_model **out, const struct osp_model_options *opt,
                                  const struct model_text *text)
{
    return open_model(out, opt, text, NULL);
}

enum osp_status model_open_part(struct osp_model **out, const struct osp_model_options *opt,
                                const struct model_part *part)
{
    return open_model(out, opt, &part->text, part);
}

void osp_model_close(struct osp_model *model)
{
    if (model == NULL)
        return;
    worker_client_close(model->worker_client);
    replicas_close(model->replicas);
    model_close(model->model);
    rank_leader_close(model->ranks);
    grammar_cache_free(model->forms);
    completion_cache_free(model->completion_cache);
    tokenizer_close(model->tokenizer);
    pthread_mutex_destroy(&model->costs_lock);
    free(model->name);
    free(model->path);
    free(model);
}

void osp_model_get_info(const struct osp_model *model, struct osp_model_info *out)
{
    const struct model_facts *f = &model->facts;

    *out = (struct osp_model_info){
        .name = model->name,
        .path = model->path,
        .device = f->device,
        .n_layers = f->n_layers,
        .width = f->width,
        .n_experts = f->n_experts,
        .n_experts_active = f->n_experts_active,
        .n_heads = f->n_heads,
        .n_kv_heads = f->n_kv_heads,
        .vocab_size = f->vocab_size,
        .context_tokens_max = model->plan.context_tokens_max,
        .n_threads = f->n_threads,
        .n_parameters = f->n_parameters,
        .n_active_parameters = f->n_active_parameters,
        .weight_bytes = model->plan.weight_bytes,
        .kv_cache_bytes = model->plan.kv_cache_bytes,
        .kv_cache_dtype = kv_dtype_text(model->plan.kv_dtype),
        .load_seconds = model->load_seconds,
        .n_replicas = model->replicas != NULL ? replicas_count(model->replicas) : 1,
    };
}

void osp_model_publish_costs(struct osp_model *m)
{
    pthread_mutex_lock(&m->costs_lock);
    m->n_costs = model_costs(m->model, m->costs, STAGE_COSTS_MAX);
    pthread_mutex_unlock(&m->costs_lock);
}

int osp_model_stage_costs(const struct osp_model *model, struct osp_stage_cost *out, int n_max)
{
    struct osp_model *m = (struct osp_model *)model; /* only its lock changes */
    const bool has_head = m->model != NULL && model_has_draft(m->model);
    int n = 0;

    pthread_mutex_lock(&m->costs_lock);
    for (int i = 0; i < m->n_costs && n < n_max; i++) {
        const struct stage_cost *cost = &m->costs[i];

        if (cost->n_calls > 0 || has_head) /* else the stages of a head never run */
            out[n++] = (struct osp_stage_cost){
                .stage = cost->stage,
                .n_calls = cost->n_calls,
                .time_ns = cost->time_ns,
                .bytes = cost->bytes,
                .flops = cost->flops,
            };
    }
    pthread_mutex_unlock(&m->costs_lock);
    return n;
}

const struct osp_tokenizer *osp_model_tokenizer(const struct osp_model *model)
{
    return (const struct osp_tokenizer *)model->tokenizer;
}
