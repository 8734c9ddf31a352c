/* Small files of the kernel (/proc, /sys) below a root, which tests replace by a folder of their
 * own. */
#ifndef BASE_HOST_FILE_H
#define BASE_HOST_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { HOST_LINE_BYTES = 256, HOST_PATH_BYTES = 512 };

struct host_line {
    char text[HOST_LINE_BYTES];
};

/* The first line of a file, without spaces at its end; longer ones are cut. False: the file cannot
 * be read or is empty. `root` is "" for this machine. */
bool host_line(struct host_line *out, const char *root, const char *format, ...) PRINTF_LIKE(3, 4);
/* The number at the beginning of that line; false also if there is none, as in "max". */
bool host_number(int64_t *out, const char *root, const char *format, ...) PRINTF_LIKE(3, 4);
/* The number behind `key` in a file of lines "key number". */
bool host_keyed(int64_t *out, const char *root, const char *path, const char *key);
bool host_exists(const char *root, const char *format, ...) PRINTF_LIKE(2, 3);

/* The names in a folder, sorted and without those that begin with a dot; at most n_max. Each is
 * to be freed. Returns their number, 0 if there is no such folder. */
int host_list(char **names, int n_max, const char *root, const char *path);

#endif
