/* A safetensors file as an object: mapping, open and close, look-up by name. */
#include "store/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/st_header.h"

enum { NAME_BYTES_TOTAL_MAX = 2 * SAFETENSORS_HEADER_BYTES_MAX }; /* names with their padding */

static const struct {
    const char *name;
    size_t size_bytes;
} dtypes[] = {
#define ST_DTYPE_ROW(name, bytes) {#name, bytes},
    ST_DTYPE_LIST(ST_DTYPE_ROW)
#undef ST_DTYPE_ROW
};

const char *st_dtype_name(enum st_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t st_dtype_bytes(enum st_dtype dtype)
{
    return dtypes[dtype].size_bytes;
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

static void st_file_init(struct st_file *f, const char *path)
{
    memset(f, 0, sizeof *f);
    f->path = mem_strdup(path);
    arena_init(&f->names, NAME_BYTES_TOTAL_MAX);
}

enum osp_status st_file_from_bytes(struct st_file *out, const char *path, const void *bytes,
                                   size_t size_bytes)
{
    enum osp_status st;

    st_file_init(out, path);
    out->size_bytes = size_bytes;
    st = st_header_read(out, bytes);
    if (st != OSP_OK)
        st_file_close(out);
    return st;
}

enum osp_status st_file_open(struct st_file *out, const char *path)
{
    enum osp_status st;

    st_file_init(out, path);
    TRY(file_map_open(&out->map, path));
    out->size_bytes = out->map.size_bytes;
    TRY(st_header_read(out, out->map.data));
out:
    if (st != OSP_OK)
        st_file_close(out);
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
