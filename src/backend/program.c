/* Builds programs, resolves their arguments, and finds which stage reads the outputs of which
 * other. */
#include "backend/program.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_NAME(stage) #stage,
const char *const stage_names[N_STAGES] = {STAGE_LIST(STAGE_NAME)};
#undef STAGE_NAME

enum { CAPACITY_MIN = 16 };

/* ---- the tensors of a stage ---- */

#define FIELD(stage, field, use)                                                                   \
    {.name = #field, .offset = offsetof(struct stage##_args, field), .access = ACCESS_##use},
#define STAGE_TABLE(stage)                                                                         \
    static const struct stage_field stage##_table[] = {stage##_FIELDS(FIELD, stage)};              \
    static_assert(sizeof(stage##_table) <= STAGE_FIELDS_MAX * sizeof(stage##_table[0]), #stage);
STAGE_LIST(STAGE_TABLE)
#undef STAGE_TABLE
#undef FIELD

const struct stage_field *stage_fields(enum stage stage, int *n)
{
    static const struct {
        const struct stage_field *fields;
        int n;
    } tables[N_STAGES] = {
#define STAGE_ROW(stage) {stage##_table, sizeof(stage##_table) / sizeof(stage##_table[0])},
        STAGE_LIST(STAGE_ROW)
#undef STAGE_ROW
    };

    *n = tables[stage].n;
    return tables[stage].fields;
}

static struct tensor *tensor_of(union stage_args *args, const struct stage_field *f)
{
    return (struct tensor *)(void *)((char *)args + f->offset);
}

static int id_of(const union stage_args *args, const struct stage_field *f)
{
    return ((const struct tensor *)(const void *)((const char *)args + f->offset))->id;
}

/* ---- building ---- */

static bool is_same(const struct tensor *a, const struct tensor *b)
{
    return a->data == b->data && a->dtype == b->dtype && a->layout == b->layout &&
           a->n_dims == b->n_dims &&
           memcmp(a->dim, b->dim, (size_t)a->n_dims * sizeof(a->dim[0])) == 0;
}

static int find_tensor(const struct program *p, const struct tensor *t)
{
    for (int i = p->n_tensors; i > 0; i--)
        if (is_same(&p->tensors[i - 1].tensor, t))
            return i;
    return 0;
}

/* Makes space for one more element of size_bytes in the array of n that *list points to. */
static enum osp_status grow(void *list, int n, int *capacity, size_t size_bytes)
{
    const int more = 2 * n + CAPACITY_MIN;
    void *data;

    if (n < *capacity)
        return OSP_OK;
    memcpy(&data, list, sizeof(data));
    data = realloc(data, (size_t)more * size_bytes);
    if (data == NULL)
        return fail(OSP_ENOMEM, "out of memory for a program of %d elements", more);
    memcpy(list, &data, sizeof(data));
    *capacity = more;
    return OSP_OK;
}

/* Assigns an id to the tensor, and clears the address in the arguments. */
static enum osp_status intern(struct program *p, struct tensor *t, const struct stage_field *f)
{
    enum osp_status st = OSP_OK;

    t->id = 0;
    if (t->data == NULL)
        return OSP_OK;
    t->id = find_tensor(p, t);
    if (t->id == 0) {
        TRY(grow(&p->tensors, p->n_tensors, &p->tensors_capacity, sizeof(*p->tensors)));
        p->tensors[p->n_tensors++] =
            (struct program_tensor){.tensor = *t, .name = f->name, .first = f->access};
        t->id = p->tensors[p->n_tensors - 1].tensor.id = p->n_tensors;
    }
    t->data = NULL;
    t->scales = NULL;
out:
    return st;
}

enum osp_status program_add(struct program *p, enum stage stage, int layer,
                            const union stage_args *args)
{
    int n;
    const struct stage_field *fields = stage_fields(stage, &n);
    struct program_op op = {.stage = stage, .layer = layer, .args = *args};
    enum osp_status st;

    TRY(grow(&p->ops, p->n_ops, &p->ops_capacity, sizeof(*p->ops)));
    for (int f = 0; f < n; f++)
        TRY(intern(p, tensor_of(&op.args, &fields[f]), &fields[f]));
    p->ops[p->n_ops++] = op;
out:
    return st;
}

void program_tap(struct program *p, const struct tensor *t)
{
    const int id = t->data == NULL ? 0 : find_tensor(p, t);

    if (id > 0)
        p->tensors[id - 1].is_tapped = true;
}

static bool is_written(enum access access)
{
    return access == ACCESS_WRITE || access == ACCESS_UPDATE || access == ACCESS_APPEND;
}

static void tap_outputs(struct program *p, const struct program_op *op)
{
    int n;
    const struct stage_field *fields = stage_fields(op->stage, &n);

    for (int f = 0; f < n; f++)
        if (is_written(fields[f].access) && id_of(&op->args, &fields[f]) > 0)
            p->tensors[id_of(&op->args, &fields[f]) - 1].is_tapped = true;
}

void program_tap_outputs(struct program *p)
{
    for (int i = 0; i < p->n_ops; i++)
        tap_outputs(p, &p->ops[i]);
}

enum osp_status program_range(struct program *out, const struct program *p, int first, int n)
{
    union stage_args args;
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i++) {
        const struct program_op *op = &p->ops[first + i];

        program_args(p, first + i, &args);
        TRY(program_add(out, op->stage, op->layer, &args));
    }
    program_tap_outputs(out);
    program_end(out);
out:
    return st;
}

void program_free(struct program *p)
{
    free(p->ops);
    free(p->tensors);
    *p = (struct program){0};
}

/* ---- reading ---- */

void program_args(const struct program *p, int i, union stage_args *out)
{
    int n;
    const struct stage_field *fields = stage_fields(p->ops[i].stage, &n);

    *out = p->ops[i].args;
    for (int f = 0; f < n; f++) {
        struct tensor *t = tensor_of(out, &fields[f]);

        if (t->id > 0)
            *t = p->tensors[t->id - 1].tensor;
    }
}

enum osp_status program_all_args(const struct program *p, union stage_args **out)
{
    union stage_args *all = calloc((size_t)p->n_ops + 1, sizeof(*all));

    if (all == NULL)
        return fail(OSP_ENOMEM, "out of memory for the arguments of %d stages", p->n_ops);
    for (int i = 0; i < p->n_ops; i++)
        program_args(p, i, &all[i]);
    *out = all;
    return OSP_OK;
}

enum access program_access(const struct program *p, int i, int id)
{
    int n;
    const struct stage_field *fields = stage_fields(p->ops[i].stage, &n);

    for (int f = 0; f < n; f++)
        if (id_of(&p->ops[i].args, &fields[f]) == id)
            return fields[f].access;
    return N_ACCESSES;
}

/* Whether an access of this kind discards the previous contents. */
static bool is_overwritten(enum access access)
{
    return access == ACCESS_WRITE || access == ACCESS_WORKSPACE;
}

static bool is_read(enum access access)
{
    return access == ACCESS_READ || access == ACCESS_UPDATE || access == ACCESS_CACHE ||
           access == ACCESS_WEIGHT;
}

bool program_reads_after(const struct program *p, int i, int id)
{
    for (int later = i + 1; later < p->n_ops; later++) {
        const enum access access = program_access(p, later, id);

        if (is_overwritten(access))
            return false;
        if (is_read(access))
            return true;
    }
    return p->tensors[id - 1].is_tapped;
}

/* ---- which rows are needed ---- */

/* Stages whose output row depends on no other row of their inputs (of attention: on no other row
 * of the queries). attn_qkv is not among them, as it also writes the KV cache of later steps. */
static bool is_by_row(enum stage stage)
{
    return stage == STAGE_attn || stage == STAGE_attn_out || stage == STAGE_residual_rmsnorm ||
           stage == STAGE_router || stage == STAGE_experts || stage == STAGE_mlp;
}

/* Whether the op needs all rows of a tensor that it reads. Stages logits and gather read sampled
 * rows. */
static bool needs_all(const struct program_op *op)
{
    return op->stage != STAGE_logits && op->stage != STAGE_gather &&
           !(is_by_row(op->stage) && op->rows == ROWS_SAMPLED);
}

/* Whether all rows of op i's output `id` are read. */
static bool are_all_read(const struct program *p, int i, int id)
{
    for (int later = i + 1; later < p->n_ops; later++) {
        const enum access access = program_access(p, later, id);

        if (is_overwritten(access))
            return false;
        if (is_read(access) && needs_all(&p->ops[later]))
            return true;
    }
    return p->tensors[id - 1].is_tapped;
}

static enum rows_needed rows_of(const struct program *p, int i)
{
    int n;
    const struct stage_field *fields = stage_fields(p->ops[i].stage, &n);

    if (!is_by_row(p->ops[i].stage))
        return ROWS_ALL;
    for (int f = 0; f < n; f++) {
        const int id = id_of(&p->ops[i].args, &fields[f]);

        if (id > 0 && is_written(fields[f].access) && are_all_read(p, i, id))
            return ROWS_ALL;
    }
    return ROWS_SAMPLED;
}

static enum exchange_kind exchange_of(const struct program_op *op)
{
    switch (op->stage) {
    case STAGE_embed_rmsnorm: /* with a part: zeros for the tokens of other ranks */
        return op->args.embed_rmsnorm.is_part ? EXCHANGE_SUM : EXCHANGE_NONE;
    case STAGE_attn_out:
    case STAGE_experts:
        return EXCHANGE_SUM;
    case STAGE_logits:
        return EXCHANGE_GATHER;
    case STAGE_sample:
        return EXCHANGE_FIRST;
    default:
        return EXCHANGE_NONE;
    }
}

/* Walks backwards from the last op: the rows that an op must compute depend on its readers. */
void program_end(struct program *p)
{
    for (int i = p->n_ops - 1; i >= 0; i--)
        p->ops[i].rows = rows_of(p, i);
    for (int i = 0; i < p->n_ops && p->n_ranks > 1; i++)
        p->ops[i].exchange = exchange_of(&p->ops[i]);
}
