/* Opens a model: checkpoint, device and memory. Then binds the arguments of every stage and
 * compiles the program of a step. Small vectors (norms, sinks), which every step reads, are
 * converted to f32; all other weights stay mapped from the checkpoint, or the device packs a
 * copy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/residual_sum.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/convert.h"
#include "model/dummy.h"
#include "model/model.h"
#include "model/quantize.h"
#include "model/shard.h"
#include "model/stage_steps.h"

/* State while a model is being opened. */
struct builder {
    struct model *m;
    const struct gptoss_config *c;
    const struct model_options *opt;
    struct activations act;
    struct pool *pool;                 /* converts weights; NULL: none needs it */
    float *vectors_end;                /* the next free float of m->vectors */
    int64_t packed_bytes;              /* of the weights bound so far */
    bool device_fills;                 /* the device generates dummy weights in its own memory */
    int n_group_layers[N_PAGE_GROUPS]; /* layers bound so far, by group */
};

/* ---- weights ---- */

static void count_packed(struct builder *b, const struct tensor *host)
{
    const int64_t total_bytes = weights_report_bytes(&b->m->report);

    b->packed_bytes += tensor_bytes(host);
    if (b->opt->progress != NULL && b->packed_bytes <= total_bytes)
        b->opt->progress(b->opt->progress_ctx, b->packed_bytes, total_bytes);
}

/* Whether the device generates the weight of the slot, or a rank's part of it, of the shape
 * *host. */
static bool find_values(struct random_weight *out, const struct builder *b,
                        const struct tensor *slot, struct tensor *host)
{
    struct random_part data, scales;
    struct tensor whole;

    if (!b->device_fills)
        return false;
    if (!weights_part(&b->m->weights, slot, &whole, &data, &scales))
        return dummy_find(out, b->m->dummy, slot);
    if (!dummy_find(out, b->m->dummy, &whole))
        return false;
    host->data = whole.data; /* is not read, but is there */
    host->scales = whole.scales;
    out->data.part = data;
    out->scales.part = scales;
    return true;
}

/* A weight of a GGUF file is converted now. The memory or the mapped pages of a weight that the
 * device has copied are released. Large weights are packed one by one, so that a checkpoint is
 * never in memory twice. */
static enum osp_status pack(struct builder *b, struct tensor *out, const struct tensor *host)
{
    struct tensor mapped, shape = *host;
    struct random_weight values;
    enum osp_status st;

    if (find_values(&values, b, host, &shape)) {
        TRY(b->m->ops->fill_random(b->m->be, out, &shape, &values));
        count_packed(b, host);
        return OSP_OK;
    }
    if (pack_cache_get(&b->m->pack_cache, host, &mapped))
        host = &mapped;
    else
        TRY(weight_load(&b->m->weights, host, b->pool));
    TRY(b->m->ops->pack(b->m->be, out, host));
    pack_cache_add(&b->m->pack_cache, host, out);
    if (out->data != host->data) {
        count_packed(b, host);
        weight_unload(&b->m->weights, host);
    }
out:
    return st;
}

/* A vector of the checkpoint as f32, in the model's own memory. */
static enum osp_status widen(struct builder *b, struct tensor *out, const struct tensor *host)
{
    enum osp_status st;

    TRY(weight_load(&b->m->weights, host, b->pool));
    *out = *host;
    out->dtype = DTYPE_F32;
    out->data = b->vectors_end;
    for (int64_t i = 0; i < host->dim[0]; i++)
        *b->vectors_end++ = tensor_element_f32(host, i);
out:
    return st;
}

static enum osp_status pack_norm(struct builder *b, struct tensor *out, const struct tensor *host)
{
    struct tensor norm;
    enum osp_status st;

    TRY(widen(b, &norm, host));
    TRY(pack(b, out, &norm));
out:
    return st;
}

static enum osp_status pack_sinks(struct builder *b, struct tensor *out, const struct tensor *host)
{
    struct tensor sinks;
    enum osp_status st;

    TRY(widen(b, &sinks, host));
    for (int i = 0; b->opt->no_sinks && i < b->c->n_heads; i++)
        ((float *)sinks.data)[i] = -INFINITY;
    TRY(pack(b, out, &sinks));
out:
    return st;
}

