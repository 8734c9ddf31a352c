#include "store/draft_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "store/hf_rope.h"
#include "store/json_read.h"

static const double THETA_DEFAULT = 10000; /* of Llama in Transformers */

/* A key can be at the top, or in one of the nested objects: the first that has it counts. */
enum { PLACES_MAX = 3 };
struct places {
    struct json_object at[PLACES_MAX];
    int n;
};

static const struct json_object *place_of(const struct places *p, const char *key)
{
    for (int i = 0; i < p->n; i++) {
        const json_t *value = json_object_get(p->at[i].json, key);

        if (value != NULL && !json_is_null(value))
            return &p->at[i];
    }
    return &p->at[0];
}

static enum osp_status find_places(struct places *p, const struct json_object *root)
{
    static const char *const nested[] = {"transformer_layer_config", "eagle_config"};
    static const char *const where[] = {"transformer_layer_config.", "eagle_config."};
    enum osp_status st = OSP_OK;

    p->at[0] = *root;
    p->n = 1;
    for (int i = 0; i < PLACES_MAX - 1; i++) {
        struct json_object o = {.path = root->path, .where = where[i]};

        TRY(json_get_object(&o.json, root, nested[i]));
        if (o.json != NULL)
            p->at[p->n++] = o;
    }
out:
    return st;
}

/* ---- numbers ---- */

struct draft_int {
    size_t offset;
    struct json_int_spec rule;
};
#define DRAFT_INT(member, name, must, standard, most)                                              \
    {                                                                                              \
        offsetof(struct draft_config, member),                                                     \
        {                                                                                          \
            .key = (name), .required = (must), .fallback = (standard), .min = 1, .max = (most)     \
        }                                                                                          \
    }

static enum osp_status read_ints(struct draft_config *c, const struct places *p)
{
    static const struct draft_int fields[] = {
        DRAFT_INT(width, "hidden_size", true, 0, CONFIG_WIDTH_MAX),
        DRAFT_INT(mlp_width, "intermediate_size", true, 0, CONFIG_WIDTH_MAX),
        DRAFT_INT(n_heads, "num_attention_heads", true, 0, CONFIG_HEADS_MAX),
        DRAFT_INT(vocab_size, "vocab_size", true, 0, CONFIG_VOCAB_MAX),
        DRAFT_INT(target_width, "target_hidden_size", false, 0, CONFIG_WIDTH_MAX),
        DRAFT_INT(rope.context_tokens_max, "max_position_embeddings", false, 4096,
                  CONFIG_CONTEXT_MAX),
    };
    struct draft_int later[] = {
        DRAFT_INT(n_kv_heads, "num_key_value_heads", false, 0, CONFIG_HEADS_MAX),
        DRAFT_INT(head_dim, "head_dim", false, 0, CONFIG_WIDTH_MAX),
        DRAFT_INT(draft_vocab_size, "draft_vocab_size", false, 0, CONFIG_VOCAB_MAX),
    };
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        TRY(json_get_int((int *)((char *)c + fields[i].offset), place_of(p, fields[i].rule.key),
                         &fields[i].rule));
    later[0].rule.fallback = c->n_heads;
    later[1].rule.fallback = c->width / c->n_heads;
    later[2].rule.fallback = c->vocab_size;
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        TRY(json_get_int((int *)((char *)c + later[i].offset), place_of(p, later[i].rule.key),
                         &later[i].rule));
    c->rope.head_dim = c->head_dim;
out:
    return st;
}

static enum osp_status read_eps(struct draft_config *c, const struct places *p)
{
    const struct json_number_spec rule = {
        .key = "rms_norm_eps", .fallback = 1e-6, .min = 0, .max = 1};
    double eps;
    enum osp_status st;

    TRY(json_get_number(&eps, place_of(p, rule.key), &rule));
    c->norm_eps = (float)eps;
out:
    return st;
}

/* ---- the states of the target ---- */

static enum osp_status read_state_ids(struct draft_config *c, const struct places *p)
{
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    const struct json_object *o = place_of(p, key);
    const json_t *ids = json_object_get(o->json, key);
    const size_t n = json_array_size(ids);

    if (ids == NULL || json_is_null(ids))
        return OSP_OK;
    if (!json_is_array(ids) || n < 1 || n > DRAFT_STATES_MAX)
        return fail(OSP_EFORMAT, "%s: %s%s is %s, expected an array of 1 to %d layer ids", o->path,
                    o->where, key,
                    json_is_array(ids) ? "an array of another size" : json_type_name(ids),
                    (int)DRAFT_STATES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > CONFIG_LAYERS_MAX)
            return fail(OSP_EFORMAT, "%s: %s%s[%zu] must be an integer from 0 to %d", o->path,
                        o->where, key, i, (int)CONFIG_LAYERS_MAX);
        c->state_ids[i] = (int)json_integer_value(id);
    }
    c->n_states = (int)n;
    return OSP_OK;
}

