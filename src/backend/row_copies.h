/* Copies of rows within a device's memory, those of several requests at once
 * (backend_ops.copy_rows). */
#ifndef BACKEND_ROW_COPIES_H
#define BACKEND_ROW_COPIES_H

#include <stdint.h>

enum {
    ROW_COPIES_MAX = 256, /* of one call: with the pointers, the parameters of a kernel */
    ROW_COPY_UNIT = 16    /* bytes; a row has a multiple of it, and begins at one */
};

/* Rows [from, from + n) of the source become rows [to, to + n) of the target. */
struct row_copy {
    int32_t to, from, n;
};

/* No row of the target is written twice, or is also a source. */
struct row_copies {
    void *to;
    const void *from;
    int64_t row_bytes;
    int n;
    struct row_copy rows[ROW_COPIES_MAX]; /* (n) */
};

#endif