/* ---- binding, stage by stage ---- */

static enum osp_status bind_attn(struct builder *b, struct layer *l, int index)
{
    const struct layer_weights *w = &b->m->weights.layers[index];
    const enum page_group group = group_of_layer(b->c, index);
    const struct tensor kv = cache_of_layer(b->c, b->m->kv_dtype, b->m->pages[group].data,
                                            b->opt->n_pages[group], b->n_group_layers[group]++);
    enum osp_status st;

    l->attn_qkv = (struct attn_qkv_args){.q = b->act.q,
                                         .kv = kv,
                                         .y = b->act.y,
                                         .rope = &b->m->rope,
                                         .group = group,
                                         .kv_rows = b->act.kv_rows};
    l->attn = (struct attn_args){.att = b->act.att,
                                 .q = b->act.q,
                                 .kv = kv,
                                 .window_tokens = group == GROUP_WINDOW ? b->c->window_tokens : 0,
                                 .scale = 1.0f / sqrtf((float)b->c->head_dim),
                                 .group = group};
    l->attn_out =
        (struct attn_out_args){.h = b->act.h, .att = b->act.att, .n_slices = b->c->n_kv_heads};
    for (int i = 0; i < 3; i++) {
        TRY(pack(b, &l->attn_qkv.wqkv[i], &w->wqkv[i]));
        TRY(pack(b, &l->attn_qkv.bqkv[i], &w->bqkv[i]));
    }
    TRY(pack_sinks(b, &l->attn.sinks, &w->sinks));
    TRY(pack(b, &l->attn_out.wo, &w->wo));
    TRY(pack(b, &l->attn_out.bo, &w->bo));
out:
    return st;
}

static enum osp_status bind_experts(struct builder *b, struct layer *l,
                                    const struct layer_weights *w)
{
    enum osp_status st;

    l->router = (struct router_args){.ids = b->act.ids,
                                     .gates = b->act.gates,
                                     .y = b->act.y,
                                     .router_logits = b->act.router_logits};
    l->experts =
        (struct experts_args){.h = b->act.h,
                              .y = b->act.y,
                              .ids = b->act.ids,
                              .gates = b->act.gates,
                              .limit = b->c->swiglu_limit,
                              .alpha = b->c->swiglu_alpha,
                              .slice_units = shard_slice_units(&b->m->config, b->m->shard.rule),
                              .units = b->act.units,
                              .parts = b->act.parts};
    TRY(pack(b, &l->router.wr, &w->wr));
    TRY(pack(b, &l->router.br, &w->br));
    TRY(pack(b, &l->experts.w_up, &w->w_up));
    TRY(pack(b, &l->experts.b_up, &w->b_up));
    TRY(pack(b, &l->experts.w_down, &w->w_down));
    TRY(pack(b, &l->experts.b_down, &w->b_down));
out:
    return st;
}

/* residual_rmsnorm applies the norm of the stage that reads y next. */
static enum osp_status bind_residual(struct builder *b,
                                     struct residual_rmsnorm_args *residual_rmsnorm,
                                     const struct tensor *next_norm)
{
    *residual_rmsnorm = (struct residual_rmsnorm_args){
        .x = b->act.x, .y = b->act.y, .h = b->act.h, .eps = b->c->norm_eps};
    return pack_norm(b, &residual_rmsnorm->norm, next_norm);
}

static enum osp_status bind_layer(struct builder *b, int index)
{
    const struct weights *w = &b->m->weights;
    const bool is_last = index + 1 == b->c->n_layers;
    struct layer *l = &b->m->layers[index];
    enum osp_status st;

    TRY(bind_attn(b, l, index));
    TRY(bind_residual(b, &l->attn_residual, &w->layers[index].moe_norm));
    TRY(bind_experts(b, l, &w->layers[index]));
    TRY(bind_residual(b, &l->experts_residual,
                      is_last ? &w->final_norm : &w->layers[index + 1].attn_norm));
out:
    return st;
}

static enum osp_status bind_ends(struct builder *b)
{
    struct model *m = b->m;
    const int n_ids = b->opt->n_token_ids;
    enum osp_status st;

