/* The kernels of the steps, and the number of experts that their tokens activate. */
#include "cli/bench/bench.h"

static bool is_same_step(const struct osp_kernel_use *a, const struct osp_kernel_use *b)
{
    return a->n_rows == b->n_rows && a->n_prompt_rows == b->n_prompt_rows && a->n_seqs == b->n_seqs;
}

static void print_step(FILE *out, const struct osp_kernel_use *k)
{
    fprintf(out,
            "\nKernels of a step of %d row%s (%d prefill) in %d sequence%s, run %lld times:\n\n"
            "| kernel | calls | grid | block | shared bytes |\n|:---|---:|---:|---:|---:|\n",
            k->n_rows, k->n_rows == 1 ? "" : "s", k->n_prompt_rows, k->n_seqs,
            k->n_seqs == 1 ? "" : "s", (long long)k->n_steps);
}

void bench_print_kernels(FILE *out, const struct bench_report *r)
{
    for (int i = 0; i < r->n_kernels; i++) {
        const struct osp_kernel_use *k = &r->kernels[i];

        if (i == 0 || !is_same_step(k, k - 1))
            print_step(out, k);
        fprintf(out, "| %s | %d | %d x %d x %d | %d x %d x %d | %d |\n", k->name, k->n_calls,
                k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2],
                k->shared_bytes);
    }
}

void bench_print_routing(FILE *out, const struct bench_report *r)
{
    if (!r->has_routing)
        return;
    fprintf(out, "\n| random tokens | experts per layer, mean | uniform routing | ratio |\n"
                 "|---:|---:|---:|---:|\n");
    for (int i = 0; i < BENCH_ROUTINGS; i++)
        fprintf(out, "| %d | %.2f | %.2f | %.3f |\n", r->routing[i].n_tokens, r->routing[i].mean,
                r->routing[i].uniform, r->routing[i].mean / r->routing[i].uniform);
}
