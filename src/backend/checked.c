/* A wrapper around every device that asserts shapes and batches: the contract of args.h and
 * batch.h. A failed assertion is a bug of osprey, never of its input. */
#include "backend/checked.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/batch_check.h"
#include "backend/plugin.h"
#include "backend/residual_sum.h"
#include "base/memory.h"

struct checked {
    const struct backend_ops *ops;
    struct backend *be;
    struct backend_options limits;
    struct {
        uint64_t ticket; /* 0: none */
        int n_samples;
    } sampled[STEPS_QUEUED_MAX]; /* the last steps that sampled, by ticket */
};

static struct checked *checked(struct backend *be)
{
    return (struct checked *)be;
}

/* ---- shapes ---- */

static bool is_shape(const struct tensor *t, int n_dims, const int64_t *dim)
{
    bool same = t->n_dims == n_dims;

    for (int i = 0; same && i < n_dims; i++)
        same = t->dim[i] == dim[i];
    return same;
}
#define IS_SHAPE(t, ...)                                                                           \
    is_shape(t, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static bool is_weight(const struct tensor *t)
{
    const bool blocks_fit = t->n_dims >= 2 && t->dim[t->n_dims - 1] % MXFP4_BLOCK == 0;

    if (t->dtype == DTYPE_MXFP4)
        return t->data != NULL && blocks_fit &&
               (t->layout == LAYOUT_PACKED || (t->layout == LAYOUT_ROWS && t->scales != NULL));
    return t->data != NULL && (t->dtype == DTYPE_F32 || t->dtype == DTYPE_BF16);
}

/* Whether t is rows of f32 with this width. */
static bool is_rows(const struct tensor *t, int64_t width)
{
    return t->dtype == DTYPE_F32 && t->data != NULL && t->n_dims == 2 && t->dim[1] == width;
}

static bool is_ids(const struct tensor *t, int64_t width)
{
    return t->dtype == DTYPE_I32 && t->data != NULL && t->n_dims == 2 && t->dim[1] == width;
}

/* Whether the tensor has at least n rows. */
static bool fits(const struct tensor *t, int64_t n)
{
    return t->dim[0] >= n;
}

static bool is_vector(const struct tensor *t, int64_t n)
{
    return is_weight(t) && t->n_dims == 1 && t->dim[0] == n;
}

/* A bias: a vector, or none. */
static bool is_bias(const struct tensor *t, int64_t n)
{
    return t->data == NULL || is_vector(t, n);
}

static bool is_matrix(const struct tensor *t, int64_t n_rows, int64_t n_columns)
{
    return is_weight(t) && IS_SHAPE(t, n_rows, n_columns);
}

static bool is_stack(const struct tensor *t, int64_t n, int64_t n_rows, int64_t n_columns)
{
    return is_weight(t) && IS_SHAPE(t, n, n_rows, n_columns);
}

static bool is_cache(const struct tensor *t)
{
    const bool is_kv = t->dtype == DTYPE_F32 || t->dtype == DTYPE_BF16 || t->dtype == DTYPE_F8 ||
                       t->dtype == DTYPE_I16;

    return is_kv && t->data != NULL && t->n_dims == 5 && t->dim[1] == 2 && t->dim[3] == PAGE_TOKENS;
}

/* ---- stages: check_<stage> asserts shapes, which no batch changes; fit_<stage>, the batch ---- */

static void check_embed_rmsnorm(const struct embed_rmsnorm_args *a)
{
    const int64_t width = a->table.dim[1];

    assert(is_weight(&a->table) && a->table.n_dims == 2 && a->table.layout != LAYOUT_COLUMNS);
    assert(is_rows(&a->x, width) && is_rows(&a->y, width));
    assert(is_vector(&a->norm, width));
}

static void fit_embed_rmsnorm(const struct embed_rmsnorm_args *a, const struct batch *b)
{
    assert(fits(&a->x, b->n_rows) && fits(&a->y, b->n_rows));
    for (int i = 0; i < b->n_rows; i++)
        assert(a->is_part || BATCH_TOKENS(b)[i] < a->table.dim[0]);
}

static void check_attn_qkv(const struct attn_qkv_args *a)
{
    const int64_t width = a->y.dim[1], q_width = a->q.dim[1];
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];

    assert(is_cache(&a->kv) && a->kv.dim[4] == a->rope->head_dim);
    assert(is_rows(&a->y, width) && is_rows(&a->q, q_width));
    assert(q_width % kv_width == 0);
    assert(is_rows(&a->kv_rows, 2 * kv_width));
    assert(is_matrix(&a->wqkv[0], q_width, width) && is_bias(&a->bqkv[0], q_width));
    for (int i = 1; i < 3; i++)
        assert(is_matrix(&a->wqkv[i], kv_width, width) && is_bias(&a->bqkv[i], kv_width));
}

