/* What a model's device ran, and what it is capable of: for tools, between steps. */
#include <stdlib.h>
#include <string.h>

#include "backend/checked.h"
#include "base/memory.h"
#include "engine/device_settings.h"
#include "engine/memory/kv_dtype.h"
#include "engine/core/model_api.h"
#include "model/routing.h"
#include "model/selfcheck.h"
#include "osprey_tools.h"

/* The device belongs to the engine while there is one. */
static enum osp_status claim(struct osp_model *m)
{
    if (m->is_in_worker)
        return fail(OSP_EUNSUPPORTED, "%s is in a worker process: its device cannot be queried",
                    m->name);
    if (atomic_exchange(&m->claimed, true))
        return fail(OSP_EINVAL, "%s has an engine, which uses the device: close the engine first",
                    m->name);
    return OSP_OK;
}

static struct osp_kernel_use use_of(const struct kernel_use *k)
{
    struct osp_kernel_use out = {.n_rows = k->n_rows,
                                 .n_prompt_rows = k->n_prefill,
                                 .n_seqs = k->n_seqs,
                                 .n_steps = k->n_steps,
                                 .n_calls = k->n_calls,
                                 .shared_bytes = k->shared_bytes};

    memcpy(out.name, k->name, sizeof out.name);
    memcpy(out.grid, k->grid, sizeof out.grid);
    memcpy(out.block, k->block, sizeof out.block);
    return out;
}

enum osp_status osp_model_kernels(const struct osp_model *model, struct osp_kernel_use *out,
                                  int n_max, int *n)
{
    struct osp_model *m = (struct osp_model *)model; /* only its claim changes */
    struct kernel_use *uses = NULL;
    enum osp_status st = claim(m);

    *n = 0;
    if (st != OSP_OK)
        return st;
    TRY(mem_try_array(&uses, (size_t)n_max, sizeof *uses, "kernels"));
    TRY(model_kernels(m->model, uses, n_max, n));
    for (int i = 0; i < *n; i++)
        out[i] = use_of(&uses[i]);
out:
    free(uses);
    atomic_store(&m->claimed, false);
    return st;
}

enum osp_status osp_model_peaks(struct osp_model *m, struct osp_device_peaks *out)
{
    const struct probe_peak *best = NULL;
    struct probe probe;
    enum osp_status st = claim(m);

    if (st != OSP_OK)
        return st;
    TRY(model_probe(m->model, &probe));
    for (int i = 0; i < probe.n_peaks; i++)
        if (best == NULL || probe.peaks[i].ops_per_s > best->ops_per_s)
            best = &probe.peaks[i];
    *out = (struct osp_device_peaks){.read_bytes_per_s = probe.read_bytes_per_s,
                                     .flops_per_s = best != NULL ? best->ops_per_s : 0,
                                     .flops_name = best != NULL ? best->name : "none"};
out:
    atomic_store(&m->claimed, false);
    return st;
}

/* ---- devices without a model ---- */

/* *out borrows *settings. */
static enum osp_status device_options(struct model_options *out, struct device_settings *settings,
                                      const struct osp_model_options *opt)
{
    enum osp_status st;

    *out = (struct model_options){
        .device = opt->device, .cpu_features = opt->cpu_features, .n_threads = opt->n_threads};
    TRY(device_settings_make(settings, opt));
    out->device_options = device_settings_options(settings);
    TRY(kv_dtype_choose(&out->kv_dtype, opt->kv_cache_dtype, opt->device, opt->cpu_features));
out:
    return st;
}

enum osp_status osp_device_describe(const struct osp_model_options *opt, osp_describe_fn *put,
                                    void *ctx)
{
    const struct backend_ops *ops = backend_find(opt->device);
    struct backend_options options = {.n_rows_max = 1, .n_samples_max = 1};
    struct device_settings settings;
    struct backend *be;
    struct model_options m;
    enum osp_status st;

    if (ops == NULL)
        return OSP_ENOTFOUND;
    TRY(device_options(&m, &settings, opt));
    options.n_threads = m.n_threads;
    options.cpu_features = m.cpu_features;
    options.device_options = m.device_options;
    TRY(ops->open(&be, &options));
    ops->describe(be, put, ctx);
    ops->close(be);
out:
    return st;
}

enum osp_status osp_gpu_links(struct osp_gpu_link *out, int n_max, int *n_gpus, int *n)
{
    const struct backend_ops *ops = backend_find("cuda");
    struct device_link *links = NULL;
    enum osp_status st;

    *n_gpus = 0;
    *n = 0;
    TRY(ops != NULL ? OSP_OK : device_check(DEVICE_cuda)); /* the same failure, with its code */
    TRY(mem_try_array(&links, (size_t)n_max, sizeof *links, "list of links"));
    TRY(ops->links(links, n_max, n_gpus, n));
    for (int i = 0; i < *n; i++)
        out[i] = (struct osp_gpu_link){links[i].from, links[i].to, links[i].has_peer_access != 0,
                                       links[i].bytes_per_s, links[i].push_latency_s};
out:
    free(links);
    return st;
}

enum osp_status osp_device_check(const struct osp_model_options *opt, struct osp_stage_check *out,
                                 int n_max, int *n)
{
    struct stage_check checks[STAGE_CHECKS_MAX];
    struct device_settings settings;
    struct model_options m;
    enum osp_status st;

    *n = 0;
    TRY(device_options(&m, &settings, opt));
    TRY(selfcheck_run(checks, n, &m));
    *n = *n < n_max ? *n : n_max;
    for (int i = 0; i < *n; i++)
        out[i] = (struct osp_stage_check){checks[i].stage, checks[i].n_calls, checks[i].error,
                                          checks[i].limit};
out:
    return st;
}

enum osp_status osp_model_routing(struct osp_model *m, int n_tokens, double *mean, double *uniform)
{
    const struct memory_plan *p = &m->plan;
    enum osp_status st;

    if (n_tokens < 1 || n_tokens > p->n_batch_tokens_max || n_tokens > p->context_tokens_max)
        return fail(OSP_EINVAL, "routing of %d tokens: a step has 1 to %d, a context %d", n_tokens,
                    p->n_batch_tokens_max, p->context_tokens_max);
    st = claim(m);
    if (st != OSP_OK)
        return st;
    st = routing_measure(mean, m->model, n_tokens);
    *uniform = routing_uniform(model_config(m->model), n_tokens);
    atomic_store(&m->claimed, false);
    return st;
}
