/* Quantizes a checkpoint to MXFP4 offline: lists the tensors to write, makes the bytes of each just
 * before it is written, and writes the other files of the checkpoint. Needs memory for one matrix
 * at a time. */
#include "model/quantize_save.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/config.h"
#include "model/convert.h"
#include "model/quantize.h"
#include "model/weight_table.h"
#include "store/config_write.h"
#include "store/shard_write.h"
#include "store/aux_files.h"

enum {
    TENSORS_PER_SLOT_MAX = 2,      /* blocks and scales */
    NAMES_BYTES_MAX = 16 << 20,    /* far above the names of any gpt-oss */
    SPARE_BYTES = 1024 * 1024 * 4, /* headers, index and config, for the check of free space */
};

/* The source of the bytes of a tensor to be written. */
enum source {
    SOURCE_DATA,       /* unchanged, from the checkpoint (of GGUF: converted when it is needed) */
    SOURCE_SCALES,     /* the same for the scales of MXFP4 blocks */
    SOURCE_NEW_BLOCKS, /* quantized just before they are written */
    SOURCE_NEW_SCALES  /* from the quantization of the blocks before */
};

struct saver {
    const struct quantize_save_options *opt;
    struct checkpoint checkpoint;
    struct weights weights;
    struct gptoss_config target; /* the config to be written */
    unsigned new_mxfp4_layers;

    struct st_tensor *tensors; /* (n): tensors to be written */
    enum source *sources;      /* (n) */
    struct tensor **slots;     /* (n): the bound source tensors, in weights */
    struct tensor *held;       /* the slot that is loaded; NULL: none */
    size_t n;
    struct arena names;

    struct pool *pool;
    uint8_t *fresh; /* blocks and scales of the current matrix */
    int64_t done_bytes, total_bytes;
};

/* ---- the list ---- */

static enum osp_status add(struct saver *s, const struct st_tensor *t, enum source source,
                           struct tensor *slot, const char *name)
{
    char *kept = arena_try(&s->names, strlen(name) + 1);
    struct st_tensor *to = &s->tensors[s->n];

    if (!kept)
        return fail(OSP_ENOMEM, "out of memory for tensor names");
    strcpy(kept, name);
    *to = *t;
    to->name = kept;
    to->size_bytes = st_dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        to->size_bytes *= (size_t)t->dim[i];
    s->sources[s->n] = source;
    s->slots[s->n++] = slot;
    return OSP_OK;
}

/* Adds blocks and scales, stored or new. */
static enum osp_status add_mxfp4(struct saver *s, const struct weight_rule *rule, int layer,
                                 struct tensor *slot, bool is_new)
{
    struct st_tensor t = {.dtype = ST_U8, .n_dims = slot->n_dims + 1};
    char name[WEIGHT_NAME_BYTES];
    enum osp_status st;

    memcpy(t.dim, slot->dim, sizeof slot->dim);
    t.dim[slot->n_dims - 1] = slot->dim[slot->n_dims - 1] / MXFP4_BLOCK;
    t.dim[slot->n_dims] = MXFP4_BLOCK_BYTES;
    weight_name(name, &s->target, layer, rule->names[CHECKPOINT_HF],
                mxfp4_blocks_suffix(&s->target));
    TRY(add(s, &t, is_new ? SOURCE_NEW_BLOCKS : SOURCE_DATA, slot, name));
    t.n_dims--;
    weight_name(name, &s->target, layer, rule->names[CHECKPOINT_HF],
                mxfp4_scales_suffix(&s->target));
    TRY(add(s, &t, is_new ? SOURCE_NEW_SCALES : SOURCE_SCALES, slot, name));
out:
    return st;
}

static enum osp_status add_slot(void *ctx, const struct weight_rule *rule, int layer,
                                struct tensor *slot)
{
    struct saver *s = ctx;
    const bool is_new = (weight_rule_mxfp4_layer(rule) & s->new_mxfp4_layers) != 0;
    struct st_tensor t = {.dtype = slot->dtype == DTYPE_F32 ? ST_F32 : ST_BF16,
                          .n_dims = slot->n_dims};
    char name[WEIGHT_NAME_BYTES];

    if (is_new || slot->dtype == DTYPE_MXFP4)
        return add_mxfp4(s, rule, layer, slot, is_new);
    memcpy(t.dim, slot->dim, sizeof slot->dim);
    if (slot->layout == LAYOUT_COLUMNS) {
        t.dim[1] = slot->dim[2];
        t.dim[2] = slot->dim[1];
    }
    weight_name(name, &s->target, layer, rule->names[CHECKPOINT_HF], "");
    return add(s, &t, SOURCE_DATA, slot, name);
}