static void fit_attn_qkv(const struct attn_qkv_args *a, const struct batch *b)
{
    assert(fits(&a->y, b->n_rows) && fits(&a->q, b->n_rows) && fits(&a->kv_rows, b->n_rows));
    batch_check_pages(b, a->group, a->kv.dim[0]);
}

static void check_attn(const struct attn_args *a)
{
    const int64_t q_width = a->q.dim[1], head_dim = a->kv.dim[4];

    assert(is_cache(&a->kv));
    assert(is_rows(&a->q, q_width) && is_rows(&a->att, q_width));
    assert(q_width % (a->kv.dim[2] * head_dim) == 0);
    assert(a->sinks.dtype == DTYPE_F32 && is_vector(&a->sinks, q_width / head_dim));
    assert(a->window_tokens >= 0);
}

static void fit_attn(const struct attn_args *a, const struct batch *b)
{
    assert(fits(&a->q, b->n_rows) && fits(&a->att, b->n_rows));
    batch_check_pages(b, a->group, a->kv.dim[0]);
    batch_check_window(b, a);
}

static void check_attn_out(const struct attn_out_args *a)
{
    const int64_t width = a->h.dim[1], q_width = a->att.dim[1];

    assert(is_rows(&a->h, width) && is_rows(&a->att, q_width));
    assert(is_matrix(&a->wo, width, q_width) && is_bias(&a->bo, width));
    assert(a->n_slices > 0 && a->n_slices <= RESIDUAL_PARTIALS_MAX);
}

static void fit_attn_out(const struct attn_out_args *a, const struct batch *b)
{
    assert(fits(&a->h, b->n_rows) && fits(&a->att, b->n_rows));
}

static void check_residual_rmsnorm(const struct residual_rmsnorm_args *a)
{
    const int64_t width = a->x.dim[1];

    assert(is_rows(&a->x, width) && is_rows(&a->y, width) && is_rows(&a->h, width));
    assert(is_vector(&a->norm, width));
}

static void fit_residual_rmsnorm(const struct residual_rmsnorm_args *a, const struct batch *b)
{
    assert(fits(&a->x, b->n_rows) && fits(&a->y, b->n_rows) && fits(&a->h, b->n_rows));
}

static void check_router(const struct router_args *a)
{
    const int64_t n_experts = a->wr.dim[0], n_active = a->ids.dim[1];

    assert(is_ids(&a->ids, n_active) && n_active > 0 && n_active <= n_experts);
    assert(is_rows(&a->gates, n_active) && is_rows(&a->router_logits, n_experts));
    assert(is_rows(&a->y, a->wr.dim[1]));
    assert(is_matrix(&a->wr, n_experts, a->y.dim[1]) && is_vector(&a->br, n_experts));
}

static void fit_router(const struct router_args *a, const struct batch *b)
{
    assert(fits(&a->ids, b->n_rows) && fits(&a->gates, b->n_rows));
    assert(fits(&a->router_logits, b->n_rows) && fits(&a->y, b->n_rows));
}

static void check_experts(const struct experts_args *a)
{
    const int64_t width = a->y.dim[1], n_active = a->ids.dim[1];
    const int64_t n_experts = a->w_up.dim[0], unit_width = a->units.dim[1];

    assert(is_ids(&a->ids, n_active) && is_rows(&a->gates, n_active));
    assert(is_rows(&a->h, width) && is_rows(&a->y, width));
    assert(is_rows(&a->units, unit_width) && is_rows(&a->parts, width));
    assert(is_stack(&a->w_up, n_experts, 2 * unit_width, width));
    assert(is_matrix(&a->b_up, n_experts, 2 * unit_width));
    assert(is_stack(&a->w_down, n_experts, width, unit_width));
    assert(is_matrix(&a->b_down, n_experts, width));
    assert(a->slice_units > 0);
    assert(n_active * slices_of(unit_width, a->slice_units) <= RESIDUAL_PARTIALS_MAX);
}

