/* Reads the configuration of a checkpoint. Keys and defaults are those of Transformers 4.55 and 5
 * and of openai's own release. */
#include "store/hf_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/hf_rope.h"
#include "store/json_read.h"

/* An integer of config.json and the member of struct gptoss_config that it fills. */
struct int_field {
    size_t offset;
    struct json_int_spec rule;
};
#define INT_FIELD(member, name, other_name, must, standard, most)                                  \
    {                                                                                              \
        offsetof(struct gptoss_config, member),                                                    \
        {                                                                                          \
            .key = (name), .alias = (other_name), .required = (must), .fallback = (standard),      \
            .min = 1, .max = (most)                                                                \
        }                                                                                          \
    }

static const struct int_field int_fields[] = {
    INT_FIELD(n_layers, "num_hidden_layers", NULL, true, 0, CONFIG_LAYERS_MAX),
    INT_FIELD(n_experts, "num_local_experts", "num_experts", true, 0, CONFIG_EXPERTS_MAX),
    INT_FIELD(n_experts_active, "num_experts_per_tok", "experts_per_token", true, 0,
              CONFIG_EXPERTS_MAX),
    INT_FIELD(width, "hidden_size", NULL, true, 0, CONFIG_WIDTH_MAX),
    INT_FIELD(expert_width, "intermediate_size", NULL, true, 0, CONFIG_WIDTH_MAX),
    INT_FIELD(n_heads, "num_attention_heads", NULL, true, 0, CONFIG_HEADS_MAX),
    INT_FIELD(n_kv_heads, "num_key_value_heads", NULL, true, 0, CONFIG_HEADS_MAX),
    INT_FIELD(head_dim, "head_dim", NULL, true, 0, CONFIG_WIDTH_MAX),
    INT_FIELD(vocab_size, "vocab_size", NULL, true, 0, CONFIG_VOCAB_MAX),
    INT_FIELD(window_tokens, "sliding_window", NULL, false, 128, CONFIG_CONTEXT_MAX),
    INT_FIELD(context_tokens_max, "max_position_embeddings", NULL, false, 131072,
              CONFIG_CONTEXT_MAX),
};

static enum osp_status read_ints(struct gptoss_config *c, const struct json_object *o)
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof int_fields / sizeof int_fields[0]; i++) {
        const struct int_field *f = &int_fields[i];

        TRY(json_get_int((int *)((char *)c + f->offset), o, &f->rule));
    }
out:
    return st;
}

static enum osp_status read_float(float *out, const struct json_object *o, const char *key,
                                  double fallback, double max)
{
    struct json_number_spec rule = {.key = key, .fallback = fallback, .min = 0, .max = max};
    double value = 0;
    enum osp_status st = json_get_number(&value, o, &rule);

    *out = (float)value;
    return st;
}

static enum osp_status read_constants(struct gptoss_config *c, const struct json_object *o)
{
    enum osp_status st;

    TRY(read_float(&c->norm_eps, o, "rms_norm_eps", 1e-5, 1));
    TRY(read_float(&c->swiglu_limit, o, "swiglu_limit", 7, 1e6));
    TRY(read_float(&c->swiglu_alpha, o, "swiglu_alpha", 1.702, 1e3));
out:
    return st;
}

/* Transformers has other defaults for some of these keys, or none. */
static void warn_of_null(const struct json_object *o, const char *key)
{
    if (json_is_null(json_object_get(o->json, key)))
        log_warn("%s: %s%s is null; the value of the published gpt-oss models is used", o->path,
                 o->where, key);
}

static void warn_of_nulls(const struct json_object *o)
{
    warn_of_null(o, "sliding_window");
    warn_of_null(o, "swiglu_limit");
    if (json_object_get(o->json, "rope_parameters") == NULL)
        warn_of_null(o, "rope_scaling");
}

/* ---- layers, experts, stop ids ---- */

static enum osp_status read_layer_type(bool *is_sliding, const struct json_object *o, size_t i)
{
    const json_t *type = json_array_get(json_object_get(o->json, "layer_types"), i);
    const char *text = json_is_string(type) ? json_string_value(type) : json_type_name(type);

    *is_sliding = strcmp(text, "sliding_attention") == 0;
    if (*is_sliding || strcmp(text, "full_attention") == 0)
        return OSP_OK;
    return fail(OSP_EFORMAT,
                "%s: layer_types[%zu] is %.32s, expected sliding_attention or full_attention",
                o->path, i, text);
}

static enum osp_status read_layer_types(struct gptoss_config *c, const struct json_object *o)
{
    const json_t *types = json_object_get(o->json, "layer_types");
    enum osp_status st = OSP_OK;

