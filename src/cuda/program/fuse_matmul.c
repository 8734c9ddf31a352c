/* Matmuls of the rows of a step with weights: selects the kernel of each row by the tuning
 * table. */
#include "backend/kv_page.h"
#include "cuda/program/fuse_internal.h"

void matmul_add(struct matmul *m, const struct tensor *w, const struct tensor *bias, float *out,
                int64_t out_width)
{
    m->w[m->n_jobs] = *w;
    if (bias != NULL)
        m->bias[m->n_jobs] = *bias;
    m->out[m->n_jobs] = out;
    m->out_width[m->n_jobs++] = out_width;
}

/* ---- notes ---- */

static int copied(const struct fuse *f)
{
    return f->product.is_gathered ? 0 : f->product.x;
}

void note_rows(struct fuse *f, enum workspace w)
{
    reads_id(f, f->op, f->product.x);
    writes_copy(f, f->op, w, copied(f));
    next_launch(f);
}

static void note_outputs(struct fuse *f, const struct matmul *m)
{
    if (f->product.is_listed)
        reads_workspace(f, WORKSPACE_lists);
    for (int i = 0; i < m->n_jobs; i++) {
        reads_early(f, &m->w[i]);
        reads_early(f, &m->bias[i]);
        if (!f->product.has_out_rows)
            writes_id(f, f->op, f->product.out[i]);
    }
    if (f->product.has_out_rows)
        writes_workspace(f, f->product.out_rows);
    next_launch(f);
}

void note_product(struct fuse *f, const struct matmul *m)
{
    reads_id(f, f->op, f->product.x);
    note_outputs(f, m);
}

void note_product_of(struct fuse *f, const struct matmul *m, enum workspace rows)
{
    reads_copy(f, f->op, rows, copied(f));
    note_outputs(f, m);
}

/* ---- decode rows as FP16 ---- */

uint16_t *rounded_workspace(struct fuse *f, int n_rows, int64_t n_columns)
{
    const struct gpu_workspace *at = &f->in->workspaces->at[WORKSPACE_rounded];

    if ((size_t)rounded_rows_bytes(n_rows, n_columns) > at->size_bytes)
        f->st = fail(OSP_EINTERNAL,
                     "cuda: workspace rounded has %zu bytes, too few for %d rows of %lld numbers",
                     at->size_bytes, n_rows, (long long)n_columns);
    return at->data;
}

uint16_t *rounded_buffer(struct fuse *f, const struct tensor *t)
{
    f->rounded = 0;
    if (f->n_decode <= DECODE_FUSED_MAX)
        return NULL;
    f->rounded = t->id;
    return rounded_workspace(f, f->n_decode, t->dim[1]);
}

void forget_rounded(struct fuse *f)
{
    f->rounded = f->operand = 0;
}

/* The weights of op i, if it is a matmul that reads t. */
static bool weights_of_reader(const struct fuse *f, int i, const struct tensor *t,
                              struct tensor *out)
{
    union stage_args args;
    int x = 0;

    if (is_stage(f, i, STAGE_attn_qkv)) {
        op_args(f, i, &args);
        *out = args.attn_qkv.wqkv[0];
        x = args.attn_qkv.y.id;
    } else if (is_stage(f, i, STAGE_attn_out)) {
        op_args(f, i, &args);
        *out = args.attn_out.wo;
        x = args.attn_out.att.id;
    }
    return x == t->id;
}

/* Bytes of an operand of n_rows rows; *n: its rows. */
static size_t decode_operand_bytes(int n_rows, int64_t n_columns, int32_t *n)
{
    *n = (int32_t)operand_rows(n_rows);
    return (size_t)operand_bytes(*n, n_columns, ROUNDS_TO_F16);
}

uint16_t *operand_buffer(struct fuse *f, const struct tensor *t, int reader, int *n_operand_rows)
{
    const struct gpu_workspace *at = &f->in->workspaces->at[WORKSPACE_operand];
    struct tensor w;
    int32_t n;

    *n_operand_rows = 0;
    if (f->n_decode <= DECODE_FUSED_MAX || !weights_of_reader(f, reader, t, &w) ||
        tuning_row_of(f, op_at(f, reader)->stage, format_of(&w), PHASE_DECODE, f->n_decode)
                ->kernel != KERNEL_DECODE_GEMM_SM90 ||
        decode_operand_bytes(f->n_decode, t->dim[1], &n) > at->size_bytes)
        return NULL;
    f->rounded = 0;
    f->operand = t->id;
    *n_operand_rows = n;
    return at->data;
}

