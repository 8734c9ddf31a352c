/* osp_validate: a checkpoint, its tokenizer and the memory needed to serve it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "engine/bundled.h"
#include "engine/memory/kv_dtype.h"
#include "engine/memory/memory_plan.h"
#include "engine/core/model_api.h"
#include "engine/worker/replicas.h"
#include "model/validate.h"
#include "osprey_tools.h"
#include "text/token/tokenizer.h"

enum { CONTEXT_SMALL_TOKENS = 4096 }; /* for the figure when the host has too little memory */

static void write_files(struct osp_validate_report *out, const struct inspection *i)
{
    const struct gptoss_config *c = &i->config;

    *out = (struct osp_validate_report){
        .n_files = i->n_files,
        .n_tensors = i->n_tensors,
        .file_bytes = i->file_bytes,
        .n_layers = c->n_layers,
        .width = c->width,
        .expert_width = c->expert_width,
        .n_experts = c->n_experts,
        .n_experts_active = c->n_experts_active,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_width = c->head_dim,
        .vocab_size = c->vocab_size,
        .window_tokens = c->window_tokens,
        .n_sliding_layers = i->n_sliding_layers,
        .context_model_tokens = c->context_tokens_max,
        .n_parameters = i->weights.n_parameters,
        .n_active_parameters = i->weights.n_active_parameters,
        .embed_bytes = i->weights.embed_bytes,
        .head_bytes = i->weights.head_bytes,
        .attn_bytes = i->weights.attn_bytes,
        .router_bytes = i->weights.router_bytes,
        .experts_bytes = i->weights.experts_bytes,
        .norm_bytes = i->weights.norm_bytes,
    };
    strncpy(out->layout, i->layout, sizeof out->layout - 1);
    snprintf(out->types, sizeof out->types, "%s", i->types);
    mxfp4_layers_text(out->mxfp4_layers,
                      c->mxfp4_layers | (c->experts_are_mxfp4 ? (unsigned)MXFP4_MOE : 0));
}

/* A host with too little memory is no error of the checkpoint: the figure is then for one request
 * of a small context, and is larger than the available memory. */
static enum osp_status plan(struct memory_plan *out, const struct osp_validate_options *opt,
                            const struct inspection *i, int64_t available_bytes, bool is_gpu)
{
    struct memory_request request = {.context_tokens_max = opt->context_tokens_max,
                                     .n_seqs_max = opt->n_seqs_max,
                                     .n_batch_tokens_max = opt->n_batch_tokens_max,
                                     .is_gpu = is_gpu};
    const struct backend_ops *ops = backend_find(opt->device);
    enum osp_status st;

    request.step_bytes = ops == NULL ? NULL : ops->step_bytes;

    TRY(kv_dtype_choose(&request.kv_dtype, opt->kv_cache_dtype, NULL, NULL));
    st = memory_plan_make(out, &i->config, &request, weights_report_bytes(&i->weights),
                          available_bytes);
    if (st != OSP_ENOMEM)
        return st;
    if (request.context_tokens_max == 0)
        request.context_tokens_max = i->config.context_tokens_max < CONTEXT_SMALL_TOKENS
                                         ? i->config.context_tokens_max
                                         : CONTEXT_SMALL_TOKENS;
    if (request.n_seqs_max == 0)
        request.n_seqs_max = 1;
    TRY(memory_plan_make(out, &i->config, &request, weights_report_bytes(&i->weights), INT64_MAX));
out:
    return st;
}

static enum osp_status write_memory(struct osp_validate_report *out,
                                    const struct osp_validate_options *opt,
                                    const struct inspection *i)
{
    struct memory_plan p = {.n_seqs_max = 0};
    struct device_memory_info info;
    enum osp_status st;

    TRY(device_memory_get(&info, opt->device, 1, 0));
    out->host_available_bytes = info.host_bytes;
    out->device_available_bytes = info.free_bytes;
    out->replicas_share_memory = info.gpu.total_bytes == 0;
    if (out->replicas_share_memory)
        info.free_bytes /= out->n_replicas;
    TRY(plan(&p, opt, i, info.free_bytes, info.gpu.total_bytes > 0));
    out->context_tokens_max = p.context_tokens_max;
    out->n_seqs_max = p.n_seqs_max;
    out->n_batch_tokens_max = p.n_batch_tokens_max;
    out->kv_cache_bytes = p.kv_cache_bytes;
    strncpy(out->kv_cache_dtype, kv_dtype_text(p.kv_dtype), sizeof out->kv_cache_dtype - 1);
    out->activation_bytes = p.activation_bytes;
    out->total_bytes = p.total_bytes;
out:
    return st;
}

