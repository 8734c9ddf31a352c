/* The values of MXFP4 scales: 255 is NaN (OCP MX, E8M0), which would reach every logit. */
#include <string.h>

#include "model/weight_table.h"

enum { SCALE_NAN = 0xff };

static enum osp_status check_tensor(const struct st_file *file, const struct st_tensor *t)
{
    const unsigned char *bad = memchr(t->data, SCALE_NAN, t->size_bytes);
    int64_t at, n_blocks, n_rows;

    if (!bad)
        return OSP_OK;
    at = bad - t->data;
    n_blocks = t->dim[2];
    n_rows = t->dim[1];
    return fail(OSP_EFORMAT,
                "%s: tensor %s: scale [%lld, %lld, %lld] is 255 (NaN), expected at most 254",
                file->path, t->name, (long long)(at / n_blocks / n_rows),
                (long long)(at / n_blocks % n_rows), (long long)(at % n_blocks));
}

static enum osp_status check_layer(const struct checkpoint *c, int layer)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n_layer_rules; i++) {
        char name[WEIGHT_NAME_BYTES];
        const struct st_file *file;
        const struct st_tensor *t;

        if (layer_rules[i].form != FORM_EXPERTS)
            continue;
        weight_name(name, &c->config, layer, weight_rule_name(&layer_rules[i], &c->config),
                    experts_scales_suffix(&c->config));
        t = checkpoint_find(c, name, &file);
        if (t)
            TRY(check_tensor(file, t));
    }
out:
    return st;
}

enum osp_status weights_check_scales(const struct checkpoint *c)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < c->config.n_layers && c->config.experts_are_mxfp4; i++)
        TRY(check_layer(c, i));
out:
    return st;
}
