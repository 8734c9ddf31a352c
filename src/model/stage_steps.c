#include "model/stage_steps.h"

/* Stages of a layer, in the order of forward.c. */
enum { AT_ATTN_IN, AT_ATTN, AT_ATTN_OUT, AT_ATTN_JOIN, AT_ROUTE, AT_EXPERTS, AT_EXPERTS_JOIN };

static const struct layer *layer_of(const struct model *m, int i)
{
    return &m->layers[(i - 1) / LAYER_STAGES];
}

static enum osp_status run_of_layer(struct model *m, const struct layer *l, int at)
{
    switch (at) {
    case AT_ATTN_IN:
        return m->ops->attn_in(m->be, &l->attn_in);
    case AT_ATTN:
        return m->ops->attn(m->be, &l->attn);
    case AT_ATTN_OUT:
        return m->ops->attn_out(m->be, &l->attn_out);
    case AT_ATTN_JOIN:
        return m->ops->join(m->be, &l->attn_join);
    case AT_ROUTE:
        return m->ops->route(m->be, &l->route);
    case AT_EXPERTS:
        return m->ops->experts(m->be, &l->experts);
    default:
        return m->ops->join(m->be, &l->experts_join);
    }
}

enum osp_status stage_run(struct model *m, int i)
{
    if (i == 0)
        return m->ops->embed(m->be, &m->embed);
    if (i == stage_count(m) - 2)
        return m->ops->logits(m->be, &m->logits);
    if (i == stage_count(m) - 1)
        return m->ops->sample(m->be, &m->sample);
    return run_of_layer(m, layer_of(m, i), (i - 1) % LAYER_STAGES);
}

static struct stage_outputs outputs_of_layer(const struct layer *l, int at)
{
    switch (at) {
    case AT_ATTN_IN:
        return (struct stage_outputs){"attn_in", false, {l->attn_in.q}, 1};
    case AT_ATTN:
        return (struct stage_outputs){"attn", false, {l->attn.att}, 1};
    case AT_ATTN_OUT:
        return (struct stage_outputs){"attn_out", false, {l->attn_out.h}, 1};
    case AT_ATTN_JOIN:
        return (struct stage_outputs){"join", false, {l->attn_join.x, l->attn_join.y}, 2};
    case AT_ROUTE:
        return (struct stage_outputs){"route", true, {l->route.ids, l->route.gates}, 2};
    case AT_EXPERTS:
        return (struct stage_outputs){"experts", false, {l->experts.h}, 1};
    default:
        return (struct stage_outputs){"join", false, {l->experts_join.x, l->experts_join.y}, 2};
    }
}

struct stage_outputs stage_outputs(const struct model *m, int i)
{
    if (i == 0)
        return (struct stage_outputs){"embed", false, {m->embed.x, m->embed.y}, 2};
    if (i == stage_count(m) - 2)
        return (struct stage_outputs){"logits", false, {m->logits.logits}, 1};
    if (i == stage_count(m) - 1)
        return (struct stage_outputs){"sample", false, {m->sample.tokens, m->sample.logprobs}, 2};
    return outputs_of_layer(layer_of(m, i), (i - 1) % LAYER_STAGES);
}
