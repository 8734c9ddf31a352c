/* One safetensors file: header read and checked against the file before anything is used. */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

enum {
    SAFETENSORS_DIMS_MAX = 8,
    SAFETENSORS_HEADER_BYTES_MAX = 100 * 1000 * 1000, /* as the reference reader */
};

/* X(name in file, bytes an element) */
#define ST_DTYPE_LIST(X)                                                                           \
    X(BOOL, 1) X(U8, 1) X(I8, 1) X(F8_E4M3, 1) X(F8_E5M2, 1) X(F8_E8M0, 1) X(I16, 2) X(U16, 2)     \
    X(F16, 2) X(BF16, 2) X(I32, 4) X(U32, 4) X(F32, 4) X(I64, 8) X(U64, 8) X(F64, 8)

enum st_dtype {
#define ST_DTYPE_ENUM(name, bytes) ST_##name,
    ST_DTYPE_LIST(ST_DTYPE_ENUM)
#undef ST_DTYPE_ENUM
};
const char *st_dtype_name(enum st_dtype dtype);

struct st_tensor {
    const char *name; /* owned by the file */
    enum st_dtype dtype;
    int n_dims;
    int64_t dim[SAFETENSORS_DIMS_MAX];
    const unsigned char *data; /* into the mapping */
    size_t size_bytes;
};

struct st_file {
    char *path;
    struct file_map map;
    struct st_tensor *tensors; /* sorted by name */
    size_t n_tensors;
    struct arena *names;
};

/* Maps and checks: header length, JSON, duplicate names, dtype known, shape without overflow,
 * offsets inside the data, in agreement with shape and dtype, without overlap, gap or trailing
 * bytes. Every error names file, tensor, expected and found. */
CHECKED enum osp_status st_file_open(struct st_file *out, const char *path);
void st_file_close(struct st_file *f); /* accepts a zeroed file */
const struct st_tensor *st_file_find(const struct st_file *f, const char *name); /* or NULL */

#endif