static void fit_experts(const struct experts_args *a, const struct batch *b)
{
    const int64_t n_active = a->ids.dim[1];

    assert(fits(&a->h, b->n_rows) && fits(&a->y, b->n_rows));
    assert(fits(&a->ids, b->n_rows) && fits(&a->gates, b->n_rows));
    assert(fits(&a->units, b->n_rows * n_active) && fits(&a->parts, b->n_rows * n_active));
}

static void check_logits(const struct logits_args *a)
{
    assert(is_rows(&a->logits, a->logits.dim[1]) && is_rows(&a->y, a->head.dim[1]));
    assert(is_matrix(&a->head, a->head.dim[0], a->y.dim[1]) && a->first_id >= 0);
    assert(a->first_id + a->head.dim[0] <= a->logits.dim[1]);
}

static void fit_logits(const struct logits_args *a, const struct batch *b)
{
    assert(fits(&a->logits, b->n_samples) && fits(&a->y, b->n_rows));
}

static bool is_top(const struct tensor *t, enum dtype dtype)
{
    return t->dtype == dtype && t->n_dims == 2 && t->dim[1] == TOP_LOGPROBS_MAX;
}

static void check_sample(const struct sample_args *a)
{
    assert(a->tokens.dtype == DTYPE_I32 && a->tokens.n_dims == 1);
    assert(a->logprobs.dtype == DTYPE_F32);
    assert(is_rows(&a->logits, a->logits.dim[1]));
    assert(a->n_valid > 0 && a->n_valid <= a->logits.dim[1]);
    assert(a->ids.data == NULL ||
           (a->ids.dtype == DTYPE_I32 && a->ids.n_dims == 1 && a->ids.dim[0] == a->logits.dim[1]));
    assert(a->top_tokens.data == NULL || is_top(&a->top_tokens, DTYPE_I32));
    assert(a->top_logprobs.data == NULL || is_top(&a->top_logprobs, DTYPE_F32));
    assert(a->candidates.data == NULL ||
           (a->candidates.dtype == DTYPE_I32 && a->candidates.n_dims == 2 &&
            a->candidates.dim[1] == DRAFT_CANDIDATES_MAX));
}

static void fit_sample(const struct sample_args *a, const struct batch *b)
{
    assert(fits(&a->tokens, b->n_samples) && fits(&a->logprobs, b->n_samples));
    assert(fits(&a->logits, b->n_samples));
    assert(a->top_tokens.data == NULL || fits(&a->top_tokens, b->n_samples));
    assert(a->top_logprobs.data == NULL || fits(&a->top_logprobs, b->n_samples));
    assert(b->n_candidates == 0 ||
           (a->candidates.data != NULL && fits(&a->candidates, b->n_samples)));
    batch_check_ids(b, a->logits.dim[1],
                    a->top_tokens.data != NULL && a->top_logprobs.data != NULL);
}

static void check_tap(const struct tap_args *a)
{
    const int64_t width = a->x.dim[1];

    assert(is_rows(&a->x, width) && is_rows(&a->taps, a->taps.dim[1]));
    assert(a->index >= 0 && (a->index + 1) * width <= a->taps.dim[1]);
}

static void fit_tap(const struct tap_args *a, const struct batch *b)
{
    assert(fits(&a->x, b->n_rows) && fits(&a->taps, b->n_rows));
}

static void check_draft_fc(const struct draft_fc_args *a)
{
    const int64_t width = a->f.dim[1], n_columns = a->taps.dim[1];

    assert(is_rows(&a->f, width) && is_rows(&a->taps, n_columns));
    assert(is_rows(&a->normed, n_columns) && is_matrix(&a->w, width, n_columns));
    assert(a->norm.data == NULL ||
           (is_vector(&a->norm, n_columns) && a->n_norms > 0 && n_columns % a->n_norms == 0));
}

static void fit_draft_fc(const struct draft_fc_args *a, const struct batch *b)
{
    assert(fits(&a->f, b->n_rows) && fits(&a->taps, b->n_rows) && fits(&a->normed, b->n_rows));
}

