/* The experts: one decode row has a kernel of its own, up to DECODE_ROWS_MAX are grouped by expert,
 * and prefill rows are processed in tiles. One to four rows: the sums of the experts are pending,
 * which the next kernels add to x, or (where the GPU has no clusters, or the table no router sums)
 * rows are processed one by one and the second matmul does the residual that follows. */
#include "cuda/common/expert_sums.h"
#include "cuda/program/fuse_internal.h"

enum { NO_ROWS = -1 }; /* for n_integer: the sums are not in h */

/* ---- decode rows ---- */

bool has_expert_grid(const struct experts_args *a)
{
    return format_of(&a->w_up) == WEIGHTS_MXFP4 && format_of(&a->w_down) == WEIGHTS_MXFP4 &&
           is_vector(&a->b_up) && is_vector(&a->b_down) && is_fused_width(a->h.dim[1]) &&
           a->w_down.dim[2] % DECODE_COLUMNS_OF == 0 && a->w_up.dim[0] <= DECODE_EXPERTS_MAX &&
           a->ids.dim[1] <= DECODE_ACTIVE_MAX && a->limit > 0 && a->alpha > 0;
}

int64_t expert_grids_floats(const struct program *p, int n)
{
    union stage_args args;
    int64_t n_floats = 0;

    for (int i = 0; i < n; i++) {
        if (p->ops[i].stage != STAGE_experts)
            continue;
        program_args(p, i, &args);
        n_floats += has_expert_grid(&args.experts) ? expert_grid_floats(args.experts.h.dim[1]) : 0;
    }
    return n_floats;
}

static struct decode_topk_input topk_input(const struct fuse *f, const struct router_args *router)
{
    union stage_args args;
    const struct residual_rmsnorm_args *r = &args.residual_rmsnorm;

    if (f->router != ROUTER_SUMS || router == NULL)
        return (struct decode_topk_input){0};
    op_args(f, f->router_residual, &args);
    return (struct decode_topk_input){.sums = f->router_sums,
                                      .x = r->x.data,
                                      .norm = vector_of(&r->norm),
                                      .bias = vector_of(&router->br),
                                      .eps = r->eps};
}

/* The result goes to h. router NULL: ids and gates are there. */
static struct decode_experts experts_of(const struct fuse *f, const struct experts_args *a,
                                        const struct router_args *router)
{
    return (struct decode_experts){
        .up = matrix_of(&a->w_up),
        .down = matrix_of(&a->w_down),
        .bias_up = vector_of(&a->b_up),
        .bias_down = vector_of(&a->b_down),
        .y = a->y.data,
        .router_logits = router == NULL ? NULL : router->router_logits.data,
        .units = a->units.data,
        .h = a->h.data,
        .ids = a->ids.data,
        .gates = a->gates.data,
        .n_read = f->in->n_experts_read,
        .n_tokens = f->n_rows,
        .n_live = f->n_live,
        .n_ranks = (int32_t)a->ids.dim[1],
        .n_experts = (int32_t)a->w_up.dim[0],
        .n_columns = (int32_t)a->h.dim[1],
        .n_units = (int32_t)a->w_down.dim[2],
        .slice_units = a->slice_units,
        .is_raw = is_exchanged(f, f->op),
        .limit = a->limit,
        .alpha = a->alpha,
        .topk_input = topk_input(f, router),
        .grid = f->in->expert_grids + expert_grids_floats(f->in->program, f->op),
        .poison = workspace(f, WORKSPACE_poison),
    };
}

static struct decode_grouped grouped_of(const struct fuse *f, const struct experts_args *a,
                                        const struct router_args *router)
{
    struct decode_grouped g = {.e = experts_of(f, a, router), .parts = a->parts.data};

    g.e.poison = NULL; /* of the kernels of a few rows */
    decode_jobs_at(&g, workspace(f, WORKSPACE_jobs), DECODE_ROWS_MAX * a->ids.dim[1]);
    return g;
}

