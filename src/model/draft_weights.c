#include "model/draft_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/residual_sum.h"
#include "base/memory.h"

enum { NAME_BYTES = 128 };

struct draft_binder {
    struct draft_weights *w;
    const struct checkpoint *c;
    const struct draft_config *config;
    bool *seen; /* (c->n_tensors) */
};

/* ---- finding ---- */

/* The layer's tensors begin with one of these; any name may have model. before it. */
static const char *const LAYER_PREFIXES[] = {"midlayer.", "layers.0."};
static const char *const ROOTS[] = {"", "model."};

static void mark_seen(struct draft_binder *b, const struct st_file *file, const struct st_tensor *t)
{
    size_t first = 0;

    for (const struct st_file *f = b->c->files; f < file; f++)
        first += f->n_tensors;
    b->seen[first + (size_t)(t - file->tensors)] = true;
}

/* A tensor of the head, or of its layer; NULL: there is none. */
static const struct st_tensor *find(const struct draft_binder *b, bool is_layer, const char *name,
                                    const struct st_file **file)
{
    char full[NAME_BYTES];

    for (size_t r = 0; r < sizeof ROOTS / sizeof ROOTS[0]; r++)
        for (int i = 0; i < (is_layer ? 2 : 1); i++) {
            const struct st_tensor *t;

            snprintf(full, sizeof full, "%s%s%s", ROOTS[r], is_layer ? LAYER_PREFIXES[i] : "",
                     name);
            t = checkpoint_find(b->c, full, file);
            if (t != NULL)
                return t;
        }
    return NULL;
}

/* ---- one tensor ---- */

static enum osp_status check_dtype(const struct st_file *file, const struct st_tensor *t)
{
    if (t->dtype == ST_BF16 || t->dtype == ST_F32)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED, "%s: tensor %s: dtype is %s, supported are BF16 and F32",
                file->path, t->name, st_dtype_name(t->dtype));
}

static enum osp_status check_shape(const struct st_file *file, const struct st_tensor *t,
                                   const struct tensor *want)
{
    char found[ST_SHAPE_TEXT_BYTES], expected[ST_SHAPE_TEXT_BYTES];
    bool is_same = t->n_dims == want->n_dims;

    for (int i = 0; is_same && i < want->n_dims; i++)
        is_same = t->dim[i] == want->dim[i];
    if (is_same)
        return OSP_OK;
    return fail(OSP_EFORMAT, "%s: tensor %s: shape is %s, expected %s", file->path, t->name,
                st_shape_text(found, t->dim, t->n_dims),
                st_shape_text(expected, want->dim, want->n_dims));
}

static enum osp_status align(struct draft_binder *b, struct tensor *out, const struct st_tensor *t)
{
    void *copy = NULL;
    enum osp_status st;

    out->data = (void *)(uintptr_t)t->data; /* weights are never written */
    if ((uintptr_t)t->data % st_dtype_bytes(t->dtype) == 0)
        return OSP_OK;
    TRY(mem_try_aligned(&copy, t->size_bytes, 1, "a misaligned tensor"));
    memcpy(copy, t->data, t->size_bytes);
    b->w->copies[b->w->n_copies++] = out->data = copy;
out:
    return st;
}

static enum osp_status take(struct draft_binder *b, struct tensor *out, const struct st_file *file,
                            const struct st_tensor *t)
{
    enum osp_status st;

    TRY(check_dtype(file, t));
    TRY(check_shape(file, t, out));
    out->dtype = t->dtype == ST_F32 ? DTYPE_F32 : DTYPE_BF16;
    TRY(align(b, out, t));
    mark_seen(b, file, t);
    b->w->data_bytes += (int64_t)t->size_bytes;
out:
    return st;
}

/* A slot that the config asks for, or that may be absent. */
struct draft_rule {
    struct tensor *slot;
    const char *name;
    int64_t dim[2]; /* dim[1] 0: a vector */
    bool is_layer, is_optional;
};

static enum osp_status bind(struct draft_binder *b, const struct draft_rule *rule)
{
    const struct st_file *file;
    const struct st_tensor *t = find(b, rule->is_layer, rule->name, &file);
    char shape[ST_SHAPE_TEXT_BYTES];

