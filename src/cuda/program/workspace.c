/* Sizes of the workspaces, and their memory. All workspaces are allocated when a model is opened,
 * in the sizes of its largest step, so that no later step can run out of memory. A program without
 * a model (a stage in a test) allocates its workspaces when it is compiled. */
#include "cuda/program/workspace.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cuda/common/expert_sums.h"
#include "cuda/common/mxfp8.h"
#include "cuda/layer/attn_layer.h"
#include "cuda/program/plan.h"

enum {
    DRIVER_BYTES =
        256 << 20 /* of the driver: code, which it loads at its first launch, and graphs */
};

static const char *const workspace_names[N_WORKSPACES] = {
#define WORKSPACE_NAME(name) #name,
    WORKSPACE_LIST(WORKSPACE_NAME)
#undef WORKSPACE_NAME
};

/* For tests, OSPREY_CUDA_MERGE=deferred: the last split of a row never polls for the others, and
 * the counters of the buffers are three uses before their last value. */
static enum osp_status begin_at_end(struct gpu *gpu, const struct gpu_workspace *at)
{
    enum { USES_LEFT = 3 };
    const size_t n = at->size_bytes / ATTN_MERGE_BYTES;
    char *impatient = (char *)at->data + offsetof(struct attn_merge_header, is_impatient);
    enum osp_status st;

    TRY(gpu_check(
        cudaMemset2DAsync(at->data, ATTN_MERGE_BYTES, 0xFF, sizeof(uint32_t), n, gpu->stream),
        "setting the counters of merge_bufs"));
    TRY(gpu_check(
        cudaMemset2DAsync(at->data, ATTN_MERGE_BYTES, 0xFF - USES_LEFT, 1, n, gpu->stream),
        "setting the counters of merge_bufs"));
    TRY(gpu_check(cudaMemset2DAsync(impatient, ATTN_MERGE_BYTES, 1, 1, n, gpu->stream),
                  "setting the headers of merge_bufs"));
out:
    return st;
}

/* Before their first use merge_bufs, poison and router must be zero, and all bits of attn_layer
 * set. */
static enum osp_status clear(struct gpu *gpu, enum workspace w)
{
    const struct gpu_workspace *at = &gpu->workspaces.at[w];
    const char *test = getenv("OSPREY_CUDA_MERGE");
    enum osp_status st = OSP_OK;

    if (w != WORKSPACE_merge_bufs && w != WORKSPACE_poison && w != WORKSPACE_router &&
        w != WORKSPACE_attn_layer)
        return OSP_OK;
    TRY(gpu_check(cudaMemsetAsync(at->data, w == WORKSPACE_attn_layer ? 0xFF : 0, at->size_bytes,
                                  gpu->stream),
                  workspace_names[w]));
    if (w == WORKSPACE_merge_bufs && test != NULL && strcmp(test, "deferred") == 0)
        TRY(begin_at_end(gpu, at));
out:
    return st;
}

enum osp_status gpu_workspace_reserve(struct gpu *gpu, enum workspace w, int64_t size_bytes)
{
    struct gpu_workspace *at = &gpu->workspaces.at[w];
    const size_t wanted_bytes = (size_t)size_bytes;
    void *data = NULL;
    enum osp_status st;

    if (wanted_bytes <= at->size_bytes)
        return OSP_OK;
    if (gpu->is_reserved && w != WORKSPACE_raw)
        log_warn("cuda: workspace %s needs %zu bytes, but %zu were planned", workspace_names[w],
                 wanted_bytes, at->size_bytes);
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), workspace_names[w]));
    TRY(gpu_check(cudaMalloc(&data, wanted_bytes), workspace_names[w]));
    gpu_plans_drop(gpu);
    (void)cudaFree(at->data);
    at->data = data;
    at->size_bytes = wanted_bytes;
    TRY(clear(gpu, w));
out:
    return st;
}

/* ---- sizes ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The widest row that a matrix, other than the experts', reads. */
static int64_t row_width(const struct step_shape *s)
{
    return larger(larger(s->width, s->q_width), larger(s->draft_width, s->draft_q_width));
}

static int64_t entries_of(const struct step_shape *s)
{
    return s->counts.n_rows * s->n_active;
}

static int64_t rows_listed(const struct step_shape *s)
{
    return listed_rows(entries_of(s), s->n_experts);
}

static int64_t workspace_bytes_batch(const struct step_shape *s)
{
    const int64_t n_slots = s->counts.has_trees ? s->counts.n_rows + 1 : 0; /* step_batch_copy() */

    return upload_bytes(s->counts.n_samples,
                        batch_bytes(s->counts) + n_slots * (int64_t)sizeof(int32_t));
}

static int64_t workspace_bytes_sampled(const struct step_shape *s)
{
    return sampled_bytes(s->counts.n_samples);
}

static int64_t workspace_bytes_cos_sin(const struct step_shape *s)
{
    return cos_sin_bytes(s->counts.n_rows, larger(s->head_dim, s->draft_head_dim));
}

