/* Bytes and flops of the stages of a step, for their fraction of the roofline; counted from the
 * program and the batch. The bytes of the experts' weights are counted on the device, because the
 * number of experts that a step reads is known only there. */
#include "backend/kv_page.h"
#include "cuda/common/layout.h"
#include "cuda/program/plan.h"

static double weight_bytes(const struct tensor *w)
{
    return (double)(w->layout == LAYOUT_PACKED ? matrix_bytes(w) : tensor_bytes(w));
}

/* A matrix, or one of a stack, times n rows. */
static struct work matmul_work(const struct tensor *w, double n)
{
    const double rows = (double)matrix_rows(w), columns = (double)matrix_columns(w);

    return (struct work){.bytes = weight_bytes(w) + 4 * n * (rows + columns),
                         .flops = 2 * rows * columns * n};
}

static struct work qkv_work(const struct attn_qkv_args *a, double n)
{
    struct work sum = {0};

    for (int i = 0; i < 3; i++) {
        const struct work part = matmul_work(&a->wqkv[i], n);

        sum.bytes += part.bytes;
        sum.flops += part.flops;
    }
    return sum;
}

static struct work attn_work(const struct attn_args *a, const struct batch *b)
{
    const double row_bytes =
        (double)kv_page_bytes(a->kv.dtype, a->kv.dim[2], a->kv.dim[4]) / PAGE_TOKENS;
    struct work sum = {0};

    for (int row = 0; row < b->n_rows; row++) {
        const int n_seen = BATCH_POSITIONS(b)[row] + 1;
        const int n = a->window_tokens > 0 && n_seen > a->window_tokens ? a->window_tokens : n_seen;

        sum.bytes += row_bytes * n + 8.0 * (double)a->q.dim[1];
        sum.flops += 4.0 * (double)a->q.dim[1] * n;
    }
    return sum;
}

static struct work experts_work(const struct experts_args *a, double n)
{
    const double n_ranks = (double)a->ids.dim[1];

    return (struct work){
        .bytes = 4 * n * (double)a->h.dim[1] * (n_ranks + 1),
        .flops = (matmul_work(&a->w_up, n).flops + matmul_work(&a->w_down, n).flops) * n_ranks};
}

static struct work op_work(const struct program_op *op, const union stage_args *args,
                           const struct step_counts *counts, const struct batch *b)
{
    const bool is_tail = op->rows == ROWS_SAMPLED && op->stage != STAGE_attn;
    const double n = is_tail ? counts->n_tail : counts->n_rows, n_samples = counts->n_samples;
    const double logits = n_samples * (double)args->sample.logits.dim[1];

    switch (op->stage) {
    case STAGE_embed_rmsnorm:
        return (struct work){n * (double)args->embed_rmsnorm.x.dim[1] *
                                 (args->embed_rmsnorm.table.dtype == DTYPE_F32 ? 12 : 10),
                             4 * n * (double)args->embed_rmsnorm.x.dim[1]};
    case STAGE_attn_qkv:
        return qkv_work(&args->attn_qkv, n);
    case STAGE_attn:
        return attn_work(&args->attn, b);
    case STAGE_attn_out:
        return matmul_work(&args->attn_out.wo, n);
    case STAGE_residual_rmsnorm:
        return (struct work){16 * n * (double)args->residual_rmsnorm.x.dim[1],
                             5 * n * (double)args->residual_rmsnorm.x.dim[1]};
    case STAGE_router:
        return matmul_work(&args->router.wr, n);
    case STAGE_experts:
        return experts_work(&args->experts, n);
    case STAGE_logits:
        return n_samples > 0 ? matmul_work(&args->logits.head, n_samples) : (struct work){0};
    default:
        return (struct work){4 * logits, 2 * logits};
    }
}

void step_work(struct stage_cost out[N_STAGES], const struct program *p,
               const struct step_counts *n, const struct batch *b)
{
    union stage_args args;

    for (int i = 0; i < p->n_ops; i++) {
        struct stage_cost *cost = &out[p->ops[i].stage];
        struct work work;

        program_args(p, i, &args);
        work = op_work(&p->ops[i], &args, n, b);
        cost->n_calls++;
        cost->bytes += work.bytes;
        cost->flops += work.flops;
    }
}

double step_expert_bytes(const struct program *p)
{
    union stage_args args;

    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].stage == STAGE_experts) {
            program_args(p, i, &args);
            return weight_bytes(&args.experts.w_up) + weight_bytes(&args.experts.w_down);
        }
    return 0;
}
