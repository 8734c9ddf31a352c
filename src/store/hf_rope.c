/* Reads the rotary fields of a config: YaRN or plain RoPE. Refuses fields that would change the
 * table in a way that the model does not implement. */
#include "store/hf_rope.h"

#include <string.h>

enum osp_status hf_rope_number(double *out, const struct json_object *o, const char *key,
                               double fallback)
{
    struct json_number_spec rule = {.key = key, .fallback = fallback, .min = 0, .max = 1e12};

    return json_get_number(out, o, &rule);
}

/* Fields that change the rotary table in ways that no gpt-oss model uses. */
static enum osp_status refuse_other_rope(const struct json_object *o)
{
    static const char *const keys[] = {"attention_factor", "mscale", "mscale_all_dim",
                                       "full_attention", "sliding_attention"};
    double part;
    enum osp_status st = hf_rope_number(&part, o, "partial_rotary_factor", 1);

    if (st != OSP_OK)
        return st;
    if (part != 1)
        return fail(OSP_EUNSUPPORTED, "%s: %spartial_rotary_factor is %g, only 1 is supported",
                    o->path, o->where, part);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(o->json, keys[i]);

        if (value && !json_is_null(value))
            return fail(OSP_EUNSUPPORTED, "%s: %s%s is set, which is not supported", o->path,
                        o->where, keys[i]);
    }
    return OSP_OK;
}

static enum osp_status read_yarn(struct gptoss_config *c, const struct json_object *o)
{
    struct json_int_spec original = {.key = "original_max_position_embeddings",
                                     .fallback = 4096,
                                     .min = 1,
                                     .max = CONFIG_CONTEXT_MAX};
    enum osp_status st;

    TRY(json_get_int(&c->rope_original_tokens, o, &original));
    TRY(hf_rope_number(&c->rope_factor, o, "factor",
                       (double)c->context_tokens_max / c->rope_original_tokens));
    TRY(hf_rope_number(&c->rope_beta_fast, o, "beta_fast", 32));
    TRY(hf_rope_number(&c->rope_beta_slow, o, "beta_slow", 1));
    TRY(json_get_bool(&c->rope_truncate, o, "truncate", true));
    TRY(refuse_other_rope(o));
out:
    return st;
}

void hf_rope_default(struct gptoss_config *c)
{
    c->rope_theta = 150000;
    c->rope_factor = 32;
    c->rope_beta_fast = 32;
    c->rope_beta_slow = 1;
    c->rope_original_tokens = 4096;
    c->rope_truncate = false;
}

static enum osp_status read_rope_dict(struct gptoss_config *c, const struct json_object *o)
{
    const char *type, *old_type;
    enum osp_status st;

    TRY(json_get_string(&type, o, "rope_type"));
    TRY(json_get_string(&old_type, o, "type")); /* the key before Transformers 4.43 */
    type = type ? type : old_type;
    TRY(hf_rope_number(&c->rope_theta, o, "rope_theta", c->rope_theta));
    if (type && strcmp(type, "yarn") == 0)
        return read_yarn(c, o);
    if (type && strcmp(type, "default") != 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s: %srope_type is \"%.32s\", supported are yarn and default", o->path,
                    o->where, type);
    c->rope_factor = 1;
    TRY(refuse_other_rope(o));
out:
    return st;
}

enum osp_status hf_rope_read(struct gptoss_config *c, const struct json_object *o)
{
    struct json_object dict = {.path = o->path, .where = "rope_parameters."};
    enum osp_status st;

    hf_rope_default(c);
    TRY(hf_rope_number(&c->rope_theta, o, "rope_theta", c->rope_theta));
    TRY(json_get_object(&dict.json, o, "rope_parameters"));
    if (!dict.json) {
        dict.where = "rope_scaling.";
        TRY(json_get_object(&dict.json, o, "rope_scaling"));
    }
    if (dict.json)
        TRY(read_rope_dict(c, &dict));
out:
    return st;
}