static enum osp_status list_tensors(struct saver *s)
{
    const size_t n_max = TENSORS_PER_SLOT_MAX * weight_slots_max(&s->target);
    enum osp_status st;

    arena_init(&s->names, NAMES_BYTES_MAX);
    TRY(mem_try_array(&s->tensors, n_max, sizeof *s->tensors, "tensors"));
    TRY(mem_try_array(&s->sources, n_max, sizeof *s->sources, "tensors"));
    TRY(mem_try_array(&s->slots, n_max, sizeof *s->slots, "tensors"));
    TRY(weights_visit(&s->weights, &s->checkpoint.config, add_slot, s));
out:
    return st;
}

/* ---- the bytes ---- */

static enum osp_status check_stop(const struct saver *s)
{
    return s->opt->stop && *s->opt->stop
               ? fail(OSP_ECANCELED, "%s: stopped, nothing was written", s->opt->to)
               : OSP_OK;
}

/* Loads a slot, and unloads the one before. */
static enum osp_status hold(struct saver *s, struct tensor *slot)
{
    if (s->held == slot)
        return OSP_OK;
    if (s->held)
        weight_unload(&s->weights, s->held);
    s->held = slot;
    return weight_load(&s->weights, slot, s->pool);
}

static enum osp_status make_fresh(struct saver *s, size_t index)
{
    const struct tensor *slot = s->slots[index];
    struct quantize_job job = {.from = *slot, .file = s->checkpoint.path};
    const int64_t n = tensor_elements(slot);
    enum osp_status st;

    free(s->fresh);
    s->fresh = NULL;
    TRY(mem_try_aligned(&s->fresh, (size_t)(n / 2 + n / MXFP4_BLOCK), 1, "an MXFP4 matrix"));
    job.blocks = s->fresh;
    job.scales = s->fresh + n / 2;
    job.name = s->tensors[index].name;
    TRY(tensor_quantize(&job, s->pool));
out:
    return st;
}

/* An st_data_fn. */
static enum osp_status tensor_data(void *ctx, size_t index, const void **data)
{
    struct saver *s = ctx;
    struct tensor *slot = s->slots[index];
    enum osp_status st;

    TRY(check_stop(s));
    TRY(hold(s, slot));
    switch (s->sources[index]) {
    case SOURCE_DATA:
        *data = slot->data;
        break;
    case SOURCE_SCALES:
        *data = slot->scales;
        break;
    case SOURCE_NEW_BLOCKS:
        TRY(make_fresh(s, index));
        *data = s->fresh;
        break;
    case SOURCE_NEW_SCALES:
        *data = s->fresh + tensor_elements(slot) / 2;
        break;
    }
out:
    return st;
}

/* An st_progress_fn. */
static enum osp_status tensor_written(void *ctx, size_t n_bytes)
{
    struct saver *s = ctx;

    s->done_bytes += (int64_t)n_bytes;
    if (s->opt->progress)
        s->opt->progress(s->opt->progress_ctx, s->done_bytes, s->total_bytes);
    return check_stop(s);
}

/* ---- the files ---- */

static enum osp_status write_config(const struct saver *s, const struct staging_dir *folder,
                                    unsigned mxfp4_layers)
{
    char *text = NULL;
    enum osp_status st;

    TRY(config_write(&text, &s->checkpoint.config, s->checkpoint.path, mxfp4_layers));
    TRY(staging_dir_write(folder, "config.json", text, strlen(text)));
out:
    free(text);
    return st;
}

/* The small files of the source; of a GGUF file, which has none, its vocabulary. */
static enum osp_status copy_files(const struct saver *s, const struct staging_dir *folder)
{
    const char *path = s->checkpoint.path;
    char *text = NULL;
    size_t n_bytes = 0;
    enum osp_status st;

    if (s->checkpoint.config.layout != CHECKPOINT_GGUF)
        return aux_files_copy(folder, path, s->checkpoint.config.layout == CHECKPOINT_ORIGINAL);
    if (!s->opt->tokenizer_json)
        return OSP_OK;
    st = s->opt->tokenizer_json(&text, &n_bytes, path);
    if (st == OSP_OK)
        st = staging_dir_write(folder, "tokenizer.json", text, n_bytes);
    free(text);
    if (st != OSP_ENOTFOUND)
        return st;
    log_warn("%s: %s; the new folder has no tokenizer.json", folder->path, fail_message());
    return OSP_OK;
}

/* Checks that what was written is a valid checkpoint. */
static enum osp_status check_written(const struct staging_dir *folder)
{
    struct checkpoint c = {.path = NULL};
    struct weights weights = {.layers = NULL};
    enum osp_status st;

