#include "model/stage_run.h"

/* Stages of a layer, in the order of forward.c. */
enum {
    AT_ATTN_QKV,
    AT_ATTN,
    AT_ATTN_OUT,
    AT_ATTN_RESIDUAL,
    AT_ROUTER,
    AT_EXPERTS,
    AT_EXPERTS_RESIDUAL
};

static const struct layer *layer_of(const struct model *m, int i)
{
    return &m->layers[(i - 1) / LAYER_STAGES];
}

static enum osp_status run_of_layer(struct model *m, const struct layer *l, int at)
{
    switch (at) {
    case AT_ATTN_QKV:
        return m->ops->attn_qkv(m->be, &l->attn_qkv);
    case AT_ATTN:
        return m->ops->attn(m->be, &l->attn);
    case AT_ATTN_OUT:
        return m->ops->attn_out(m->be, &l->attn_out);
    case AT_ATTN_RESIDUAL:
        return m->ops->residual_rmsnorm(m->be, &l->attn_residual);
    case AT_ROUTER:
        return m->ops->router(m->be, &l->router);
    case AT_EXPERTS:
        return m->ops->experts(m->be, &l->experts);
    default:
        return m->ops->residual_rmsnorm(m->be, &l->experts_residual);
    }
}

enum osp_status stage_run(struct model *m, int i)
{
    if (i == 0)
        return m->ops->embed_rmsnorm(m->be, &m->embed_rmsnorm);
    if (i == stage_count(m) - 2)
        return m->ops->logits(m->be, &m->logits);
    if (i == stage_count(m) - 1)
        return m->ops->sample(m->be, &m->sample);
    return run_of_layer(m, layer_of(m, i), (i - 1) % LAYER_STAGES);
}

static struct stage_outputs outputs_of_layer(const struct layer *l, int at)
{
    switch (at) {
    case AT_ATTN_QKV:
        return (struct stage_outputs){"attn_qkv", false, {l->attn_qkv.q}, 1};
    case AT_ATTN:
        return (struct stage_outputs){"attn", false, {l->attn.att}, 1};
    case AT_ATTN_OUT:
        return (struct stage_outputs){"attn_out", false, {l->attn_out.h}, 1};
    case AT_ATTN_RESIDUAL:
        return (struct stage_outputs){"join", false, {l->attn_residual.x, l->attn_residual.y}, 2};
    case AT_ROUTER:
        return (struct stage_outputs){"route", true, {l->router.ids, l->router.gates}, 2};
    case AT_EXPERTS:
        return (struct stage_outputs){"experts", false, {l->experts.h}, 1};
    default:
        return (struct stage_outputs){
            "join", false, {l->experts_residual.x, l->experts_residual.y}, 2};
    }
}

struct stage_outputs stage_outputs(const struct model *m, int i)
{
    if (i == 0)
        return (struct stage_outputs){"embed", false, {m->embed_rmsnorm.x, m->embed_rmsnorm.y}, 2};
    if (i == stage_count(m) - 2)
        return (struct stage_outputs){"logits", false, {m->logits.logits}, 1};
    if (i == stage_count(m) - 1)
        return (struct stage_outputs){"sample", false, {m->sample.tokens, m->sample.logprobs}, 2};
    return outputs_of_layer(layer_of(m, i), (i - 1) % LAYER_STAGES);
}