    for (int i = 0; i < c->n_layers; i++)
        c->layer_is_sliding[i] = i % 2 == 0;
    if (!types || json_is_null(types))
        return OSP_OK;
    if (!json_is_array(types))
        return fail(OSP_EFORMAT, "%s: layer_types is %s, expected an array", o->path,
                    json_type_name(types));
    if (json_array_size(types) != (size_t)c->n_layers)
        return fail(OSP_EFORMAT, "%s: layer_types has %zu entries, expected num_hidden_layers = %d",
                    o->path, json_array_size(types), c->n_layers);
    for (size_t i = 0; i < (size_t)c->n_layers; i++)
        TRY(read_layer_type(&c->layer_is_sliding[i], o, i));
out:
    return st;
}

/* Whether the array `key` of the quantization_config contains this module. */
static bool lists_module(const struct json_object *dict, const char *key, const char *module)
{
    const json_t *list = json_object_get(dict->json, key);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));

        if (text && strcmp(text, module) == 0)
            return true;
    }
    return false;
}

/* Every entry must name a matrix, other than the experts', that may be MXFP4. */
static enum osp_status check_modules(const struct json_object *dict, const char *key)
{
    const json_t *list = json_object_get(dict->json, key);

    if (list && !json_is_array(list))
        return fail(OSP_EFORMAT, "%s: %s%s is %s, expected an array", dict->path, dict->where, key,
                    json_type_name(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *text = json_is_string(entry) ? json_string_value(entry) : json_type_name(entry);
        bool known = false;

        for (int k = 0; k < n_mxfp4_modules; k++)
            known = known || (mxfp4_modules[k].layer != MXFP4_MOE &&
                              strcmp(mxfp4_modules[k].name, text) == 0);
        if (!known)
            return fail(OSP_EUNSUPPORTED,
                        "%s: %s%s[%zu] is %.64s, supported are lm_head, model.embed_tokens and "
                        "model.layers.*.self_attn.q_proj, k_proj, v_proj, o_proj",
                        dict->path, dict->where, key, i, text);
    }
    return OSP_OK;
}

/* Either all modules of a layer kind are in the list, or none. */
static enum osp_status read_modules(struct gptoss_config *c, const struct json_object *dict,
                                    const char *key)
{
    unsigned listed = MXFP4_NONE, unlisted = MXFP4_NONE;
    char text[MXFP4_LAYERS_TEXT_BYTES];
    enum osp_status st;

    TRY(check_modules(dict, key));
    for (int i = 0; i < n_mxfp4_modules; i++)
        if (lists_module(dict, key, mxfp4_modules[i].name))
            listed |= mxfp4_modules[i].layer;
        else
            unlisted |= mxfp4_modules[i].layer;
    if (listed & unlisted)
        return fail(OSP_EUNSUPPORTED,
                    "%s: %s%s has some modules of %s, expected all of them or none", dict->path,
                    dict->where, key, mxfp4_layers_text(text, listed & unlisted));
    c->mxfp4_layers = listed;
out:
    return st;
}

static enum osp_status read_quantization(struct gptoss_config *c, const struct json_object *o)
{
    struct json_object dict = {.path = o->path, .where = "quantization_config."};
    const char *method = NULL;
    enum osp_status st;

    TRY(json_get_object(&dict.json, o, "quantization_config"));
    if (!dict.json)
        return OSP_OK;
    TRY(json_get_string(&method, &dict, "quant_method"));
    if (!method || strcmp(method, "mxfp4") != 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s: quantization_config.quant_method is \"%.32s\", supported is mxfp4",
                    o->path, method ? method : "");
    c->experts_are_mxfp4 = !lists_module(&dict, "modules_to_not_convert", EXPERTS_MODULE);
    TRY(read_modules(c, &dict, MXFP4_MODULES_KEY));
out:
    return st;
}

static enum osp_status add_stop_id(struct gptoss_config *c, const struct json_object *o,
                                   const json_t *id)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= c->vocab_size)
        return fail(OSP_EFORMAT, "%s: eos_token_id has %s, expected ids from 0 to %d", o->path,
                    json_is_integer(id) ? "an id out of range" : json_type_name(id),
                    c->vocab_size - 1);
    if (c->n_stop_ids == CONFIG_STOP_IDS_MAX)
        return fail(OSP_EFORMAT, "%s: eos_token_id has over %d ids", o->path, CONFIG_STOP_IDS_MAX);
    c->stop_ids[c->n_stop_ids++] = (int)json_integer_value(id);
    return OSP_OK;
}

