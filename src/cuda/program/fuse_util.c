/* What all files of fuse() share: arguments of ops, the tuning table, weights as kernels take
 * them, and notes of what launches touch. */
#include "cuda/program/fuse_internal.h"

void op_args(const struct fuse *f, int i, union stage_args *out)
{
    program_args(f->in->program, i, out);
    if (f->is_tail && op_at(f, i)->stage == STAGE_attn_out)
        out->attn_out.att = f->tail_att;
}

int last_writer(const struct fuse *f, int i, const struct tensor *t)
{
    int op = i - 1;

    while (op >= 0 && program_access(f->in->program, op, t->id) != ACCESS_WRITE &&
           program_access(f->in->program, op, t->id) != ACCESS_UPDATE)
        op--;
    return op;
}

bool is_read_after(const struct fuse *f, int i, int but, const struct tensor *t)
{
    const struct program *p = f->in->program;

    for (int later = i + 1; later < p->n_ops; later++) {
        const enum access access = program_access(p, later, t->id);

        if (access == ACCESS_WRITE || access == ACCESS_WORKSPACE)
            return false;
        if (access != N_ACCESSES && access != ACCESS_APPEND && later != but)
            return true;
    }
    return p->tensors[t->id - 1].is_tapped;
}

const struct batch *batch_on_device(const struct fuse *f)
{
    return (const struct batch *)(const void *)((const char *)workspace(f, WORKSPACE_batch) +
                                                noise_keys_bytes(f->in->n_samples_max));
}

const void *on_device(const struct fuse *f, int32_t offset)
{
    return batch_at(batch_on_device(f), offset);
}

enum weight_format format_of(const struct tensor *w)
{
    if (w->layout != LAYOUT_PACKED)
        return WEIGHTS_OTHER;
    return w->dtype == DTYPE_MXFP4 ? WEIGHTS_MXFP4 : WEIGHTS_BF16;
}

const struct tuning_row *tuning_row_of(const struct fuse *f, enum stage stage,
                                       enum weight_format format, enum phase phase, int n_rows)
{
    const struct tuning_key key = {
        .stage = stage, .arch = f->in->arch, .format = format, .phase = phase, .n_rows = n_rows};
    const struct kernel_request request = kernel_request_of(f->in->config, stage, format);

    return tuning_find(&key, &request);
}

bool is_tuned(const struct fuse *f, enum stage stage, const struct tensor *w, int n_rows,
              enum kernel kernel)
{
    return w->layout == LAYOUT_PACKED && n_rows > 0 && n_rows <= DECODE_ROWS_MAX && is_decode(f) &&
           tuning_row_of(f, stage, format_of(w), PHASE_DECODE, n_rows)->kernel == kernel;
}

struct decode_matrix matrix_of(const struct tensor *w)
{
    return (struct decode_matrix){.units = w->data,
                                  .matrix_bytes = matrix_bytes(w),
                                  .n_rows = (int32_t)matrix_rows(w),
                                  .n_units = (int32_t)units_of(matrix_columns(w), UNIT_COLUMNS)};
}

struct decode_vector vector_of(const struct tensor *v)
{
    const int32_t n = (int32_t)matrix_columns(v);

    if (v->data == NULL)
        return (struct decode_vector){.kind = VECTOR_NONE};
    if (v->layout == LAYOUT_PACKED)
        return (struct decode_vector){v->data, VECTOR_PACKED, (int32_t)units_of(n, UNIT_COLUMNS)};
    return (struct decode_vector){v->data, v->dtype == DTYPE_F32 ? VECTOR_F32 : VECTOR_BF16, n};
}

bool is_vector(const struct tensor *v)
{
    return v->data == NULL || v->dtype == DTYPE_BF16 ||
           (v->dtype == DTYPE_F32 && v->layout == LAYOUT_ROWS);
}

/* ---- touches ---- */

void set_op(struct fuse *f, int op)
{
    for (int l = f->first; l < f->list->n; l++)
        f->list->launches[l].op = op;
    next_launch(f);
}

void touch(struct fuse *f, int launch, enum touch_kind kind, int tensor, int workspace, int op)
{
    if (f->first < f->list->n)
        launch_list_touch(f->list, (struct touch){launch, kind, tensor, workspace, op, 0});
}

void reads_id(struct fuse *f, int op, int id)
{
    if (id > 0)
        touch(f, f->first, TOUCH_READ, id, 0, op);
}

void writes_id(struct fuse *f, int op, int id)
{
    if (id > 0)
        touch(f, f->list->n - 1, TOUCH_WRITE, id, 0, op);
}

void reads(struct fuse *f, int op, const struct tensor *t)
{
    reads_id(f, op, t->id);
}

void reads_early(struct fuse *f, const struct tensor *t)
{
    if (t->id > 0)
        touch(f, f->first, TOUCH_EARLY, t->id, 0, 0);
}

void writes(struct fuse *f, int op, const struct tensor *t)
{
    writes_id(f, op, t->id);
}

void reads_copy(struct fuse *f, int op, enum workspace w, int tensor_id)
{
    if (f->first < f->list->n)
        launch_list_touch(f->list, (struct touch){f->first, TOUCH_READ, 0, (int)w, op, tensor_id});
}

void writes_copy(struct fuse *f, int op, enum workspace w, int tensor_id)
{
    if (f->first < f->list->n)
        launch_list_touch(f->list,
                          (struct touch){f->list->n - 1, TOUCH_WRITE, 0, (int)w, op, tensor_id});
}

void reads_workspace(struct fuse *f, enum workspace w)
{
    reads_copy(f, f->op, w, 0);
}

void writes_workspace(struct fuse *f, enum workspace w)
{
    writes_copy(f, f->op, w, 0);
}