    *rule->slot =
        (struct tensor){.n_dims = rule->dim[1] > 0 ? 2 : 1, .dim = {rule->dim[0], rule->dim[1]}};
    if (t != NULL)
        return take(b, rule->slot, file, t);
    if (rule->is_optional) {
        *rule->slot = (struct tensor){.data = NULL};
        return OSP_OK;
    }
    return fail(OSP_EFORMAT, "%s: tensor %s%s is missing, expected shape %s", b->c->path,
                rule->is_layer ? "midlayer." : "", rule->name,
                st_shape_text(shape, rule->slot->dim, rule->slot->n_dims));
}

/* ---- all of them ---- */

static enum osp_status bind_layer(struct draft_binder *b)
{
    struct draft_weights *w = b->w;
    const struct draft_config *c = b->config;
    const int64_t C = c->width, F = c->mlp_width;
    const int64_t Q = (int64_t)c->n_heads * c->head_dim, KV = (int64_t)c->n_kv_heads * c->head_dim;
    const struct draft_rule rules[] = {
        {&w->embed_norm, "input_layernorm.weight", {C}, true, false},
        {&w->hidden_norm, "hidden_norm.weight", {C}, true, false},
        {&w->wqkv[0], "self_attn.q_proj.weight", {Q, 2 * C}, true, false},
        {&w->wqkv[1], "self_attn.k_proj.weight", {KV, 2 * C}, true, false},
        {&w->wqkv[2], "self_attn.v_proj.weight", {KV, 2 * C}, true, false},
        {&w->wo, "self_attn.o_proj.weight", {C, Q}, true, false},
        {&w->mlp_norm, "post_attention_layernorm.weight", {C}, true, false},
        {&w->w_gate, "mlp.gate_proj.weight", {F, C}, true, false},
        {&w->w_up, "mlp.up_proj.weight", {F, C}, true, false},
        {&w->w_down, "mlp.down_proj.weight", {C, F}, true, false},
    };
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        TRY(bind(b, &rules[i]));
out:
    return st;
}

/* fc_norm.0.weight and so on become one vector. */
static enum osp_status bind_each_norm(struct draft_binder *b)
{
    const int64_t C = b->config->width;
    const int n = b->config->n_states;
    struct tensor part;
    char name[NAME_BYTES];
    float *all = NULL;
    enum osp_status st;

    TRY(mem_try_aligned(&all, (size_t)(n * C), sizeof *all, "norms of a draft head"));
    b->w->copies[b->w->n_copies++] = all;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "fc_norm.%d.weight", i);
        TRY(bind(b, &(struct draft_rule){&part, name, {C}, false, false}));
        for (int64_t k = 0; k < C; k++)
            all[i * C + k] = tensor_element_f32(&part, k);
    }
    b->w->fc_norm = (struct tensor){.dtype = DTYPE_F32, .n_dims = 1, .dim = {n * C}, .data = all};
out:
    return st;
}

static enum osp_status bind_ends(struct draft_binder *b)
{
    struct draft_weights *w = b->w;
    const struct draft_config *c = b->config;
    const int64_t C = c->width, N = c->n_states;
    const bool is_full = c->draft_vocab_size == c->vocab_size;
    enum osp_status st;

    if (!c->reads_final_norm)
        TRY(bind(b, &(struct draft_rule){&w->fc, "fc.weight", {C, N * C}, false, false}));
    if (c->fc_norm == FC_NORM_ALL)
        TRY(bind(b,
                 &(struct draft_rule){&w->input_norm, "input_norm.weight", {N * C}, false, false}));
    if (c->fc_norm == FC_NORM_EACH)
        TRY(bind_each_norm(b));
    TRY(bind(b, &(struct draft_rule){&w->norm, "norm.weight", {C}, false, false}));
    TRY(bind(b, &(struct draft_rule){
                    &w->embed, "embed_tokens.weight", {c->vocab_size, C}, false, true}));
    TRY(bind(b, &(struct draft_rule){
                    &w->head, "lm_head.weight", {c->draft_vocab_size, C}, false, is_full}));
out:
    return st;
}

