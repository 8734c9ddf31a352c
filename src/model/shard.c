/* A rank's part of a tensor is made of pieces along one axis: pieces rank, rank + N, .. of equal
 * width. Heads and rows of the vocabulary are one piece. */
#include "model/shard.h"

#include <stdio.h>
#include <string.h>

#include "backend/residual_sum.h"
#include "base/memory.h"
#include "model/weight_table.h"

enum { SCALE_NAN = 0xff };

/* ---- which numbers of ranks ---- */

int shard_slice_units(const struct gptoss_config *c, enum shard_rule rule)
{
    return rule == SHARD_FOR_GPU ? gpu_expert_units_per_slice(c->expert_width)
                                 : expert_units_per_slice(c->expert_width);
}

static int64_t slice_columns_of(const struct gptoss_config *c, enum shard_rule rule)
{
    return (int64_t)shard_slice_units(c, rule) * SLICE_UNIT_COLUMNS;
}

/* NULL: the model can be divided among so many ranks; else the reason. */
static const char *find_obstacle(const struct gptoss_config *c, int n, enum shard_rule rule)
{
    if (n < 1 || n > RANKS_MAX)
        return "at most 16 ranks are supported";
    if (n == 1)
        return NULL;
    if (c->n_kv_heads % n != 0)
        return "the key/value heads must be divisible";
    if (c->n_heads / c->n_kv_heads * c->head_dim % SLICE_UNIT_COLUMNS != 0)
        return "the queries of a key/value head must be a multiple of 64 columns";
    if (slices_of(c->expert_width, shard_slice_units(c, rule)) < n)
        return "every rank needs a slice of each expert";
    if (c->expert_width % MXFP4_BLOCK != 0 || c->width % MXFP4_BLOCK != 0)
        return "the widths must be multiples of 32";
    if (shard_vocab_row(c->vocab_size, n - 1, n) >= c->vocab_size)
        return "every rank needs rows of the vocabulary";
    return NULL;
}

enum osp_status shard_check(const struct gptoss_config *c, int n_ranks, enum shard_rule rule)
{
    const char *obstacle = find_obstacle(c, n_ranks, rule);
    char list[4 * RANKS_MAX] = "";
    size_t at = 0;

    if (obstacle == NULL)
        return OSP_OK;
    for (int n = 1; n <= RANKS_MAX; n++)
        if (find_obstacle(c, n, rule) == NULL)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", at > 0 ? ", " : "", n);
    return fail(OSP_EINVAL,
                "tensor parallel size %d does not fit a model with %d key/value heads and expert "
                "width %d: %s; sizes that fit: %s",
                n_ranks, c->n_kv_heads, c->expert_width, obstacle, list);
}

/* ---- pieces ---- */

/* The length of a rank's pieces of an axis of n. */
static int64_t pieces_length(const struct weight_pieces *p, int64_t n)
{
    int64_t length = 0;

    for (int64_t at = p->shard.rank * p->width; at < n; at += p->shard.n_ranks * p->width)
        length += n - at < p->width ? n - at : p->width;
    return length;
}

static struct weight_pieces pieces_of(const struct weight_rule *rule, const struct tensor *t,
                                      const struct gptoss_config *c, struct shard shard)
{
    struct weight_pieces p = {.axis = 0, .shard = shard};

    switch (rule->shard_axis) {
    case SHARD_HEADS:
        p.width = t->dim[0] / shard.n_ranks;
        break;
    case SHARD_HEAD_COLUMNS:
        p.axis = 1;
        p.width = t->dim[1] / shard.n_ranks;
        break;
    case SHARD_UNITS:
        p.axis = 1;
        p.width = 2 * slice_columns_of(c, shard.rule);
        break;
    case SHARD_UNIT_COLUMNS:
        p.axis = 2;
        p.width = slice_columns_of(c, shard.rule);
        break;
    case SHARD_WHOLE:
    case SHARD_VOCAB:
    case SHARD_FIRST:
        p.axis = -1;
        break;
    }
    return p;
}

/* Bytes of n elements of the data, which are whole MXFP4 blocks. */
static size_t data_bytes(const struct tensor *t, int64_t n)
{
    return (size_t)(t->dtype == DTYPE_MXFP4 ? n / 2 : t->dtype == DTYPE_BF16 ? 2 * n : 4 * n);
}

static size_t scale_bytes(const struct tensor *t, int64_t n)
{
    (void)t;
    return (size_t)(n / MXFP4_BLOCK);
}

/* A tensor as (n_outer, n, n_inner) in the order of memory, n being the axis. */
struct axis_view {
    int64_t n_outer, n, n_inner;
};

static struct axis_view view_of(const struct tensor *t, int axis)
{
    struct axis_view v = {.n_outer = 1, .n = t->dim[axis], .n_inner = 1};
    int order[3] = {0, 1, 2};
    bool is_behind = false;