static int64_t workspace_bytes_lists(const struct step_shape *s)
{
    return grouping_bytes(entries_of(s), s->n_experts);
}

/* Sizes for one matrix, for the router, and for the experts. */
static int64_t workspace_bytes_operand(const struct step_shape *s)
{
    const int64_t n_rows = operand_rows(s->counts.n_rows);
    const int64_t product = operand_bytes(n_rows, row_width(s), ROUNDS_TO_F16);
    const int64_t router = operand_bytes(n_rows, s->width, ROUNDS_TO_3_BF16);

    return larger(larger(product, router), operand_bytes(rows_listed(s), s->width, ROUNDS_TO_F16));
}

static int64_t workspace_bytes_units(const struct step_shape *s)
{
    return operand_bytes(rows_listed(s), s->expert_width, ROUNDS_TO_F16);
}

static int64_t workspace_bytes_tiles(const struct step_shape *s)
{
    return expert_lists_bytes(entries_of(s), s->n_experts);
}

static int64_t workspace_bytes_mxfp8(const struct step_shape *s)
{
    return gpu_option_can_be_mxfp8(&s->device_options)
               ? mxfp8_bytes(s->counts.n_rows, larger(s->width, s->draft_width))
               : 0;
}

static int64_t workspace_bytes_partials(const struct step_shape *s)
{
    const bool is_plain = s->kv_dtype == DTYPE_F32 || s->head_dim != ATTN_HEAD_DIM ||
                          (s->draft_width > 0 && s->draft_head_dim != ATTN_HEAD_DIM);

    return is_plain ? ATTN_PARTIALS_BYTES_MAX : 0;
}

static int64_t workspace_bytes_merge_bufs(const struct step_shape *s)
{
    const struct attn_args a = {.q.dim = {s->counts.n_rows, s->q_width},
                                .kv.dim = {[2] = s->n_kv_heads, [4] = s->head_dim}};

    return attn_merge_bytes(&a, attn_rows_at_once(&a, s->counts.n_seqs));
}

static int64_t workspace_bytes_chunks(const struct step_shape *s)
{
    return sample_chunks_bytes(s->counts.n_samples);
}

static int64_t workspace_bytes_tops(const struct step_shape *s)
{
    return sample_tops_bytes(s->counts.n_samples);
}

static int64_t workspace_bytes_bins(const struct step_shape *s)
{
    return sample_bins_bytes(s->counts.n_samples);
}

static int64_t workspace_bytes_rounded(const struct step_shape *s)
{
    return rounded_rows_bytes(larger(s->counts.n_seqs, s->counts.n_samples), row_width(s));
}

static int64_t workspace_bytes_jobs(const struct step_shape *s)
{
    return decode_jobs_bytes(DECODE_ROWS_MAX * s->n_active);
}

static int64_t workspace_bytes_router(const struct step_shape *s)
{
    (void)s;
    return router_bytes() + 2 * ROUTER_ROW_SUMS * (int64_t)sizeof(uint64_t);
}

static int64_t workspace_bytes_expert_sums(const struct step_shape *s)
{
    return expert_sums_bytes(s->width);
}

static int64_t workspace_bytes_expert_totals(const struct step_shape *s)
{
    return s->n_ranks > 1 ? expert_sums_bytes(s->width) : 0;
}

static int64_t workspace_bytes_out_low(const struct step_shape *s)
{
    return s->n_ranks > 1 ? DECODE_ROWS_MAX * s->width * (int64_t)sizeof(int32_t) : 0;
}

/* In the window of the rank (device/peers.c). */
static int64_t workspace_bytes_gathered(const struct step_shape *s)
{
    (void)s;
    return 0;
}

static int64_t workspace_bytes_routes(const struct step_shape *s)
{
    (void)s;
    return 0;
}

static int64_t workspace_bytes_poison(const struct step_shape *s)
{
    (void)s;
    return poison_bytes();
}

static int64_t workspace_bytes_attn_layer(const struct step_shape *s)
{
    (void)s;
    return LAYER_BUFFERS_BYTES;
}

static int64_t workspace_bytes_factors(const struct step_shape *s)
{
    return s->counts.n_rows * (int64_t)sizeof(float);
}

static int64_t workspace_bytes_raw(const struct step_shape *s)
{
    (void)s; /* only while weights are packed */
    return 0;
}

static int64_t workspace_bytes(enum workspace w, const struct step_shape *s)
{
    switch (w) {
#define WORKSPACE_BYTES(name)                                                                      \
    case WORKSPACE_##name:                                                                         \
        return workspace_bytes_##name(s);
        WORKSPACE_LIST(WORKSPACE_BYTES)
#undef WORKSPACE_BYTES
    default:
        return 0;
    }
}

/* Grids of the model's program and of its stages' programs. */
static int64_t grids_bytes(const struct step_shape *s)
{
    return 2 * s->n_layers * expert_grid_floats(s->width) * (int64_t)sizeof(float);
}

