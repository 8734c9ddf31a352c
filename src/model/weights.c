/* Binds the tensors of a checkpoint to the model's slots, as the weight table says. */
#include "model/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "model/weight_table.h"
#include "model/weights_bind.h"

enum { ZEROS_MAX = 2 }; /* of weights_shard(): for attention's bias, and then for the experts' */

/* A tensor that a rule expects in the files. */
struct wanted {
    char name[WEIGHT_NAME_BYTES];
    enum st_dtype dtype, other_dtype; /* the accepted dtypes; equal if there is only one */
    int n_dims;
    int64_t dim[TENSOR_DIMS_MAX];
    enum part part;
};

/* ---- one tensor of the file ---- */

void binder_mark_seen(struct binder *b, const struct st_file *file, const struct st_tensor *t)
{
    size_t first = 0;

    for (const struct st_file *f = b->c->files; f < file; f++)
        first += f->n_tensors;
    b->seen[first + (size_t)(t - file->tensors)] = true;
}

/* A matrix is BF16 or MXFP4, as the config says. If the checkpoint has the other one, the message
 * names it. */
static enum osp_status fail_missing(const struct binder *b, const struct wanted *want,
                                    const char *other_name)
{
    const struct st_file *file;
    char shape[ST_SHAPE_TEXT_BYTES];

    st_shape_text(shape, want->dim, want->n_dims);
    if (other_name && checkpoint_find(b->c, other_name, &file))
        return fail(OSP_EFORMAT,
                    "%s: tensor %s is missing, expected %s %s; found %s instead, while config.json "
                    "%s MXFP4 %s",
                    b->c->path, want->name, st_dtype_name(want->dtype), shape, other_name,
                    want->dtype == ST_U8 ? "declares" : "does not declare",
                    want->part == PART_EXPERTS ? "experts" : "for this matrix");
    return fail(OSP_EFORMAT, "%s: tensor %s is missing, expected %s %s in one of %d file%s",
                b->c->path, want->name, st_dtype_name(want->dtype), shape, b->c->n_files,
                b->c->n_files == 1 ? "" : "s");
}

static enum osp_status check_dtype(const struct st_file *file, const struct st_tensor *t,
                                   const struct wanted *want)
{
    if (t->dtype == want->dtype || t->dtype == want->other_dtype)
        return OSP_OK;
    return fail(OSP_EFORMAT, "%s: tensor %s: dtype is %s, expected %s%s%s", file->path, t->name,
                st_dtype_name(t->dtype), st_dtype_name(want->dtype),
                want->dtype != want->other_dtype ? " or " : "",
                want->dtype != want->other_dtype ? st_dtype_name(want->other_dtype) : "");
}

static enum osp_status check_shape(const struct st_file *file, const struct st_tensor *t,
                                   const struct wanted *want)
{
    char found[ST_SHAPE_TEXT_BYTES], expected[ST_SHAPE_TEXT_BYTES];
    bool same = t->n_dims == want->n_dims;

    for (int i = 0; same && i < want->n_dims; i++)
        same = t->dim[i] == want->dim[i];
    if (same)
        return OSP_OK;
    return fail(OSP_EFORMAT, "%s: tensor %s: shape is %s, expected %s", file->path, t->name,
                st_shape_text(found, t->dim, t->n_dims),
                st_shape_text(expected, want->dim, want->n_dims));
}

/* safetensors does not align data, but loads of elements need it. Misaligned tensors are rare, so
 * they are copied. */
static enum osp_status align_data(struct binder *b, const struct st_tensor *t, void **data)
{
    enum osp_status st;
    void *copy = NULL;

    *data = (void *)(uintptr_t)t->data; /* weights are never written */
    if ((uintptr_t)t->data % st_dtype_bytes(t->dtype) == 0)
        return OSP_OK;
    TRY(mem_try_aligned(&copy, t->size_bytes, 1, "a misaligned tensor"));
    memcpy(copy, t->data, t->size_bytes);
    b->copied_bytes += (int64_t)t->size_bytes;
    b->w->copies[b->w->n_copies++] = copy;
    *data = copy;
out:
    return st;
}

/* Finds and checks a tensor; returns its bytes and their dtype. */
static enum osp_status take(struct binder *b, const struct wanted *want, const char *other_name,
                            void **data, enum st_dtype *dtype)
{
    const struct st_file *file;
    const struct st_tensor *t = checkpoint_find(b->c, want->name, &file);
    enum osp_status st;

    if (!t)
        return fail_missing(b, want, other_name);
    TRY(check_dtype(file, t, want));
    TRY(check_shape(file, t, want));
    TRY(align_data(b, t, data));
    binder_mark_seen(b, file, t);
    b->part_bytes[want->part] += (int64_t)t->size_bytes;
    *dtype = t->dtype;
out:
    return st;
}

/* ---- one rule ---- */

static int count_dims(const enum letter shape[3])
{
    int n = 0;

    while (n < 3 && shape[n] != L_NONE)
        n++;
    return n;
}

