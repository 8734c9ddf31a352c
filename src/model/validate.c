/* Validates a checkpoint: opens it, checks it against the config and the weight table, and closes
 * it. */
#include "model/validate.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/config.h"

static const char *layout_of(const struct gptoss_config *c)
{
    if (c->layout == CHECKPOINT_ORIGINAL)
        return "original";
    return c->experts_are_mxfp4 ? "hf mxfp4" : "hf bf16";
}

static void describe(struct inspection *out, const struct checkpoint *c)
{
    out->folder = mem_strdup(c->path);
    out->layout = layout_of(&c->config);
    out->n_files = c->n_files;
    out->n_tensors = c->n_tensors;
    out->file_bytes = c->file_bytes;
    out->data_bytes = c->data_bytes;
    out->config = c->config;
    for (int i = 0; i < c->config.n_layers; i++)
        out->n_sliding_layers += c->config.layer_is_sliding[i];
}

static enum osp_status check_all(struct inspection *out, const struct checkpoint *c,
                                 const struct inspect_options *opt)
{
    struct weights weights = {.layers = NULL};
    enum osp_status st;

    TRY(model_config_check(&c->config));
    TRY(weights_bind(&weights, c, &out->weights));
    if (opt->read_all)
        TRY(checkpoint_prefetch(c, 0, opt->progress, opt->progress_ctx));
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
