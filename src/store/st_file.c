/* Files of stored tensors: mapping, names, look-up by name. */
#include "store/st_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t n_bytes;
    int n_values;
} dtypes[] = {
#define ST_DTYPE_ROW(name, bytes)                   {#name, bytes, 1},
#define ST_BLOCK_ROW(name, text, id, values, bytes) {text, bytes, values},
    ST_DTYPE_LIST(ST_DTYPE_ROW) ST_BLOCK_LIST(ST_BLOCK_ROW)
#undef ST_DTYPE_ROW
#undef ST_BLOCK_ROW
};

const char *st_dtype_name(enum st_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t st_dtype_bytes(enum st_dtype dtype)
{
    return dtypes[dtype].n_bytes;
}

int st_dtype_values(enum st_dtype dtype)
{
    return dtypes[dtype].n_values;
}

char *st_shape_text(char out[ST_SHAPE_TEXT_BYTES], const int64_t *dim, int n_dims)
{
    size_t at = 0;

    out[at++] = '[';
    for (int i = 0; i < n_dims; i++)
        at += (size_t)snprintf(out + at, ST_SHAPE_TEXT_BYTES - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)dim[i]);
    out[at++] = ']';
    out[at] = '\0';
    return out;
}

void st_file_init(struct st_file *f, const char *path, size_t names_bytes_max)
{
    memset(f, 0, sizeof *f);
    f->path = mem_strdup(path);
    arena_init(&f->names, names_bytes_max);
}

enum osp_status st_file_map(struct st_file *f)
{
    enum osp_status st;

    TRY(file_map_open(&f->map, f->path));
    f->size_bytes = f->map.size_bytes;
out:
    return st;
}

void st_file_close(struct st_file *f)
{
    free(f->tensors);
    free(f->path);
    arena_release(&f->names);
    file_map_close(&f->map);
    memset(f, 0, sizeof *f);
}

enum osp_status st_file_name(struct st_file *f, const char **out, const char *name, size_t n_bytes)
{
    char *copy;

    if (n_bytes == 0 || n_bytes > ST_NAME_BYTES_MAX)
        return fail(OSP_EFORMAT, "%s: a tensor name has %zu bytes, allowed are 1 to %d", f->path,
                    n_bytes, ST_NAME_BYTES_MAX);
    for (size_t i = 0; i < n_bytes; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return fail(OSP_EFORMAT, "%s: a tensor name has control character 0x%02x at byte %zu",
                        f->path, (unsigned char)name[i], i);
    copy = arena_try(&f->names, n_bytes + 1);
    if (!copy)
        return fail(OSP_ENOMEM, "%s: out of memory: tensor names", f->path);
    memcpy(copy, name, n_bytes);
    *out = copy;
    return OSP_OK;
}

static int compare_tensors(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

void st_file_sort(struct st_file *f)
{
    if (f->n_tensors > 0)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, compare_tensors);
}

static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct st_tensor *)tensor)->name);
}

const struct st_tensor *st_file_find(const struct st_file *f, const char *name)
{
    if (f->n_tensors == 0)
        return NULL;
    return bsearch(name, f->tensors, f->n_tensors, sizeof *f->tensors, compare_name);
}