static void check_draft_input(const struct draft_input_args *a)
{
    const int64_t width = a->table.dim[1];

    assert(is_weight(&a->table) && a->table.n_dims == 2 && a->table.layout != LAYOUT_COLUMNS);
    assert(is_rows(&a->x, width) && is_rows(&a->y, 2 * width) && is_rows(&a->f, width));
    assert(is_vector(&a->embed_norm, width) && is_vector(&a->hidden_norm, width));
}

static void fit_draft_input(const struct draft_input_args *a, const struct batch *b)
{
    assert(fits(&a->x, b->n_rows) && fits(&a->y, b->n_rows) && fits(&a->f, b->n_rows));
    for (int i = 0; i < b->n_rows; i++)
        assert(BATCH_TOKENS(b)[i] < a->table.dim[0]); /* < 0: of an earlier step */
}

static void check_mlp(const struct mlp_args *a)
{
    const int64_t width = a->y.dim[1], unit_width = a->units.dim[1];

    assert(is_rows(&a->h, width) && is_rows(&a->y, width));
    assert(is_rows(&a->units, unit_width) && is_rows(&a->ups, unit_width));
    assert(is_matrix(&a->w_gate, unit_width, width) && is_matrix(&a->w_up, unit_width, width));
    assert(is_matrix(&a->w_down, width, unit_width));
}

static void fit_mlp(const struct mlp_args *a, const struct batch *b)
{
    assert(fits(&a->h, b->n_rows) && fits(&a->y, b->n_rows));
    assert(fits(&a->units, b->n_rows) && fits(&a->ups, b->n_rows));
}

static void check_gather(const struct gather_args *a)
{
    assert(is_rows(&a->out, a->x.dim[1]) && is_rows(&a->x, a->x.dim[1]));
}

static void fit_gather(const struct gather_args *a, const struct batch *b)
{
    assert(fits(&a->out, b->n_samples) && fits(&a->x, b->n_rows));
}

static void check_args(enum stage stage, const union stage_args *a)
{
    switch (stage) {
#define CHECK_STAGE(stage)                                                                         \
    case STAGE_##stage:                                                                            \
        check_##stage(&a->stage);                                                                  \
        break;
        STAGE_LIST(CHECK_STAGE)
#undef CHECK_STAGE
    case N_STAGES:
        assert(false); /* not a stage */
    }
}

static void fit_batch(enum stage stage, const union stage_args *a, const struct batch *b)
{
    switch (stage) {
#define FIT_STAGE(stage)                                                                           \
    case STAGE_##stage:                                                                            \
        fit_##stage(&a->stage, b);                                                                 \
        break;
        STAGE_LIST(FIT_STAGE)
#undef FIT_STAGE
    case N_STAGES:
        break;
    }
}

/* ---- operations: check, then call the device ---- */

static enum osp_status checked_open(const struct backend_ops *ops, struct backend **out,
                                    const struct backend_options *opt)
{
    struct checked *c = mem_new(sizeof(*c));
    enum osp_status st;

    assert(opt->n_rows_max > 0 && opt->n_samples_max > 0);
    c->ops = ops;
    c->limits = *opt;
    st = ops->open(&c->be, opt);
    if (st != OSP_OK) {
        free(c);
        return st;
    }
    *out = (struct backend *)c;
    return OSP_OK;
}

static void checked_close(struct backend *be)
{
    if (be == NULL)
        return;
    checked(be)->ops->close(checked(be)->be);
    free(be);
}

static void checked_info(const struct backend *be, struct device_info *out)
{
    const struct checked *c = (const struct checked *)be;

    c->ops->info(c->be, out);
}

static enum osp_status checked_alloc(struct backend *be, struct mem *out, size_t size_bytes)
{
    return checked(be)->ops->alloc(checked(be)->be, out, size_bytes);
}

static void checked_release(struct backend *be, struct mem *m)
{
    checked(be)->ops->release(checked(be)->be, m);
}

static enum osp_status checked_write(struct backend *be, void *dst, const void *src, size_t n_bytes)
{
    return checked(be)->ops->write(checked(be)->be, dst, src, n_bytes);
}

static enum osp_status checked_read(struct backend *be, void *dst, const void *src, size_t n_bytes)
{
    return checked(be)->ops->read(checked(be)->be, dst, src, n_bytes);
}

