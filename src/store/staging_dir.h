/* A folder that appears complete or not at all. Its files are written to a temporary folder beside
 * it, and one rename moves that to its final name. */
#ifndef STORE_STAGING_DIR_H
#define STORE_STAGING_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct staging_dir {
    char *path;      /* final path */
    char *temporary; /* temporary path, or NULL */
    bool replaces;   /* the path is an existing folder that is not empty */
};

/* Creates the temporary folder. OSP_EINVAL if the final folder exists and is not empty; with
 * `force` only if it does not look like a checkpoint: a config.json and plain files only. */
CHECKED enum osp_status staging_dir_open(struct staging_dir *out, const char *path, bool force);

/* OSP_EIO with both sizes if the file system has less than n_bytes free. */
CHECKED enum osp_status staging_dir_check_space(const struct staging_dir *f, int64_t n_bytes);

/* Adds a file to the folder: with the given text, or a copy of another file. */
CHECKED enum osp_status staging_dir_write(const struct staging_dir *f, const char *name,
                                          const char *text, size_t n_bytes);
CHECKED enum osp_status staging_dir_copy(const struct staging_dir *f, const char *name,
                                         const char *from);

/* Renames the folder to its final path and removes the folder that it replaces. */
CHECKED enum osp_status staging_dir_commit(struct staging_dir *f);

/* Removes an unpublished folder; accepts a zeroed one. */
void staging_dir_close(struct staging_dir *f);

#endif
