/* A file of stored tensors, whatever its format: a mapping, and a list of checked tensors that
 * point into it. safetensors.h and gguf_file.h open one. */
#ifndef STORE_ST_FILE_H
#define STORE_ST_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

enum {
    ST_DIMS_MAX = 8,
    ST_NAME_BYTES_MAX = 256 /* gpt-oss's longest has 52; keeps messages readable */
};

/* The dtypes of safetensors. X(name in the file, bytes per element) */
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

/* The block types of GGUF: a block of values has its scale with it (ggml_blocks.h). X(name,
 * text, id in the file, values of a block, bytes of a block). Ollama's MXFP4 has the nibbles in
 * the order of safetensors. */
#define ST_BLOCK_LIST(X)                                                                           \
    X(Q4_0, "Q4_0", 2, 32, 18)                                                                     \
    X(Q4_1, "Q4_1", 3, 32, 20)                                                                     \
    X(MXFP4_OLLAMA, "MXFP4 (Ollama)", 4, 32, 17)                                                   \
    X(Q5_0, "Q5_0", 6, 32, 22)                                                                     \
    X(Q5_1, "Q5_1", 7, 32, 24)                                                                     \
    X(Q8_0, "Q8_0", 8, 32, 34)                                                                     \
    X(Q4_K, "Q4_K", 12, 256, 144)                                                                  \
    X(Q5_K, "Q5_K", 13, 256, 176)                                                                  \
    X(Q6_K, "Q6_K", 14, 256, 210)                                                                  \
    X(IQ4_NL, "IQ4_NL", 20, 32, 18)                                                                \
    X(MXFP4, "MXFP4", 39, 32, 17)

enum st_dtype {
#define ST_DTYPE_ENUM(name, bytes)                   ST_##name,
#define ST_BLOCK_ENUM(name, text, id, values, bytes) ST_##name,
    ST_DTYPE_LIST(ST_DTYPE_ENUM) N_SAFETENSORS_DTYPES,
    ST_BEFORE_BLOCKS = N_SAFETENSORS_DTYPES - 1, /* no gap in the numbers */
    ST_BLOCK_LIST(ST_BLOCK_ENUM) N_ST_DTYPES
#undef ST_DTYPE_ENUM
#undef ST_BLOCK_ENUM
};
const char *st_dtype_name(enum st_dtype dtype);
/* Bytes of an element, or of a block and the number of its values, which is 1 for an element. */
size_t st_dtype_bytes(enum st_dtype dtype);
int st_dtype_values(enum st_dtype dtype);

struct st_tensor {
    const char *name; /* owned by the file */
    enum st_dtype dtype;
    int n_dims;
    int64_t dim[ST_DIMS_MAX];  /* row-major */
    const unsigned char *data; /* into the mapping; may be unaligned */
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

/* An empty file, for a reader to fill; its tensor names have at most this many bytes together. */
void st_file_init(struct st_file *f, const char *path, size_t names_bytes_max);
/* Maps the file at f->path. If another process truncates the file while it is mapped, this process
 * gets SIGBUS, like every reader of mapped files. */
CHECKED enum osp_status st_file_map(struct st_file *f);
void st_file_close(struct st_file *f); /* accepts a zeroed file */

/* Names appear in messages, so they have 1 to ST_NAME_BYTES_MAX bytes and no control characters.
 * Copies the name into the file's memory. */
CHECKED enum osp_status st_file_name(struct st_file *f, const char **out, const char *name,
                                     size_t n_bytes);
/* Sorts the tensors, so that they can be found. */
void st_file_sort(struct st_file *f);
const struct st_tensor *st_file_find(const struct st_file *f, const char *name); /* or NULL */

/* Writes "[32, 64]" into out; returns out. */
enum { ST_SHAPE_TEXT_BYTES = ST_DIMS_MAX * 22 + 3 };
char *st_shape_text(char out[ST_SHAPE_TEXT_BYTES], const int64_t *dim, int n_dims);

#endif
