/* Checks that the numbers of a model's config are consistent and within limits, before memory is
 * sized or anything is computed by them. */
#include "model/config.h"

#include <stddef.h>

#include "backend/residual_sum.h"

enum { HEAD_DIM_MAX = 256 }; /* struct rope has 128 frequencies, half of this */

static enum osp_status broken(const char *rule, const char *key, double found)
{
    return fail(OSP_EFORMAT, "config.json: %s is %.9g, expected %s", key, found, rule);
}

static enum osp_status check_heads(const struct gptoss_config *c)
{
    if (c->head_dim < 2 || c->head_dim % 2 != 0 || c->head_dim > HEAD_DIM_MAX)
        return broken("an even number from 2 to 256", "head_dim", c->head_dim);
    if (c->n_heads < 1 || c->n_kv_heads < 1 || c->n_heads % c->n_kv_heads != 0)
        return fail(OSP_EFORMAT,
                    "config.json: num_attention_heads is %d, expected a multiple of "
                    "num_key_value_heads, which is %d",
                    c->n_heads, c->n_kv_heads);
    return OSP_OK;
}

static enum osp_status check_experts(const struct gptoss_config *c)
{
    if (c->n_experts_active < 1 || c->n_experts_active > c->n_experts)
        return fail(OSP_EFORMAT,
                    "config.json: num_experts_per_tok is %d, expected 1 to num_local_experts = %d",
                    c->n_experts_active, c->n_experts);
    return OSP_OK;
}

/* The terms of the residual stream are sums of a limited number of partials. */
static enum osp_status check_slices(const struct gptoss_config *c)
{
    const int units = expert_units_per_slice(c->expert_width);
    const int64_t n_each = slices_of(c->expert_width, units);

    if (c->n_kv_heads > RESIDUAL_PARTIALS_MAX)
        return broken("at most 127", "num_key_value_heads", c->n_kv_heads);
    if (c->n_experts_active * n_each > RESIDUAL_PARTIALS_MAX)
        return fail(OSP_EFORMAT,
                    "config.json: num_experts_per_tok is %d and intermediate_size is %d; expected "
                    "num_experts_per_tok * ceil(intermediate_size / %d) to be at most %d",
                    c->n_experts_active, c->expert_width, units * SLICE_UNIT_COLUMNS,
                    RESIDUAL_PARTIALS_MAX);
    return OSP_OK;
}

enum osp_status model_config_check_mxfp4(const struct gptoss_config *c, unsigned mxfp4_layers)
{
    if (mxfp4_layers & ~(unsigned)MXFP4_O && c->width % MXFP4_BLOCK != 0)
        return broken("a multiple of 32 (MXFP4 blocks)", "hidden_size", c->width);
    if (mxfp4_layers & MXFP4_MOE && c->expert_width % MXFP4_BLOCK != 0)
        return broken("a multiple of 32 (MXFP4 blocks)", "intermediate_size", c->expert_width);
    if (mxfp4_layers & MXFP4_O && c->n_heads * c->head_dim % MXFP4_BLOCK != 0)
        return broken("a multiple of 32 (MXFP4 blocks)", "num_attention_heads * head_dim",
                      c->n_heads * c->head_dim);
    return OSP_OK;
}

static enum osp_status check_rope(const struct gptoss_config *c)
{
    if (!(c->rope_theta > 1))
        return broken("more than 1", "rope_theta", c->rope_theta);
    if (!(c->rope_factor >= 1))
        return broken("1 or more", "the rotary factor", c->rope_factor);
    if (c->rope_factor > 1 && !(c->rope_beta_fast > c->rope_beta_slow))
        return fail(OSP_EFORMAT, "config.json: beta_fast is %g, expected more than beta_slow = %g",
                    c->rope_beta_fast, c->rope_beta_slow);
    return OSP_OK;
}

enum osp_status model_config_check(const struct gptoss_config *c)
{
    enum osp_status st;

    if (c->n_layers < 1 || c->n_layers > CONFIG_LAYERS_MAX)
        return broken("1 to 512", "num_hidden_layers", c->n_layers);
    if (c->window_tokens < 1)
        return broken("1 or more", "sliding_window", c->window_tokens);
    if (c->context_tokens_max < 1)
        return broken("1 or more", "max_position_embeddings", c->context_tokens_max);
    TRY(check_heads(c));
    TRY(check_experts(c));
    TRY(check_slices(c));
    TRY(model_config_check_mxfp4(c, c->mxfp4_layers | (c->experts_are_mxfp4 ? MXFP4_MOE : 0)));
    TRY(check_rope(c));
out:
    return st;
}