    TRY(checkpoint_open(&c, folder->temporary));
    TRY(model_config_check(&c.config));
    TRY(weights_bind(&weights, &c, NULL));
out:
    weights_release(&weights);
    checkpoint_close(&c);
    return st == OSP_OK ? st
                        : fail_prefix(st, "%s: the written checkpoint is invalid", folder->path);
}

static enum osp_status write_folder(struct saver *s, struct staging_dir *folder,
                                    struct quantize_save_report *report)
{
    struct shard_write shards = {.all = {.tensors = s->tensors,
                                         .n_tensors = s->n,
                                         .data = tensor_data,
                                         .written = tensor_written,
                                         .ctx = s},
                                 .shard_bytes_max = s->opt->shard_bytes_max};
    enum osp_status st;

    s->total_bytes = shard_write_data_bytes(&shards);
    TRY(staging_dir_check_space(folder, s->total_bytes + SPARE_BYTES));
    TRY(copy_files(s, folder));
    TRY(write_config(s, folder, report->mxfp4_layers));
    TRY(shard_write_all(&shards, folder));
    TRY(check_written(folder));
    TRY(check_stop(s));
    TRY(staging_dir_commit(folder));
    report->n_files = shards.n_files;
    report->n_tensors = (int64_t)s->n;
    report->to_bytes = shards.file_bytes;
out:
    return st;
}

/* ---- all ---- */

/* Replacing the source folder would lose it if a later step fails. */
static enum osp_status check_not_same(const struct quantize_save_options *opt,
                                      const struct checkpoint *c)
{
    char *to = realpath(opt->to, NULL), *from = realpath(c->path, NULL);
    char *given = realpath(opt->from, NULL), *beside = path_beside(c->path, ".");
    char *folder = realpath(beside, NULL); /* of a GGUF file */
    const bool same = to && ((from && strcmp(to, from) == 0) || (given && strcmp(to, given) == 0) ||
                             (folder && strcmp(to, folder) == 0));

    free(to);
    free(from);
    free(given);
    free(beside);
    free(folder);
    return same ? fail(OSP_EINVAL,
                       "%s: output folder is the source checkpoint; choose another folder", opt->to)
                : OSP_OK;
}

static enum osp_status open_source(struct saver *s)
{
    const struct gptoss_config *c = &s->checkpoint.config;
    char text[MXFP4_LAYERS_TEXT_BYTES];
    enum osp_status st;

    TRY(checkpoint_open(&s->checkpoint, s->opt->from));
    TRY(check_not_same(s->opt, &s->checkpoint));
    TRY(model_config_check(c));
    TRY(quantize_layers_check(&s->new_mxfp4_layers, c, s->opt->mxfp4_layers));
    if (s->new_mxfp4_layers == MXFP4_NONE && c->layout == CHECKPOINT_HF)
        return fail(OSP_EINVAL, "%s: nothing to do: no BF16 matrices in the requested layers (%s)",
                    s->opt->from, mxfp4_layers_text(text, s->opt->mxfp4_layers));
    TRY(weights_bind(&s->weights, &s->checkpoint, NULL));
    TRY(weights_check_scales(&s->checkpoint));
    s->target = *c;
    s->target.layout = CHECKPOINT_HF;
out:
    return st;
}

static void saver_release(struct saver *s)
{
    pool_close(s->pool);
    free(s->fresh);
    free(s->tensors);
    free(s->sources);
    free(s->slots);
    arena_release(&s->names);
    weights_release(&s->weights);
    checkpoint_close(&s->checkpoint);
}

enum osp_status quantize_save(const struct quantize_save_options *opt,
                              struct quantize_save_report *report)
{
    struct saver s = {.opt = opt};
    struct staging_dir folder = {.path = NULL};
    enum osp_status st;

    *report = (struct quantize_save_report){.mxfp4_layers = MXFP4_NONE};
    TRY(open_source(&s));
    report->new_mxfp4_layers = s.new_mxfp4_layers;
    report->mxfp4_layers = s.new_mxfp4_layers | s.checkpoint.config.mxfp4_layers |
                           (s.checkpoint.config.experts_are_mxfp4 ? (unsigned)MXFP4_MOE : 0);
    report->from_bytes = s.checkpoint.file_bytes;
    TRY(list_tensors(&s));
    TRY(pool_open(&s.pool, opt->n_threads));
    TRY(staging_dir_open(&folder, opt->to, opt->force));
    TRY(write_folder(&s, &folder, report));
out:
    staging_dir_close(&folder);
    saver_release(&s);
    return st;
}
