/* Assertions of batch and shapes, in front of every device. What they hold is the contract of
 * args.h and batch.h; a breach is a bug of osprey, never of its input. */
#include "backend/checked.h"

#include <assert.h>
#include <stdlib.h>

#include "backend/batch_check.h"
#include "backend/plugin.h"
#include "base/memory.h"

struct checked {
    const struct backend_ops *ops;
    struct backend *be;
    struct backend_options limits;
    const struct batch *batch; /* of the step in progress, else NULL */
    int n_samples;             /* of the last step that began */
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

/* Rows of f32 with room for at least n of them. */
static bool is_rows(const struct tensor *t, int64_t n, int64_t width)
{
    return t->dtype == DTYPE_F32 && t->data != NULL && t->n_dims == 2 && t->dim[0] >= n &&
           t->dim[1] == width;
}

static bool is_vector(const struct tensor *t, int64_t n)
{
    return is_weight(t) && t->n_dims == 1 && t->dim[0] == n;
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

/* ---- operations: check, then hand on ---- */

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

static enum osp_status checked_step_begin(struct backend *be, const struct batch *b, enum step *out)
{
    struct checked *c = checked(be);

    batch_check(b, c->limits.n_rows_max, c->limits.n_samples_max);
    for (int i = 0; i < b->n_rows; i++)
        assert(batch_sample_index(BATCH_TOKENS(b)[i]) < c->n_samples);
    c->batch = b;
    c->n_samples = b->n_samples;
    return c->ops->step_begin(c->be, b, out);
}

static enum osp_status checked_step_end(struct backend *be, uint64_t *ticket)
{
    struct checked *c = checked(be);

    assert(c->batch != NULL);
    c->batch = NULL;
    return c->ops->step_end(c->be, ticket);
}

static enum osp_status checked_step_wait(struct backend *be, uint64_t ticket)
{
    return checked(be)->ops->step_wait(checked(be)->be, ticket);
}

static bool checked_step_has_ended(struct backend *be, uint64_t ticket)
{
    struct checked *c = checked(be);

    assert(c->ops->step_has_ended != NULL); /* it said that it runs ahead */
    return c->ops->step_has_ended(c->be, ticket);
}

static enum osp_status checked_sampled(struct backend *be, struct sampled *out)
{
    struct checked *c = checked(be);

    assert(c->ops->sampled != NULL);
    return c->ops->sampled(c->be, out);
}

static enum osp_status checked_embed_rmsnorm(struct backend *be, const struct embed_rmsnorm_args *a)
{
    const struct checked *c = checked(be);
    const struct batch *b = c->batch;
    const int64_t width = a->table.dim[1];

    assert(b != NULL);
    assert(is_weight(&a->table) && a->table.n_dims == 2 && a->table.layout != LAYOUT_COLUMNS);
    assert(is_rows(&a->x, b->n_rows, width) && is_rows(&a->y, b->n_rows, width));
    assert(is_vector(&a->norm, width));
    for (int i = 0; i < b->n_rows; i++)
        assert(BATCH_TOKENS(b)[i] < a->table.dim[0]);
    return c->ops->embed_rmsnorm(c->be, a);
}

static enum osp_status checked_attn_qkv(struct backend *be, const struct attn_qkv_args *a)
{
    const struct checked *c = checked(be);
    const struct batch *b = c->batch;
    const int64_t width = a->y.dim[1], q_width = a->q.dim[1];
    const int64_t kv_width = a->kv.dim[2] * a->kv.dim[4];

    assert(b != NULL);
    assert(is_cache(&a->kv) && a->kv.dim[4] == a->rope->head_dim);
    assert(is_rows(&a->y, b->n_rows, width) && is_rows(&a->q, b->n_rows, q_width));
    assert(q_width % kv_width == 0);
    assert(is_rows(&a->kv_rows, b->n_rows, 2 * kv_width));
    assert(is_matrix(&a->wqkv[0], q_width, width) && is_vector(&a->bqkv[0], q_width));
    for (int i = 1; i < 3; i++)
        assert(is_matrix(&a->wqkv[i], kv_width, width) && is_vector(&a->bqkv[i], kv_width));
    batch_check_pages(b, a->group, a->kv.dim[0]);
    return c->ops->attn_qkv(c->be, a);
}

static enum osp_status checked_attn(struct backend *be, const struct attn_args *a)
{
    const struct checked *c = checked(be);
    const struct batch *b = c->batch;
    const int64_t q_width = a->q.dim[1], head_dim = a->kv.dim[4];

    assert(b != NULL);
    assert(is_cache(&a->kv));
    assert(is_rows(&a->q, b->n_rows, q_width) && is_rows(&a->att, b->n_rows, q_width));
    assert(q_width % (a->kv.dim[2] * head_dim) == 0);
    assert(a->sinks.dtype == DTYPE_F32 && is_vector(&a->sinks, q_width / head_dim));
    assert(a->window_tokens >= 0);
    batch_check_pages(b, a->group, a->kv.dim[0]);
    batch_check_window(b, a);
    return c->ops->attn(c->be, a);
}

static enum osp_status checked_attn_out(struct backend *be, const struct attn_out_args *a)
{
    const struct checked *c = checked(be);
    const int64_t width = a->h.dim[1], q_width = a->att.dim[1];

    assert(c->batch != NULL);
    assert(is_rows(&a->h, c->batch->n_rows, width));
    assert(is_rows(&a->att, c->batch->n_rows, q_width));
    assert(is_matrix(&a->wo, width, q_width) && is_vector(&a->bo, width));
    return c->ops->attn_out(c->be, a);
}

static enum osp_status checked_residual_rmsnorm(struct backend *be,
                                                const struct residual_rmsnorm_args *a)
{
    const struct checked *c = checked(be);
    const int64_t width = a->x.dim[1];

    assert(c->batch != NULL);
    assert(is_rows(&a->x, c->batch->n_rows, width) && is_rows(&a->y, c->batch->n_rows, width));
    assert(is_rows(&a->h, c->batch->n_rows, width));
    assert(is_vector(&a->norm, width));
    return c->ops->residual_rmsnorm(c->be, a);
}

static enum osp_status checked_router(struct backend *be, const struct router_args *a)
{
    const struct checked *c = checked(be);
    const int64_t n_rows = c->batch == NULL ? 0 : c->batch->n_rows;
    const int64_t n_experts = a->wr.dim[0], n_active = a->ids.dim[1];

    assert(c->batch != NULL);
    assert(a->ids.dtype == DTYPE_I32 && a->ids.n_dims == 2 && a->ids.dim[0] >= n_rows);
    assert(n_active > 0 && n_active <= n_experts);
    assert(is_rows(&a->gates, n_rows, n_active) && is_rows(&a->router_logits, n_rows, n_experts));
    assert(is_rows(&a->y, n_rows, a->wr.dim[1]));
    assert(is_matrix(&a->wr, n_experts, a->y.dim[1]) && is_vector(&a->br, n_experts));
    return c->ops->router(c->be, a);
}

static enum osp_status checked_experts(struct backend *be, const struct experts_args *a)
{
    const struct checked *c = checked(be);
    const int64_t n_rows = c->batch == NULL ? 0 : c->batch->n_rows;
    const int64_t width = a->y.dim[1], n_active = a->ids.dim[1];
    const int64_t n_experts = a->w_up.dim[0], unit_width = a->units.dim[1];

    assert(c->batch != NULL);
    assert(a->ids.dtype == DTYPE_I32 && a->ids.n_dims == 2 && a->ids.dim[0] >= n_rows);
    assert(is_rows(&a->h, n_rows, width) && is_rows(&a->y, n_rows, width));
    assert(is_rows(&a->gates, n_rows, n_active));
    assert(is_rows(&a->units, n_rows * n_active, unit_width));
    assert(is_rows(&a->parts, n_rows * n_active, width));
    assert(is_stack(&a->w_up, n_experts, 2 * unit_width, width));
    assert(is_matrix(&a->b_up, n_experts, 2 * unit_width));
    assert(is_stack(&a->w_down, n_experts, width, unit_width));
    assert(is_matrix(&a->b_down, n_experts, width));
    return c->ops->experts(c->be, a);
}

static enum osp_status checked_logits(struct backend *be, const struct logits_args *a)
{
    const struct checked *c = checked(be);

    assert(c->batch != NULL);
    assert(is_rows(&a->logits, c->batch->n_samples, a->head.dim[0]));
    assert(is_rows(&a->y, c->batch->n_rows, a->head.dim[1]));
    assert(is_matrix(&a->head, a->logits.dim[1], a->y.dim[1]));
    return c->ops->logits(c->be, a);
}

static bool is_top(const struct tensor *t, enum dtype dtype, int64_t n)
{
    return t->dtype == dtype && t->n_dims == 2 && t->dim[0] >= n && t->dim[1] == TOP_LOGPROBS_MAX;
}

static enum osp_status checked_sample(struct backend *be, const struct sample_args *a)
{
    const struct checked *c = checked(be);
    const int64_t n_samples = c->batch == NULL ? 0 : c->batch->n_samples;

    assert(c->batch != NULL);
    assert(a->tokens.dtype == DTYPE_I32 && a->tokens.n_dims == 1 && a->tokens.dim[0] >= n_samples);
    assert(a->logprobs.dtype == DTYPE_F32 && a->logprobs.dim[0] >= n_samples);
    assert(is_rows(&a->logits, n_samples, a->logits.dim[1]));
    assert(a->n_valid > 0 && a->n_valid <= a->logits.dim[1]);
    assert(a->top_tokens.data == NULL || is_top(&a->top_tokens, DTYPE_I32, n_samples));
    assert(a->top_logprobs.data == NULL || is_top(&a->top_logprobs, DTYPE_F32, n_samples));
    batch_check_ids(c->batch, a->logits.dim[1],
                    a->top_tokens.data != NULL && a->top_logprobs.data != NULL);
    return c->ops->sample(c->be, a);
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

    assert(c->batch == NULL);
    if (c->ops->kernels == NULL)
        return fail(OSP_EUNSUPPORTED, "the device %s keeps no steps whose kernels could be listed",
                    c->ops->name);
    return c->ops->kernels(c->be, out, n_max, n);
}

static enum osp_status checked_probe(struct backend *be, struct probe *out)
{
    const struct checked *c = checked(be);

    assert(c->batch == NULL);
    if (c->ops->probe == NULL)
        return fail(OSP_EUNSUPPORTED, "the device %s computes with the host's threads",
                    c->ops->name);
    return c->ops->probe(c->be, out);
}

static int checked_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    const struct checked *c = (const struct checked *)be;

    return c->ops->costs(c->be, out, n_max);
}

/* ---- one table a device ---- */

static enum osp_status device_ops_cpu(const struct backend_ops **out)
{
    *out = &cpu_backend_ops;
    return OSP_OK;
}

static enum osp_status device_ops_cuda(const struct backend_ops **out)
{
    return plugin_ops(out, "cuda");
}

#define WITHOUT_BACKEND(device, in_worker)                                                         \
    static enum osp_status kv_dtype_##device(const struct backend_options *opt, enum dtype *out)   \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
        const enum osp_status st = device_ops_##device(&ops);                                      \
                                                                                                   \
        return st == OSP_OK ? ops->kv_dtype(opt, out) : st;                                        \
    }                                                                                              \
    static enum osp_status memory_##device(struct device_memory *out)                              \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
        const enum osp_status st = device_ops_##device(&ops);                                      \
                                                                                                   \
        return st == OSP_OK ? ops->memory(out) : st;                                               \
    }                                                                                              \
    static int64_t step_bytes_##device(const struct step_shape *shape)                             \
    {                                                                                              \
        const struct backend_ops *ops;                                                             \
                                                                                                   \
        return device_ops_##device(&ops) == OSP_OK ? ops->step_bytes(shape) : 0;                   \
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

#define CHECKED_STAGE(stage) .stage = checked_##stage,
#define CHECKED_DEVICE(device, in_worker)                                                          \
    [DEVICE_##device] = {.name = #device,                                                          \
                         .runs_in_worker = in_worker,                                              \
                         .open = open_##device,                                                    \
                         .close = checked_close,                                                   \
                         .info = checked_info,                                                     \
                         .alloc = checked_alloc,                                                   \
                         .release = checked_release,                                               \
                         .write = checked_write,                                                   \
                         .read = checked_read,                                                     \
                         .copy = checked_copy,                                                     \
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
                         .step_begin = checked_step_begin,                                         \
                         .step_end = checked_step_end,                                             \
                         .step_wait = checked_step_wait,                                           \
                         .step_has_ended = checked_step_has_ended,                                 \
                         .sampled = checked_sampled,                                               \
                         STAGE_LIST(CHECKED_STAGE).costs = checked_costs},

static const struct backend_ops ops_of[N_DEVICES] = {DEVICE_LIST(CHECKED_DEVICE)};

const struct backend_ops *checked_ops(enum device device)
{
    return &ops_of[device];
}

enum osp_status device_check(enum device device)
{
    static enum osp_status (*const checks[N_DEVICES])(const struct backend_ops **) = {
#define DEVICE_CHECK(device, in_worker) device_ops_##device,
        DEVICE_LIST(DEVICE_CHECK)
#undef DEVICE_CHECK
    };
    const struct backend_ops *ops;

    return checks[device](&ops);
}
