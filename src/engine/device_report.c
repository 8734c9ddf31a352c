/* What a model's device ran, and what it could: for tools, between steps. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/model_api.h"
#include "osprey_tools.h"

/* The device is the engine's while there is one. */
static enum osp_status claim(struct osp_model *m)
{
    if (atomic_exchange(&m->claimed, true))
        return fail(OSP_EINVAL, "%s has an engine: its device cannot be asked meanwhile", m->name);
    return OSP_OK;
}

static struct osp_kernel_use use_of(const struct kernel_use *k)
{
    struct osp_kernel_use out = {.n_rows = k->n_rows,
                                 .n_prompt_rows = k->n_prompt,
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