int64_t gpu_step_bytes(const struct step_shape *shape)
{
    int64_t n = DRIVER_BYTES + grids_bytes(shape) + gpu_peers_bytes(shape);

    for (int w = 0; w < N_WORKSPACES; w++)
        n += workspace_bytes((enum workspace)w, shape);
    return n;
}

/* ---- of a program ---- */

/* Enlarges the shape by the tensors of one stage. */
static void add_stage(struct step_shape *s, enum stage stage, const union stage_args *args)
{
    switch (stage) {
    case STAGE_embed_rmsnorm:
        s->width = larger(s->width, args->embed_rmsnorm.x.dim[1]);
        break;
    case STAGE_attn_qkv:
        s->width = larger(s->width, args->attn_qkv.y.dim[1]);
        s->q_width = larger(s->q_width, args->attn_qkv.q.dim[1]);
        s->n_kv_heads = args->attn_qkv.kv.dim[2];
        s->head_dim = larger(s->head_dim, args->attn_qkv.rope->head_dim);
        break;
    case STAGE_attn:
        s->q_width = larger(s->q_width, args->attn.q.dim[1]);
        s->n_kv_heads = args->attn.kv.dim[2];
        s->head_dim = larger(s->head_dim, args->attn.kv.dim[4]);
        s->kv_dtype = args->attn.kv.dtype;
        break;
    case STAGE_attn_out:
        s->q_width = larger(s->q_width, args->attn_out.att.dim[1]);
        break;
    case STAGE_residual_rmsnorm:
        s->width = larger(s->width, args->residual_rmsnorm.x.dim[1]);
        break;
    case STAGE_router:
        s->width = larger(s->width, args->router.y.dim[1]);
        break;
    case STAGE_experts:
        s->width = larger(s->width, args->experts.h.dim[1]);
        s->n_experts = args->experts.w_up.dim[0];
        s->n_active = args->experts.ids.dim[1];
        s->expert_width = args->experts.units.dim[1];
        break;
    case STAGE_logits:
        s->width = larger(s->width, args->logits.y.dim[1]);
        break;
    case STAGE_draft_fc:
        s->draft_width = larger(s->draft_width, args->draft_fc.taps.dim[1]);
        break;
    case STAGE_draft_input:
        s->draft_width = larger(s->draft_width, args->draft_input.y.dim[1]);
        break;
    case STAGE_mlp:
        s->draft_width = larger(s->draft_width, args->mlp.units.dim[1]);
        s->draft_width = larger(s->draft_width, args->mlp.y.dim[1]);
        s->draft_head_dim = s->head_dim; /* of the same program */
        break;
    default:
        break;
    }
}

/* What an opened GPU uses: native GEMMs and MXFP8 activations come together (select_rows). */
static struct device_options options_in_use(const struct gpu *gpu)
{
    static const struct device_option mxfp8 = {GPU_MXFP4_ACTIVATION, "mxfp8"};
    const bool is_native = gpu->kernel_config.mxfp4.op_class == OPCLASS_NATIVE;

    return (struct device_options){.n = is_native ? 1 : 0, .list = &mxfp8};
}

enum osp_status gpu_program_reserve(struct gpu *gpu, const struct program *p)
{
    struct step_shape s = {.counts = {.n_rows = gpu->limits.n_rows_max,
                                      .n_seqs = gpu->limits.n_rows_max,
                                      .n_samples = gpu->limits.n_samples_max},
                           .q_width = 1, /* of attention: one head of one number */
                           .n_kv_heads = 1,
                           .head_dim = 1,
                           .device_options = options_in_use(gpu)};
    union stage_args args;
    enum osp_status st = OSP_OK;

    if (gpu->is_reserved)
        return OSP_OK;
    for (int i = 0; i < p->n_ops; i++) {
        program_args(p, i, &args);
        add_stage(&s, p->ops[i].stage, &args);
    }
    for (int w = 0; w < N_WORKSPACES; w++)
        TRY(gpu_workspace_reserve(gpu, (enum workspace)w, workspace_bytes((enum workspace)w, &s)));
out:
    return st;
}

/* ---- all of them ---- */

enum osp_status gpu_step_reserve(struct backend *be, const struct step_shape *shape)
{
    struct gpu *gpu = gpu_select(be);
    struct step_shape s = *shape;
    enum osp_status st;

    s.device_options = options_in_use(gpu);
    s.counts.n_samples = (int)larger(s.counts.n_samples, gpu->limits.n_samples_max);
    TRY(gpu_pack_end(gpu));
    for (int w = 0; w < N_WORKSPACES; w++)
        TRY(gpu_workspace_reserve(gpu, (enum workspace)w, workspace_bytes((enum workspace)w, &s)));
    TRY(gpu_slots_reserve(gpu, gpu->workspaces.at[WORKSPACE_batch].size_bytes));
    TRY(gpu_transfer_try(gpu));
    TRY(gpu_peers_open(gpu, &s));
    gpu->is_reserved = true;
out:
    return st;
}

void gpu_workspaces_release(struct gpu *gpu)
{
    for (int w = 0; w < N_WORKSPACES; w++)
        (void)cudaFree(gpu->workspaces.at[w].data);
}