static enum osp_status checked_copy(struct backend *be, void *dst, const void *src, size_t n_bytes)
{
    return checked(be)->ops->copy(checked(be)->be, dst, src, n_bytes);
}

static bool is_slot(const struct tensor *kv, int32_t page, int32_t slot)
{
    return page >= 0 && page < kv->dim[0] && slot >= 0 && slot < PAGE_TOKENS;
}

static enum osp_status checked_kv_move(struct backend *be, const struct kv_moves *moves)
{
    assert(moves->n_layers > 0 && moves->n > 0);
    for (int layer = 0; layer < moves->n_layers; layer++) {
        const struct tensor *kv = moves->kv[layer];

        assert(kv->dtype == moves->kv[0]->dtype);
        assert(memcmp(kv->dim, moves->kv[0]->dim, sizeof kv->dim) == 0);
    }
    for (int i = 0; i < moves->n; i++) {
        assert(is_slot(moves->kv[0], moves->list[i].from_page, moves->list[i].from_slot));
        assert(is_slot(moves->kv[0], moves->list[i].to_page, moves->list[i].to_slot));
    }
    return checked(be)->ops->kv_move(checked(be)->be, moves);
}

static enum osp_status checked_copy_rows(struct backend *be, const struct row_copies *c)
{
    assert(c->n > 0 && c->n <= ROW_COPIES_MAX && c->row_bytes > 0 &&
           c->row_bytes % ROW_COPY_UNIT == 0);
    for (int i = 0; i < c->n; i++)
        assert(c->rows[i].to >= 0 && c->rows[i].from >= 0 && c->rows[i].n > 0);
    return checked(be)->ops->copy_rows(checked(be)->be, c);
}

static enum osp_status checked_pack(struct backend *be, struct tensor *out,
                                    const struct tensor *host)
{
    assert(is_weight(host));
    return checked(be)->ops->pack(checked(be)->be, out, host);
}

static enum osp_status checked_fill_random(struct backend *be, struct tensor *out,
                                           const struct tensor *host,
                                           const struct random_weight *values)
{
    assert(is_weight(host) && checked(be)->ops->fill_random != NULL);
    return checked(be)->ops->fill_random(checked(be)->be, out, host, values);
}

static int64_t checked_pack_bytes(const struct backend *be, const struct tensor *host)
{
    const struct checked *c = (const struct checked *)be;

    return c->ops->pack_bytes(c->be, host);
}

static enum osp_status checked_step_reserve(struct backend *be, const struct step_shape *shape)
{
    const struct checked *c = checked(be);

    assert(shape->counts.n_rows <= c->limits.n_rows_max);
    assert(shape->counts.n_samples <= c->limits.n_samples_max);
    return c->ops->step_reserve(c->be, shape);
}

/* The compiled program that the caller sees; it wraps that of the device. */
struct checked_program {
    const struct program *program; /* borrowed */
    union stage_args *args;        /* (program->n_ops) */
    struct compiled *compiled;     /* of the device */
};

static void checked_release_program(struct backend *be, struct compiled *compiled)
{
    struct checked_program *p = (struct checked_program *)compiled;

    if (p == NULL)
        return;
    if (p->compiled != NULL)
        checked(be)->ops->release_program(checked(be)->be, p->compiled);
    free(p->args);
    free(p);
}

static enum osp_status checked_compile(struct backend *be, const struct program *program,
                                       struct compiled **out)
{
    struct checked_program *p = mem_new(sizeof(*p));
    enum osp_status st;

    p->program = program;
    TRY(program_all_args(program, &p->args));
    for (int i = 0; i < program->n_ops; i++)
        check_args(program->ops[i].stage, &p->args[i]);
    TRY(checked(be)->ops->compile(checked(be)->be, program, &p->compiled));
    *out = (struct compiled *)p;
out:
    if (st != OSP_OK)
        checked_release_program(be, (struct compiled *)p);
    return st;
}

/* The step with the ticket has more than i samples, and they can be taken still. */
static void assert_sampled(const struct checked *c, uint64_t ticket, int i)
{
    const int at = (int)(ticket % STEPS_QUEUED_MAX);

    assert(ticket != 0 && c->sampled[at].ticket == ticket);
    assert(i < c->sampled[at].n_samples);
}

static_assert((int)BATCH_STEPS_BACK < (int)STEPS_QUEUED_MAX, "a step keeps samples so long");