/* Whether all decode rows of these experts have integer sums: the sum of a row must not depend on
 * the number of rows, so that either both kinds of kernels take the experts, or none. */
static bool has_integer_sums(const struct fuse *f, const struct experts_args *a)
{
    struct decode_grouped g;

    if (!has_expert_grid(a))
        return false;
    g = grouped_of(f, a, NULL);
    return decode_down_fits(f->list, &g.e) && decode_grouped_fits(f->list, &g);
}

/* Whether the table has decode kernels that group rows by expert, if there are more than a few, and
 * else those of a few rows. */
static bool is_tuned_experts(const struct fuse *f, const struct tensor *w)
{
    if (is_fused_batch(f))
        return is_tuned(f, STAGE_experts, w, f->n_rows, KERNEL_DECODE_ENTRIES) ||
               is_tuned(f, STAGE_experts, w, f->n_rows, KERNEL_DECODE_GROUPED);
    return is_tuned(f, STAGE_experts, w, f->n_rows, KERNEL_DECODE_GROUPED) ||
           is_tuned(f, STAGE_experts, w, f->n_rows, KERNEL_DECODE_GROUPED_WIDE) ||
           is_tuned(f, STAGE_experts, w, f->n_rows, KERNEL_DECODE_GROUPED_SM90);
}

bool takes_experts(const struct fuse *f, int i, int router)
{
    union stage_args args, from;
    const struct experts_args *a = &args.experts;

    if (!is_stage(f, i, STAGE_experts) || !is_stage(f, router, STAGE_router))
        return false;
    op_args(f, i, &args);
    op_args(f, router, &from);
    return from.router.ids.id == a->ids.id && from.router.gates.id == a->gates.id &&
           is_tuned_experts(f, &a->w_up) && is_tuned_experts(f, &a->w_down) &&
           has_integer_sums(f, a);
}

/* The residual after the experts at i, if nothing else reads their h; NULL: there is no such
 * residual. */
static const struct residual_rmsnorm_args *
residual_of(const struct fuse *f, int i, const struct experts_args *a, union stage_args *args)
{
    if (!is_stage(f, i + 1, STAGE_residual_rmsnorm))
        return NULL;
    op_args(f, i + 1, args);
    return args->residual_rmsnorm.h.id == a->h.id && !is_read_after(f, i, i + 1, &a->h)
               ? &args->residual_rmsnorm
               : NULL;
}

static void touch_up(struct fuse *f, int i, const struct experts_args *a)
{
    reads_early(f, &a->w_up);
    reads_early(f, &a->b_up);
    writes(f, i, &a->units);
}

static void touch_down(struct fuse *f, int i, const struct experts_args *a,
                       const struct residual_rmsnorm_args *residual)
{
    reads_early(f, &a->w_down);
    reads_early(f, &a->b_down);
    if (residual == NULL) {
        writes(f, i, &a->h);
        return;
    }
    reads(f, i + 1, &residual->x);
    writes(f, i + 1, &residual->x);
}

/* ---- the sums of a step of a few rows, which the next kernels add to x ---- */

struct expert_sums cleared_sums_of(const struct fuse *f)
{
    struct expert_sums sums = {.sums = workspace(f, WORKSPACE_expert_sums),
                               .poison = workspace(f, WORKSPACE_poison)};
    union stage_args args;

    if (f->pending_sums >= 0) {
        op_args(f, f->pending_sums, &args);
        sums.unit = f->in->expert_grids + expert_grids_floats(f->in->program, f->pending_sums) +
                    args.experts.h.dim[1];
    }
    return sums;
}

struct expert_sums pending_sums_of(const struct fuse *f)
{
    struct expert_sums sums = cleared_sums_of(f);

    if (f->pending_sums < 0)
        return (struct expert_sums){0};
    if (f->has_totals)
        sums.sums = workspace(f, WORKSPACE_expert_totals);
    return sums;
}

