/* The file of packed weights: a key that identifies the contents, and page-aligned pieces of
 * bytes. */
#ifndef MODEL_PACK_FILE_H
#define MODEL_PACK_FILE_H

#include <stdint.h>

#include "base/file.h"

struct pack_piece {
    const void *data;
    size_t size_bytes;
};

/* Maps the file and sets the data of n pieces, whose sizes are given. Checks the magic number, the
 * sizes of the file and of every piece, the header's checksum, the whole key, and a checksum of
 * samples of every piece. The checksums detect a damaged or truncated file, and are no protection
 * against an attacker: base/trusted.h checks that only this user or root can have written the file.
 * OSP_ENOTFOUND: the file does not exist; OSP_EFORMAT: it does not match; OSP_EIO: it cannot be
 * read or is not trusted. */
CHECKED enum osp_status pack_file_read(struct file_map *map, const char *path, const char *key,
                                       struct pack_piece *pieces, size_t n);

/* Writes the file under a temporary name, then renames it. */
CHECKED enum osp_status pack_file_write(const char *path, const char *key,
                                        const struct pack_piece *pieces, size_t n);

#endif
