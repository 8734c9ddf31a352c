/* Keys of llama.cpp's gpt-oss and of Ollama's gptoss, which have the same endings. Defaults are
 * those of the published models. */
#include "store/gguf_config.h"

#include <stdio.h>
#include <string.h>

#include "store/hf_rope.h"

enum { KEY_BYTES = 128 };

static const char *const architectures[] = {"gpt-oss", "gptoss"};

struct reader {
    struct gptoss_config *c;
    const struct gguf_header *keys;
    const char *architecture;
};

/* "gpt-oss.block_count" of "block_count". */
static const char *key_of(char out[KEY_BYTES], const struct reader *r, const char *ending)
{
    snprintf(out, KEY_BYTES, "%s.%s", r->architecture, ending);
    return out;
}

static const struct gguf_key *find(const struct reader *r, const char *ending)
{
    char key[KEY_BYTES];

    return gguf_find(r->keys, key_of(key, r, ending));
}

static enum osp_status read_number(double *out, const struct reader *r, const char *ending,
                                   double fallback, double max)
{
    char key[KEY_BYTES];
    const struct gguf_number_spec rule = {
        .key = key_of(key, r, ending), .fallback = fallback, .min = 0, .max = max};

    return gguf_get_number(out, r->keys, &rule);
}

/* ---- what kind of file ---- */

static enum osp_status read_architecture(struct reader *r)
{
    struct gguf_text type, name;
    enum osp_status st;

    TRY(gguf_get_text(&type, r->keys, "general.type"));
    if (type.at && !gguf_text_is(&type, "model"))
        return fail(OSP_EUNSUPPORTED, "%s: key general.type is \"%.*s\", expected model",
                    r->keys->path, type.n_bytes < 32 ? (int)type.n_bytes : 32, type.at);
    TRY(gguf_get_text(&name, r->keys, "general.architecture"));
    if (!name.at)
        return fail(OSP_EFORMAT, "%s: key general.architecture is missing, expected gpt-oss",
                    r->keys->path);
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (gguf_text_is(&name, architectures[i]))
            r->architecture = architectures[i];
    if (!r->architecture)
        return fail(OSP_EUNSUPPORTED,
                    "%s: key general.architecture is \"%.*s\", expected gpt-oss or gptoss: osprey "
                    "serves gpt-oss only",
                    r->keys->path, name.n_bytes < 32 ? (int)name.n_bytes : 32, name.at);
out:
    return st;
}

/* ---- sizes ---- */

static const struct int_key {
    size_t offset;
    const char *ending, *other; /* other: of Ollama; NULL: the same */
    bool required;
    int fallback, max;
} int_keys[] = {
#define INT_KEY(member, ...)                                                                       \
    {                                                                                              \
        offsetof(struct gptoss_config, member), __VA_ARGS__                                        \
    }
    INT_KEY(n_layers, "block_count", NULL, true, 0, CONFIG_LAYERS_MAX),
    INT_KEY(n_experts, "expert_count", NULL, true, 0, CONFIG_EXPERTS_MAX),
    INT_KEY(n_experts_active, "expert_used_count", NULL, true, 0, CONFIG_EXPERTS_MAX),
    INT_KEY(width, "embedding_length", NULL, true, 0, CONFIG_WIDTH_MAX),
    INT_KEY(expert_width, "expert_feed_forward_length", "feed_forward_length", true, 0,
            CONFIG_WIDTH_MAX),
    INT_KEY(n_heads, "attention.head_count", NULL, true, 0, CONFIG_HEADS_MAX),
    INT_KEY(n_kv_heads, "attention.head_count_kv", NULL, true, 0, CONFIG_HEADS_MAX),
    INT_KEY(head_dim, "attention.key_length", NULL, true, 0, CONFIG_WIDTH_MAX),
    INT_KEY(window_tokens, "attention.sliding_window", NULL, false, 128, CONFIG_CONTEXT_MAX),
    INT_KEY(context_tokens_max, "context_length", NULL, false, 131072, CONFIG_CONTEXT_MAX),
    INT_KEY(rope_original_tokens, "rope.scaling.original_context_length", NULL, false, 4096,
            CONFIG_CONTEXT_MAX),
};

