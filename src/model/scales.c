/* Checks the E8M0 scales of MXFP4 tensors: 255 is NaN (OCP MX), which would propagate to every
 * logit. */
#include <string.h>

#include "model/weight_table.h"

enum { SCALE_NAN = 0xff };

/* Writes the index of scale `at` as text: "[3, 5, 1]". */
static char *place_text(char out[ST_SHAPE_TEXT_BYTES], const struct st_tensor *t, int64_t at)
{
    int64_t index[ST_DIMS_MAX];

    for (int i = t->n_dims - 1; i >= 0; i--) {
        index[i] = at % t->dim[i];
        at /= t->dim[i];
    }
    return st_shape_text(out, index, t->n_dims);
}

static enum osp_status check_tensor(const struct st_file *file, const struct st_tensor *t)
{
    const unsigned char *bad = memchr(t->data, SCALE_NAN, t->size_bytes);
    char place[ST_SHAPE_TEXT_BYTES];

    if (!bad)
        return OSP_OK;
    return fail(OSP_EFORMAT, "%s: tensor %s: scale %s is 255 (NaN), expected at most 254",
                file->path, t->name, place_text(place, t, bad - t->data));
}

static enum osp_status check_rule(const struct checkpoint *c, const struct weight_rule *rule,
                                  int layer)
{
    const char *rule_name = weight_rule_name(rule, &c->config);
    char name[WEIGHT_NAME_BYTES];
    const struct st_file *file;
    const struct st_tensor *t;

    if (!rule_name || !weight_rule_is_mxfp4(rule, &c->config))
        return OSP_OK;
    weight_name(name, &c->config, layer, rule_name, mxfp4_scales_suffix(&c->config));
    t = checkpoint_find(c, name, &file);
    return t ? check_tensor(file, t) : OSP_OK;
}

enum osp_status weights_check_scales(const struct checkpoint *c)
{
    enum osp_status st = OSP_OK;

    if (c->config.layout == CHECKPOINT_GGUF)
        return OSP_OK;
    for (int i = 0; i < n_global_rules; i++)
        TRY(check_rule(c, &global_rules[i], -1));
    for (int layer = 0; layer < c->config.n_layers; layer++)
        for (int i = 0; i < n_layer_rules; i++)
            TRY(check_rule(c, &layer_rules[i], layer));
out:
    return st;
}
