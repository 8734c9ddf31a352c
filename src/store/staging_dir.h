/* A folder that appears whole or not at all: its files are written below a temporary name beside
 * it, and one rename puts it in its place. */
#ifndef STORE_STAGING_DIR_H
#define STORE_STAGING_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct staging_dir {
    char *path;      /* where it will be */
    char *temporary; /* where it is made; NULL when there is none */
    bool replaces;   /* a folder that is there and not empty */
};

/* Makes the temporary folder. A folder that is there and not empty is OSP_EINVAL without
 * `force`, and with it too unless it looks like a checkpoint: config.json, plain files only. */
CHECKED enum osp_status staging_dir_open(struct staging_dir *out, const char *path, bool force);

/* OSP_EIO with both numbers when the file system has less than n_bytes free. */
CHECKED enum osp_status staging_dir_check_space(const struct staging_dir *f, int64_t n_bytes);

/* A file of it: writes text, or copies another file. */
CHECKED enum osp_status staging_dir_write(const struct staging_dir *f, const char *name,
                                          const char *text, size_t n_bytes);
CHECKED enum osp_status staging_dir_copy(const struct staging_dir *f, const char *name,
                                         const char *from);

/* Puts it in its place, and removes what it replaces. */
CHECKED enum osp_status staging_dir_commit(struct staging_dir *f);

/* Removes what was not published; accepts a zeroed one. */
void staging_dir_close(struct staging_dir *f);

#endif