static enum workspace pending_workspace(const struct fuse *f)
{
    return f->has_totals ? WORKSPACE_expert_totals : WORKSPACE_expert_sums;
}

void forget_pending_sums(struct fuse *f)
{
    f->pending_sums = -1;
    f->are_sums_own = false;
    f->has_totals = false;
}

void reads_pending_sums(struct fuse *f)
{
    if (f->pending_sums < 0)
        return;
    reads_workspace(f, pending_workspace(f));
    reads_workspace(f, WORKSPACE_poison);
}

void settle_sums(struct fuse *f)
{
    union stage_args args;
    struct expert_sums sums;

    if (f->pending_sums < 0)
        return;
    op_args(f, f->pending_sums + 1, &args);
    sums = pending_sums_of(f);
    launch_add_expert_sums(f->list, args.residual_rmsnorm.x.data, f->n_rows,
                           (int)args.residual_rmsnorm.x.dim[1], &sums);
    reads_copy(f, f->pending_sums + 1, pending_workspace(f), 0);
    reads_copy(f, f->pending_sums + 1, WORKSPACE_poison, 0);
    writes_copy(f, f->pending_sums, WORKSPACE_poison, 0);
    writes(f, f->pending_sums + 1, &args.residual_rmsnorm.x);
    set_op(f, f->pending_sums);
    forget_pending_sums(f);
}

/* Both products and the residual of one row in one kernel, if the GPU has it: the sums are pending
 * if the next kernel can add them to x, and else added at once. */
static bool launch_one(struct fuse *f, const struct experts_args *a, const struct decode_experts *p,
                       const struct residual_rmsnorm_args *residual)
{
    struct decode_experts row = *p;

    if (f->n_rows != 1 || f->router != ROUTER_SUMS || residual == NULL)
        return false;
    row.sums = workspace(f, WORKSPACE_expert_sums);
    row.units = NULL; /* these stay in shared memory, and h is added to x */
    row.h = NULL;
    row.router_logits = NULL;
    if (!launch_decode_experts_row(f->list, &row))
        return false;
    reads_early(f, &a->w_up);
    reads_early(f, &a->b_up);
    reads_early(f, &a->w_down);
    reads_early(f, &a->b_down);
    reads_workspace(f, WORKSPACE_expert_sums);
    writes_workspace(f, WORKSPACE_expert_sums);
    writes_workspace(f, WORKSPACE_poison);
    return true;
}

/* The first kernel of the experts reads the row, or normalizes it, and selects the experts. */
static void touch_row(struct fuse *f, int i, const struct experts_args *a,
                      const struct router_args *router)
{
    union stage_args args;
    const struct residual_rmsnorm_args *normed = &args.residual_rmsnorm;

    if (f->router != ROUTER_SUMS) {
        reads(f, i, &a->y);
        reads(f, i, &router->router_logits);
        return;
    }
    op_args(f, f->router_residual, &args);
    reads_copy(f, i, WORKSPACE_router, router->router_logits.id);
    reads(f, i, &normed->x);
    reads_early(f, &normed->norm);
    reads_early(f, &router->br);
    writes(f, f->router_residual, &a->y);
}

/* Both products of the rows that the jobs list; the caller notes where the results are: in parts,
 * or added to `sums`. */
static void launch_jobs_of(struct fuse *f, const struct experts_args *a,
                           const struct decode_grouped *g, const struct expert_sums *sums)
{
    struct decode_grouped down = *g;

    down.e.sums = sums->sums;
    down.e.poison = sums->poison;
    (void)launch_decode_grouped_up(f->list, g);
    reads_workspace(f, WORKSPACE_jobs);
    reads_copy(f, f->op, WORKSPACE_rounded, a->y.id);
    touch_up(f, f->op, a);
    writes_workspace(f, WORKSPACE_jobs); /* gates of entries that are poisoned */
    next_launch(f);
    (void)launch_decode_grouped_down(f->list, &down);
    reads_workspace(f, WORKSPACE_jobs);
    reads(f, f->op, &a->units);
    reads_early(f, &a->w_down);
    reads_early(f, &a->b_down);
}