    m->embed_rmsnorm =
        (struct embed_rmsnorm_args){.x = b->act.x, .y = b->act.y, .eps = b->c->norm_eps};
    m->logits = (struct logits_args){.logits = b->act.logits, .y = b->act.y};
    m->logits.first_id = (int)shard_vocab_row(b->c->vocab_size, m->shard.rank, m->shard.n_ranks);
    m->embed_rmsnorm.is_part = m->shard.n_ranks > 1 && m->shard.rule == SHARD_FOR_CPU;
    m->embed_rmsnorm.first_id = m->embed_rmsnorm.is_part ? m->logits.first_id : 0;
    m->sample = (struct sample_args){
        .tokens = b->act.tokens,
        .logprobs = b->act.logprobs,
        .top_tokens = b->act.top_tokens,
        .top_logprobs = b->act.top_logprobs,
        .logits = b->act.logits,
        .n_valid = n_ids > 0 && n_ids < b->c->vocab_size ? n_ids : b->c->vocab_size};
    TRY(pack(b, &m->embed_rmsnorm.table, &m->weights.embed));
    TRY(pack_norm(b, &m->embed_rmsnorm.norm, &m->weights.layers[0].attn_norm));
    if (b->c->tied_embeddings && (m->embed_rmsnorm.is_part || m->shard.n_ranks < 2))
        m->logits.head = m->embed_rmsnorm.table;
    else
        TRY(pack(b, &m->logits.head, &m->weights.head));
out:
    return st;
}

/* ---- memory ---- */

static enum osp_status allocate(struct builder *b)
{
    struct model *m = b->m;
    const int T = b->opt->n_rows_max, R = b->opt->n_samples_max;
    const int64_t n_vectors = 2 * (int64_t)b->c->n_layers + 1;
    enum osp_status st;

    TRY(mem_try_aligned(&m->vectors.data,
                        (size_t)(n_vectors * b->c->width + (int64_t)b->c->n_layers * b->c->n_heads),
                        sizeof(float), "norms and sinks"));
    b->vectors_end = m->vectors.data;
    TRY(m->ops->alloc(m->be, &m->activations, (size_t)model_activation_bytes(b->c, T, R)));
    (void)activations_layout(&b->act, b->c, T, R, m->activations.data);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        TRY(m->ops->alloc(m->be, &m->pages[g],
                          (size_t)(model_page_bytes(b->c, (enum page_group)g, m->kv_dtype) *
                                   b->opt->n_pages[g])));
    TRY(mem_try_array(&m->layers, (size_t)b->c->n_layers, sizeof(*m->layers), "layers"));
    m->n_layers = b->c->n_layers;
out:
    return st;
}

/* After the weights, since loading them may need as much memory temporarily. */
static enum osp_status reserve(const struct builder *b)
{
    const struct model_options *opt = b->opt;
    struct batch_counts counts = {.n_rows = opt->n_rows_max,
                                  .n_seqs = opt->n_samples_max,
                                  .n_samples = opt->n_samples_max,
                                  .n_seen = opt->edits.n_seen,
                                  .n_biases = opt->edits.n_biases,
                                  .n_mask_words = opt->edits.n_mask_words,
                                  .has_trees = draft_files_is_open(&b->m->draft.source)};
    int n_all = 0;
    struct step_shape shape;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        n_all += opt->n_pages[g];
    if (opt->n_seq_pages_max > 0)
        n_all = opt->n_seq_pages_max;
    counts.n_pages = counts.n_seqs * n_all;
    shape = model_step_shape(b->c, counts, b->m->kv_dtype, opt->device_options);
    shape.n_seq_pages = n_all;
    shape.n_threads = opt->n_threads;
    shape.n_ranks = b->m->shard.n_ranks;
    return b->m->ops->step_reserve(b->m->be, &shape);
}

static enum osp_status check_options(const struct model_options *opt)
{
    if (opt->n_rows_max < 1 || opt->n_samples_max < 1)
        return fail(OSP_EINVAL, "n_rows_max is %d and n_samples_max is %d; both must be at least 1",
                    opt->n_rows_max, opt->n_samples_max);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (opt->n_pages[g] < 0)
            return fail(OSP_EINVAL, "page group %d: n_pages is %d, expected 0 or more", g,
                        opt->n_pages[g]);
    return OSP_OK;
}