/* ---- d2t ---- */

static int64_t stored_id(const struct st_tensor *t, int64_t i)
{
    int64_t value;

    memcpy(&value, t->data + i * 8, sizeof value);
    return value;
}

/* Whether t2d, which marks the target's ids that the head has, marks each i + d2t[i]. */
static bool are_offsets(const struct st_tensor *t, const struct st_tensor *t2d)
{
    for (int64_t i = 0; i < t->dim[0]; i++) {
        const int64_t offset = stored_id(t, i), id_max = (int64_t)t2d->size_bytes - 1;

        if (offset < -i || offset > id_max - i || t2d->data[i + offset] == 0)
            return false;
    }
    return true;
}

/* d2t has offsets (target id = i + d2t[i]) or the target's ids themselves. Where t2d fits both:
 * offsets stay the same over a run of neighbouring ids, target ids rise with each i. */
static bool has_target_ids(const struct draft_binder *b, const struct st_tensor *t)
{
    const struct st_file *file;
    const struct st_tensor *t2d = find(b, false, "t2d", &file);

    if (t2d != NULL && (t2d->dtype == ST_BOOL || t2d->dtype == ST_U8))
        return !are_offsets(t, t2d);
    for (int64_t i = 1; i < t->dim[0]; i++)
        if (stored_id(t, i) <= stored_id(t, i - 1))
            return false;
    return t->dim[0] > 1;
}

static enum osp_status read_target_ids(struct draft_binder *b, const struct st_file *file,
                                       const struct st_tensor *t)
{
    const int n = b->config->draft_vocab_size, n_target = b->config->vocab_size;
    const bool is_target = has_target_ids(b, t);
    enum osp_status st;

    TRY(mem_try_array(&b->w->target_ids, (size_t)n, sizeof *b->w->target_ids,
                      "token ids of a draft head"));
    for (int i = 0; i < n; i++) {
        const int64_t stored = stored_id(t, i);
        int64_t id;

        if (stored < -n_target || stored > n_target)
            return fail(OSP_EFORMAT, "%s: tensor %s: entry %d is %lld, expected %d to %d",
                        file->path, t->name, i, (long long)stored, -n_target, n_target);
        id = is_target ? stored : i + stored;
        if (id < 0 || id >= n_target)
            return fail(OSP_EFORMAT,
                        "%s: tensor %s: entry %d is %lld, which is token %lld of the target, "
                        "expected 0 to %d",
                        file->path, t->name, i, (long long)stored, (long long)id, n_target - 1);
        b->w->target_ids[i] = (int32_t)id;
    }
out:
    return st;
}

static enum osp_status bind_target_ids(struct draft_binder *b)
{
    const struct draft_config *c = b->config;
    const struct st_file *file;
    const struct st_tensor *t = find(b, false, "d2t", &file);
    const struct tensor want = {.n_dims = 1, .dim = {c->draft_vocab_size}};
    enum osp_status st;

    if (t == NULL && c->draft_vocab_size == c->vocab_size)
        return OSP_OK;
    if (t == NULL)
        return fail(OSP_EFORMAT,
                    "%s: tensor d2t is missing, expected I64 [%d], since draft_vocab_size is less "
                    "than vocab_size, %d",
                    b->c->path, c->draft_vocab_size, c->vocab_size);
    if (t->dtype != ST_I64)
        return fail(OSP_EFORMAT, "%s: tensor %s: dtype is %s, expected I64", file->path, t->name,
                    st_dtype_name(t->dtype));
    TRY(check_shape(file, t, &want));
    mark_seen(b, file, t);
    TRY(read_target_ids(b, file, t));
out:
    return st;
}

/* ---- the target, and what is left over ---- */