    if (t->layout == LAYOUT_COLUMNS) { /* (E, columns, rows) */
        order[1] = 2;
        order[2] = 1;
    }
    for (int i = 0; i < t->n_dims; i++) {
        if (order[i] == axis)
            is_behind = true;
        else
            *(is_behind ? &v.n_inner : &v.n_outer) *= t->dim[order[i]];
    }
    return v;
}

typedef size_t bytes_fn(const struct tensor *t, int64_t n);

static void copy_pieces(char *out, const void *from, const struct tensor *whole,
                        const struct weight_pieces *p, bytes_fn *bytes)
{
    const struct axis_view v = view_of(whole, p->axis);

    for (int64_t o = 0; o < v.n_outer; o++)
        for (int64_t at = p->shard.rank * p->width; at < v.n; at += p->shard.n_ranks * p->width) {
            const int64_t n = v.n - at < p->width ? v.n - at : p->width;
            const size_t n_bytes = bytes(whole, n * v.n_inner);

            memcpy(out, (const char *)from + bytes(whole, (o * v.n + at) * v.n_inner), n_bytes);
            out += n_bytes;
        }
}

static struct random_part part_of(const struct weight_source *s, bytes_fn *bytes)
{
    const struct axis_view v = view_of(&s->whole, s->pieces.axis);
    const int64_t width = s->pieces.width * v.n_inner;

    return (struct random_part){
        .first = (int64_t)bytes(&s->whole, s->pieces.shard.rank * width),
        .whole = (int64_t)bytes(&s->whole, v.n * v.n_inner),
        .width = (int64_t)bytes(&s->whole, width),
        .stride = (int64_t)bytes(&s->whole, s->pieces.shard.n_ranks * width),
        .length = (int64_t)bytes(&s->whole, pieces_length(&s->pieces, v.n) * v.n_inner)};
}

bool weights_part(const struct weights *w, const struct tensor *slot, struct tensor *whole,
                  struct random_part *data, struct random_part *scales)
{
    for (int i = 0; i < w->n_sources; i++) {
        const struct weight_source *s = &w->sources[i];

        if (weight_source_slot(w, s) != slot || s->whole.data == NULL)
            continue;
        *whole = s->whole;
        *data = part_of(s, data_bytes);
        *scales = part_of(s, scale_bytes);
        return true;
    }
    return false;
}

static enum osp_status check_scales(const char *path, const struct tensor *t)
{
    if (t->scales == NULL ||
        memchr(t->scales, SCALE_NAN, (size_t)(tensor_elements(t) / MXFP4_BLOCK)) == NULL)
        return OSP_OK;
    return fail(OSP_EFORMAT,
                "%s: an MXFP4 scale is 255 (NaN), expected at most 254; osprey validate names it",
                path);
}

enum osp_status weight_gather(struct weight_source *s, struct tensor *to)
{
    const int64_t n = tensor_elements(to);
    enum osp_status st;

    TRY(mem_try_aligned(&s->memory, (size_t)tensor_bytes(to), 1, "a rank's part of a weight"));
    to->data = s->memory;
    copy_pieces(s->memory, s->whole.data, &s->whole, &s->pieces, data_bytes);
    if (s->whole.scales != NULL) {
        to->scales = (char *)s->memory + data_bytes(to, n);
        copy_pieces((char *)s->memory + data_bytes(to, n), s->whole.scales, &s->whole, &s->pieces,
                    scale_bytes);
    }
    TRY(check_scales(s->path, to));
    mem_drop_pages(s->whole.data, data_bytes(&s->whole, tensor_elements(&s->whole)));
out:
    return st;
}

/* ---- slots ---- */

struct sharding {
    struct weights *w;
    const struct checkpoint *c;
    struct shard shard;
    int64_t *part_bytes[N_PARTS];
    bool only_counts;
};

static struct tensor rows_of(const struct tensor *t, int64_t first, int64_t n)
{
    const int64_t before = first * (tensor_elements(t) / t->dim[0]);
    struct tensor part = *t;

    part.dim[0] = n;
    part.data = (char *)t->data + data_bytes(t, before);
    if (t->scales != NULL)
        part.scales = (const char *)t->scales + before / MXFP4_BLOCK;
    return part;
}

static struct tensor vocab_rows_of(const struct tensor *t, struct shard shard)
{
    const int64_t V = t->dim[0], first = shard_vocab_row(V, shard.rank, shard.n_ranks);

    return rows_of(t, first, shard_vocab_row(V, shard.rank + 1, shard.n_ranks) - first);
}

static enum osp_status zeros(struct sharding *s, struct tensor *slot)
{
    const size_t n_bytes = (size_t)tensor_bytes(slot);
    enum osp_status st = OSP_OK;

