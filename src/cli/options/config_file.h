/* A file of options: the flat part of YAML, which is what vLLM's --config reads, "name: value" a
 * line. */
#ifndef CLI_OPTIONS_CONFIG_FILE_H
#define CLI_OPTIONS_CONFIG_FILE_H

#include <stdbool.h>

#include "base/status.h"

enum { CONFIG_FILE_BYTES_MAX = 64 << 10 };

struct config_file {
    const char *path; /* borrowed */
    char *text;       /* owned: what the lines point into */
    char *at;
    int line;
};

struct config_line {
    const char *name, *value; /* valid as long as the file is open */
};

CHECKED enum osp_status config_file_open(struct config_file *f, const char *path);
void config_file_close(struct config_file *f); /* accepts a zeroed one */
/* The next option; *found is false at the end. OSP_EFORMAT names file and line. */
CHECKED enum osp_status config_file_next(struct config_file *f, struct config_line *out,
                                         bool *found);

#endif