/* Two to four rows, grouped by expert, with the sums of rows; false: the kernels do not support
 * that. */
static bool launch_few_grouped(struct fuse *f, int i, const struct experts_args *a, int router_op,
                               const struct router_args *router,
                               const struct residual_rmsnorm_args *residual)
{
    const struct expert_sums sums = {.sums = workspace(f, WORKSPACE_expert_sums),
                                     .poison = workspace(f, WORKSPACE_poison)};
    struct decode_grouped g = grouped_of(f, a, router);

    if (f->n_rows == 1 || f->router != ROUTER_SUMS || residual == NULL ||
        !is_tuned(f, STAGE_experts, &a->w_up, f->n_rows, KERNEL_DECODE_GROUPED) ||
        !decode_grouped_fits(f->list, &g) || g.job_tokens < f->n_rows)
        return false;
    g.parts = NULL; /* the sums of rows take their place, and h is added to x */
    g.place = NULL;
    g.shares = NULL;
    g.e.h = NULL;
    g.e.router_logits = NULL;
    g.e.units = NULL;
    g.normed = rounded_workspace(f, f->n_rows, a->y.dim[1]);
    launch_decode_few_jobs(f->list, &g);
    touch_row(f, i, a, router);
    writes(f, router_op, &a->ids);
    writes(f, router_op, &a->gates);
    writes_copy(f, i, WORKSPACE_rounded, a->y.id);
    writes_workspace(f, WORKSPACE_jobs);
    next_launch(f);
    g.e.topk_input = (struct decode_topk_input){0};
    g.e.units = a->units.data;
    g.e.x = residual->x.data; /* not read: with the sums it is the new x */
    g.rows = g.normed;
    g.normed = NULL;
    launch_jobs_of(f, a, &g, &sums);
    reads_workspace(f, WORKSPACE_expert_sums);
    writes_workspace(f, WORKSPACE_expert_sums);
    writes_workspace(f, WORKSPACE_poison);
    return true;
}

/* Two kernels: `up` does the top-k, `down` adds to x. */
static void launch_up_down(struct fuse *f, int i, const struct experts_args *a,
                           const struct router_args *router, struct decode_experts *p,
                           const struct residual_rmsnorm_args *residual)
{
    if (!launch_decode_up(f->list, p))
        f->st = fail(OSP_EINTERNAL, "cuda: no experts' kernel for %d rows", f->n_rows);
    touch_up(f, i, a);
    writes_workspace(f, WORKSPACE_poison);
    touch_row(f, i, a, router);
    next_launch(f);
    if (residual != NULL)
        p->x = residual->x.data;
    (void)launch_decode_down(f->list, p);
    reads(f, i, &a->units);
    reads_workspace(f, WORKSPACE_poison);
    if (f->router == ROUTER_SUMS)
        reads_copy(f, i, WORKSPACE_router, router->router_logits.id);
    else
        reads(f, i, &router->router_logits);
    touch_down(f, i, a, residual);
}

/* Whether the QKV op i can exchange the sums that it adds to x. */
static bool exchanges_next(const struct fuse *f, int i,
                           const struct residual_rmsnorm_args *residual)
{
    union stage_args args;

    op_args(f, i, &args);
    return takes_exchange(f, &args.attn_qkv, residual);
}