struct tensor binder_shape(struct binder *b, const struct weight_rule *rule)
{
    struct tensor t = {.n_dims = count_dims(rule->shape)};

    for (int i = 0; i < t.n_dims; i++)
        t.dim[i] = b->letters[rule->shape[i]];
    b->part_elements[rule->part] += tensor_elements(&t);
    return t;
}

static struct wanted want_plain(const struct weight_rule *rule, const struct tensor *t)
{
    struct wanted want = {.dtype = ST_BF16, .part = rule->part, .n_dims = t->n_dims};

    want.other_dtype = rule->weight_kind == WEIGHT_VECTOR ? ST_F32 : ST_BF16;
    memcpy(want.dim, t->dim, sizeof want.dim);
    return want;
}

/* Splits a fused tensor into the rows of q, k and v. */
static void split_qkv(const struct binder *b, struct tensor out[3], const struct tensor *fused)
{
    const int64_t n_rows[3] = {b->letters[L_HD], b->letters[L_KD], b->letters[L_KD]};
    unsigned char *data = fused->data;

    for (int i = 0; i < 3; i++) {
        out[i] = *fused;
        out[i].dim[0] = n_rows[i];
        out[i].data = data;
        data += tensor_bytes(&out[i]);
    }
}

static enum osp_status bind_plain(struct binder *b, const struct weight_rule *rule, int layer,
                                  struct tensor *slot)
{
    const struct gptoss_config *c = &b->c->config;
    const char *name = weight_rule_name(rule, c);
    struct tensor t = binder_shape(b, rule);
    struct wanted want = want_plain(rule, &t);
    char blocks_name[WEIGHT_NAME_BYTES];
    enum st_dtype dtype = ST_BF16;
    enum osp_status st;

    weight_name(want.name, c, layer, name, "");
    weight_name(blocks_name, c, layer, name, mxfp4_blocks_suffix(c));
    TRY(take(b, &want, blocks_name, &t.data, &dtype));
    t.dtype = dtype == ST_F32 ? DTYPE_F32 : DTYPE_BF16;
    if (rule->shape[0] == L_QKV)
        split_qkv(b, slot, &t);
    else
        *slot = t;
out:
    return st;
}

/* Blocks (..., rows, columns / 32, 16) and scales (..., rows, columns / 32), possibly in two
 * files. */
static enum osp_status bind_mxfp4(struct binder *b, const struct weight_rule *rule, int layer,
                                  struct tensor *slot)
{
    const struct gptoss_config *c = &b->c->config;
    const char *name = weight_rule_name(rule, c);
    struct tensor t = binder_shape(b, rule);
    struct wanted want = {.dtype = ST_U8, .other_dtype = ST_U8, .part = rule->part};
    char bf16_name[WEIGHT_NAME_BYTES];
    enum st_dtype dtype;
    enum osp_status st;
    void *scales = NULL;

    t.dtype = DTYPE_MXFP4;
    memcpy(want.dim, t.dim, sizeof want.dim);
    want.dim[t.n_dims - 1] = t.dim[t.n_dims - 1] / MXFP4_BLOCK;
    want.dim[t.n_dims] = MXFP4_BLOCK_BYTES;
    weight_name(bf16_name, c, layer, name, "");
    want.n_dims = t.n_dims + 1;
    weight_name(want.name, c, layer, name, mxfp4_blocks_suffix(c));
    TRY(take(b, &want, bf16_name, &t.data, &dtype));
    want.n_dims = t.n_dims;
    weight_name(want.name, c, layer, name, mxfp4_scales_suffix(c));
    TRY(take(b, &want, NULL, &scales, &dtype));
    t.scales = scales;
    *slot = t;
out:
    return st;
}

/* BF16 re-releases store experts as (E, columns, rows). A down projection may be square, so its
 * shape does not show the order; BF16 experts are always transposed. */
static enum osp_status bind_transposed(struct binder *b, const struct weight_rule *rule, int layer,
                                       struct tensor *slot)
{
    const struct gptoss_config *c = &b->c->config;
    const char *name = weight_rule_name(rule, c);
    struct tensor t = binder_shape(b, rule);
    struct wanted want = {.dtype = ST_BF16, .other_dtype = ST_BF16, .part = rule->part};
    char blocks_name[WEIGHT_NAME_BYTES];
    enum st_dtype dtype;
    enum osp_status st;

    t.dtype = DTYPE_BF16;
    t.layout = LAYOUT_COLUMNS;
    want.n_dims = 3;
    want.dim[0] = t.dim[0];
    want.dim[1] = t.dim[2];
    want.dim[2] = t.dim[1];
    weight_name(blocks_name, c, layer, name, mxfp4_blocks_suffix(c));
    weight_name(want.name, c, layer, name, "");
    TRY(take(b, &want, blocks_name, &t.data, &dtype));
    *slot = t;
out:
    return st;
}

