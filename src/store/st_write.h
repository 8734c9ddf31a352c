/* Writes one safetensors file: the header first, then the bytes of every tensor, which the caller
 * provides one tensor at a time. */
#ifndef STORE_ST_WRITE_H
#define STORE_ST_WRITE_H

#include "store/safetensors.h"

/* Returns the bytes of tensors[index] (size_bytes of them), valid until the next call. */
typedef enum osp_status st_data_fn(void *ctx, size_t index, const void **data);
/* Called after every written piece; a failure stops the writing. */
typedef enum osp_status st_progress_fn(void *ctx, size_t n_bytes);

struct st_write {
    const struct st_tensor *tensors; /* name, dtype, shape and size_bytes; `data` is not used */
    size_t n_tensors;
    st_data_fn *data;
    st_progress_fn *written; /* may be NULL */
    void *ctx;
};

/* Bytes of the header including its length, a multiple of 8, so that the data is aligned. */
CHECKED enum osp_status st_write_header_bytes(const struct st_write *w, size_t *out);

/* Creates a new file at `path` (an error if it exists), writes it and waits until it is on the
 * disk. A failure may leave a partial file, which the caller removes with its folder. */
CHECKED enum osp_status st_write_file(const struct st_write *w, const char *path);

/* Writes all n bytes; errors contain the path. */
CHECKED enum osp_status write_all(int fd, const char *path, const void *data, size_t n_bytes);

#endif