/* ---- switches ---- */

static enum osp_status read_switch(bool *out, const struct places *p, const char *key,
                                   bool fallback)
{
    return json_get_bool(out, place_of(p, key), key, fallback);
}

/* Switches of other heads, which have one value here. */
static enum osp_status check_switches(const struct places *p)
{
    static const struct {
        const char *key;
        bool value;
    } fixed[] = {{"use_input_layernorm_in_first_layer", true},
                 {"use_last_layernorm", true},
                 {"use_mtp_layernorm", false},
                 {"attention_bias", false},
                 {"mlp_bias", false}};
    bool value;
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        const struct json_object *o = place_of(p, fixed[i].key);

        TRY(json_get_bool(&value, o, fixed[i].key, fixed[i].value));
        if (value != fixed[i].value)
            return fail(OSP_EUNSUPPORTED, "%s: %s%s is %s, supported is only %s", o->path, o->where,
                        fixed[i].key, value ? "true" : "false", value ? "false" : "true");
    }
out:
    return st;
}

static enum osp_status read_switches(struct draft_config *c, const struct places *p)
{
    bool uses_states, all, each, output, post_norm;
    enum osp_status st;

    TRY(read_switch(&uses_states, p, "use_aux_hidden_state", true));
    TRY(read_switch(&all, p, "norm_before_fc", false));
    TRY(read_switch(&each, p, "fc_norm", false));
    TRY(read_switch(&c->norm_before_residual, p, "norm_before_residual", false));
    TRY(read_switch(&output, p, "norm_output", false));
    TRY(read_switch(&post_norm, p, "return_hidden_post_norm", false));
    TRY(check_switches(p));
    if (all && each)
        return fail(OSP_EFORMAT, "%s: norm_before_fc and fc_norm are both true, expected one",
                    p->at[0].path);
    c->reads_final_norm = !uses_states;
    c->fc_norm = all ? FC_NORM_ALL : each ? FC_NORM_EACH : FC_NORM_NONE;
    c->norm_output = output || post_norm;
out:
    return st;
}

/* ---- kind ---- */

static enum osp_status check_is_one(const struct places *p, const char *key, const char *what)
{
    const struct json_int_spec rule = {.key = key, .fallback = 1, .min = 0, .max = 1 << 20};
    const struct json_object *o = place_of(p, key);
    int n;
    enum osp_status st = json_get_int(&n, o, &rule);

    if (st == OSP_OK && n != 1)
        return fail(OSP_EUNSUPPORTED, "%s: %s%s is %d, supported are heads with one %s", o->path,
                    o->where, key, n, what);
    return st;
}

/* Eagle3 is named in the architecture or in speculators_model_type. */
static enum osp_status check_kind(const struct places *p)
{
    const struct json_object *root = &p->at[0];
    const json_t *list = json_object_get(root->json, "architectures");
    const char *name = json_string_value(json_array_get(list, 0)), *type, *act;
    enum osp_status st;

    TRY(json_get_string(&type, root, "speculators_model_type"));
    if (type != NULL && strcmp(type, "eagle3") != 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s: speculators_model_type is \"%.32s\", supported is eagle3", root->path,
                    type);
    if (type == NULL && (name == NULL || strstr(name, "Eagle3") == NULL))
        return fail(OSP_EFORMAT,
                    "%s: architectures[0] is %.64s, expected an Eagle3 draft head, such as "
                    "LlamaForCausalLMEagle3",
                    root->path, name != NULL ? name : "missing");
    TRY(json_get_string(&act, place_of(p, "hidden_act"), "hidden_act"));
    if (act != NULL && strcmp(act, "silu") != 0)
        return fail(OSP_EUNSUPPORTED, "%s: hidden_act is \"%.32s\", supported is silu", root->path,
                    act);
    TRY(check_is_one(p, "num_hidden_layers", "layer"));
    TRY(check_is_one(p, "parallel_draft_step", "draft a pass"));
out:
    return st;
}

/* ---- rotary table ---- */

static enum osp_status read_llama3(struct draft_config *c, const struct json_object *dict)
{
    const struct json_int_spec original = {.key = "original_max_position_embeddings",
                                           .fallback = 8192,
                                           .min = 1,
                                           .max = CONFIG_CONTEXT_MAX};
    enum osp_status st;

    TRY(json_get_int(&c->rope.rope_original_tokens, dict, &original));
    TRY(hf_rope_number(&c->llama3_factor, dict, "factor", 8));
    TRY(hf_rope_number(&c->llama3_low, dict, "low_freq_factor", 1));
    TRY(hf_rope_number(&c->llama3_high, dict, "high_freq_factor", 4));
    TRY(hf_rope_number(&c->rope.rope_theta, dict, "rope_theta", c->rope.rope_theta));
    if (c->llama3_high <= c->llama3_low)
        return fail(OSP_EFORMAT, "%s: %shigh_freq_factor is %g, must be above low_freq_factor, %g",
                    dict->path, dict->where, c->llama3_high, c->llama3_low);
out:
    return st;
}

