/* One safetensors file. Its header is read and checked against the file before anything else is
 * used. */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

enum {
    SAFETENSORS_DIMS_MAX = 8,
    /* The reference reader allows 100 MB; gpt-oss-120b's header has 0.08 MB. A malicious header
     * could take 75 times its size when parsed, so st_header.c limits that, too. */
    SAFETENSORS_HEADER_BYTES_MAX = 8 * 1024 * 1024,
    SAFETENSORS_TENSORS_MAX = 65536, /* gpt-oss-120b has 687 */
    SAFETENSORS_NAME_BYTES_MAX = 256 /* gpt-oss's longest has 52; keeps messages readable */
};

/* X(name in the file, bytes per element) */
#define ST_DTYPE_LIST(X)                                                                           \
    X(BOOL, 1)                                                                                     \
    X(U8, 1)                                                                                       \
    X(I8, 1)                                                                                       \
    X(F8_E4M3, 1)                                                                                  \
    X(F8_E5M2, 1)                                                                                  \
    X(F8_E8M0, 1)                                                                                  \
    X(I16, 2)                                                                                      \
    X(U16, 2)                                                                                      \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(I32, 4)                                                                                      \
    X(U32, 4)                                                                                      \
    X(F32, 4)                                                                                      \
    X(I64, 8)                                                                                      \
    X(U64, 8)                                                                                      \
    X(F64, 8)

enum st_dtype {
#define ST_DTYPE_ENUM(name, bytes) ST_##name,
    ST_DTYPE_LIST(ST_DTYPE_ENUM) N_ST_DTYPES
#undef ST_DTYPE_ENUM
};
const char *st_dtype_name(enum st_dtype dtype);
size_t st_dtype_bytes(enum st_dtype dtype);

struct st_tensor {
    const char *name; /* owned by the file */
    enum st_dtype dtype;
    int n_dims;
    int64_t dim[SAFETENSORS_DIMS_MAX];
    const unsigned char *data; /* into the mapping; unaligned when the header's length is odd */
    size_t size_bytes;
};

struct st_file {
    char *path;
    struct file_map map;       /* zeroed for a file in memory */
    struct st_tensor *tensors; /* sorted by name */
    size_t n_tensors;
    size_t size_bytes, data_bytes; /* of the whole file; of its tensors */
    struct arena names;
};

/* Maps and checks: header length, JSON, duplicate names, known dtype, shape without overflow, and
 * offsets: inside the data, in agreement with shape and dtype, without overlap, gap or trailing
 * bytes. Every error contains the file, the tensor, the expected and the actual value. If another
 * process truncates the file while it is mapped, this process gets SIGBUS, like every reader of
 * mapped files. */
CHECKED enum osp_status st_file_open(struct st_file *out, const char *path);
/* The same for bytes that the caller keeps until the close; `path` is only used in messages. */
CHECKED enum osp_status st_file_from_bytes(struct st_file *out, const char *path, const void *bytes,
                                           size_t size_bytes);
void st_file_close(struct st_file *f); /* accepts a zeroed file */
const struct st_tensor *st_file_find(const struct st_file *f, const char *name); /* or NULL */

/* Writes "[32, 64]" into out; returns out. */
enum { ST_SHAPE_TEXT_BYTES = SAFETENSORS_DIMS_MAX * 22 + 3 };
char *st_shape_text(char out[ST_SHAPE_TEXT_BYTES], const int64_t *dim, int n_dims);

#endif