static void check_sampled(const struct checked *c, const struct batch *b)
{
    for (int i = 0; i < b->n_rows; i++) {
        const int32_t token = BATCH_TOKENS(b)[i];

        if (token >= 0)
            continue;
        assert(batch_sample_back(token) < BATCH_STEPS_BACK);
        assert_sampled(c, b->tokens_ticket - (uint64_t)batch_sample_back(token),
                       batch_sample_index(token));
    }
    for (int i = 0; i < b->n_follows; i++) {
        const struct batch_follow *f = &BATCH_FOLLOWS(b)[i];

        if (f->n_drafts > 0)
            assert_sampled(c, b->follows_ticket, f->first_sample + f->n_drafts);
    }
}

static enum osp_status checked_run(struct backend *be, struct compiled *compiled,
                                   const struct batch *b, uint64_t *ticket)
{
    const struct checked_program *p = (const struct checked_program *)compiled;
    struct checked *c = checked(be);
    enum osp_status st;

    batch_check(b, c->limits.n_rows_max, c->limits.n_samples_max);
    check_sampled(c, b);
    for (int i = 0; i < p->program->n_ops; i++)
        fit_batch(p->program->ops[i].stage, &p->args[i], b);
    TRY(c->ops->run(c->be, p->compiled, b, ticket));
    for (int i = 0; i < p->program->n_ops; i++)
        if (p->program->ops[i].stage == STAGE_sample) {
            c->sampled[*ticket % STEPS_QUEUED_MAX].ticket = *ticket;
            c->sampled[*ticket % STEPS_QUEUED_MAX].n_samples = b->n_samples;
        }
out:
    return st;
}

static enum osp_status checked_step_wait(struct backend *be, uint64_t ticket)
{
    return checked(be)->ops->step_wait(checked(be)->be, ticket);
}

static bool checked_step_has_ended(struct backend *be, uint64_t ticket)
{
    struct checked *c = checked(be);

    assert(c->ops->step_has_ended != NULL); /* a device with runs_pipelined has it */
    return c->ops->step_has_ended(c->be, ticket);
}

static enum osp_status checked_sampled(struct backend *be, struct sampled *out)
{
    struct checked *c = checked(be);

    assert(c->ops->sampled != NULL);
    return c->ops->sampled(c->be, out);
}

static void checked_describe(const struct backend *be, describe_fn *put, void *ctx)
{
    const struct checked *c = (const struct checked *)be;
    struct device_info info;

    if (c->ops->describe != NULL) {
        c->ops->describe(c->be, put, ctx);
        return;
    }
    c->ops->info(c->be, &info);
    put(ctx, "device", info.name);
}

static enum osp_status checked_kernels(const struct backend *be, struct kernel_use *out, int n_max,
                                       int *n)
{
    const struct checked *c = (const struct checked *)be;

    if (c->ops->kernels == NULL)
        return fail(OSP_EUNSUPPORTED,
                    "the device %s records no steps, so it cannot list their kernels",
                    c->ops->name);
    return c->ops->kernels(c->be, out, n_max, n);
}

static enum osp_status checked_probe(struct backend *be, struct probe *out)
{
    const struct checked *c = checked(be);

    if (c->ops->probe == NULL)
        return fail(OSP_EUNSUPPORTED,
                    "the device %s computes with host threads and has no peak rates of its own",
                    c->ops->name);
    return c->ops->probe(c->be, out);
}

static enum osp_status checked_exchange_time(struct backend *be, int n_rows, int n_columns,
                                             int n_sums, double *us)
{
    const struct checked *c = checked(be);

    if (c->ops->exchange_time == NULL)
        return fail(OSP_EUNSUPPORTED, "the host exchanges for the device %s", c->ops->name);
    return c->ops->exchange_time(c->be, n_rows, n_columns, n_sums, us);
}

static int checked_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    const struct checked *c = (const struct checked *)be;

    return c->ops->costs(c->be, out, n_max);
}

/* ---- one table for each device ---- */

static enum osp_status device_ops_cpu(const struct backend_ops **out)
{
    *out = &cpu_backend_ops;
    return OSP_OK;
}

static enum osp_status device_ops_cuda(const struct backend_ops **out)
{
    return plugin_ops(out, "cuda");
}