/* Replaces the stop ids with those of this file, if it has any. */
static enum osp_status read_stop_ids(struct gptoss_config *c, const struct json_object *o)
{
    const json_t *ids = json_object_get(o->json, "eos_token_id");
    enum osp_status st = OSP_OK;

    if (!ids || json_is_null(ids))
        return OSP_OK;
    c->n_stop_ids = 0;
    if (!json_is_array(ids))
        return add_stop_id(c, o, ids);
    for (size_t i = 0; i < json_array_size(ids); i++)
        TRY(add_stop_id(c, o, json_array_get(ids, i)));
out:
    return st;
}

/* ---- the two layouts ---- */

static enum osp_status check_model_type(const struct json_object *o)
{
    const char *type;
    bool has_bias;
    enum osp_status st;

    TRY(json_get_string(&type, o, "model_type"));
    if (!type || strcmp(type, "gpt_oss") != 0)
        return fail(OSP_EUNSUPPORTED, "%s: model_type is \"%.32s\", expected gpt_oss", o->path,
                    type ? type : "");
    TRY(json_get_bool(&has_bias, o, "attention_bias", true));
    if (!has_bias)
        return fail(OSP_EUNSUPPORTED, "%s: attention_bias is false, expected true", o->path);
out:
    return st;
}

static enum osp_status read_hf(struct gptoss_config *c, const struct json_object *o)
{
    enum osp_status st;

    TRY(check_model_type(o));
    TRY(read_ints(c, o));
    TRY(read_constants(c, o));
    warn_of_nulls(o);
    TRY(hf_rope_read(c, o));
    TRY(read_layer_types(c, o));
    TRY(read_quantization(c, o));
    TRY(json_get_bool(&c->tied_embeddings, o, "tie_word_embeddings", false));
    TRY(read_stop_ids(c, o));
out:
    return st;
}

/* original/config.json: flat rotary keys, no layer types, always MXFP4, never truncated. */
static enum osp_status read_original(struct gptoss_config *c, const struct json_object *o)
{
    struct json_int_spec start = {
        .key = "initial_context_length", .fallback = 4096, .min = 1, .max = CONFIG_CONTEXT_MAX};
    enum osp_status st;
    double context;

    hf_rope_default(c);
    c->layout = CHECKPOINT_ORIGINAL;
    c->experts_are_mxfp4 = true;
    TRY(read_ints(c, o));
    TRY(read_constants(c, o));
    TRY(json_get_int(&c->rope_original_tokens, o, &start));
    TRY(hf_rope_number(&c->rope_theta, o, "rope_theta", c->rope_theta));
    TRY(hf_rope_number(&c->rope_factor, o, "rope_scaling_factor", c->rope_factor));
    TRY(hf_rope_number(&c->rope_beta_slow, o, "rope_ntk_alpha", c->rope_beta_slow));
    TRY(hf_rope_number(&c->rope_beta_fast, o, "rope_ntk_beta", c->rope_beta_fast));
    TRY(read_layer_types(c, o));
    context = floor(c->rope_original_tokens * c->rope_factor); /* the file has no key for it */
    c->context_tokens_max = context < CONFIG_CONTEXT_MAX ? (int)context : CONFIG_CONTEXT_MAX;
out:
    return st;
}

static bool is_original(const json_t *json)
{
    return !json_object_get(json, "model_type") && !json_object_get(json, "architectures") &&
           json_object_get(json, "experts_per_token");
}

static enum osp_status read_config(struct gptoss_config *c, const char *path)
{
    struct json_object o = {.path = path, .where = ""};
    json_t *json = NULL;
    enum osp_status st;

    TRY(json_read_file(&json, path, &config_json_limits));
    o.json = json;
    TRY(is_original(json) ? read_original(c, &o) : read_hf(c, &o));
out:
    json_decref(json);
    return st;
}

static enum osp_status read_generation_config(struct gptoss_config *c, const char *path)
{
    struct json_object o = {.path = path, .where = ""};
    json_t *json = NULL;
    enum osp_status st;

    TRY(json_read_file(&json, path, &config_json_limits));
    o.json = json;
    TRY(read_stop_ids(c, &o));
out:
    json_decref(json);
    return st;
}

enum osp_status gptoss_config_read(struct gptoss_config *out, const char *folder)
{
    char *path = path_join(folder, "config.json");
    char *generation_path = path_join(folder, "generation_config.json");
    enum osp_status st;

    memset(out, 0, sizeof *out);
    TRY(read_config(out, path));
    if (path_is_file(generation_path))
        TRY(read_generation_config(out, generation_path));
out:
    free(path);
    free(generation_path);
    return st;
}