static enum shard_rule shard_rule_of(const char *device)
{
    const struct backend_ops *ops = backend_find(device);

    return ops == NULL ? SHARD_FOR_CPU : ops->shard_rule;
}

/* Each rank by itself: on CPUs with an equal share of the host's free memory, on GPUs with one of
 * them. */
static enum osp_status plan_rank(struct osp_validate_rank *out,
                                 const struct osp_validate_options *opt, const struct inspection *i,
                                 struct shard shard, int64_t available_bytes)
{
    struct inspection part = *i;
    struct memory_plan p;
    enum osp_status st;

    shard_config(&part.config, &i->config, shard);
    part.weights = i->parts[shard.rank];
    TRY(plan(&p, opt, &part, available_bytes, shard.rule == SHARD_FOR_GPU));
    *out = (struct osp_validate_rank){
        .n_heads = part.config.n_heads,
        .n_kv_heads = part.config.n_kv_heads,
        .expert_width = part.config.expert_width,
        .vocab_size = (int)(shard_vocab_row(i->config.vocab_size, shard.rank + 1, shard.n_ranks) -
                            shard_vocab_row(i->config.vocab_size, shard.rank, shard.n_ranks)),
        .weight_bytes = weights_report_bytes(&part.weights),
        .kv_cache_bytes = p.kv_cache_bytes,
        .activation_bytes = p.activation_bytes,
        .total_bytes = p.total_bytes};
out:
    return st;
}

static enum osp_status write_ranks(struct osp_validate_report *out,
                                   const struct osp_validate_options *opt,
                                   const struct inspection *i)
{
    const int n_ranks = opt->tensor_parallel_size;
    const enum shard_rule rule = shard_rule_of(opt->device);
    enum osp_status st = OSP_OK;

    for (int r = 0; r < n_ranks && n_ranks > 1; r++)
        TRY(plan_rank(&out->ranks[r], opt, i, (struct shard){r, n_ranks, rule},
                      rule == SHARD_FOR_GPU
                          ? out->device_available_bytes
                          : out->host_available_bytes / out->n_replicas / n_ranks));
    out->n_ranks = n_ranks > 1 ? n_ranks : 0;
out:
    return st;
}

static enum osp_status check_replicas(struct osp_validate_report *out,
                                      const struct osp_validate_options *opt)
{
    const struct osp_model_options model = {.device = opt->device,
                                            .tensor_parallel_size = opt->tensor_parallel_size,
                                            .data_parallel_size = opt->data_parallel_size};

    out->n_replicas = replicas_wanted(&model);
    return replicas_check(&model);
}

static enum osp_status check_tokenizer(struct osp_validate_report *out, const char *given,
                                       const struct inspection *i)
{
    struct tokenizer *tokenizer = NULL;
    char *path = NULL;
    enum osp_status st;

    TRY(bundled_tokenizer_path(&path, given, i->folder));
    TRY(tokenizer_open(&tokenizer, path));
    out->n_token_ids = tokenizer_size(tokenizer);
    if (out->n_token_ids > i->config.vocab_size)
        st = fail(OSP_EFORMAT, "%s: the tokenizer has %d ids, expected at most vocab_size = %d",
                  path, out->n_token_ids, i->config.vocab_size);
out:
    tokenizer_close(tokenizer);
    free(path);
    return st;
}

enum osp_status osp_validate(const struct osp_validate_options *opt,
                             struct osp_validate_report *out)
{
    struct inspect_options inspect = {.path = opt->path,
                                      .read_all = opt->read_all,
                                      .n_ranks = opt->tensor_parallel_size,
                                      .shard_rule = shard_rule_of(opt->device),
                                      .progress = opt->progress,
                                      .progress_ctx = opt->progress_ctx};
    struct inspection i = {.folder = NULL};
    char *bundled = NULL;
    enum osp_status st;

    if (!inspect.path) {
        TRY(bundled_model_path(&bundled));
        inspect.path = bundled;
    }
    TRY(inspection_read(&i, &inspect));
    write_files(out, &i);
    TRY(check_tokenizer(out, opt->tokenizer, &i));
    TRY(check_replicas(out, opt));
    TRY(write_memory(out, opt, &i));
    TRY(write_ranks(out, opt, &i));
out:
    inspection_release(&i);
    free(bundled);
    return st;
}
