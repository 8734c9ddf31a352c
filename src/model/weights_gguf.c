/* Binds the tensors of GGUF files. Norms, biases, sinks and BF16 matrices are used in place; all
 * others become weights with a source, which convert.c reads. */
#include <stdlib.h>
#include <string.h>

#include "model/weights_bind.h"

enum { TENSORS = 2 }; /* gate and up */

/* The tensors of one alternative of a rule's name. */
struct found {
    const struct st_file *files[TENSORS];
    const struct st_tensor *tensors[TENSORS];
    int n;
};

/* ---- names ---- */

/* Calls checkpoint_find() for the name of n bytes. */
static const struct st_tensor *find_name(const struct binder *b, int layer, const char *name,
                                         size_t n, const struct st_file **file)
{
    char ending[WEIGHT_NAME_BYTES], whole[WEIGHT_NAME_BYTES];

    memcpy(ending, name, n);
    ending[n] = '\0';
    weight_name(whole, &b->c->config, layer, ending, "");
    return checkpoint_find(b->c, whole, file);
}

/* Of "a+b", n bytes: all its tensors; false if none is there. The missing one of two is NULL. */
static bool find_alternative(struct found *out, const struct binder *b, int layer,
                             const char *names, size_t n)
{
    bool any = false;

    *out = (struct found){.n = 0};
    for (const char *at = names; at < names + n; out->n++) {
        const size_t left = (size_t)(names + n - at), n_name = strcspn(at, "+|");
        const size_t n_here = n_name < left ? n_name : left;

        out->tensors[out->n] = find_name(b, layer, at, n_here, &out->files[out->n]);
        any = any || out->tensors[out->n];
        at += n_here + 1;
    }
    return any;
}

/* The first alternative of which a tensor is there; n = 0: there is none. */
static void find_rule(struct found *out, const struct binder *b, int layer, const char *names)
{
    for (const char *at = names;; at++) {
        const size_t n = strcspn(at, "|");

        if (find_alternative(out, b, layer, at, n))
            return;
        at += n;
        if (*at == '\0')
            break;
    }
    out->n = 0;
}

/* dim: the shape that the tensor should have. */
static enum osp_status fail_missing(const struct binder *b, const int64_t *dim, int n_dims,
                                    int layer, const char *names)
{
    char name[WEIGHT_NAME_BYTES], shape[ST_SHAPE_TEXT_BYTES], *shown = mem_strdup(names);
    enum osp_status st;

    shown[strcspn(shown, "|+")] = '\0';
    weight_name(name, &b->c->config, layer, shown, "");
    st = fail(OSP_EFORMAT, "%s: tensor %s is missing, expected shape %s in one of %d file%s",
              b->c->path, name, st_shape_text(shape, dim, n_dims), b->c->n_files,
              b->c->n_files == 1 ? "" : "s");
    free(shown);
    return st;
}

/* Whether the fused tensor is there in place of q, k and v. */
static bool is_fused(const struct binder *b, const struct weight_rule *rule, int layer)
{
    const char *name = rule->weight_kind == WEIGHT_VECTOR ? "attn_qkv.bias" : "attn_qkv.weight";
    const bool is_part = rule->slot >= offsetof(struct layer_weights, wqkv) &&
                         rule->slot < offsetof(struct layer_weights, sinks);
    const struct st_file *file;

    return layer >= 0 && is_part && find_name(b, layer, name, strlen(name), &file) != NULL;
}

/* ---- shapes and types ---- */

/* Of two tensors, each has half of the rows: the last but one dimension, of a vector the last. */
static void stored_shape(int64_t dim[TENSOR_DIMS_MAX], const struct weight_rule *rule,
                         const struct tensor *t, int n_tensors)
{
    const int rows = rule->weight_kind == WEIGHT_VECTOR ? t->n_dims - 1 : t->n_dims - 2;

    memcpy(dim, t->dim, sizeof t->dim);
    dim[rows] /= n_tensors;
}

static enum osp_status check_shape(const struct found *f, int i, const int64_t *dim, int n_dims)
{
    const struct st_tensor *t = f->tensors[i];
    char found[ST_SHAPE_TEXT_BYTES], expected[ST_SHAPE_TEXT_BYTES];
    bool same = t->n_dims == n_dims;

    for (int k = 0; same && k < n_dims; k++)
        same = t->dim[k] == dim[k];
    if (same)
        return OSP_OK;
    return fail(
        OSP_EFORMAT,
        "%s: tensor %s: shape is %s, expected %s (rows first; GGUF tools print the reverse)",
        f->files[i]->path, t->name, st_shape_text(found, t->dim, t->n_dims),
        st_shape_text(expected, dim, n_dims));
}