/* base: the struct weights (layer < 0) or struct layer_weights that contains the rule's slot. */
static enum osp_status bind_rule(struct binder *b, const struct weight_rule *rule, int layer,
                                 void *base)
{
    struct tensor *slot = (struct tensor *)(void *)((char *)base + rule->slot);

    if (!weight_rule_name(rule, &b->c->config))
        return OSP_OK;
    if (b->c->config.layout == CHECKPOINT_GGUF)
        return bind_gguf(b, rule, layer, base);
    if (weight_rule_is_mxfp4(rule, &b->c->config))
        return bind_mxfp4(b, rule, layer, slot);
    if (rule->weight_kind == WEIGHT_EXPERTS)
        return bind_transposed(b, rule, layer, slot);
    return bind_plain(b, rule, layer, slot);
}

/* ---- all tensors ---- */

static enum osp_status bind_all(struct binder *b)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n_global_rules; i++)
        TRY(bind_rule(b, &global_rules[i], -1, b->w));
    for (int layer = 0; layer < b->c->config.n_layers; layer++)
        for (int i = 0; i < n_layer_rules; i++)
            TRY(bind_rule(b, &layer_rules[i], layer, &b->w->layers[layer]));
    if (b->c->config.tied_embeddings)
        b->w->head = b->w->embed;
out:
    return st;
}

/* Tables that older exporters save, and that can be computed from the config. */
static bool is_ignored(const char *name)
{
    return str_ends_with(name, "rotary_emb.inv_freq");
}

static enum osp_status check_surplus(const struct binder *b)
{
    const bool *seen = b->seen;

    for (int i = 0; i < b->c->n_files; i++)
        for (size_t t = 0; t < b->c->files[i].n_tensors; t++) {
            const char *name = b->c->files[i].tensors[t].name;

            if (!*seen++ && !is_ignored(name))
                return fail(OSP_EFORMAT,
                            "%s: tensor %s: surplus; a gpt-oss of %d layers%s has no such tensor",
                            b->c->files[i].path, name, b->c->config.n_layers,
                            b->c->config.tied_embeddings ? " with tied embeddings" : "");
        }
    return OSP_OK;
}

static void warn_copied(const struct binder *b)
{
    char size[16];

    if (b->w->n_copies > 0)
        log_warn(
            "%s: %d misaligned tensors were copied (%s); pad the safetensors header to 8 bytes "
            "to avoid it",
            b->c->path, b->w->n_copies, format_bytes(size, (double)b->copied_bytes));
}

static void write_report(const struct binder *b, struct weights_report *out)
{
    const struct gptoss_config *c = &b->c->config;
    int64_t idle = b->part_elements[PART_EXPERTS] / c->n_experts;

    *out = (struct weights_report){
        .embed_bytes = b->part_bytes[PART_EMBED],
        .head_bytes = b->part_bytes[PART_HEAD],
        .attn_bytes = b->part_bytes[PART_ATTN],
        .router_bytes = b->part_bytes[PART_ROUTER],
        .experts_bytes = b->part_bytes[PART_EXPERTS],
        .norm_bytes = b->part_bytes[PART_NORM],
    };
    for (int i = 0; i < N_PARTS; i++)
        out->n_parameters += b->part_elements[i];
    out->n_active_parameters = out->n_parameters - idle * (c->n_experts - c->n_experts_active);
    if (!c->tied_embeddings)
        out->n_active_parameters -= b->part_elements[PART_EMBED];
}

int64_t weights_report_bytes(const struct weights_report *r)
{
    return r->embed_bytes + r->head_bytes + r->attn_bytes + r->router_bytes + r->experts_bytes +
           r->norm_bytes;
}

enum osp_status weights_bind(struct weights *out, const struct checkpoint *c,
                             struct weights_report *report)
{
    struct binder b = {.c = c, .w = out};
    enum osp_status st;

    memset(out, 0, sizeof *out);
    weight_letters(b.letters, &c->config);
    TRY(mem_try_array(&out->layers, (size_t)c->config.n_layers, sizeof *out->layers, "layers"));
    TRY(mem_try_array(&out->copies, (size_t)c->n_tensors + ZEROS_MAX, sizeof *out->copies,
                      "copies"));
    TRY(mem_try_array(&out->sources, weight_slots_max(&c->config), sizeof *out->sources,
                      "sources of weights"));
    TRY(mem_try_array(&b.seen, (size_t)c->n_tensors, sizeof *b.seen, "tensor marks"));
    TRY(bind_all(&b));
    TRY(check_surplus(&b));
    warn_copied(&b);
    if (report)
        write_report(&b, report);
out:
    free(b.seen);
    if (st != OSP_OK)
        weights_release(out);
    return st;
}

void weights_release(struct weights *w)
{
    for (int i = 0; i < w->n_copies; i++)
        free(w->copies[i]);
    for (int i = 0; i < w->n_sources; i++)
        free(w->sources[i].memory);
    free(w->copies);
    free(w->sources);
    free(w->quantized);
    free(w->layers);
    memset(w, 0, sizeof *w);
}