/* One to four rows. The next kernel does the norm if it can. */
static int launch_few(struct fuse *f, int i, const struct experts_args *a, int router_op)
{
    union stage_args next, from;
    const struct residual_rmsnorm_args *residual = residual_of(f, i, a, &next);
    const struct router_args *router = &from.router;
    const int behind = op_behind_taps(f, i + 2);
    const bool is_normed_next = residual != NULL && takes_norm(f, behind, i + 1);
    const bool is_qkv_next = is_normed_next && is_stage(f, behind, STAGE_attn_qkv);
    struct decode_experts p;

    op_args(f, router_op, &from);
    p = experts_of(f, a, router);
    const bool is_grouped = launch_few_grouped(f, i, a, router_op, router, residual);
    const bool is_one = !is_grouped && launch_one(f, a, &p, residual);

    if (is_one)
        touch_row(f, i, a, router);
    if (!is_one && !is_grouped) {
        if (is_exchanged(f, i))
            residual = NULL; /* the sums of all ranks are added to x */
        launch_up_down(f, i, a, router, &p, residual);
    }
    if (!is_grouped) {
        writes(f, router_op, &a->ids);
        writes(f, router_op, &a->gates);
    }
    if (is_one || is_grouped) {
        f->n_integer = NO_ROWS;
        f->pending_sums = i;
        if (is_qkv_next) /* x and the sums together are the new x */
            writes(f, i + 1, &residual->x);
    }
    f->router = ROUTER_TOPK;
    f->are_sums_own = f->n_integer == NO_ROWS && is_qkv_next && behind == i + 2 &&
                      is_exchanged(f, i) && exchanges_next(f, behind, residual);
    if (f->n_integer == NO_ROWS && !f->are_sums_own)
        exchange_expert_sums(f, i);
    if (residual == NULL)
        return 1;
    set_op(f, i);
    forget_rounded(f);
    f->factors_of = -1;
    if (!is_qkv_next)
        settle_sums(f);
    if (is_normed_next)
        f->deferred_norm = i + 1;
    else
        norm_now(f, i + 1);
    return 2;
}

/* Selects the kernels: those for many rows, where the table has them and the GPU the shared memory.
 * Sets the number of rows per job. */
static void choose_grouped(const struct fuse *f, const struct experts_args *a,
                           struct decode_grouped *g)
{
    const struct tuning_row *row =
        tuning_row_of(f, STAGE_experts, format_of(&a->w_up), PHASE_DECODE, g->e.n_tokens);
    const bool is_wide =
        row->kernel == KERNEL_DECODE_GROUPED_WIDE && decode_grouped_wide_fits(f->list, g);

    g->shares = is_wide ? g->shares : NULL;
    if (is_wide ||
        (row->kernel == KERNEL_DECODE_GROUPED_SM90 && decode_grouped_sm90_fits(f->list, g))) {
        g->n_operand_rows =
            (int32_t)listed_rows((int64_t)g->e.n_tokens * g->e.n_ranks, g->e.n_experts);
        return;
    }
    g->place = NULL;
    (void)decode_grouped_fits(f->list, g);
}

bool has_job_list(const struct fuse *f, int i, struct decode_grouped *out)
{
    union stage_args args;
    struct decode_grouped g;

    if (!takes_experts(f, i, i - 1) || is_fused_batch(f))
        return false;
    op_args(f, i, &args);
    g = grouped_of(f, &args.experts, NULL);
    choose_grouped(f, &args.experts, &g);
    *out = (struct decode_grouped){.e = {.n_ranks = g.e.n_ranks, .n_read = g.e.n_read},
                                   .jobs = g.jobs,
                                   .n_jobs = g.n_jobs,
                                   .entry = g.entry,
                                   .entry_tokens = g.entry_tokens,
                                   .entry_gates = g.entry_gates,
                                   .place = g.place,
                                   .job_tokens = g.job_tokens};
    return true;
}

/* A product of rows in operands. */
static void launch_product(struct fuse *f, const struct decode_grouped *p, bool is_up)
{
    if (p->shares != NULL)
        launch_decode_grouped_wide(f->list, p, is_up);
    else
        launch_decode_grouped_sm90(f->list, p, is_up);
}

