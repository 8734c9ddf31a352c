/* Reads a safetensors header: 8 bytes of length, then JSON, then the data that the JSON must
 * describe exactly. Every number is compared with the file before it is used. */
#include "store/st_header.h"

#include <stdlib.h>
#include <string.h>

#include "store/json_read.h"

enum {
    LENGTH_BYTES = 8, /* little-endian header length before the header */
    ENTRY_KEYS = 3,   /* dtype, shape, data_offsets */
    RANGE_OFFSETS = 2 /* begin, end */
};

/* The maximum number of tensors is estimated at 1.9 kB each; __metadata__ may have long strings. */
static const struct json_limits header_limits = {.file_bytes = SAFETENSORS_HEADER_BYTES_MAX,
                                                 .memory_bytes = 128 << 20,
                                                 .string_bytes = 1 << 20,
                                                 .depth = 16};

/* The bytes of a tensor, relative to the start of the data. */
struct extent {
    size_t begin, end;
    const char *name;
};

struct header {
    struct st_file *file;
    const unsigned char *data; /* first byte after the header */
    const char *text;
    size_t n_bytes;         /* of the header's text */
    size_t data_bytes;      /* of the file after the header */
    struct extent *extents; /* (n_tensors) */
};

static size_t load_le64(const unsigned char *p)
{
    uint64_t value = 0;

    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

/* The header's text ends with '}', padded with spaces; jansson would accept more. */
static enum osp_status check_padding(const struct header *h)
{
    size_t n = h->n_bytes;

    if (n == 0 || h->text[0] != '{')
        return fail(OSP_EFORMAT, "%s: header begins with byte 0x%02x, expected '{'", h->file->path,
                    n == 0 ? 0 : (unsigned char)h->text[0]);
    while (h->text[n - 1] == ' ')
        n--;
    if (h->text[n - 1] != '}')
        return fail(OSP_EFORMAT, "%s: header ends with byte 0x%02x, expected '}' and spaces",
                    h->file->path, (unsigned char)h->text[n - 1]);
    return OSP_OK;
}

static enum osp_status set_data(struct header *h, const unsigned char *bytes)
{
    const struct st_file *f = h->file;
    size_t n;

    if (f->size_bytes < LENGTH_BYTES)
        return fail(OSP_EFORMAT, "%s: file has %zu bytes, expected at least %d", f->path,
                    f->size_bytes, LENGTH_BYTES);
    n = load_le64(bytes);
    if (memcmp(bytes, "version ", LENGTH_BYTES) == 0)
        return fail(OSP_EFORMAT,
                    "%s: is a Git LFS pointer, not the weights: run git lfs pull in its folder, or "
                    "download the model with hf download",
                    f->path);
    if (n > SAFETENSORS_HEADER_BYTES_MAX)
        return fail(OSP_EFORMAT,
                    "%s: header length is %zu bytes, at most %d are allowed (not a safetensors "
                    "file?)",
                    f->path, n, SAFETENSORS_HEADER_BYTES_MAX);
    if (n > f->size_bytes - LENGTH_BYTES)
        return fail(OSP_EFORMAT, "%s: header length is %zu bytes, the file has %zu (truncated?)",
                    f->path, n, f->size_bytes - LENGTH_BYTES);
    h->text = (const char *)bytes + LENGTH_BYTES;
    h->n_bytes = n;
    h->data = bytes + LENGTH_BYTES + n;
    h->data_bytes = f->size_bytes - LENGTH_BYTES - n;
    return check_padding(h);
}

static enum osp_status check_metadata(const struct header *h, json_t *json)
{
    const char *key;
    json_t *value;

    if (!json)
        return OSP_OK;
    if (!json_is_object(json))
        return fail(OSP_EFORMAT, "%s: __metadata__ is %s, expected an object", h->file->path,
                    json_type_name(json));
    json_object_foreach(json, key, value)
    {
        if (!json_is_string(value))
            return fail(OSP_EFORMAT, "%s: __metadata__ has a member that is %s, expected a string",
                        h->file->path, json_type_name(value));
    }
    return OSP_OK;
}

static enum osp_status read_dtype(const struct header *h, struct st_tensor *t, const json_t *json)
{
    if (!json_is_string(json))
        return fail(OSP_EFORMAT, "%s: tensor %s: dtype is %s, expected a string", h->file->path,
                    t->name, json_type_name(json));
    for (int i = 0; i < N_SAFETENSORS_DTYPES; i++)
        if (strcmp(st_dtype_name((enum st_dtype)i), json_string_value(json)) == 0) {
            t->dtype = (enum st_dtype)i;
            return OSP_OK;
        }
    return fail(
        OSP_EFORMAT,
        "%s: tensor %s: dtype is \"%.32s\", expected a safetensors dtype such as U8, BF16 or F32",
        h->file->path, t->name, json_string_value(json));
}

/* Fills the shape and size_bytes. */
static enum osp_status read_shape(const struct header *h, struct st_tensor *t, const json_t *json)
{
    size_t n = json_array_size(json), size_bytes = st_dtype_bytes(t->dtype);
    bool has_zero = false;

    if (!json_is_array(json))
        return fail(OSP_EFORMAT, "%s: tensor %s: shape is %s, expected an array", h->file->path,
                    t->name, json_type_name(json));
    if (n > ST_DIMS_MAX)
        return fail(OSP_EFORMAT, "%s: tensor %s: shape has %zu dimensions, at most %d are allowed",
                    h->file->path, t->name, n, ST_DIMS_MAX);
    t->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(json, i);

        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return fail(
                OSP_EFORMAT, "%s: tensor %s: dimension %zu is %s, expected an integer of 0 or more",
                h->file->path, t->name, i, json_is_integer(dim) ? "negative" : json_type_name(dim));
        t->dim[i] = json_integer_value(dim);
        has_zero = has_zero || t->dim[i] == 0;
    }
    for (size_t i = 0; i < n && !has_zero; i++)
        if (!mul_size(size_bytes, (size_t)t->dim[i], &size_bytes))
            return fail(OSP_EFORMAT,
                        "%s: tensor %s: shape overflows, expected less than 2^64 bytes",
                        h->file->path, t->name);
    t->size_bytes = has_zero ? 0 : size_bytes;
    return OSP_OK;
}

