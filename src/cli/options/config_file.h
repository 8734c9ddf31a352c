/* A file of options, one "name: value" per line: the flat part of YAML, as for vLLM's --config. */
#ifndef CLI_OPTIONS_CONFIG_FILE_H
#define CLI_OPTIONS_CONFIG_FILE_H

#include <stdbool.h>

#include "base/status.h"

enum { CONFIG_FILE_BYTES_MAX = 64 << 10 };

struct config_file {
    const char *path; /* borrowed */
    char *text;       /* owned; the lines point into it */
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
