/* The tensors of a gpt-oss checkpoint, in the layout of Transformers, in OpenAI's original one,
 * and in GGUF. */
#include "model/weight_table.h"

#include <stdio.h>

#define LAYER(member)  offsetof(struct layer_weights, member)
#define GLOBAL(member) offsetof(struct weights, member)

const struct weight_rule global_rules[] = {
    {GLOBAL(embed),
     {"model.embed_tokens.weight", "embedding.weight", "token_embd.weight"},
     WEIGHT_MATRIX,
     {L_V, L_C},
     PART_EMBED,
     SHARD_VOCAB},
    {GLOBAL(final_norm),
     {"model.norm.weight", "norm.scale", "output_norm.weight"},
     WEIGHT_VECTOR,
     {L_C},
     PART_NORM,
     SHARD_WHOLE},
    {GLOBAL(head),
     {"lm_head.weight", "unembedding.weight", "output.weight"},
     WEIGHT_MATRIX,
     {L_V, L_C},
     PART_HEAD,
     SHARD_VOCAB},
};
const int n_global_rules = sizeof global_rules / sizeof global_rules[0];

/* The fused qkv tensor of original/ fills three slots, from wqkv[0] or bqkv[0] on: rows of q, then
 * k, then v. Some GGUF files have it in place of q, k and v. */
const struct weight_rule layer_rules[] = {
    {LAYER(attn_norm),
     {"input_layernorm.weight", "attn.norm.scale", "attn_norm.weight"},
     WEIGHT_VECTOR,
     {L_C},
     PART_NORM,
     SHARD_WHOLE},
    {LAYER(wqkv[0]),
     {"self_attn.q_proj.weight", NULL, "attn_q.weight"},
     WEIGHT_MATRIX,
     {L_HD, L_C},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(wqkv[1]),
     {"self_attn.k_proj.weight", NULL, "attn_k.weight"},
     WEIGHT_MATRIX,
     {L_KD, L_C},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(wqkv[2]),
     {"self_attn.v_proj.weight", NULL, "attn_v.weight"},
     WEIGHT_MATRIX,
     {L_KD, L_C},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(bqkv[0]),
     {"self_attn.q_proj.bias", NULL, "attn_q.bias"},
     WEIGHT_VECTOR,
     {L_HD},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(bqkv[1]),
     {"self_attn.k_proj.bias", NULL, "attn_k.bias"},
     WEIGHT_VECTOR,
     {L_KD},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(bqkv[2]),
     {"self_attn.v_proj.bias", NULL, "attn_v.bias"},
     WEIGHT_VECTOR,
     {L_KD},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(wqkv[0]),
     {NULL, "attn.qkv.weight", "attn_qkv.weight"},
     WEIGHT_MATRIX,
     {L_QKV, L_C},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(bqkv[0]),
     {NULL, "attn.qkv.bias", "attn_qkv.bias"},
     WEIGHT_VECTOR,
     {L_QKV},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(sinks),
     {"self_attn.sinks", "attn.sinks", "attn_sinks.weight|attn_sinks"},
     WEIGHT_VECTOR,
     {L_H},
     PART_ATTN,
     SHARD_HEADS},
    {LAYER(wo),
     {"self_attn.o_proj.weight", "attn.out.weight", "attn_output.weight|attn_out.weight"},
     WEIGHT_MATRIX,
     {L_C, L_HD},
     PART_ATTN,
     SHARD_HEAD_COLUMNS},
    {LAYER(bo),
     {"self_attn.o_proj.bias", "attn.out.bias", "attn_output.bias|attn_out.bias"},
     WEIGHT_VECTOR,
     {L_C},
     PART_ATTN,
     SHARD_FIRST},
    {LAYER(moe_norm),
     {"post_attention_layernorm.weight", "mlp.norm.scale",
      "post_attention_norm.weight|ffn_norm.weight"},
     WEIGHT_VECTOR,
     {L_C},
     PART_NORM,
     SHARD_WHOLE},
    {LAYER(wr),
     {"mlp.router.weight", "mlp.gate.weight", "ffn_gate_inp.weight"},
     WEIGHT_MATRIX,
     {L_E, L_C},
     PART_ROUTER,
     SHARD_WHOLE},
    {LAYER(br),
     {"mlp.router.bias", "mlp.gate.bias", "ffn_gate_inp.bias"},
     WEIGHT_VECTOR,
     {L_E},
     PART_ROUTER,
     SHARD_WHOLE},
    {LAYER(w_up),
     {"mlp.experts.gate_up_proj", "mlp.mlp1_weight",
      "ffn_gate_exps.weight+ffn_up_exps.weight|ffn_gate_up_exps.weight"},
     WEIGHT_EXPERTS,
     {L_E, L_2F, L_C},
     PART_EXPERTS,
     SHARD_UNITS},
    {LAYER(b_up),
     {"mlp.experts.gate_up_proj_bias", "mlp.mlp1_bias",
      "ffn_gate_exps.bias+ffn_up_exps.bias|ffn_gate_up_exps.bias"},
     WEIGHT_VECTOR,
     {L_E, L_2F},
     PART_EXPERTS,
     SHARD_UNITS},
    {LAYER(w_down),
     {"mlp.experts.down_proj", "mlp.mlp2_weight", "ffn_down_exps.weight"},
     WEIGHT_EXPERTS,
     {L_E, L_C, L_F},
     PART_EXPERTS,
     SHARD_UNIT_COLUMNS},
    {LAYER(b_down),
     {"mlp.experts.down_proj_bias", "mlp.mlp2_bias", "ffn_down_exps.bias"},
     WEIGHT_VECTOR,
     {L_E, L_C},
     PART_EXPERTS,
     SHARD_FIRST},
};
const int n_layer_rules = sizeof layer_rules / sizeof layer_rules[0];

