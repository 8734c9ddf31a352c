/* The shapes of dummy weights: the published models, and a small one for tests. */
#include <stdio.h>
#include <string.h>

#include "model/dummy.h"

struct shape {
    const char *name;
    int n_layers, n_experts, n_experts_active, width, expert_width;
    int n_heads, n_kv_heads, head_dim, vocab_size;
};

static const struct shape SHAPES[] = {
    {"gpt-oss-20b", 24, 32, 4, 2880, 2880, 64, 8, 64, 201088},
    {"gpt-oss-120b", 36, 128, 4, 2880, 2880, 64, 8, 64, 201088},
    {"osprey-nano", 8, 8, 4, 320, 128, 8, 2, 64, 2048},
    {"osprey-nano-8kv", 6, 8, 4, 320, 1024, 16, 8, 64, 2048}, /* for up to 8 ranks */
};

enum { N_SHAPES = sizeof SHAPES / sizeof SHAPES[0] };

static enum osp_status find_shape(const struct shape **out, const char *name)
{
    char names[128] = "";
    size_t at = 0;

    for (int i = 0; i < N_SHAPES; i++) {
        *out = &SHAPES[i];
        if (strcmp(SHAPES[i].name, name) == 0)
            return OSP_OK;
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "",
                               SHAPES[i].name);
    }
    return fail(OSP_EINVAL, "model shape %s is unknown, expected one of %s", name, names);
}

/* Values that all gpt-oss models share. */
static const struct gptoss_config FAMILY = {
    .window_tokens = 128,
    .context_tokens_max = 131072,
    .norm_eps = 1e-5f,
    .swiglu_limit = 7.0f,
    .swiglu_alpha = 1.702f,
    .rope_theta = 150000,
    .rope_factor = 32,
    .rope_beta_fast = 32,
    .rope_beta_slow = 1,
    .rope_original_tokens = 4096,
    .experts_are_mxfp4 = true,
};

enum osp_status dummy_config(struct gptoss_config *out, const char *name, int n_layers,
                             unsigned mxfp4_layers)
{
    const struct shape *s = NULL;
    enum osp_status st;

    TRY(find_shape(&s, name));
    if (n_layers < 0 || n_layers > CONFIG_LAYERS_MAX)
        return fail(OSP_EINVAL, "model shape: %d layers, expected 0 (all of the shape) to %d",
                    n_layers, (int)CONFIG_LAYERS_MAX);
    *out = FAMILY;
    out->mxfp4_layers = mxfp4_layers & ~(unsigned)MXFP4_MOE;
    out->n_layers = n_layers > 0 ? n_layers : s->n_layers;
    out->n_experts = s->n_experts;
    out->n_experts_active = s->n_experts_active;
    out->width = s->width;
    out->expert_width = s->expert_width;
    out->n_heads = s->n_heads;
    out->n_kv_heads = s->n_kv_heads;
    out->head_dim = s->head_dim;
    out->vocab_size = s->vocab_size;
    for (int i = 0; i < out->n_layers; i += 2)
        out->layer_is_sliding[i] = true;
out:
    return st;
}