static enum osp_status read_ints(struct reader *r)
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof int_keys / sizeof int_keys[0]; i++) {
        const struct int_key *k = &int_keys[i];
        char key[KEY_BYTES];
        const struct gguf_int_spec rule = {
            .key = key_of(key, r, k->other && !find(r, k->ending) ? k->other : k->ending),
            .required = k->required,
            .fallback = k->fallback,
            .min = 1,
            .max = k->max};

        TRY(gguf_get_int((int *)((char *)r->c + k->offset), r->keys, &rule));
    }
out:
    return st;
}

static enum osp_status read_constants(struct reader *r)
{
    double value = 0;
    enum osp_status st;

    TRY(read_number(&value, r, "attention.layer_norm_rms_epsilon", 1e-5, 1));
    r->c->norm_eps = (float)value;
    TRY(read_number(&value, r, "swiglu_clamp_exp", 7, 1e6));
    r->c->swiglu_limit = (float)value;
    r->c->swiglu_alpha = 1.702f; /* no key has it */
out:
    return st;
}

/* Keys that repeat a size, where present. */
static enum osp_status check_same_size(const struct reader *r, const char *ending, int expected)
{
    char key[KEY_BYTES];
    const struct gguf_int_spec rule = {
        .key = key_of(key, r, ending), .fallback = expected, .min = 1, .max = CONFIG_WIDTH_MAX};
    int found = 0;
    enum osp_status st;

    TRY(gguf_get_int(&found, r->keys, &rule));
    if (found != expected)
        return fail(OSP_EUNSUPPORTED, "%s: key %s is %d, expected %d, the same as %s.%s",
                    r->keys->path, key, found, expected, r->architecture, "attention.key_length");
out:
    return st;
}

/* ---- layers ---- */

/* A number n: every n-th layer has full attention. An array: true for sliding-window layers. */
static enum osp_status read_layer_types(struct reader *r)
{
    static const char ending[] = "attention.sliding_window_pattern";
    const struct gguf_key *k = find(r, ending);
    int64_t value = 2;
    enum osp_status st = OSP_OK;

    if (k && k->is_array && k->n != (uint64_t)r->c->n_layers)
        return fail(OSP_EFORMAT, "%s: key %s has %llu items, expected %d, one for each layer",
                    r->keys->path, k->name, (unsigned long long)k->n, r->c->n_layers);
    for (int i = 0; i < r->c->n_layers; i++) {
        if (k)
            TRY(gguf_int_at(&value, r->keys, k, k->is_array ? (uint64_t)i : 0));
        if (k && k->is_array)
            r->c->layer_is_sliding[i] = value != 0;
        else
            r->c->layer_is_sliding[i] = value == 0 || i % value < value - 1;
    }
out:
    return st;
}

/* ---- rotary embedding ---- */

static enum osp_status refuse_number(const struct reader *r, const char *ending, double allowed)
{
    double value = 0;
    enum osp_status st;

    TRY(read_number(&value, r, ending, allowed, 1e12));
    if (value != allowed)
        return fail(OSP_EUNSUPPORTED, "%s: key %s.%s is %g, only %g is supported", r->keys->path,
                    r->architecture, ending, value, allowed);
out:
    return st;
}

/* Ollama's files have a factor but no type. */
static enum osp_status read_yarn(struct reader *r)
{
    char key[KEY_BYTES];
    struct gguf_text type;
    enum osp_status st;

