/* Writes one safetensors file: the header first, then every tensor's bytes, which the caller
 * makes or finds one tensor at a time. */
#ifndef STORE_ST_WRITE_H
#define STORE_ST_WRITE_H

#include "store/safetensors.h"

/* Gives the bytes of tensors[index] (size_bytes of them), which stay until the next call. */
typedef enum osp_status st_data_fn(void *ctx, size_t index, const void **data);
/* Hears of every piece that was written; a failure ends the writing. */
typedef enum osp_status st_progress_fn(void *ctx, size_t n_bytes);

struct st_write {
    const struct st_tensor *tensors; /* name, dtype, shape and size_bytes; not their data */
    size_t n_tensors;
    st_data_fn *data;
    st_progress_fn *written; /* may be NULL */
    void *ctx;
};

/* Bytes of the header with its length in front, a multiple of 8, so that data is aligned. */
CHECKED enum osp_status st_write_header_bytes(const struct st_write *w, size_t *out);

/* Makes a new file at `path` (an error if there is one), writes it and waits until it is on the
 * disk. A failure may leave a part of it: the caller removes its folder. */
CHECKED enum osp_status st_write_file(const struct st_write *w, const char *path);

/* Writes all n bytes, with an error that names the path. */
CHECKED enum osp_status write_all(int fd, const char *path, const void *data, size_t n_bytes);

#endif
