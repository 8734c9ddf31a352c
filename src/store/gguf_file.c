/* Reads the directory of tensors of a GGUF file, which follows the keys, and checks it against the
 * file. The data begins at the next multiple of the alignment; offsets count from there. */
#include "store/gguf_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_TOTAL_MAX = 32 << 20 }; /* names with their padding */

/* ---- types ---- */

/* X(id in the file, name): types that are known and not read. */
#define OTHER_TYPE_LIST(X)                                                                         \
    X(9, "Q8_1")                                                                                   \
    X(10, "Q2_K")                                                                                  \
    X(11, "Q3_K")                                                                                  \
    X(15, "Q8_K")                                                                                  \
    X(16, "IQ2_XXS")                                                                               \
    X(17, "IQ2_XS")                                                                                \
    X(18, "IQ3_XXS")                                                                               \
    X(19, "IQ1_S")                                                                                 \
    X(21, "IQ3_S")                                                                                 \
    X(22, "IQ2_S")                                                                                 \
    X(23, "IQ4_XS")                                                                                \
    X(24, "I8")                                                                                    \
    X(25, "I16")                                                                                   \
    X(26, "I32")                                                                                   \
    X(27, "I64")                                                                                   \
    X(28, "F64")                                                                                   \
    X(29, "IQ1_M")                                                                                 \
    X(34, "TQ1_0")                                                                                 \
    X(35, "TQ2_0")                                                                                 \
    X(40, "NVFP4")                                                                                 \
    X(41, "Q1_0")

static const struct {
    uint32_t id;
    const char *name;
} other_types[] = {
#define OTHER_TYPE_ROW(id, name) {id, name},
    OTHER_TYPE_LIST(OTHER_TYPE_ROW)
#undef OTHER_TYPE_ROW
};

#define SUPPORTED_TYPES                                                                            \
    "F32, F16, BF16, MXFP4, Q8_0, Q6_K, Q5_K, Q4_K, Q5_1, Q5_0, Q4_1, Q4_0 and IQ4_NL"

static const struct {
    uint32_t id;
    enum st_dtype dtype;
} file_types[] = {{0, ST_F32},
                  {1, ST_F16},
                  {30, ST_BF16},
#define FILE_TYPE_ROW(name, text, id, values, bytes) {id, ST_##name},
                  ST_BLOCK_LIST(FILE_TYPE_ROW)
#undef FILE_TYPE_ROW
};

static enum osp_status find_type(enum st_dtype *out, const char *path, const char *tensor,
                                 uint32_t id)
{
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
        if (file_types[i].id == id) {
            *out = file_types[i].dtype;
            return OSP_OK;
        }
    for (size_t i = 0; i < sizeof other_types / sizeof other_types[0]; i++)
        if (other_types[i].id == id)
            return fail(OSP_EUNSUPPORTED,
                        "%s: tensor %s: type is %s, which osprey does not read; supported "
                        "are " SUPPORTED_TYPES,
                        path, tensor, other_types[i].name);
    return fail(OSP_EFORMAT, "%s: tensor %s: type %u is unknown; supported are " SUPPORTED_TYPES,
                path, tensor, (unsigned)id);
}

/* ---- one tensor ---- */

/* A tensor's bytes, relative to the data. */
struct extent {
    size_t begin, end;
    const char *name;
};

struct directory {
    struct st_file *file;
    struct gguf_cursor cursor;
    size_t alignment;
    struct extent *extents; /* (n_tensors) */
};

static enum osp_status read_name(struct directory *d, struct st_tensor *t)
{
    struct gguf_text text;
    enum osp_status st;

    snprintf(d->cursor.where, sizeof d->cursor.where, "the name of tensor %zu", d->file->n_tensors);
    TRY(gguf_take_text(&d->cursor, &text, ST_NAME_BYTES_MAX));
    TRY(st_file_name(d->file, &t->name, text.at, text.n_bytes));
    snprintf(d->cursor.where, sizeof d->cursor.where, "tensor %s", t->name);
out:
    return st;
}

