/* Writes the text of a config.json with jansson. */
#include "store/config_write.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "store/json_read.h"

enum {
    /* Digits of a real number: enough to reproduce every decimal that a person writes. */
    JSON_STYLE = JSON_INDENT(2) | JSON_REAL_PRECISION(15)
};

#define SELF_ATTN_MODULE "model.layers.*.self_attn"

static void append_text(json_t *list, const char *text)
{
    json_array_append_new(list, json_string(text));
}

/* The modules that are not MXFP4. Attention is one entry, as published, if none of its layers is
 * MXFP4. */
static json_t *modules_to_not_convert(unsigned mxfp4_layers)
{
    const bool attention_is_whole = (mxfp4_layers & (MXFP4_QKV | MXFP4_O)) == 0;
    json_t *list = json_array();

    if (attention_is_whole)
        append_text(list, SELF_ATTN_MODULE);
    append_text(list, "model.layers.*.mlp.router");
    for (int i = 0; i < n_mxfp4_modules; i++) {
        const struct mxfp4_module *m = &mxfp4_modules[i];

        if (!(m->layer & mxfp4_layers) &&
            !(attention_is_whole && (m->layer & (MXFP4_QKV | MXFP4_O)) != 0))
            append_text(list, m->name);
    }
    return list;
}

/* The modules that are MXFP4 in addition to the experts. */
static json_t *mxfp4_module_list(unsigned mxfp4_layers)
{
    json_t *list = json_array();

    for (int i = 0; i < n_mxfp4_modules; i++)
        if (mxfp4_modules[i].layer & mxfp4_layers & ~(unsigned)MXFP4_MOE)
            append_text(list, mxfp4_modules[i].name);
    return list;
}

static void set_quantization(json_t *config, unsigned mxfp4_layers)
{
    json_t *dict = json_object();

    if (mxfp4_layers == MXFP4_NONE) {
        json_object_del(config, "quantization_config");
        json_decref(dict);
        return;
    }
    json_object_set_new(dict, "quant_method", json_string("mxfp4"));
    json_object_set_new(dict, "modules_to_not_convert", modules_to_not_convert(mxfp4_layers));
    if (mxfp4_layers & ~(unsigned)MXFP4_MOE)
        json_object_set_new(dict, MXFP4_MODULES_KEY, mxfp4_module_list(mxfp4_layers));
    json_object_set_new(config, "quantization_config", dict);
}

/* ---- from original/ and GGUF ---- */

/* A float with the fewest of 6 to 9 digits that read back as the same float: 1e-05 and not
 * 9.99999974737875e-06. */
static json_t *json_number_of(float value)
{
    char text[32];

    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    return json_real(strtod(text, NULL));
}

static json_t *make_rope(const struct gptoss_config *c)
{
    json_t *o = json_object();

    json_object_set_new(o, "rope_type", json_string(c->rope_factor > 1 ? "yarn" : "default"));
    json_object_set_new(o, "factor", json_real(c->rope_factor));
    json_object_set_new(o, "beta_fast", json_real(c->rope_beta_fast));
    json_object_set_new(o, "beta_slow", json_real(c->rope_beta_slow));
    json_object_set_new(o, "original_max_position_embeddings",
                        json_integer(c->rope_original_tokens));
    json_object_set_new(o, "truncate", json_boolean(c->rope_truncate));
    return o;
}

static json_t *layer_types_of(const struct gptoss_config *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->n_layers; i++)
        append_text(list, c->layer_is_sliding[i] ? "sliding_attention" : "full_attention");
    return list;
}

static json_t *stop_ids_of(const struct gptoss_config *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->n_stop_ids; i++)
        json_array_append_new(list, json_integer(c->stop_ids[i]));
    return list;
}

/* X(key, member) */
#define INT_KEYS(X)                                                                                \
    X("num_hidden_layers", n_layers)                                                               \
    X("num_local_experts", n_experts)                                                              \
    X("num_experts_per_tok", n_experts_active)                                                     \
    X("experts_per_token", n_experts_active)                                                       \
    X("hidden_size", width)                                                                        \
    X("intermediate_size", expert_width)                                                           \
    X("num_attention_heads", n_heads)                                                              \
    X("num_key_value_heads", n_kv_heads)                                                           \
    X("head_dim", head_dim)                                                                        \
    X("vocab_size", vocab_size)                                                                    \
    X("sliding_window", window_tokens)                                                             \
    X("initial_context_length", rope_original_tokens)                                              \
    X("max_position_embeddings", context_tokens_max)

static json_t *hf_config_of(const struct gptoss_config *c)
{
    json_t *o = json_object(), *architectures = json_array();

    append_text(architectures, "GptOssForCausalLM");
    json_object_set_new(o, "architectures", architectures);
    json_object_set_new(o, "model_type", json_string("gpt_oss"));
    json_object_set_new(o, "attention_bias", json_true());
    json_object_set_new(o, "hidden_act", json_string("silu"));
#define SET_INT(key, member) json_object_set_new(o, key, json_integer(c->member));
    INT_KEYS(SET_INT)
#undef SET_INT
    json_object_set_new(o, "layer_types", layer_types_of(c));
    json_object_set_new(o, "rms_norm_eps", json_number_of(c->norm_eps));
    json_object_set_new(o, "swiglu_limit", json_number_of(c->swiglu_limit));
    json_object_set_new(o, "swiglu_alpha", json_number_of(c->swiglu_alpha));
    json_object_set_new(o, "rope_theta", json_real(c->rope_theta));
    json_object_set_new(o, "rope_scaling", make_rope(c));
    json_object_set_new(o, "tie_word_embeddings", json_boolean(c->tied_embeddings));
    if (c->n_stop_ids > 0)
        json_object_set_new(o, "eos_token_id", stop_ids_of(c));
    return o;
}

/* ---- all layouts ---- */

enum osp_status config_write(char **out, const struct gptoss_config *c, const char *folder,
                             unsigned mxfp4_layers)
{
    char *path = path_join(folder, "config.json");
    json_t *config = NULL;
    enum osp_status st = OSP_OK;

    *out = NULL;
    if (c->layout != CHECKPOINT_HF)
        config = hf_config_of(c);
    else
        TRY(json_read_file(&config, path, &config_json_limits));
    set_quantization(config, mxfp4_layers);
    *out = json_dumps(config, JSON_STYLE);
    if (!*out)
        st = fail(OSP_ENOMEM, "%s: out of memory: the new text", path);
out:
    json_decref(config);
    free(path);
    return st;
}
