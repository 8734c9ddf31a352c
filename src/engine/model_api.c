/* Opens a model, here or in a worker process: the tokenizer, the ranks, the weights; closes it, and
 * reports about it. */
#include "engine/core/model_api.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/bundled.h"
#include "engine/device_settings.h"
#include "engine/memory/kv_dtype.h"
#include "engine/model_internal.h"
#include "engine/rank_start.h"
#include "engine/worker/replicas.h"
#include "engine/chat/completion_cache.h"
#include "model/quantize.h"

/* The tokenizer's absolute path, for a worker with another folder. A path too long is left
 * empty. */
static void keep_path(struct osp_model *m, const char *path)
{
    char *absolute = realpath(path, NULL);

    if (absolute != NULL && strlen(absolute) < sizeof m->text.path)
        memcpy(m->text.path, absolute, strlen(absolute) + 1);
    free(absolute);
}

enum osp_status model_open_tokenizer(struct osp_model *m, const char *given, const char *folder)
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

enum osp_status model_check_vocabulary(const struct osp_model *m, const struct gptoss_config *c)
{
    if (m->text.n_token_ids > c->vocab_size)
        return fail(OSP_EFORMAT, "%s: the tokenizer has %d ids, the model only %d", m->path,
                    (int)m->text.n_token_ids, c->vocab_size);
    return OSP_OK;
}

#define DRAFT_GENERATED "dummy" /* osp_model_options.draft_model */

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

enum osp_status model_open_weights(struct osp_model *m, const struct osp_model_options *opt,
                                   struct model_source *source, struct draft_files *draft)
{
    struct model_options mo = {
        .source = source,
        .draft = draft,
        .n_draft_states_kept = memory_draft_states(m->plan.n_seqs_max),
        .dummy_shape = model_is_dummy(opt) ? model_dummy_shape(opt) : NULL,
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
    if (model_is_dummy(opt) != (strcmp(opt->draft_model, DRAFT_GENERATED) == 0))
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
    if (model_is_dummy(opt))
        return model_open_dummy(m, opt);
    if (opt->load_format != NULL && strcmp(opt->load_format, "auto") != 0 &&
        strcmp(opt->load_format, "safetensors") != 0 && strcmp(opt->load_format, "gguf") != 0)
        return fail(OSP_EINVAL, "load format %s: there are auto, safetensors, gguf, dummy",
                    opt->load_format);
    if (opt->dummy_shape != NULL || opt->dummy_layers != 0)
        return fail(OSP_EINVAL, "a shape and a number of layers need the load format dummy");
    st = model_open_files(m, opt);
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

    if (m->load_seconds < SLOW_SECONDS || model_is_dummy(opt) || opt->pack_cache != NULL ||
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
    if (opt->path != NULL && !model_is_dummy(opt))
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