static enum osp_status find_device(struct model *m, const struct model_options *opt)
{
    m->ops = backend_find(opt->device);
    return m->ops == NULL ? OSP_ENOTFOUND : OSP_OK;
}

/* A device with its own memory generates its weights there. The host generates the rest with all
 * CPUs, whatever n_threads is set for a benchmark. */
static enum osp_status open_dummy(struct builder *b)
{
    struct model *m = b->m;
    const struct model_options *opt = b->opt;
    struct dummy_options options = {.progress = opt->progress, .progress_ctx = opt->progress_ctx};
    struct gptoss_config config;
    struct device_memory memory;
    enum osp_status st;

    TRY(find_device(m, opt));
    TRY(m->ops->memory(&memory, m->shard.rank, 1));
    options.vectors_only = b->device_fills = memory.total_bytes > 0;
    TRY(dummy_config(&config, opt->dummy_shape, opt->dummy_layers, opt->mxfp4_layers));
    if (opt->draft != NULL && draft_files_is_open(opt->draft))
        draft_add_to_target(&config, &opt->draft->config);
    TRY(model_config_check(&config));
    TRY(dummy_open(&m->dummy, &m->checkpoint, &config, &options));
    TRY(weights_bind(&m->weights, &m->checkpoint, &m->report));
out:
    return st;
}

static enum osp_status open_checkpoint(struct builder *b)
{
    struct model *m = b->m;
    const struct model_options *opt = b->opt;
    struct model_source opened, *source = opt->source != NULL ? opt->source : &opened;
    enum osp_status st = OSP_OK;

    if (opt->dummy_shape != NULL)
        return open_dummy(b);
    if (opt->source == NULL)
        TRY(model_source_open(&opened, opt->path));
    m->checkpoint = source->checkpoint;
    m->weights = source->weights;
    m->report = source->report;
    *source = (struct model_source){.checkpoint = {.path = NULL}};
out:
    return st;
}

static enum osp_status find_packed(struct model *m, const struct model_options *opt,
                                   unsigned mxfp4_layers)
{
    const struct pack_cache_options options = {
        .folder = opt->pack_cache, .mxfp4_layers = mxfp4_layers, .ops = m->ops, .be = m->be};

    return pack_cache_open(&m->pack_cache, &m->weights, &m->checkpoint, &options);
}

/* Reduces the weights to this rank's part, which is read while it is bound, and converts layers to
 * MXFP4 if requested. Packed parts are not kept in a cache. */
static enum osp_status load_part(struct model *m, struct quantize_options *options,
                                 const struct model_options *opt)
{
    char part[16], all[16];
    int64_t all_bytes = weights_report_bytes(&m->report);
    enum osp_status st;

    TRY(quantize_layers_check(&options->mxfp4_layers, &m->config, opt->mxfp4_layers));
    TRY(weights_shard(&m->weights, &m->checkpoint, m->shard, &m->report));
    log_info("rank %d of %d reads %s of the weights' %s", m->shard.rank, m->shard.n_ranks,
             format_bytes(part, (double)weights_report_bytes(&m->report)),
             format_bytes(all, (double)all_bytes));
    shard_config(&m->checkpoint.config, &m->config, m->shard);
    if (m->dummy == NULL)
        TRY(weights_quantize(&m->weights, &m->checkpoint, options, &m->report));
out:
    return st;
}

/* Loads the weights: packed ones from an earlier start, or the whole checkpoint, read, checked and
 * quantized to MXFP4 if requested. */
static enum osp_status load_weights(struct model *m, const struct model_options *opt)
{
    struct quantize_options options = {
        .n_threads = opt->n_threads, .progress = opt->progress, .progress_ctx = opt->progress_ctx};
    struct device_memory memory;
    enum osp_status st;

