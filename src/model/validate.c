/* Validates a checkpoint: opens it, checks it against the config and the weight table, and closes
 * it. */
#include "model/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/config.h"
#include "model/convert.h"

static const char *layout_of(const struct gptoss_config *c)
{
    if (c->layout == CHECKPOINT_ORIGINAL)
        return "original";
    if (c->layout == CHECKPOINT_GGUF)
        return "gguf";
    return c->experts_are_mxfp4 ? "hf mxfp4" : "hf bf16";
}

/* The most frequent type first. */
static void describe_types(char out[INSPECTION_TYPES_BYTES], const struct checkpoint *c)
{
    int64_t counts[N_ST_DTYPES] = {0};
    size_t at = 0;

    for (int i = 0; i < c->n_files; i++)
        for (size_t t = 0; t < c->files[i].n_tensors; t++)
            counts[c->files[i].tensors[t].dtype]++;
    for (;;) {
        int most = 0;

        for (int i = 1; i < N_ST_DTYPES; i++)
            most = counts[i] > counts[most] ? i : most;
        if (counts[most] == 0)
            break;
        at +=
            (size_t)snprintf(out + at, INSPECTION_TYPES_BYTES - at, "%s%lld %s", at > 0 ? ", " : "",
                             (long long)counts[most], st_dtype_name((enum st_dtype)most));
        if (at >= INSPECTION_TYPES_BYTES)
            break;
        counts[most] = 0;
    }
}

static void describe(struct inspection *out, const struct checkpoint *c)
{
    out->folder = mem_strdup(c->path);
    out->layout = layout_of(&c->config);
    out->n_files = c->n_files;
    out->n_tensors = c->n_tensors;
    out->file_bytes = c->file_bytes;
    describe_types(out->types, c);
    out->config = c->config;
    for (int i = 0; i < c->config.n_layers; i++)
        out->n_sliding_layers += c->config.layer_is_sliding[i];
}

static enum osp_status describe_parts(struct inspection *out, const struct weights *w,
                                      const struct checkpoint *c, int n_ranks, enum shard_rule rule)
{
    enum osp_status st = OSP_OK;

    if (n_ranks <= 1)
        return OSP_OK;
    TRY(shard_check(&c->config, n_ranks, rule));
    for (int r = 0; r < n_ranks; r++) {
        out->parts[r] = out->weights;
        TRY(shard_report(w, c, (struct shard){r, n_ranks, rule}, &out->parts[r]));
    }
out:
    return st;
}

static enum osp_status check_all(struct inspection *out, const struct checkpoint *c,
                                 const struct inspect_options *opt)
{
    struct weights weights = {.layers = NULL};
    enum osp_status st;

    TRY(model_config_check(&c->config));
    TRY(weights_bind(&weights, c, &out->weights));
    TRY(describe_parts(out, &weights, c, opt->n_ranks, opt->shard_rule));
    if (opt->read_all)
        TRY(checkpoint_prefetch(c, 0, opt->progress, opt->progress_ctx));
    if (opt->read_all)
        TRY(weights_check_values(&weights, 0, opt->progress, opt->progress_ctx));
    TRY(weights_check_scales(c));
out:
    weights_release(&weights);
    return st;
}

enum osp_status inspection_read(struct inspection *out, const struct inspect_options *opt)
{
    struct checkpoint c = {.path = NULL};
    enum osp_status st;

    memset(out, 0, sizeof *out);
    TRY(checkpoint_open(&c, opt->path));
    TRY(check_all(out, &c, opt));
    describe(out, &c);
out:
    checkpoint_close(&c);
    return st;
}

void inspection_release(struct inspection *i)
{
    free(i->folder);
    memset(i, 0, sizeof *i);
}