/* x: the id of the tensor whose rows, in order, are `rows`; 0: rows are gathered. */
static const uint16_t *round_rows(struct fuse *f, const struct decode_rows *rows, int x, int n_rows,
                                  bool is_mxfp4)
{
    if (x == 0 || f->rounded != x || !is_mxfp4 || rows->gather != NULL) {
        next_launch(f);
        launch_round_rows(f->list, rounded_workspace(f, n_rows, rows->n), rows, n_rows, f->n_live,
                          is_mxfp4);
        note_rows(f, WORKSPACE_rounded);
        f->rounded = 0;
    }
    return workspace(f, WORKSPACE_rounded);
}

const uint16_t *rounded_rows(struct fuse *f, const struct tensor *t, int n_rows)
{
    const struct decode_rows rows = {.x = t->data, .n = (int32_t)t->dim[1]};

    return round_rows(f, &rows, t->id, n_rows, true);
}

/* ---- more than a few decode rows ---- */

static bool is_decode_gemm(const struct matmul *m)
{
    if (m->first != NULL || m->is_exact || m->is_swiglu ||
        matrix_columns(&m->w[0]) % DECODE_COLUMNS_OF != 0)
        return false;
    for (int i = 0; i < m->n_jobs; i++)
        if (m->w[i].layout != LAYOUT_PACKED || !is_vector(&m->bias[i]))
            return false;
    return true;
}

/* low: of struct decode_gemm. */
static struct decode_gemm decode_gemm_of(const struct matmul *m, int32_t *low)
{
    struct decode_gemm p = {.n_jobs = m->n_jobs,
                            .n_tokens = m->n_tokens,
                            .n_live = m->n_live,
                            .is_mxfp4 = m->w[0].dtype == DTYPE_MXFP4,
                            .slice_units = m->slice_units,
                            .low = low};

    for (int i = 0; i < m->n_jobs; i++) {
        p.w[i] = matrix_of(&m->w[i]);
        p.bias[i] = vector_of(&m->bias[i]);
        p.out[i] = m->out[i];
        p.out_width[i] = (int32_t)m->out_width[i];
    }
    return p;
}

/* By the kernel of the table, or by the kernel that runs on every GPU. */
static bool launch_gemm_of(struct launch_list *list, const struct decode_gemm *p,
                           enum kernel kernel)
{
    return (kernel == KERNEL_DECODE_GEMM_SM90 && launch_decode_gemm_sm90(list, p)) ||
           (kernel == KERNEL_DECODE_HEAD && launch_decode_head(list, p)) ||
           (kernel == KERNEL_DECODE_SMEM_RESIDENT && launch_decode_smem_resident(list, p)) ||
           launch_decode_gemm(list, p);
}

static bool gemm_fits(struct launch_list *list, const struct decode_gemm *p, enum kernel kernel)
{
    bool fits;

    list->is_query = true;
    fits = launch_gemm_of(list, p, kernel);
    list->is_query = false;
    return fits;
}

/* Whether the kernel of many rows takes p itself; gemm_fits() is also true where another kernel
 * takes its place. */
static bool sm90_fits(struct launch_list *list, const struct decode_gemm *p)
{
    bool fits;

    list->is_query = true;
    fits = launch_decode_gemm_sm90(list, p);
    list->is_query = false;
    return fits;
}

/* Takes the operand that an earlier kernel has made of tensor x. */
static bool take_operand(const struct fuse *f, struct decode_gemm *p, int x)
{
    if (x == 0 || f->operand != x || p->n_tokens != f->n_decode)
        return false;
    p->operand = workspace(f, WORKSPACE_operand);
    p->n_operand_rows = (int32_t)operand_rows(p->n_tokens);
    return true;
}

/* The rows of p as an operand; false: the workspace is too small. */
static bool make_operand(struct fuse *f, struct decode_gemm *p, int64_t n_columns)
{
    const struct gpu_workspace *at = &f->in->workspaces->at[WORKSPACE_operand];
    struct decode_gemm rows;

    if (decode_operand_bytes(p->n_tokens, n_columns, &p->n_operand_rows) > at->size_bytes)
        return false;
    p->operand = at->data;
    rows = (struct decode_gemm){.w = {p->w[0]},
                                .n_tokens = p->n_tokens,
                                .n_live = p->n_live,
                                .rows = p->rows,
                                .operand = p->operand,
                                .n_operand_rows = p->n_operand_rows};
    rows.w[0].units = NULL;
    launch_decode_operand(f->list, &rows);
    reads_copy(f, f->op, WORKSPACE_rounded, copied(f));
    writes_copy(f, f->op, WORKSPACE_operand, copied(f));
    next_launch(f);
    f->operand = 0;
    p->rows = NULL;
    return true;
}