    if (m->shard.n_ranks > 1)
        return load_part(m, &options, opt);
    if (m->dummy != NULL)
        return OSP_OK;
    TRY(quantize_layers_check(&options.mxfp4_layers, &m->checkpoint.config, opt->mxfp4_layers));
    TRY(find_packed(m, opt, options.mxfp4_layers));
    if (m->pack_cache.is_mapped)
        return weights_mark_mxfp4(&m->weights, &m->checkpoint, options.mxfp4_layers, &m->report);
    TRY(m->ops->memory(&memory, m->shard.rank, 1));
    if (memory.total_bytes == 0 ||
        options.mxfp4_layers != MXFP4_NONE) /* otherwise packing reads it */
        TRY(checkpoint_prefetch(&m->checkpoint, opt->n_threads, opt->progress, opt->progress_ctx));
    TRY(weights_check_scales(&m->checkpoint));
    TRY(weights_quantize(&m->weights, &m->checkpoint, &options, &m->report));
out:
    return st;
}

static enum osp_status open_device(struct model *m, const struct model_options *opt)
{
    const struct backend_options options = {.n_threads = opt->n_threads,
                                            .n_rows_max = opt->n_rows_max,
                                            .n_samples_max = opt->n_samples_max,
                                            .is_eager = opt->is_eager,
                                            .exchange = opt->exchange,
                                            .cpu_features = opt->cpu_features,
                                            .cpu_affinity = opt->cpu_affinity,
                                            .device_options = opt->device_options};
    enum osp_status st;

    TRY(find_device(m, opt));
    m->kv_dtype = opt->kv_dtype;
    TRY(m->ops->kv_dtype(&options, &m->kv_dtype));
    TRY(m->ops->open(&m->be, &options));
out:
    return st;
}

enum osp_status model_open(struct model **out, const struct model_options *opt)
{
    struct model *m = mem_new(sizeof(*m));
    struct builder b = {.m = m, .c = &m->checkpoint.config, .opt = opt};
    uint64_t since_ns = clock_ns();
    enum osp_status st;

    TRY(check_options(opt));
    m->shard =
        opt->exchange != NULL ? opt->exchange->shard : (struct shard){.rank = 0, .n_ranks = 1};
    TRY(open_checkpoint(&b));
    m->config = m->checkpoint.config;
    TRY(find_device(m, opt));
    m->shard.rule = m->ops->shard_rule;
    TRY(shard_check(b.c, m->shard.n_ranks, m->shard.rule));
    TRY(open_device(m, opt));
    TRY(load_weights(m, opt));
    if (weights_need_conversion(&m->weights))
        TRY(pool_open(&b.pool, opt->n_threads));
    log_debug("start: weights found, checked and read in %.3f s", clock_lap_s(&since_ns));
    rope_init(&m->rope, b.c);
    TRY(allocate(&b));
    TRY(bind_ends(&b));
    for (int i = 0; i < b.c->n_layers; i++)
        TRY(bind_layer(&b, i));
    if (opt->draft != NULL && draft_files_is_open(opt->draft))
        TRY(draft_open(m, opt));
    TRY(reserve(&b));
    if (draft_files_is_open(&m->draft.source)) /* draft_open() took opt->draft over */
        TRY(draft_compile(m));
    TRY(forward_program(&m->program, m, false));
    TRY(m->ops->compile(m->be, &m->program, &m->compiled));
    pack_cache_save(&m->pack_cache);
    log_debug("start: weights bound in %.3f s", clock_lap_s(&since_ns));
    if (opt->dummy_shape == NULL)
        TRY(model_populate(m, opt));
    log_debug("start: mapped weights read into memory in %.3f s", clock_lap_s(&since_ns));
    *out = m;
out:
    pool_close(b.pool);
    if (st != OSP_OK)
        model_close(m);
    return st;
}

void model_close(struct model *m)
{
    if (m == NULL)
        return;
    draft_close(m);
    if (m->be != NULL) {
        stage_steps_release(m);
        m->ops->release_program(m->be, m->compiled);
        m->ops->release(m->be, &m->activations);
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            m->ops->release(m->be, &m->pages[g]);
        m->ops->close(m->be);
    }
    program_free(&m->program);
    pack_cache_close(&m->pack_cache);
    free(m->vectors.data);
    free(m->layers);
    weights_release(&m->weights);
    dummy_close(m->dummy);
    checkpoint_close(&m->checkpoint);
    free(m);
}