static enum osp_status check_found(const struct binder *b, const struct found *f,
                                   const struct weight_rule *rule, int layer,
                                   const struct tensor *t)
{
    int64_t dim[TENSOR_DIMS_MAX];
    enum osp_status st = OSP_OK;

    stored_shape(dim, rule, t, f->n);
    for (int i = 0; i < f->n; i++) {
        const char *names = weight_rule_name(rule, &b->c->config);

        if (!f->tensors[i])
            return fail_missing(b, dim, t->n_dims, layer,
                                i == 0 ? names : names + strcspn(names, "+") + 1);
        TRY(check_shape(f, i, dim, t->n_dims));
        if (rule->weight_kind == WEIGHT_VECTOR && st_dtype_values(f->tensors[i]->dtype) != 1)
            return fail(OSP_EFORMAT, "%s: tensor %s: type is %s, expected F32, F16 or BF16",
                        f->files[i]->path, f->tensors[i]->name,
                        st_dtype_name(f->tensors[i]->dtype));
    }
out:
    return st;
}

/* Whether a device can read the stored bytes. */
static bool is_usable(const struct found *f, const struct weight_rule *rule)
{
    const struct st_tensor *t = f->tensors[0];
    const bool is_vector = rule->weight_kind == WEIGHT_VECTOR;

    return f->n == 1 && rule->weight_kind != WEIGHT_EXPERTS &&
           (t->dtype == ST_BF16 || (is_vector && t->dtype == ST_F32)) &&
           (uintptr_t)t->data % st_dtype_bytes(t->dtype) == 0;
}

/* The dtype and layout that the weight will have; those of BF16 experts are the ones of a BF16
 * re-release. */
static void set_final(struct tensor *t, const struct binder *b, const struct found *f,
                      const struct weight_rule *rule)
{
    if (is_usable(f, rule))
        t->dtype = f->tensors[0]->dtype == ST_F32 ? DTYPE_F32 : DTYPE_BF16;
    else if (rule->weight_kind == WEIGHT_VECTOR)
        t->dtype = DTYPE_F32;
    else if (weight_rule_is_mxfp4(rule, &b->c->config))
        t->dtype = DTYPE_MXFP4;
    else
        t->dtype = DTYPE_BF16;
    if (rule->weight_kind == WEIGHT_EXPERTS && t->dtype == DTYPE_BF16)
        t->layout = LAYOUT_COLUMNS;
}

/* ---- slots ---- */

static void add_source(struct binder *b, const struct found *f, size_t slot, int layer,
                       int64_t first_row)
{
    struct weight_source *s = &b->w->sources[b->w->n_sources++];

    *s = (struct weight_source){.slot = slot,
                                .layer = layer,
                                .file = f->files[0],
                                .n_tensors = f->n,
                                .first_row = first_row};
    memcpy(s->tensors, f->tensors, sizeof s->tensors);
}

/* Fills n_slots slots, from the rule's on, with one after the other of the tensor's rows. */
static void fill_slots(struct binder *b, const struct found *f, const struct weight_rule *rule,
                       int layer, const struct tensor *t, void *base)
{
    const int64_t n_rows[3] = {b->letters[L_HD], b->letters[L_KD], b->letters[L_KD]};
    const int n_slots = rule->shape[0] == L_QKV ? 3 : 1;
    const struct st_tensor *stored = f->tensors[0];
    int64_t row = 0;

    for (int i = 0; i < n_slots; i++) {
        const size_t offset = rule->slot + (size_t)i * sizeof(struct tensor);
        struct tensor *slot = (struct tensor *)(void *)((char *)base + offset);

        *slot = *t;
        if (n_slots > 1)
            slot->dim[0] = n_rows[i];
        if (is_usable(f, rule)) {
            const size_t row_bytes = stored->size_bytes / (size_t)t->dim[0];

            slot->data = (void *)(uintptr_t)(stored->data + (size_t)row * row_bytes);
        } else {
            add_source(b, f, offset, layer, row);
        }
        row += slot->dim[0];
    }
}

enum osp_status bind_gguf(struct binder *b, const struct weight_rule *rule, int layer, void *base)
{
    const struct tensor *slot = (const struct tensor *)(void *)((char *)base + rule->slot);
    const char *names = weight_rule_name(rule, &b->c->config);
    const bool is_fused_rule = rule->shape[0] == L_QKV;
    struct found f;
    struct tensor t;
    enum osp_status st;

    find_rule(&f, b, layer, names);
    /* A fused tensor beside q, k and v stays unbound, and is then reported as surplus. */
    if (is_fused_rule ? f.n == 0 || slot->n_dims > 0 : f.n == 0 && is_fused(b, rule, layer))
        return OSP_OK;
    t = binder_shape(b, rule);
    if (f.n == 0)
        return fail_missing(b, t.dim, t.n_dims, layer, names);
    TRY(check_found(b, &f, rule, layer, &t));
    set_final(&t, b, &f, rule);
    for (int i = 0; i < f.n; i++)
        binder_mark_seen(b, f.files[i], f.tensors[i]);
    fill_slots(b, &f, rule, layer, &t, base);
    b->part_bytes[rule->part] += tensor_bytes(&t);
out:
    return st;
}