/* launch_jobs() by the kernels for many rows, which read operands. */
static void launch_operand_jobs(struct fuse *f, const struct experts_args *a,
                                const struct decode_grouped *g)
{
    struct decode_grouped p = *g;

    p.e.units = NULL; /* the operand has them */
    p.operand = workspace(f, WORKSPACE_operand);
    f->operand = 0;
    launch_decode_expert_operand(f->list, &p);
    reads_workspace(f, WORKSPACE_jobs);
    reads_copy(f, f->op, WORKSPACE_rounded, a->y.id);
    writes_workspace(f, WORKSPACE_operand);
    next_launch(f);
    p.units_operand = workspace(f, WORKSPACE_units);
    launch_product(f, &p, true);
    reads_workspace(f, WORKSPACE_jobs);
    reads_workspace(f, WORKSPACE_operand);
    reads_early(f, &a->w_up);
    reads_early(f, &a->b_up);
    writes_workspace(f, WORKSPACE_units);
    writes_workspace(f, WORKSPACE_jobs); /* gates of entries that are poisoned */
    next_launch(f);
    p.operand = NULL;
    launch_product(f, &p, false);
    reads_workspace(f, WORKSPACE_jobs);
    reads_workspace(f, WORKSPACE_units);
    reads_early(f, &a->w_down);
    reads_early(f, &a->b_down);
    writes(f, f->op, &a->parts);
    set_op(f, f->op);
}

/* Both products of the rows that the jobs list. */
static void launch_jobs(struct fuse *f, const struct experts_args *a,
                        const struct decode_grouped *g)
{
    if (g->place != NULL) {
        launch_operand_jobs(f, a, g);
        return;
    }
    launch_jobs_of(f, a, g, &(struct expert_sums){0});
    writes(f, f->op, &a->parts);
    set_op(f, f->op);
}

/* By a kernel of its own. router: of op router_op, if that has left logits; NULL: ids and gates are
 * there. */
static void list_jobs(struct fuse *f, int i, const struct experts_args *a,
                      const struct decode_grouped *g, const struct router_args *router,
                      int router_op)
{
    launch_decode_expert_jobs(f->list, g);
    if (router == NULL) {
        reads(f, i, &a->ids);
        reads(f, i, &a->gates);
    } else {
        reads(f, i, &router->router_logits);
        writes(f, router_op, &a->ids);
        writes(f, router_op, &a->gates);
    }
    writes_workspace(f, WORKSPACE_jobs);
    next_launch(f);
}

/* Up to DECODE_ROWS_MAX rows, grouped by expert; has_topk: ids and gates are there. */
static int launch_grouped(struct fuse *f, int i, const struct experts_args *a, int router_op,
                          bool has_topk)
{
    union stage_args next, from;
    const struct residual_rmsnorm_args *residual =
        is_exchanged(f, i) ? NULL : residual_of(f, i, a, &next);
    struct decode_rows normed = {0};
    struct decode_grouped g;

    op_args(f, router_op, &from);
    g = grouped_of(f, a, has_topk ? NULL : &from.router);
    choose_grouped(f, a, &g);
    f->product = (struct product_tensors){.x = a->y.id};
    g.rows = rounded_rows(f, &a->y, f->n_rows);
    if (f->jobs_of != i)
        list_jobs(f, i, a, &g, has_topk ? NULL : &from.router, router_op);
    f->jobs_of = 0;
    launch_jobs(f, a, &g);
    if (residual != NULL) {
        g.normed = operand_buffer(f, &residual->y, i + 2, &g.n_normed_rows);
        if (g.normed == NULL)
            g.normed = rounded_buffer(f, &residual->y);
        g.e.x = residual->x.data;
        normed = (struct decode_rows){
            .norm = vector_of(&residual->norm), .eps = residual->eps, .y = residual->y.data};
    }
    launch_decode_combine(f->list, &g, &normed);
    reads_workspace(f, WORKSPACE_jobs);
    reads(f, i, &a->parts);
    if (residual == NULL) {
        writes(f, i, &a->h);
        return 1;
    }
    reads(f, i + 1, &residual->x);
    reads_early(f, &residual->norm);
    writes(f, i + 1, &residual->x);
    writes(f, i + 1, &residual->y);
    if (g.normed != NULL)
        writes_copy(f, i + 1, g.n_normed_rows > 0 ? WORKSPACE_operand : WORKSPACE_rounded,
                    residual->y.id);
    f->factors_of = -1;
    set_op(f, i + 1);
    return 2;
}

