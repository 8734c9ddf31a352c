/* The file of packed weights: a key that says what it is, and pieces of bytes, page by page. */
#ifndef MODEL_PACK_FILE_H
#define MODEL_PACK_FILE_H

#include <stdint.h>

#include "base/file.h"

struct pack_piece {
    const void *data;
    size_t size_bytes;
};

/* Maps the file and points n pieces, whose sizes are given, into it. Checked: magic, sizes of
 * the file and of every piece, the header's checksum, the whole key, and a checksum of samples
 * of every piece. The checksums find a damaged file or one that was cut, and keep nobody out:
 * that only this user or root can have written the file is what base/trusted.h checks.
 * OSP_ENOTFOUND: there is no file; OSP_EFORMAT: it is not this one; OSP_EIO: it cannot be read,
 * or not be trusted. */
CHECKED enum osp_status pack_file_read(struct file_map *map, const char *path, const char *key,
                                       struct pack_piece *pieces, size_t n);

/* Writes a file of that content under a temporary name and renames it. */
CHECKED enum osp_status pack_file_write(const char *path, const char *key,
                                        const struct pack_piece *pieces, size_t n);

#endif