/* *from: the workspace with the rows. */
static bool launch_decode(struct fuse *f, const struct matmul *m, struct decode_gemm *p, int x,
                          enum kernel kernel, enum workspace *from)
{
    const struct decode_rows rows = {.x = m->x,
                                     .n = (int32_t)matrix_columns(&m->w[0]),
                                     .gather = m->gather,
                                     .gather_stride = m->gather_stride};
    const bool is_sm90 = kernel == KERNEL_DECODE_GEMM_SM90;

    if (!is_decode_gemm(m) || !gemm_fits(f->list, p, kernel))
        return false;
    *from = WORKSPACE_operand;
    if (is_sm90 && sm90_fits(f->list, p) && take_operand(f, p, x))
        return launch_gemm_of(f->list, p, kernel);
    p->rows = round_rows(f, &rows, x, m->n_tokens, p->is_mxfp4);
    if (!is_sm90 || !sm90_fits(f->list, p) || !make_operand(f, p, rows.n)) {
        kernel = is_sm90 ? KERNEL_DECODE_GEMM : kernel;
        *from = WORKSPACE_rounded;
    }
    return launch_gemm_of(f->list, p, kernel);
}

bool matmul_qkv(struct fuse *f, const struct attn_qkv_args *a, const struct matmul *m)
{
    struct decode_gemm p = decode_gemm_of(m, NULL);
    enum kernel kernel =
        tuning_row_of(f, STAGE_attn_qkv, format_of(&m->w[0]), PHASE_DECODE, m->n_tokens)->kernel;
    enum workspace from;

    if (kernel == KERNEL_DECODE_QKV && !is_fused_width(a->y.dim[1]))
        kernel = KERNEL_DECODE_GEMM; /* rows of a draft head: too wide for that kernel */

    if (!is_decode(f) || (a->kv.dtype != DTYPE_BF16 && a->kv.dtype != DTYPE_F32) ||
        a->kv.dim[4] != DECODE_HEAD_WIDTH || m->w[1].dtype != m->w[0].dtype ||
        m->w[2].dtype != m->w[0].dtype ||
        (kernel != KERNEL_DECODE_GEMM && kernel != KERNEL_DECODE_SMEM_RESIDENT &&
         kernel != KERNEL_DECODE_GEMM_SM90))
        return false;
    p.out[1] = p.out[2] = NULL; /* keys and values go to their pages */
    p.heads = (struct decode_heads){
        .pages = a->kv.data,
        .cos_sin = workspace(f, WORKSPACE_cos_sin),
        .batch = batch_on_device(f),
        .kv_half_bytes = kv_side_bytes(a->kv.dtype, a->kv.dim[4]),
        .n_kv = (int32_t)a->kv.dim[2],
        .group = a->group,
        .is_cache_bf16 = a->kv.dtype == DTYPE_BF16,
    };
    if (!launch_decode(f, m, &p, a->y.id, kernel, &from))
        return false;
    reads_copy(f, f->op, from, a->y.id);
    return true;
}

/* ---- rows of one phase ---- */

/* The table's kernel; for sums that ranks exchange, one that leaves them as words. */
static enum kernel phase_kernel(const struct tuning_row *row, bool has_words)
{
    const unsigned with_words =
        SET(KERNEL_DECODE_GEMM) | SET(KERNEL_DECODE_GEMM_SM90) | SET(KERNEL_DECODE_SMEM_RESIDENT);

    return has_words && (SET(row->kernel) & with_words) == 0 ? KERNEL_DECODE_GEMM : row->kernel;
}

/* All jobs have the format of the first. x: the id of the tensor of the rows; 0: rows are
 * gathered. */
