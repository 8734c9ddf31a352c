/* Reads a checkpoint of GGUF: one file, or the parts of a split model, of which the first has the
 * keys. */
#include <stdlib.h>
#include <string.h>

#include "base/gguf_files.h"
#include "store/checkpoint_reader.h"
#include "store/gguf_config.h"
#include "store/gguf_file.h"

/* ---- the files ---- */

static bool has_safetensors(const char *folder)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    bool found = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_join(folder, names[i]);

        found = found || path_is_file(path);
        free(path);
    }
    return found;
}

/* A file, whatever its name (Ollama's end in a hash), or a folder with GGUF and without
 * safetensors: repositories of GGUF files often have a config.json, too. */
static enum osp_status find_file(char **out, const char *path)
{
    *out = NULL;
    if (path_is_folder(path))
        return has_safetensors(path) ? OSP_OK : gguf_in_folder(out, path);
    if (path_is_file(path))
        *out = gguf_split_path(path, 1);
    return OSP_OK;
}

static enum osp_status check_part(const struct gguf_header *keys, int number, int count)
{
    const struct gguf_int_spec no = {
        .key = "split.no", .required = count > 1, .fallback = 0, .max = GGUF_SPLITS_MAX - 1};
    const struct gguf_int_spec of = {.key = "split.count",
                                     .required = count > 1,
                                     .fallback = 1,
                                     .min = 0,
                                     .max = GGUF_SPLITS_MAX};
    int found_no = 0, found_count = 0;
    enum osp_status st;

    TRY(gguf_get_int(&found_no, keys, &no));
    TRY(gguf_get_int(&found_count, keys, &of));
    if (found_count > 1 && count == 1)
        return fail(OSP_EFORMAT,
                    "%s: is part %d of %d of a split model; its name must end in "
                    "-%05d-of-%05d.gguf, so that the other parts can be found",
                    keys->path, found_no + 1, found_count, found_no + 1, found_count);
    if (count > 1 && (found_no != number - 1 || found_count != count))
        return fail(OSP_EFORMAT,
                    "%s: the name says part %d of %d, the keys split.no and split.count say part "
                    "%d of %d",
                    keys->path, number, count, found_no + 1, found_count);
out:
    return st;
}

static enum osp_status check_tensor_count(const struct checkpoint *c,
                                          const struct gguf_header *keys)
{
    const struct gguf_int_spec rule = {
        .key = "split.tensors.count", .fallback = (int)c->n_tensors, .max = CHECKPOINT_TENSORS_MAX};
    int expected = 0;
    enum osp_status st;

    TRY(gguf_get_int(&expected, keys, &rule));
    if (expected != c->n_tensors)
        return fail(OSP_EFORMAT,
                    "%s: key split.tensors.count is %d, the tensors of %d files are %lld",
                    keys->path, expected, c->n_files, (long long)c->n_tensors);
out:
    return st;
}

/* Opens part `number`; its keys are the caller's to release before the file is closed. */
static enum osp_status open_part(struct checkpoint *c, struct gguf_header *keys, int number,
                                 int count)
{
    char *path = gguf_split_path(c->path, number);
    enum osp_status st;

    st = gguf_file_open(&c->files[c->n_files], keys, path);
    if (st == OSP_ENOTFOUND && count > 1)
        fail_prefix(st, "%s: part %d of %d is missing", c->path, number, count);
    free(path);
    if (st != OSP_OK)
        return st;
    keys->path = c->files[c->n_files].path;
    TRY(checkpoint_files_count(c));
    TRY(check_part(keys, number, count));
out:
    return st;
}

static enum osp_status open_files(struct checkpoint *c, struct gguf_header *first)
{
    size_t n_prefix;
    int number, count = 1;
    enum osp_status st;

    if (!gguf_split_parse(c->path, &n_prefix, &number, &count))
        count = 1;
    if (count > GGUF_SPLITS_MAX)
        return fail(OSP_EFORMAT, "%s: the name says %d parts, limit is %d", c->path, count,
                    GGUF_SPLITS_MAX);
    TRY(checkpoint_files_alloc(c, count));
    TRY(open_part(c, first, 1, count));
    for (int i = 2; i <= count; i++) {
        struct gguf_header keys = {.path = NULL};

        st = open_part(c, &keys, i, count);
        gguf_header_release(&keys);
        if (st != OSP_OK)
            return st;
    }
    TRY(check_tensor_count(c, first));
out:
    return st;
}

/* ---- what the tensors say ---- */

static bool is_mxfp4(enum st_dtype dtype)
{
    return dtype == ST_MXFP4 || dtype == ST_MXFP4_OLLAMA;
}

