/* The forward pass of gpt-oss: emits the stages of a step as a program. open.c binds their
 * arguments; a device behind backend/backend.h computes them. */
#include "model/model.h"

enum osp_status forward_program(struct program *p, const struct model *m, bool has_taps)
{
    const struct draft *taps = has_taps ? &m->draft : NULL;
    enum osp_status st;

    TRY(PROGRAM_ADD(p, embed_rmsnorm, NO_LAYER, m->embed_rmsnorm));
    TRY(draft_taps(p, taps, 0, &m->embed_rmsnorm.x));
    for (int i = 0; i < m->n_layers; i++) {
        const struct layer *l = &m->layers[i];

        TRY(PROGRAM_ADD(p, attn_qkv, i, l->attn_qkv));
        TRY(PROGRAM_ADD(p, attn, i, l->attn));
        TRY(PROGRAM_ADD(p, attn_out, i, l->attn_out));
        TRY(PROGRAM_ADD(p, residual_rmsnorm, i, l->attn_residual));
        TRY(PROGRAM_ADD(p, router, i, l->router));
        TRY(PROGRAM_ADD(p, experts, i, l->experts));
        TRY(PROGRAM_ADD(p, residual_rmsnorm, i, l->experts_residual));
        TRY(draft_taps(p, taps, i + 1, &l->experts_residual.x));
    }
    TRY(draft_taps(p, taps, DRAFT_FINAL_NORM, &m->logits.y));
    TRY(PROGRAM_ADD(p, logits, NO_LAYER, m->logits));
    /* rank 0 has all logits; on GPUs the others get its tokens, which their next step reads */
    if (m->shard.rank == 0 || m->shard.rule == SHARD_FOR_GPU)
        TRY(PROGRAM_ADD(p, sample, NO_LAYER, m->sample));
    if (m->shard.rank == 0)
        program_tap(p, &m->logits.logits);
    program_tap(p, &m->sample.tokens);
    program_tap(p, &m->sample.logprobs);
    program_tap(p, &m->sample.top_tokens);
    program_tap(p, &m->sample.top_logprobs);
    p->n_ranks = m->shard.n_ranks;
    program_end(p);
out:
    return st;
}

enum osp_status model_step(struct model *m, const struct batch *b, uint64_t *ticket_out)
{
    return m->ops->run(m->be, m->compiled, b, ticket_out);
}

enum osp_status model_step_tapped(struct model *m, const struct batch *b, uint64_t *ticket_out)
{
    return m->ops->run(m->be, m->draft.run_tapped, b, ticket_out);
}

enum osp_status model_wait(struct model *m, uint64_t ticket)
{
    return m->ops->step_wait(m->be, ticket);
}

bool model_has_ended(struct model *m, uint64_t ticket)
{
    return m->ops->step_has_ended(m->be, ticket);
}

enum osp_status model_sampled(struct model *m, struct sampled *out)
{
    return m->ops->sampled(m->be, out);
}

enum osp_status model_tokens(struct model *m, int n_samples, int32_t *tokens, float *logprobs)
{
    const size_t size_bytes = (size_t)n_samples * sizeof(int32_t);
    enum osp_status st;

    TRY(m->ops->read(m->be, tokens, m->sample.tokens.data, size_bytes));
    TRY(m->ops->read(m->be, logprobs, m->sample.logprobs.data, size_bytes));
out:
    return st;
}

enum osp_status model_top_logprobs(struct model *m, int n_samples, int32_t *tokens, float *logprobs)
{
    const size_t size_bytes = (size_t)n_samples * TOP_LOGPROBS_MAX * sizeof(int32_t);
    enum osp_status st;

    TRY(m->ops->read(m->be, tokens, m->sample.top_tokens.data, size_bytes));
    TRY(m->ops->read(m->be, logprobs, m->sample.top_logprobs.data, size_bytes));
out:
    return st;
}

enum osp_status model_logits(struct model *m, int n_samples, float *logits)
{
    const size_t n = (size_t)n_samples * (size_t)m->logits.logits.dim[1];

    return m->ops->read(m->be, logits, m->logits.logits.data, n * sizeof(float));
}

const struct gptoss_config *model_config(const struct model *m)
{
    return &m->config;
}

const struct gptoss_config *model_part_config(const struct model *m)
{
    return &m->checkpoint.config;
}

enum dtype model_kv_dtype(const struct model *m)
{
    return m->kv_dtype;
}

const struct weights_report *model_weights_report(const struct model *m)
{
    return &m->report;
}

void model_device_info(const struct model *m, struct device_info *out)
{
    m->ops->info(m->be, out);
}

int model_costs(const struct model *m, struct stage_cost *out, int n_max)
{
    return m->ops->costs(m->be, out, n_max);
}

enum osp_status model_kernels(const struct model *m, struct kernel_use *out, int n_max, int *n)
{
    return m->ops->kernels(m->be, out, n_max, n);
}

enum osp_status model_probe(struct model *m, struct probe *out)
{
    return m->ops->probe(m->be, out);
}