/* ---- rows of both phases ---- */

static void set_stack(struct matmul *m, const struct tensor *w, const struct tensor *bias,
                      const struct tensor *out)
{
    m->n_jobs = 1;
    m->w[0] = *w;
    m->bias[0] = *bias;
    m->out[0] = out->data;
    m->out_width[0] = out->dim[1];
}

void group_experts(struct fuse *f, const struct experts_args *a, int n_rows,
                   struct grouped_experts *out)
{
    const int n_experts = (int)a->w_up.dim[0], n_ranks = (int)a->ids.dim[1], n = n_rows * n_ranks;
    struct grouping *g = &out->lists;

    *g =
        grouping_at(workspace(f, WORKSPACE_lists), f->in->n_rows_max * (int64_t)n_ranks, n_experts);
    g->n_read = f->in->n_experts_read;
    g->n_live = f->n_live;
    launch_group(f->list, g, a->ids.data, n, n_ranks, n_experts);
    reads(f, f->op, &a->ids);
    writes_workspace(f, WORKSPACE_lists);
    next_launch(f);
    out->up = out->down = (struct matmul){.n_tokens = n_rows,
                                          .first = g->first,
                                          .active = g->active,
                                          .n_active = g->n_active,
                                          .n_active_max = n < n_experts ? n : n_experts};
    set_stack(&out->up, &a->w_up, &a->b_up, &a->units);
    out->up.x = a->y.data;
    out->up.gather = g->tokens;
    out->up.gather_stride = 1;
    out->up.is_swiglu = true;
    out->up.limit = a->limit;
    out->up.alpha = a->alpha;
    set_stack(&out->down, &a->w_down, &a->b_down, &a->parts);
    out->down.x = a->units.data;
}

void touch_combine(struct fuse *f, const struct experts_args *a)
{
    reads(f, f->op, &a->parts);
    reads(f, f->op, &a->gates);
    writes(f, f->op, &a->h);
    next_launch(f);
}

static void skip_rows(struct tensor *t, int64_t n)
{
    t->data = (char *)t->data + n * t->dim[1] * (int64_t)sizeof(float);
}

/* The stage without its first n rows; all its tensors have elements of four bytes. */
static struct experts_args experts_behind(const struct experts_args *a, int n)
{
    struct experts_args rest = *a;

    skip_rows(&rest.h, n);
    skip_rows(&rest.y, n);
    skip_rows(&rest.ids, n);
    skip_rows(&rest.gates, n);
    skip_rows(&rest.units, n * a->ids.dim[1]);
    skip_rows(&rest.parts, n * a->ids.dim[1]);
    return rest;
}

/* The first n_rows rows, up to DECODE_ROWS_MAX, whose FP16 numbers are `rows`. */
static void launch_grouped_to_h(struct fuse *f, const struct experts_args *a, int n_rows,
                                const uint16_t *rows)
{
    struct decode_grouped g = grouped_of(f, a, NULL);

    g.e.n_tokens = n_rows;
    g.rows = rows;
    choose_grouped(f, a, &g);
    next_launch(f);
    launch_decode_expert_jobs(f->list, &g);
    reads(f, f->op, &a->ids);
    reads(f, f->op, &a->gates);
    writes_workspace(f, WORKSPACE_jobs);
    next_launch(f);
    launch_jobs(f, a, &g);
    launch_decode_combine(f->list, &g, &(struct decode_rows){0});
    reads_workspace(f, WORKSPACE_jobs);
    reads(f, f->op, &a->parts);
    writes(f, f->op, &a->h);
    next_launch(f);
}

/* The first n_rows rows, whose ids and gates are there, by the decode kernels; false: the decode
 * kernels do not support them. */