/* The file has the length of a row first. */
static enum osp_status read_shape(struct directory *d, struct st_tensor *t)
{
    uint64_t dim = 0;
    uint32_t n_dims = 0;
    enum osp_status st;

    TRY(gguf_take_u32(&d->cursor, &n_dims));
    if (n_dims < 1 || n_dims > GGUF_DIMS_MAX)
        return fail(OSP_EFORMAT, "%s: tensor %s: shape has %u dimensions, expected 1 to %d",
                    d->file->path, t->name, (unsigned)n_dims, GGUF_DIMS_MAX);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        TRY(gguf_take_u64(&d->cursor, &dim));
        if (dim < 1 || dim > INT64_MAX)
            return fail(OSP_EFORMAT, "%s: tensor %s: dimension %d is %llu, expected 1 to 2^63 - 1",
                        d->file->path, t->name, t->n_dims - 1 - i, (unsigned long long)dim);
        t->dim[i] = (int64_t)dim;
    }
out:
    return st;
}

/* Sets the dtype and size_bytes. */
static enum osp_status read_type(struct directory *d, struct st_tensor *t)
{
    const int last = t->n_dims - 1;
    uint32_t id = 0;
    enum osp_status st;

    TRY(gguf_take_u32(&d->cursor, &id));
    TRY(find_type(&t->dtype, d->file->path, t->name, id));
    if (t->dim[last] % st_dtype_values(t->dtype) != 0)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: a row has %lld values, expected a multiple of the %d values of "
                    "a block of %s",
                    d->file->path, t->name, (long long)t->dim[last], st_dtype_values(t->dtype),
                    st_dtype_name(t->dtype));
    t->size_bytes = st_dtype_bytes(t->dtype);
    for (int i = 0; i <= last; i++) {
        const int64_t n = i == last ? t->dim[i] / st_dtype_values(t->dtype) : t->dim[i];

        if (!mul_size(t->size_bytes, (size_t)n, &t->size_bytes))
            return fail(OSP_EFORMAT,
                        "%s: tensor %s: shape overflows, expected less than 2^64 bytes",
                        d->file->path, t->name);
    }
out:
    return st;
}

static enum osp_status read_offset(struct directory *d, struct st_tensor *t)
{
    struct extent *e = &d->extents[d->file->n_tensors];
    uint64_t begin = 0;
    enum osp_status st;

    TRY(gguf_take_u64(&d->cursor, &begin));
    if (begin % d->alignment != 0)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: data begins at byte %llu, expected a multiple of %zu "
                    "(general.alignment)",
                    d->file->path, t->name, (unsigned long long)begin, d->alignment);
    e->name = t->name;
    e->begin = (size_t)begin;
    if (!add_size(e->begin, t->size_bytes, &e->end))
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: data of %zu bytes from byte %llu on overflows, expected less "
                    "than 2^64",
                    d->file->path, t->name, t->size_bytes, (unsigned long long)begin);
out:
    return st;
}

static enum osp_status read_tensors(struct directory *d, uint64_t n)
{
    struct st_file *f = d->file;
    enum osp_status st;

    if (n > GGUF_TENSORS_MAX)
        return fail(OSP_EFORMAT, "%s: has %llu tensors, limit is %d", f->path,
                    (unsigned long long)n, GGUF_TENSORS_MAX);
    TRY(mem_try_array(&f->tensors, (size_t)n, sizeof *f->tensors, "the tensor table"));
    TRY(mem_try_array(&d->extents, (size_t)n, sizeof *d->extents, "the tensor extents"));
    while (f->n_tensors < n) {
        struct st_tensor *t = &f->tensors[f->n_tensors];

        TRY(read_name(d, t));
        TRY(read_shape(d, t));
        TRY(read_type(d, t));
        TRY(read_offset(d, t));
        f->n_tensors++;
    }
out:
    return st;
}

/* ---- the data ---- */

static size_t padding(size_t at, size_t alignment)
{
    return (alignment - at % alignment) % alignment;
}

static enum osp_status set_data(struct directory *d)
{
    struct st_file *f = d->file;
    const size_t pad = padding(d->cursor.at, d->alignment);
    const unsigned char *data;