#define WITHOUT_BACKEND(device, in_worker, draft_heads, rule)                                      \
    static enum osp_status kv_dtype_##device(const struct backend_options *opt, enum dtype *out)   \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
        const enum osp_status st = device_ops_##device(&ops);                                      \
                                                                                                   \
        return st == OSP_OK ? ops->kv_dtype(opt, out) : st;                                        \
    }                                                                                              \
    static enum osp_status memory_##device(struct device_memory *out, int first, int n)            \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
        const enum osp_status st = device_ops_##device(&ops);                                      \
                                                                                                   \
        return st == OSP_OK ? ops->memory(out, first, n) : st;                                     \
    }                                                                                              \
    static int64_t step_bytes_##device(const struct step_shape *shape)                             \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
                                                                                                   \
        return device_ops_##device(&ops) == OSP_OK ? ops->step_bytes(shape) : 0;                   \
    }                                                                                              \
    static enum osp_status links_##device(struct device_link *out, int n_max, int *n_devices,      \
                                          int *n)                                                  \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
        const enum osp_status st = device_ops_##device(&ops);                                      \
                                                                                                   \
        *n_devices = 1;                                                                            \
        *n = 0;                                                                                    \
        return st != OSP_OK || ops->links == NULL ? st : ops->links(out, n_max, n_devices, n);     \
    }                                                                                              \
    static enum osp_status open_##device(struct backend **out, const struct backend_options *opt)  \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
        const enum osp_status st = device_ops_##device(&ops);                                      \
                                                                                                   \
        return st == OSP_OK ? checked_open(ops, out, opt) : st;                                    \
    }
DEVICE_LIST(WITHOUT_BACKEND)
#undef WITHOUT_BACKEND

#define CHECKED_DEVICE(device, in_worker, draft_heads, rule)                                       \
    [DEVICE_##device] = {.name = #device,                                                          \
                         .runs_in_worker = in_worker,                                              \
                         .runs_draft_heads = draft_heads,                                          \
                         .shard_rule = rule,                                                       \
                         .open = open_##device,                                                    \
                         .close = checked_close,                                                   \
                         .info = checked_info,                                                     \
                         .alloc = checked_alloc,                                                   \
                         .release = checked_release,                                               \
                         .write = checked_write,                                                   \
                         .read = checked_read,                                                     \
                         .copy = checked_copy,                                                     \
                         .kv_move = checked_kv_move,                                               \
                         .copy_rows = checked_copy_rows,                                           \
                         .pack = checked_pack,                                                     \
                         .fill_random = checked_fill_random,                                       \
                         .pack_bytes = checked_pack_bytes,                                         \
                         .kv_dtype = kv_dtype_##device,                                            \
                         .memory = memory_##device,                                                \
                         .step_bytes = step_bytes_##device,                                        \
                         .step_reserve = checked_step_reserve,                                     \
                         .describe = checked_describe,                                             \
                         .kernels = checked_kernels,                                               \
                         .probe = checked_probe,                                                   \
                         .links = links_##device,                                                  \
                         .exchange_time = checked_exchange_time,                                   \
                         .compile = checked_compile,                                               \
                         .release_program = checked_release_program,                               \
                         .run = checked_run,                                                       \
                         .step_wait = checked_step_wait,                                           \
                         .step_has_ended = checked_step_has_ended,                                 \
                         .sampled = checked_sampled,                                               \
                         .costs = checked_costs},

static const struct backend_ops ops_of[N_DEVICES] = {DEVICE_LIST(CHECKED_DEVICE)};

const struct backend_ops *checked_ops(enum device device)
{
    return &ops_of[device];
}

enum device device_of(const struct backend_ops *ops)
{
    return (enum device)(ops - ops_of);
}

const struct device_option_row *device_option_rows(enum device device)
{
    return device == DEVICE_cuda ? plugin_options("cuda") : cpu_backend_ops.options;
}

enum osp_status device_check(enum device device)
{
    static enum osp_status (*const checks[N_DEVICES])(const struct backend_ops **) = {
#define DEVICE_CHECK(device, in_worker, draft_heads, rule) device_ops_##device,
        DEVICE_LIST(DEVICE_CHECK)
#undef DEVICE_CHECK
    };
    const struct backend_ops *ops;

    return checks[device](&ops);
}
