/* A tensor: dtype, shape and an address on some device. It owns no memory. Compiled as C11 and
 * CUDA. */
#ifndef BACKEND_TENSOR_H
#define BACKEND_TENSOR_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host_device.h"

/* X(name, bits per element without scales, text) */
#define DTYPE_LIST(X)                                                                              \
    X(DTYPE_NONE, 0, "none")                                                                       \
    X(DTYPE_F32, 32, "F32")                                                                        \
    X(DTYPE_BF16, 16, "BF16")                                                                      \
    X(DTYPE_MXFP4, 4, "MXFP4")                                                                     \
    X(DTYPE_I32, 32, "I32")                                                                        \
    X(DTYPE_U8, 8, "U8")                                                                           \
    X(DTYPE_F8, 8, "F8_E4M3") /* of KV pages only: backend/kv_page.h */                            \
    X(DTYPE_I16, 16, "I16")   /* the same */

enum dtype {
#define DTYPE_ENUM(name, bits, text) name,
    DTYPE_LIST(DTYPE_ENUM)
#undef DTYPE_ENUM
};

enum {
    TENSOR_DIMS_MAX = 5,
    MXFP4_BLOCK = 32,      /* elements that share one E8M0 scale */
    MXFP4_BLOCK_BYTES = 16 /* packed e2m1 bytes of one block, low nibble first */
};

/* Row-major. A matrix is (rows = outputs, columns = inputs); a stack of expert matrices is
 * (experts, rows, columns). MXFP4 keeps its blocks at `data` and its scales at `scales`:
 * (..., rows, columns / 32, 16) and (..., rows, columns / 32) bytes. */
enum tensor_layout {
    LAYOUT_ROWS, /* as above */
    /* The last two dimensions are transposed in memory, (columns, rows), while dim[] still is
     * (rows, columns). BF16 re-releases store experts this way. */
    LAYOUT_COLUMNS,
    LAYOUT_PACKED /* packed by the device's pack(), all of it at `data` */
};

struct tensor {
    enum dtype dtype;
    int n_dims;
    int64_t dim[TENSOR_DIMS_MAX];
    void *data;
    const void *scales; /* E8M0 bytes of an MXFP4 tensor, else NULL */
    enum tensor_layout layout;
    int32_t id; /* of the tensor in a program (backend/program.h); 0 = none */
};
static_assert(sizeof(struct tensor) == 72, "kernels take tensors as parameters: no padding");

static inline HOST_DEVICE int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= t->dim[i];
    return n;
}

const char *dtype_name(enum dtype dtype);
int64_t tensor_bytes(const struct tensor *t); /* data and scales */
/* Element i of a tensor of F32 or BF16 in host memory. */
float tensor_element_f32(const struct tensor *t, int64_t i);

#endif
