/* The forward pass: one page. What a layer does is data, bound in open.c; how a device does it lies
 * behind the stages. */
#include "model/model.h"

enum osp_status model_step(struct model *m, const struct batch *b, uint64_t *ticket_out)
{
    const struct backend_ops *ops = m->ops;
    struct backend *be = m->be;
    enum osp_status st;
    enum step step;

    TRY(ops->step_begin(be, b, &step));
    if (step == STEP_RECORD) {
        TRY(ops->embed_rmsnorm(be, &m->embed_rmsnorm));
        for (int i = 0; i < m->n_layers; i++) {
            const struct layer *l = &m->layers[i];

            TRY(ops->attn_qkv(be, &l->attn_qkv));
            TRY(ops->attn(be, &l->attn));
            TRY(ops->attn_out(be, &l->attn_out));
            TRY(ops->residual_rmsnorm(be, &l->attn_residual));
            TRY(ops->router(be, &l->router));
            TRY(ops->experts(be, &l->experts));
            TRY(ops->residual_rmsnorm(be, &l->experts_residual));
        }
        TRY(ops->logits(be, &m->logits));
        TRY(ops->sample(be, &m->sample));
    }
    TRY(ops->step_end(be, ticket_out));
out:
    return st;
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
