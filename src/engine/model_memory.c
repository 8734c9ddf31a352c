/* The memory plan of a model that is opened: of the whole, or of a rank's part. */
#include "base/host_memory.h"
#include "base/log.h"
#include "engine/device_settings.h"
#include "engine/memory/kv_dtype.h"
#include "engine/memory/memory_table.h"
#include "engine/model_internal.h"
#include "engine/rank_start.h"
#include "engine/worker/replicas.h"
#include "model/quantize.h"
#include "model/shard.h"

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

enum osp_status model_plan_memory(struct osp_model *m, const struct osp_model_options *opt,
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