static void launch_phase(struct fuse *f, enum stage stage, enum phase phase, const struct matmul *m,
                         int x)
{
    int32_t *low = phase == PHASE_DECODE ? f->out_low : NULL;
    const struct tuning_row *row;
    struct decode_gemm p;
    enum workspace from;

    if (m->n_tokens == 0)
        return;
    row = tuning_row_of(f, stage, format_of(&m->w[0]), phase, m->n_tokens);
    switch (phase_kernel(row, low != NULL)) {
    case KERNEL_MXFP8_MATMUL:
        prefill_mxfp8(f, m, x, row->tile.rows);
        return;
    case KERNEL_GEMM_256: /* or another of its tile shapes, if that is faster */
        prefill_sm90(f, m);
        return;
    case KERNEL_GEMM_MMA:
        prefill_mma(f, m);
        return;
    case KERNEL_MATMUL_SIMT:
        launch_matmul_simt(f->list, m);
        note_product(f, m);
        return;
    case KERNEL_DECODE_GEMM:
    case KERNEL_DECODE_GEMM_SM90:
    case KERNEL_DECODE_SMEM_RESIDENT:
    case KERNEL_DECODE_HEAD:
        p = decode_gemm_of(m, low);
        if (launch_decode(f, m, &p, x, phase_kernel(row, low != NULL), &from)) {
            if (p.low != NULL)
                writes_workspace(f, WORKSPACE_out_low);
            note_product_of(f, m, from);
            return;
        }
        break;
    default:
        break;
    }
    if (low != NULL)
        f->st = fail(OSP_EINTERNAL, "cuda: no kernel for the sums of %d rows between ranks",
                     m->n_tokens);
    launch_matmul(f->list, m);
    note_product(f, m);
}

/* Tokens [first, first + n) of a matmul whose tokens are rows in order. */
static struct matmul tokens_of(const struct matmul *m, int first, int n)
{
    struct matmul part = *m;

    part.n_tokens = n;
    part.x += first * matrix_columns(&m->w[0]);
    for (int i = 0; i < m->n_jobs; i++)
        part.out[i] += first * m->out_width[i];
    return part;
}

const struct tuning_row *matmul_prefill_row(const struct fuse *f, enum stage stage,
                                            const struct tensor *w)
{
    const int n_prefill = f->n_rows - f->n_decode;

    return tuning_row_of(f, stage, format_of(w), PHASE_PREFILL, n_prefill > 0 ? n_prefill : 1);
}

bool matmul_has_prefill(const struct fuse *f, enum stage stage, const struct tensor *w)
{
    return SET(matmul_prefill_row(f, stage, w)->kernel) &
           (GEMM_KERNELS | SET(KERNEL_GEMM_MMA) | SET(KERNEL_MXFP8_MATMUL));
}

int matmul_decode_rows(const struct fuse *f)
{
    return IS_ORDER_FREE && !is_decode(f) ? 0 : f->n_decode;
}

void matmul_launch_prefill(struct fuse *f, enum stage stage, const struct matmul *m,
                           const struct tensor *x)
{
    const int n_decode = matmul_decode_rows(f);
    const struct matmul prefill = tokens_of(m, n_decode, m->n_tokens - n_decode);

    launch_phase(f, stage, PHASE_PREFILL, &prefill, x->id);
}

/* One job at a time. */
static void launch_apart(struct fuse *f, enum stage stage, const struct matmul *m,
                         const struct tensor *x)
{
    const struct product_tensors all = f->product;

    for (int i = 0; i < m->n_jobs; i++) {
        struct matmul one = *m;

        one.n_jobs = 1;
        one.w[0] = m->w[i];
        one.bias[0] = m->bias[i];
        one.out[0] = m->out[i];
        one.out_width[0] = m->out_width[i];
        f->product.out[0] = all.out[i];
        matmul_launch(f, stage, &one, x);
    }
}

/* In a step with both phases, prefill rows are launched separately if their kernels sum in another
 * order. Otherwise a step counts as decode if all its rows are decode rows. Matmuls over the lists
 * of experts have decode rows only. */
void matmul_launch(struct fuse *f, enum stage stage, const struct matmul *m, const struct tensor *x)
{
    const enum phase phase = m->first != NULL || is_decode(f) ? PHASE_DECODE : PHASE_PREFILL;

    for (int i = 1; i < m->n_jobs; i++)
        if (m->w[i].dtype != m->w[0].dtype || m->w[i].layout != m->w[0].layout) {
            launch_apart(f, stage, m, x);
            return;
        }
    if (m->first == NULL && m->gather == NULL && matmul_has_prefill(f, stage, &m->w[0])) {
        const struct matmul decode = tokens_of(m, 0, matmul_decode_rows(f));

        launch_phase(f, stage, PHASE_DECODE, &decode, x->id);
        matmul_launch_prefill(f, stage, m, x);
        return;
    }
    launch_phase(f, stage, phase, m, m->gather == NULL ? x->id : 0);
}