    if (s->w->zeros_bytes < n_bytes) {
        void *memory;

        TRY(mem_try_aligned(&memory, n_bytes, 1, "biases of other ranks"));
        memset(memory, 0, n_bytes);
        s->w->copies[s->w->n_copies++] = memory;
        s->w->zeros = memory;
        s->w->zeros_bytes = n_bytes;
    }
    slot->data = s->w->zeros;
out:
    return st;
}

/* The slot gets the rank's shape; its data are gathered when it is loaded. */
static void add_source(struct sharding *s, const struct weight_rule *rule, int layer,
                       struct tensor *slot, const struct weight_pieces *p)
{
    struct tensor whole = *slot;

    slot->dim[p->axis] = pieces_length(p, slot->dim[p->axis]);
    if (s->only_counts)
        return;
    slot->data = NULL;
    slot->scales = NULL;
    s->w->sources[s->w->n_sources++] = (struct weight_source){
        .slot = rule->slot, .layer = layer, .path = s->c->path, .whole = whole, .pieces = *p};
}

static enum osp_status take_part(struct sharding *s, const struct weight_rule *rule, int layer,
                                 struct tensor *slot)
{
    const struct shard shard = s->shard;
    const struct weight_pieces p = pieces_of(rule, slot, &s->c->config, shard);
    enum osp_status st = OSP_OK;

    if (rule->shard_axis == SHARD_VOCAB) {
        if (shard.rule == SHARD_FOR_CPU || rule->part == PART_HEAD)
            *slot = vocab_rows_of(slot, shard);
    } else if (rule->shard_axis == SHARD_HEADS) {
        *slot = rows_of(slot, shard.rank * p.width, p.width);
    } else if (p.axis >= 0) {
        add_source(s, rule, layer, slot, &p);
    } else if (rule->shard_axis == SHARD_FIRST && shard.rank > 0 && !s->only_counts &&
               (shard.rule == SHARD_FOR_CPU || rule->part != PART_ATTN)) {
        TRY(zeros(s, slot));
    }
    if (slot->scales != NULL && !s->only_counts)
        TRY(check_scales(s->c->path, slot));
out:
    return st;
}

static enum osp_status shard_slot(void *ctx, const struct weight_rule *rule, int layer,
                                  struct tensor *slot)
{
    struct sharding *s = ctx;
    struct tensor counted = *slot, *part = s->only_counts ? &counted : slot;
    enum osp_status st;

    TRY(take_part(s, rule, layer, part));
    if (rule->shard_axis != SHARD_FIRST || s->shard.rank == 0)
        *s->part_bytes[rule->part] += tensor_bytes(part);
out:
    return st;
}

static enum osp_status shard_all(struct sharding *s, struct weights_report *r)
{
    enum osp_status st;

    if (s->c->config.layout == CHECKPOINT_GGUF)
        return fail(OSP_EUNSUPPORTED,
                    "%s: tensor parallelism reads safetensors, this is a GGUF file; `osprey "
                    "quantize` writes safetensors",
                    s->c->path);
    r->embed_bytes = r->head_bytes = r->attn_bytes = 0;
    r->router_bytes = r->experts_bytes = r->norm_bytes = 0;
    s->part_bytes[PART_EMBED] = &r->embed_bytes;
    s->part_bytes[PART_HEAD] = &r->head_bytes;
    s->part_bytes[PART_ATTN] = &r->attn_bytes;
    s->part_bytes[PART_ROUTER] = &r->router_bytes;
    s->part_bytes[PART_EXPERTS] = &r->experts_bytes;
    s->part_bytes[PART_NORM] = &r->norm_bytes;
    TRY(shard_check(&s->c->config, s->shard.n_ranks, s->shard.rule));
    TRY(weights_visit(s->w, &s->c->config, shard_slot, s));
    if (s->c->config.tied_embeddings && !s->only_counts)
        s->w->head =
            s->shard.rule == SHARD_FOR_CPU ? s->w->embed : vocab_rows_of(&s->w->embed, s->shard);
out:
    return st;
}

enum osp_status weights_shard(struct weights *w, const struct checkpoint *c, struct shard shard,
                              struct weights_report *report)
{
    struct sharding s = {.w = w, .c = c, .shard = shard};

    return shard_all(&s, report);
}

enum osp_status shard_report(const struct weights *w, const struct checkpoint *c,
                             struct shard shard, struct weights_report *report)
{
    struct sharding s = {
        .w = (struct weights *)(uintptr_t)w, .c = c, .shard = shard, .only_counts = true};

    return shard_all(&s, report);
}

void shard_config(struct gptoss_config *out, const struct gptoss_config *c, struct shard shard)
{
    const struct weight_pieces units = {.width = slice_columns_of(c, shard.rule), .shard = shard};

    *out = *c;
    if (shard.n_ranks < 2)
        return;
    out->n_heads = c->n_heads / shard.n_ranks;
    out->n_kv_heads = c->n_kv_heads / shard.n_ranks;
    out->expert_width = (int)pieces_length(&units, c->expert_width);
}