static enum osp_status read_offset(size_t *out, const struct header *h, const struct st_tensor *t,
                                   const json_t *json)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: data_offsets has %s, expected integers of 0 or more",
                    h->file->path, t->name,
                    json_is_integer(json) ? "a negative number" : json_type_name(json));
    *out = (size_t)json_integer_value(json);
    return OSP_OK;
}

static enum osp_status read_offsets(const struct header *h, struct st_tensor *t, struct extent *e,
                                    const json_t *json)
{
    enum osp_status st;
    char shape[ST_SHAPE_TEXT_BYTES];

    if (json_array_size(json) != RANGE_OFFSETS)
        return fail(OSP_EFORMAT, "%s: tensor %s: data_offsets is %s of %zu, expected [begin, end]",
                    h->file->path, t->name, json_type_name(json), json_array_size(json));
    TRY(read_offset(&e->begin, h, t, json_array_get(json, 0)));
    TRY(read_offset(&e->end, h, t, json_array_get(json, 1)));
    if (e->end < e->begin)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: data_offsets are [%zu, %zu], expected begin <= end",
                    h->file->path, t->name, e->begin, e->end);
    if (e->end > h->data_bytes)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: data ends at byte %zu, the file has %zu bytes of data "
                    "(truncated?)",
                    h->file->path, t->name, e->end, h->data_bytes);
    if (e->end - e->begin != t->size_bytes)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s: data_offsets span %zu bytes, expected %zu for %s %s",
                    h->file->path, t->name, e->end - e->begin, t->size_bytes,
                    st_dtype_name(t->dtype), st_shape_text(shape, t->dim, t->n_dims));
    e->name = t->name;
    t->data = h->data + e->begin;
out:
    return st;
}

static enum osp_status read_entry(struct header *h, struct st_tensor *t, struct extent *e,
                                  const json_t *json)
{
    enum osp_status st;

    if (!json_is_object(json))
        return fail(OSP_EFORMAT, "%s: tensor %s is %s, expected an object", h->file->path, t->name,
                    json_type_name(json));
    TRY(read_dtype(h, t, json_object_get(json, "dtype")));
    TRY(read_shape(h, t, json_object_get(json, "shape")));
    TRY(read_offsets(h, t, e, json_object_get(json, "data_offsets")));
    if (json_object_size(json) != ENTRY_KEYS)
        return fail(OSP_EFORMAT,
                    "%s: tensor %s has %zu keys, expected only dtype, shape and data_offsets",
                    h->file->path, t->name, json_object_size(json));
out:
    return st;
}

static enum osp_status read_entries(struct header *h, json_t *root)
{
    struct st_file *f = h->file;
    size_t n = json_object_size(root) - (json_object_get(root, "__metadata__") ? 1 : 0);
    enum osp_status st;
    const char *name;
    json_t *value;

    if (n > SAFETENSORS_TENSORS_MAX)
        return fail(OSP_EFORMAT, "%s: header has %zu tensors, at most %d are allowed", f->path, n,
                    SAFETENSORS_TENSORS_MAX);
    TRY(mem_try_array(&f->tensors, n, sizeof *f->tensors, "the tensor table"));
    TRY(mem_try_array(&h->extents, n, sizeof *h->extents, "the tensor extents"));
    json_object_foreach(root, name, value)
    {
        struct st_tensor *t = &f->tensors[f->n_tensors];

        if (strcmp(name, "__metadata__") == 0)
            continue;
        TRY(st_file_name(f, &t->name, name, strlen(name)));
        TRY(read_entry(h, t, &h->extents[f->n_tensors], value));
        f->n_tensors++;
    }
out:
    return st;
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

/* In order of position, each tensor begins where the previous one ends, and the last one ends the
 * file. */
static enum osp_status check_coverage(struct header *h)
{
    const struct st_file *f = h->file;
    size_t at = 0;

    if (f->n_tensors > 0)
        qsort(h->extents, f->n_tensors, sizeof *h->extents, compare_extents);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct extent *e = &h->extents[i];

        if (e->begin != at)
            return fail(OSP_EFORMAT, "%s: tensor %s: data begins at byte %zu, expected %zu (%s %s)",
                        f->path, e->name, e->begin, at,
                        e->begin > at ? "a gap after" : "overlaps with",
                        i > 0 ? h->extents[i - 1].name : "the header");
        at = e->end;
    }
    if (at != h->data_bytes)
        return fail(
            OSP_EFORMAT,
            "%s: tensors end at byte %zu of the data, the file has %zu (%zu trailing bytes)",
            f->path, at, h->data_bytes, h->data_bytes - at);
    return OSP_OK;
}

enum osp_status st_header_read(struct st_file *f, const unsigned char *bytes)
{
    struct header h = {.file = f};
    json_t *root = NULL;
    enum osp_status st;

    TRY(set_data(&h, bytes));
    TRY(json_parse_object(&root, f->path, h.text, h.n_bytes, &header_limits));
    TRY(check_metadata(&h, json_object_get(root, "__metadata__")));
    TRY(read_entries(&h, root));
    TRY(check_coverage(&h));
    st_file_sort(f);
    f->data_bytes = h.data_bytes;
out:
    free(h.extents);
    json_decref(root);
    return st;
}
