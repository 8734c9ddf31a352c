/* Files: read small ones whole under a limit, map large ones read-only, join paths. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Read-only mapping. For size 0, data is NULL. */
struct file_map {
    const unsigned char *data;
    size_t size_bytes;
};
CHECKED enum osp_status file_map_open(struct file_map *out, const char *path);
/* Maps an open file. The descriptor stays the caller's; `path` is for messages. */
CHECKED enum osp_status file_map_descriptor(struct file_map *out, int fd, const char *path);
void file_map_close(struct file_map *m); /* accepts a zeroed mapping */

/* Gives the caller a NUL-terminated copy to free(); OSP_ELIMIT when larger than limit_bytes. */
CHECKED enum osp_status file_read(char **out, size_t *size_bytes, const char *path,
                                  size_t limit_bytes);

char *path_join(const char *folder, const char *name); /* gives a string to free() */
/* The same for a file in `path`, if that is a folder, or beside it. */
char *path_beside(const char *path, const char *name);
bool path_is_folder(const char *path);
bool path_is_file(const char *path);

/* Human-readable size, "13.8 GB" (powers of 1000), into out; returns out. */
char *format_bytes(char out[16], double n_bytes);

#endif