    /* A file without tensors may end with its keys. */
    if (f->n_tensors == 0 && f->size_bytes - d->cursor.at <= pad)
        return OSP_OK;
    if (f->size_bytes - d->cursor.at < pad)
        return fail(OSP_EFORMAT,
                    "%s: the data should begin at byte %zu, the file has %zu bytes (truncated?)",
                    f->path, d->cursor.at + pad, f->size_bytes);
    data = d->cursor.bytes + d->cursor.at + pad;
    f->data_bytes = f->size_bytes - d->cursor.at - pad;
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (d->extents[i].end > f->data_bytes)
            return fail(OSP_EFORMAT,
                        "%s: tensor %s: data ends at byte %zu, the file has %zu bytes of data "
                        "(truncated?)",
                        f->path, f->tensors[i].name, d->extents[i].end, f->data_bytes);
        f->tensors[i].data = data + d->extents[i].begin;
    }
    return OSP_OK;
}

static int compare_extents(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Space that alignment does not explain is a sign of a broken file. */
static enum osp_status check_coverage(const struct directory *d)
{
    const struct st_file *f = d->file;
    size_t at = 0;

    if (f->n_tensors > 0)
        qsort(d->extents, f->n_tensors, sizeof *d->extents, compare_extents);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct extent *e = &d->extents[i];
        const char *before = i > 0 ? d->extents[i - 1].name : "the directory";

        if (e->begin < at)
            return fail(OSP_EFORMAT,
                        "%s: tensor %s: data begins at byte %zu, inside of the data of %s, which "
                        "ends at byte %zu",
                        f->path, e->name, e->begin, before, at);
        if (e->begin - at >= d->alignment)
            return fail(OSP_EFORMAT,
                        "%s: tensor %s: data begins at byte %zu, expected %zu (a gap after %s)",
                        f->path, e->name, e->begin, at + padding(at, d->alignment), before);
        at = e->end;
    }
    if (f->data_bytes - at >= d->alignment)
        return fail(
            OSP_EFORMAT,
            "%s: tensors end at byte %zu of the data, the file has %zu (%zu trailing bytes)",
            f->path, at, f->data_bytes, f->data_bytes - at);
    return OSP_OK;
}

static enum osp_status check_names(const struct st_file *f)
{
    for (size_t i = 1; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return fail(OSP_EFORMAT, "%s: tensor %s occurs twice", f->path, f->tensors[i].name);
    return OSP_OK;
}

/* ---- the file ---- */

static enum osp_status read_file(struct st_file *f, struct gguf_header *keys,
                                 const unsigned char *bytes)
{
    struct directory d = {.file = f};
    enum osp_status st;

    TRY(gguf_header_read(keys, f->path, bytes, f->size_bytes));
    d.cursor = (struct gguf_cursor){
        .path = f->path, .bytes = bytes, .n_bytes = f->size_bytes, .at = keys->end};
    d.alignment = keys->alignment;
    TRY(read_tensors(&d, keys->n_tensors));
    TRY(set_data(&d));
    TRY(check_coverage(&d));
    st_file_sort(f);
    TRY(check_names(f));
out:
    free(d.extents);
    if (st != OSP_OK)
        gguf_header_release(keys);
    return st;
}

enum osp_status gguf_file_from_bytes(struct st_file *out, struct gguf_header *keys,
                                     const char *path, const void *bytes, size_t size_bytes)
{
    enum osp_status st;

    *keys = (struct gguf_header){.path = NULL};
    st_file_init(out, path, NAME_BYTES_TOTAL_MAX);
    out->size_bytes = size_bytes;
    st = read_file(out, keys, bytes);
    if (st != OSP_OK)
        st_file_close(out);
    return st;
}

enum osp_status gguf_file_open(struct st_file *out, struct gguf_header *keys, const char *path)
{
    enum osp_status st;

    *keys = (struct gguf_header){.path = NULL};
    st_file_init(out, path, NAME_BYTES_TOTAL_MAX);
    TRY(st_file_map(out));
    TRY(read_file(out, keys, out->map.data));
out:
    if (st != OSP_OK)
        st_file_close(out);
    return st;
}