/* The rotary fields of config.json: the object with the scaling, and that scaling, or NULL. */
static enum osp_status find_scaling(struct json_object *dict, const struct json_object **o,
                                    const struct places *p)
{
    static const char *const names[] = {"rope_parameters", "rope_scaling"};
    static const char *const where[] = {"rope_parameters.", "rope_scaling."};
    enum osp_status st = OSP_OK;

    for (int i = 0; i < 2 && dict->json == NULL; i++) {
        *o = place_of(p, names[i]);
        *dict = (struct json_object){.path = (*o)->path, .where = where[i]};
        TRY(json_get_object(&dict->json, *o, names[i]));
    }
out:
    return st;
}

/* Without scaling, and of type llama3, here; else as in the config of a gpt-oss model. */
static enum osp_status read_rope(struct draft_config *c, const struct places *p)
{
    const struct json_object *o = &p->at[0];
    struct json_object dict = {.json = NULL};
    const char *type = NULL, *old_type = NULL;
    double theta;
    enum osp_status st;

    hf_rope_default(&c->rope);
    c->rope.rope_factor = 1;
    TRY(hf_rope_number(&theta, place_of(p, "rope_theta"), "rope_theta", THETA_DEFAULT));
    c->rope.rope_theta = theta;
    TRY(find_scaling(&dict, &o, p));
    if (dict.json == NULL)
        return OSP_OK;
    TRY(json_get_string(&type, &dict, "rope_type"));
    TRY(json_get_string(&old_type, &dict, "type"));
    type = type != NULL ? type : old_type;
    if (type != NULL && strcmp(type, "llama3") == 0)
        return read_llama3(c, &dict);
    TRY(hf_rope_read(&c->rope, o));
    if (json_object_get(dict.json, "rope_theta") == NULL)
        c->rope.rope_theta = theta;
out:
    return st;
}

/* ---- the whole ---- */

static enum osp_status check_shape(const struct draft_config *c, const char *path)
{
    enum { COLUMNS = 32, HEAD_DIM_MAX = 256 }; /* of a matrix: whole blocks of the kernels */

    if (c->width % COLUMNS != 0 || c->mlp_width % COLUMNS != 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s: hidden_size is %d and intermediate_size is %d, must be multiples of %d",
                    path, c->width, c->mlp_width, (int)COLUMNS);
    if (c->n_heads % c->n_kv_heads != 0)
        return fail(OSP_EFORMAT,
                    "%s: num_attention_heads is %d, must be a multiple of num_key_value_heads, %d",
                    path, c->n_heads, c->n_kv_heads);
    if (c->head_dim < 2)
        return fail(OSP_EFORMAT,
                    "%s: head_dim is %d, must be at least 2; its default is hidden_size / "
                    "num_attention_heads, %d / %d",
                    path, c->head_dim, c->width, c->n_heads);
    if (!(c->rope.rope_theta > 1)) /* NaN, too */
        return fail(OSP_EFORMAT, "%s: rope_theta is %g, must be above 1", path, c->rope.rope_theta);
    if (c->head_dim % 2 != 0 || c->head_dim > HEAD_DIM_MAX ||
        (int64_t)c->n_heads * c->head_dim % COLUMNS != 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s: head_dim is %d, must be even, at most %d, and a multiple of %d over all "
                    "%d heads",
                    path, c->head_dim, (int)HEAD_DIM_MAX, (int)COLUMNS, c->n_heads);
    if (c->draft_vocab_size > c->vocab_size)
        return fail(OSP_EFORMAT, "%s: draft_vocab_size is %d, must be at most vocab_size, %d", path,
                    c->draft_vocab_size, c->vocab_size);
    return OSP_OK;
}

static enum osp_status read_root(struct draft_config *c, const struct json_object *root)
{
    struct places p;
    enum osp_status st;

    TRY(find_places(&p, root));
    TRY(check_kind(&p));
    TRY(read_ints(c, &p));
    TRY(read_eps(c, &p));
    TRY(read_state_ids(c, &p));
    TRY(read_switches(c, &p));
    TRY(read_rope(c, &p));
    TRY(check_shape(c, root->path));
out:
    return st;
}

enum osp_status draft_config_read(struct draft_config *out, const char *folder)
{
    char *path = path_join(folder, "config.json");
    struct json_object root = {.path = path, .where = ""};
    json_t *json = NULL;
    enum osp_status st;

    *out = (struct draft_config){0};
    TRY(json_read_file(&json, path, &config_json_limits));
    root.json = json;
    TRY(read_root(out, &root));
out:
    json_decref(json);
    free(path);
    return st;
}