    TRY(gguf_get_text(&type, r->keys, key_of(key, r, "rope.scaling.type")));
    if (gguf_text_is(&type, "none")) {
        r->c->rope_factor = 1;
        return OSP_OK;
    }
    if (type.at && !gguf_text_is(&type, "yarn"))
        return fail(OSP_EUNSUPPORTED, "%s: key %s is \"%.*s\", supported are yarn and none",
                    r->keys->path, key, type.n_bytes < 32 ? (int)type.n_bytes : 32, type.at);
    if (!find(r, "rope.scaling.factor"))
        return fail(OSP_EFORMAT, "%s: key %s is missing, expected a float", r->keys->path,
                    key_of(key, r, "rope.scaling.factor"));
    TRY(read_number(&r->c->rope_factor, r, "rope.scaling.factor", 1, 1e12));
    TRY(read_number(&r->c->rope_beta_fast, r, "rope.scaling.yarn_beta_fast", r->c->rope_beta_fast,
                    1e12));
    TRY(read_number(&r->c->rope_beta_slow, r, "rope.scaling.yarn_beta_slow", r->c->rope_beta_slow,
                    1e12));
    TRY(refuse_number(r, "rope.scaling.yarn_ext_factor", 1));
    TRY(refuse_number(r, "rope.scaling.yarn_attn_factor", 1));
    TRY(refuse_number(r, "rope.scaling.attn_factor", 1));
out:
    return st;
}

/* No key says whether YaRN's ramp is rounded to whole pairs. llama.cpp rounds it; the model was
 * trained without, so it is not rounded here (hf_rope_default). */
static enum osp_status read_rope(struct reader *r)
{
    const int original_tokens = r->c->rope_original_tokens;
    enum osp_status st;

    hf_rope_default(r->c);
    r->c->rope_original_tokens = original_tokens;
    TRY(read_number(&r->c->rope_theta, r, "rope.freq_base", r->c->rope_theta, 1e12));
    TRY(refuse_number(r, "rope.freq_base_swa", r->c->rope_theta));
    TRY(check_same_size(r, "rope.dimension_count", r->c->head_dim));
    TRY(read_yarn(r));
out:
    return st;
}

/* ---- ids that end an answer ---- */

static enum osp_status add_stop_ids(struct gptoss_config *c, const struct gguf_header *h,
                                    const char *key)
{
    const struct gguf_key *k = gguf_find(h, key);
    int64_t id = 0;
    enum osp_status st = OSP_OK;

    for (uint64_t i = 0; k && i < k->n; i++) {
        bool known = false;

        TRY(gguf_int_at(&id, h, k, i));
        if (id < 0 || id >= CONFIG_VOCAB_MAX)
            return fail(OSP_EFORMAT, "%s: key %s has id %lld, expected 0 to %d", h->path, key,
                        (long long)id, CONFIG_VOCAB_MAX - 1);
        for (int s = 0; s < c->n_stop_ids; s++)
            known = known || c->stop_ids[s] == id;
        if (known)
            continue;
        if (c->n_stop_ids == CONFIG_STOP_IDS_MAX)
            return fail(OSP_EFORMAT, "%s: key %s: over %d ids end an answer", h->path, key,
                        CONFIG_STOP_IDS_MAX);
        c->stop_ids[c->n_stop_ids++] = (int)id;
    }
out:
    return st;
}

static enum osp_status read_stop_ids(const struct reader *r)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.eos_token_ids"};
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        TRY(add_stop_ids(r->c, r->keys, keys[i]));
out:
    return st;
}

enum osp_status gguf_config_read(struct gptoss_config *out, const struct gguf_header *keys)
{
    struct reader r = {.c = out, .keys = keys};
    enum osp_status st;

    memset(out, 0, sizeof *out);
    out->layout = CHECKPOINT_GGUF;
    TRY(read_architecture(&r));
    TRY(read_ints(&r));
    TRY(check_same_size(&r, "attention.value_length", out->head_dim));
    TRY(read_constants(&r));
    TRY(read_rope(&r));
    TRY(read_layer_types(&r));
    TRY(read_stop_ids(&r));
out:
    return st;
}
