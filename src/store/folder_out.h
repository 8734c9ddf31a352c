/* A folder that appears whole or not at all: its files are written below a temporary name beside it,
 * and one rename puts it in its place. */
#ifndef STORE_FOLDER_OUT_H
#define STORE_FOLDER_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct folder_out {
    char *path;      /* where it will be */
    char *temporary; /* where it is made; NULL when there is none */
    bool replaces;   /* a folder that is there and not empty */
};

/* Makes the temporary folder. A folder that is there and not empty is OSP_EINVAL without `force`, and
 * with it too unless it looks like a checkpoint: config.json, plain files only. */
CHECKED enum osp_status folder_out_open(struct folder_out *out, const char *path, bool force);

/* OSP_EIO with both numbers when the file system has less than n_bytes free. */
CHECKED enum osp_status folder_out_check_space(const struct folder_out *f, int64_t n_bytes);

/* A file of it: writes text, or copies another file. */
CHECKED enum osp_status folder_out_text(const struct folder_out *f, const char *name,
                                        const char *text, size_t n_bytes);
CHECKED enum osp_status folder_out_copy(const struct folder_out *f, const char *name,
                                        const char *from);

/* Puts it in its place, and removes what it replaces. */
CHECKED enum osp_status folder_out_publish(struct folder_out *f);

/* Removes what was not published; accepts a zeroed one. */
void folder_out_close(struct folder_out *f);

#endif