/* The names of the matrices of each layer kind that can stay MXFP4: whole, or behind "blk.N.". */
static const struct matrix_name {
    const char *name;
    unsigned layer;
} matrix_names[] = {
    {"token_embd.weight", MXFP4_EMBED},     {"output.weight", MXFP4_LM_HEAD},
    {"attn_q.weight", MXFP4_QKV},           {"attn_k.weight", MXFP4_QKV},
    {"attn_v.weight", MXFP4_QKV},           {"attn_qkv.weight", MXFP4_QKV},
    {"attn_output.weight", MXFP4_O},        {"attn_out.weight", MXFP4_O},
    {"ffn_gate_exps.weight", MXFP4_MOE},    {"ffn_up_exps.weight", MXFP4_MOE},
    {"ffn_gate_up_exps.weight", MXFP4_MOE}, {"ffn_down_exps.weight", MXFP4_MOE},
};

static unsigned layer_of(const char *tensor)
{
    const char *dot = strncmp(tensor, "blk.", 4) == 0 ? strchr(tensor + 4, '.') : NULL;
    const char *name = dot ? dot + 1 : tensor;

    for (size_t i = 0; i < sizeof matrix_names / sizeof matrix_names[0]; i++)
        if (strcmp(matrix_names[i].name, name) == 0)
            return matrix_names[i].layer;
    return MXFP4_NONE;
}

/* A kind of layers stays MXFP4 if all its matrices are. */
static void set_mxfp4_layers(struct checkpoint *c)
{
    unsigned all = MXFP4_NONE, others = MXFP4_NONE;

    for (int i = 0; i < c->n_files; i++)
        for (size_t t = 0; t < c->files[i].n_tensors; t++) {
            const struct st_tensor *tensor = &c->files[i].tensors[t];

            if (is_mxfp4(tensor->dtype))
                all |= layer_of(tensor->name);
            else
                others |= layer_of(tensor->name);
        }
    all &= ~others;
    if (c->config.tied_embeddings && all & MXFP4_EMBED)
        all |= MXFP4_LM_HEAD;
    c->config.experts_are_mxfp4 = (all & MXFP4_MOE) != 0;
    c->config.mxfp4_layers = all & ~(unsigned)MXFP4_MOE;
}

/* Only Ollama's files say with their architecture that rows of gate and up alternate; in newer
 * files of other models all gates come first. */
static enum osp_status check_merged(const struct checkpoint *c, const struct gguf_header *keys)
{
    struct gguf_text architecture;
    enum osp_status st;

    TRY(gguf_get_text(&architecture, keys, "general.architecture"));
    for (int i = 0; i < c->n_files && !gguf_text_is(&architecture, "gptoss"); i++)
        for (size_t t = 0; t < c->files[i].n_tensors; t++)
            if (strstr(c->files[i].tensors[t].name, "ffn_gate_up_exps"))
                return fail(OSP_EUNSUPPORTED,
                            "%s: tensor %s: the order of gates and ups in one tensor is known for "
                            "the architecture gptoss (Ollama) only, expected ffn_gate_exps and "
                            "ffn_up_exps",
                            c->files[i].path, c->files[i].tensors[t].name);
out:
    return st;
}

static enum osp_status check_stop_ids(const struct checkpoint *c)
{
    for (int i = 0; i < c->config.n_stop_ids; i++)
        if (c->config.stop_ids[i] >= c->config.vocab_size)
            return fail(OSP_EFORMAT,
                        "%s: id %d ends an answer (tokenizer.ggml.eos_token_id), expected 0 to %d",
                        c->path, c->config.stop_ids[i], c->config.vocab_size - 1);
    return OSP_OK;
}

static enum osp_status read_tensors(struct checkpoint *c)
{
    const struct st_file *file;
    const struct st_tensor *embed = checkpoint_find(c, "token_embd.weight", &file);

    if (!embed)
        return fail(OSP_EFORMAT, "%s: tensor token_embd.weight is missing in %d file%s", c->path,
                    c->n_files, c->n_files == 1 ? "" : "s");
    if (embed->n_dims != 2 || embed->dim[0] > CONFIG_VOCAB_MAX)
        return fail(OSP_EFORMAT,
                    "%s: tensor token_embd.weight has %d dimensions and %lld rows, expected 2 and "
                    "at most %d",
                    file->path, embed->n_dims, (long long)embed->dim[0], CONFIG_VOCAB_MAX);
    c->config.vocab_size = (int)embed->dim[0];
    c->config.tied_embeddings = !checkpoint_find(c, "output.weight", &file);
    set_mxfp4_layers(c);
    return check_stop_ids(c);
}

static enum osp_status open_gguf(struct checkpoint *out)
{
    struct gguf_header keys = {.path = NULL};
    enum osp_status st;

    TRY(open_files(out, &keys));
    TRY(checkpoint_check_unique(out));
    TRY(gguf_config_read(&out->config, &keys));
    TRY(check_merged(out, &keys));
    TRY(read_tensors(out));
out:
    gguf_header_release(&keys);
    return st;
}

const struct checkpoint_reader gguf_reader = {find_file, open_gguf};