const char *weight_rule_name(const struct weight_rule *rule, const struct gptoss_config *c)
{
    if (c->tied_embeddings && rule->part == PART_HEAD)
        return NULL;
    return rule->names[c->layout];
}

unsigned weight_rule_mxfp4_layer(const struct weight_rule *rule)
{
    if (rule->weight_kind == WEIGHT_VECTOR)
        return MXFP4_NONE;
    switch (rule->part) {
    case PART_EMBED:
        return MXFP4_EMBED;
    case PART_HEAD:
        return MXFP4_LM_HEAD;
    case PART_ATTN:
        return rule->slot == LAYER(wo) ? MXFP4_O : MXFP4_QKV;
    case PART_EXPERTS:
        return MXFP4_MOE;
    case PART_ROUTER:
    case PART_NORM:
    case N_PARTS:
        break;
    }
    return MXFP4_NONE;
}

bool weight_rule_is_mxfp4(const struct weight_rule *rule, const struct gptoss_config *c)
{
    if (rule->weight_kind == WEIGHT_EXPERTS)
        return c->experts_are_mxfp4;
    return (weight_rule_mxfp4_layer(rule) & c->mxfp4_layers) != 0;
}

void weight_letters(int64_t letters[N_LETTERS], const struct gptoss_config *c)
{
    letters[L_NONE] = 1;
    letters[L_C] = c->width;
    letters[L_HD] = (int64_t)c->n_heads * c->head_dim;
    letters[L_KD] = (int64_t)c->n_kv_heads * c->head_dim;
    letters[L_QKV] = letters[L_HD] + 2 * letters[L_KD];
    letters[L_H] = c->n_heads;
    letters[L_E] = c->n_experts;
    letters[L_F] = c->expert_width;
    letters[L_2F] = 2 * (int64_t)c->expert_width;
    letters[L_V] = c->vocab_size;
}

void weight_name(char out[WEIGHT_NAME_BYTES], const struct gptoss_config *c, int layer,
                 const char *name, const char *suffix)
{
    static const char *const prefixes[N_CHECKPOINT_LAYOUTS] = {
        [CHECKPOINT_HF] = "model.layers",
        [CHECKPOINT_ORIGINAL] = "block",
        [CHECKPOINT_GGUF] = "blk",
    };
    if (layer < 0)
        snprintf(out, WEIGHT_NAME_BYTES, "%s%s", name, suffix);
    else
        snprintf(out, WEIGHT_NAME_BYTES, "%s.%d.%s%s", prefixes[c->layout], layer, name, suffix);
}

size_t weight_slots_max(const struct gptoss_config *c)
{
    return (size_t)n_global_rules + (size_t)c->n_layers * (size_t)n_layer_rules;
}

const char *mxfp4_blocks_suffix(const struct gptoss_config *c)
{
    return c->layout == CHECKPOINT_ORIGINAL ? ".blocks" : "_blocks";
}

const char *mxfp4_scales_suffix(const struct gptoss_config *c)
{
    return c->layout == CHECKPOINT_ORIGINAL ? ".scales" : "_scales";
}

static enum osp_status visit_rule(const struct weight_rule *rule, int layer, void *base,
                                  weight_visit_fn *visit, void *ctx)
{
    if (!rule->names[CHECKPOINT_HF])
        return OSP_OK;
    return visit(ctx, rule, layer, (struct tensor *)(void *)((char *)base + rule->slot));
}

enum osp_status weights_visit(struct weights *w, const struct gptoss_config *c,
                              weight_visit_fn *visit, void *ctx)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n_global_rules; i++)
        if (!c->tied_embeddings || global_rules[i].part != PART_HEAD)
            TRY(visit_rule(&global_rules[i], -1, w, visit, ctx));
    for (int layer = 0; layer < c->n_layers; layer++)
        for (int i = 0; i < n_layer_rules; i++)
            TRY(visit_rule(&layer_rules[i], layer, &w->layers[layer], visit, ctx));
out:
    return st;
}
