/* The experts of a mixed step, whose two products are one kernel each for both phases
 * (mixed/experts.cu): the prefill GEMM leaves most issue slots of an SM free, in which the decode
 * rows are multiplied. */
#include "cuda/mixed/mixed.h"
#include "cuda/program/fuse_internal.h"

enum {
    MIXED_DECODE_MIN = DECODE_FUSED_MAX + 1, /* a pass for fewer rows is short */
    MIXED_DECODE_MAX = 384, /* decode rows that end before the prefill rows of a large step */
    MIXED_EACH_MIN = 4      /* prefill tokens of an expert in the mean: most experts have some */
};

/* The tile for so many tokens of an expert, if all experts have equally many; 0: none, as there are
 * too few or too many. */
static int tile_tokens_of(int64_t n_each)
{
    static const int all[] = {
#define MIXED_WIDEST(max_tokens, ...) max_tokens,
        MIXED_TILES(MIXED_WIDEST)
#undef MIXED_WIDEST
    };
    enum { N = sizeof(all) / sizeof(all[0]), LITTLE = 40 /* most experts fit the smallest tile */ };

    if (n_each < MIXED_EACH_MIN || n_each > all[0])
        return 0;
    return all[n_each <= LITTLE ? N - 1 : 0];
}

/* Whether the table has the kernels whose work the mixed ones do, and nobody asks for others. */
static bool is_tuned_mixed(const struct fuse *f, const struct tensor *w, int n_first)
{
    const struct kernel_request request =
        kernel_request_of(f->in->config, STAGE_experts, format_of(w));
    const struct tuning_row *row =
        tuning_row_of(f, STAGE_experts, format_of(w), PHASE_DECODE, n_first);

    return request.op_class == OPCLASS_AUTO && request.tile_rows == 0 &&
           format_of(w) == WEIGHTS_MXFP4 &&
           SET(row->kernel) & (SET(KERNEL_DECODE_GROUPED) | SET(KERNEL_DECODE_GROUPED_WIDE)) &&
           matmul_prefill_row(f, STAGE_experts, w)->kernel == KERNEL_GEMM_256;
}

/* Jobs of the decode rows and their operands, which lie behind those of n_listed prefill rows. */
static void begin_decode(struct fuse *f, const struct experts_args *a, struct decode_grouped *d,
                         int64_t n_listed)
{
    d->e.units = NULL; /* the operand has them */
    d->n_operand_rows = (int32_t)listed_rows((int64_t)d->e.n_tokens * d->e.n_ranks, d->e.n_experts);
    next_launch(f);
    launch_decode_expert_jobs(f->list, d);
    reads(f, f->op, &a->ids);
    reads(f, f->op, &a->gates);
    writes_workspace(f, WORKSPACE_jobs);
    next_launch(f);
    d->operand = (char *)workspace(f, WORKSPACE_operand) +
                 operand_bytes(n_listed, a->y.dim[1], ROUNDS_TO_F16);
    launch_decode_expert_operand(f->list, d);
    reads_workspace(f, WORKSPACE_jobs);
    reads_copy(f, f->op, WORKSPACE_rounded, a->y.id);
    writes_workspace(f, WORKSPACE_operand);
    next_launch(f);
    d->units_operand = (char *)workspace(f, WORKSPACE_units) +
                       operand_bytes(n_listed, a->units.dim[1], ROUNDS_TO_F16);
}

static void launch_products(struct fuse *f, const struct experts_args *a,
                            const struct expert_gemms *e, struct decode_grouped *d)
{
    launch_mixed_experts(f->list, &e->up, d, true);
    reads_workspace(f, WORKSPACE_tiles);
    reads_workspace(f, WORKSPACE_jobs);
    reads_workspace(f, WORKSPACE_operand);
    reads_early(f, &a->w_up);
    reads_early(f, &a->b_up);
    writes_workspace(f, WORKSPACE_units);
    writes_workspace(f, WORKSPACE_jobs); /* gates of entries that are poisoned */
    next_launch(f);
    d->operand = NULL;
    launch_mixed_experts(f->list, &e->down, d, false);
    reads_workspace(f, WORKSPACE_tiles);
    reads_workspace(f, WORKSPACE_jobs);
    reads_workspace(f, WORKSPACE_units);
    reads_early(f, &a->w_down);
    reads_early(f, &a->b_down);
    writes(f, f->op, &a->parts);
    next_launch(f);
}

bool mixed_experts(struct fuse *f, const struct experts_args *a, int n_first)
{
    const struct experts_args rest = experts_behind(a, n_first);
    const int n_rest = f->n_rows - n_first, n_experts = (int)a->w_up.dim[0];
    const int64_t n_entries = n_rest * a->ids.dim[1];
    struct gemm tile = {.n_tile_tokens = tile_tokens_of(n_entries / n_experts)};
    struct decode_grouped d;
    struct expert_gemms e;

    if (n_first < MIXED_DECODE_MIN || n_first > MIXED_DECODE_MAX || n_rest <= 0 ||
        tile.n_tile_tokens == 0 || is_shared(f) || is_exchanged(f, f->op) ||
        !is_tuned_mixed(f, &a->w_up, n_first) || !is_tuned_mixed(f, &a->w_down, n_first) ||
        !has_integer_sums(f, a))
        return false;
    d = grouped_rows_of(f, a, n_first);
    if (!mixed_experts_fit(f->list, &tile, &d))
        return false;
    f->n_integer = n_first;
    f->product = (struct product_tensors){.x = a->y.id};
    d.rows = rounded_rows(f, &a->y, n_first);
    begin_decode(f, a, &d, listed_rows(n_entries, n_experts));
    e = begin_experts(f, &rest, n_rest, tile.n_tile_tokens);
    e.up.n_tile_tokens = e.down.n_tile_tokens = tile.n_tile_tokens;
    launch_products(f, a, &e, &d);
    launch_decode_combine(f->list, &d, &(struct decode_rows){0});
    reads_workspace(f, WORKSPACE_jobs);
    reads(f, f->op, &a->parts);
    writes(f, f->op, &a->h);
    next_launch(f);
    end_experts(f, &rest, n_rest);
    return true;
}