static bool launch_grouped_rows(struct fuse *f, const struct experts_args *a, int n_rows)
{
    const int64_t row_numbers = units_of(a->y.dim[1], UNIT_COLUMNS) * UNIT_COLUMNS;
    const uint16_t *rows;

    if (!has_integer_sums(f, a))
        return false;
    f->n_integer = n_rows;
    f->product = (struct product_tensors){.x = a->y.id};
    rows = rounded_rows(f, &a->y, n_rows);
    for (int first = 0; first < n_rows; first += DECODE_ROWS_MAX) {
        const struct experts_args rest = experts_behind(a, first);
        const int n_left = n_rows - first;

        launch_grouped_to_h(f, &rest, n_left < DECODE_ROWS_MAX ? n_left : DECODE_ROWS_MAX,
                            rows + first * row_numbers);
    }
    return true;
}

/* The first n_rows rows, by kernels for rows of both phases. */
static void launch_first(struct fuse *f, const struct experts_args *a, int n_rows)
{
    const struct tuning_row *row =
        tuning_row_of(f, STAGE_experts, format_of(&a->w_up), PHASE_DECODE, n_rows);
    struct grouped_experts e;

    if (SET(row->kernel) & GEMM_KERNELS) { /* without batch invariance (order.h) */
        prefill_experts(f, a, row, n_rows);
        return;
    }
    if (SET(row->kernel) & (SET(KERNEL_DECODE_ENTRIES) | SET(KERNEL_DECODE_GROUPED) |
                            SET(KERNEL_DECODE_GROUPED_WIDE) | SET(KERNEL_DECODE_GROUPED_SM90)) &&
        launch_grouped_rows(f, a, n_rows))
        return;
    group_experts(f, a, n_rows, &e);
    f->product = (struct product_tensors){.x = a->y.id, .out = {a->units.id}, .is_listed = true};
    matmul_launch(f, STAGE_experts, &e.up, &a->y);
    f->product =
        (struct product_tensors){.x = a->units.id, .out = {a->parts.id}, .is_listed = true};
    matmul_launch(f, STAGE_experts, &e.down, &a->units);
    launch_combine(f->list, a, &e.lists, n_rows);
    reads_workspace(f, WORKSPACE_lists);
    touch_combine(f, a);
}

/* Processes decode rows and prefill rows separately if prefill rows have their own kernels. */
static void launch_phases(struct fuse *f, const struct experts_args *a)
{
    const struct tuning_row *row = matmul_prefill_row(f, STAGE_experts, &a->w_up);
    const bool is_split = matmul_has_prefill(f, STAGE_experts, &a->w_up) &&
                          row->kernel == matmul_prefill_row(f, STAGE_experts, &a->w_down)->kernel;
    const int n_first = is_split ? matmul_decode_rows(f) : f->n_rows;
    const struct experts_args rest = experts_behind(a, n_first);

    if (n_first > 0)
        launch_first(f, a, n_first);
    if (n_first < f->n_rows)
        prefill_experts(f, &rest, row, f->n_rows - n_first);
}

static int fuse_all_experts(struct fuse *f, int i, const struct experts_args *a)
{
    f->n_integer = f->n_rows;
    if (i > 0 && takes_experts(f, i, i - 1))
        return is_fused_batch(f) ? launch_few(f, i, a, i - 1)
                                 : launch_grouped(f, i, a, i - 1, f->router == ROUTER_TOPK);
    f->n_integer = 0;
    launch_phases(f, a);
    return 1;
}

int fuse_experts(struct fuse *f, int i)
{
    const float *grid = f->in->expert_grids + expert_grids_floats(f->in->program, i);
    union stage_args args;
    int n;

    op_args(f, i, &args);
    n = fuse_all_experts(f, i, &args.experts);
    if (f->n_integer != NO_ROWS)
        exchange_sums(f, i, &args.experts.h, f->n_integer, grid + args.experts.h.dim[1]);
    return n;
}