static enum osp_status check_target(const struct draft_binder *b,
                                    const struct gptoss_config *target)
{
    const struct draft_config *c = b->config;
    const int width = c->target_width > 0 ? c->target_width : c->width;

    if (width != target->width || c->width != target->width)
        return fail(OSP_EFORMAT,
                    "%s/config.json: the draft head is for a model of hidden_size %d, this model's "
                    "is %d; use a head that was trained for it",
                    b->c->path, width != target->width ? width : c->width, target->width);
    if (c->vocab_size != target->vocab_size)
        return fail(OSP_EFORMAT,
                    "%s/config.json: the draft head is for a vocabulary of %d tokens, this model's "
                    "has %d; use a head that was trained for it",
                    b->c->path, c->vocab_size, target->vocab_size);
    if (c->n_kv_heads > RESIDUAL_PARTIALS_MAX)
        return fail(OSP_EUNSUPPORTED,
                    "%s/config.json: num_key_value_heads is %d, expected at most %d", b->c->path,
                    c->n_kv_heads, RESIDUAL_PARTIALS_MAX);
    for (int i = 0; i < c->n_states; i++)
        if (c->state_ids[i] > target->n_layers)
            return fail(OSP_EFORMAT,
                        "%s/config.json: eagle_aux_hidden_state_layer_ids[%d] is %d, this model "
                        "has %d layers",
                        b->c->path, i, c->state_ids[i], target->n_layers);
    return OSP_OK;
}

/* The default of vLLM: after 2 layers, after half of them, and before the last three. */
static enum osp_status choose_states(struct draft_binder *b, struct draft_config *config,
                                     const struct gptoss_config *target)
{
    const int L = target->n_layers;
    const struct st_file *file;
    const struct st_tensor *fc;

    if (config->reads_final_norm)
        config->n_states = 1;
    if (config->n_states > 0)
        return OSP_OK;
    fc = find(b, false, "fc.weight", &file);
    if (fc != NULL && fc->n_dims == 2 && fc->dim[1] != 3 * (int64_t)config->width)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s reads %lld columns, but config.json has no "
                    "eagle_aux_hidden_state_layer_ids, and the default is three states, %lld",
                    file->path, fc->name, (long long)fc->dim[1], 3 * (long long)config->width);
    if (L < 4)
        return fail(
            OSP_EFORMAT,
            "%s/config.json: there are no eagle_aux_hidden_state_layer_ids, and a model of %d "
            "layers has no default",
            b->c->path, L);
    config->n_states = 3;
    config->state_ids[0] = 2;
    config->state_ids[1] = L / 2;
    config->state_ids[2] = L - 3;
    return OSP_OK;
}

/* t2d is the inverse of d2t. */
static bool is_ignored(const char *name)
{
    const char *dot = strrchr(name, '.');

    return strcmp(dot != NULL ? dot + 1 : name, "t2d") == 0;
}

static enum osp_status check_surplus(const struct draft_binder *b)
{
    size_t at = 0;

    for (int f = 0; f < b->c->n_files; f++)
        for (size_t i = 0; i < b->c->files[f].n_tensors; i++, at++)
            if (!b->seen[at] && !is_ignored(b->c->files[f].tensors[i].name))
                return fail(OSP_EFORMAT,
                            "%s: tensor %s is not part of an Eagle3 head with this config.json",
                            b->c->files[f].path, b->c->files[f].tensors[i].name);
    return OSP_OK;
}

enum osp_status draft_weights_bind(struct draft_weights *out, const struct checkpoint *c,
                                   struct draft_config *config, const struct gptoss_config *target)
{
    struct draft_binder b = {.w = out, .c = c, .config = config};
    enum osp_status st;

    *out = (struct draft_weights){.n_copies = 0};
    TRY(mem_try_array(&b.seen, (size_t)c->n_tensors + 1, sizeof *b.seen, "tensors"));
    TRY(check_target(&b, target));
    TRY(choose_states(&b, config, target));
    TRY(bind_layer(&b));
    TRY(bind_ends(&b));
    TRY(bind_target_ids(&b));
    TRY(check_surplus(&b));
out:
    free(b.seen);
    if (st != OSP_OK)
        draft_weights_release(out);
    return st;
}

void draft_weights_release(struct draft_weights *w)
{
    for (int i = 0; i < w->n_copies; i++)
        free(w->copies[i]);
    for (int i = 0; i < w->n_quantized; i++)
        free(w->quantized[i]);
    free(w->target_ids);
    *w = (struct draft_weights){.n_copies = 0};
}
