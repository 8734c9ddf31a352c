/* Stage router: top-k routing. z = Wr y + br; the ids of the A largest logits of a row, in falling
 * order, ties to the lower id, and the softmax over those A only. */
#include "cpu/kernels/exp4.h"
#include "cpu/matmul/matmul.h"

static bool is_taken(const int32_t *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Always returns a valid id, even if logits are NaN. */
static int32_t next_largest(const float *z, int n_experts, const int32_t *ids, int n_taken)
{
    int32_t best = -1;

    for (int e = 0; e < n_experts; e++)
        if (!is_taken(ids, n_taken, e) && (best < 0 || z[e] > z[best]))
            best = e;
    return best;
}

static void topk_softmax(int32_t *ids, float *gates, int n_active, const float *z, int n_experts)
{
    float sum = 0;

    for (int i = 0; i < n_active; i++) {
        ids[i] = next_largest(z, n_experts, ids, i);
        gates[i] = exp1(z[ids[i]] - z[ids[0]]);
        sum += gates[i];
    }
    for (int i = 0; i < n_active; i++)
        gates[i] /= sum;
}

static void topk_softmax_row(void *ctx, int row, int worker)
{
    const struct router_args *a = ctx;
    const int64_t n_active = a->ids.dim[1], n_experts = a->router_logits.dim[1];

    (void)worker;
    topk_softmax((int32_t *)a->ids.data + row * n_active, (float *)a->gates.data + row * n_active,
                 (int)n_active, (const float *)a->router_logits.data + row * n_experts,
                 (int)n_experts);
}

enum osp_status cpu_router(struct cpu *cpu, const struct router_args *a, struct work *work)
{
    const struct matmul job = {.w = a->wr,
                               .bias = a->br,
                               .out = a->router_logits.data,
                               .out_width = a->router_logits.dim[1],
                               .n_tokens = cpu->n_rows,
                               .is_exact = true};
    struct router_args args = *a;
    enum osp_status st;

    TRY(cpu_matmul(cpu, cpu_rows(cpu, &a->y), &job, 1, work));
    pool_run(cpu->pool, topk_softmax_row, &args, cpu->n_rows);
out:
    return st;
}
