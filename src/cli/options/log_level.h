/* --log-level and --quiet. */
#ifndef CLI_OPTIONS_LOG_LEVEL_H
#define CLI_OPTIONS_LOG_LEVEL_H

#include "cli/options/options.h"

#define LOG_LEVEL_ROWS(T)                                                                          \
    TEXT_ROW(T, log_level, "log-level", NULL, "LEVEL",                                             \
             "error, warn, info or debug, on standard error"),                                     \
        FLAG_ROW(T, quiet, "quiet", "-q", "nothing on standard error but errors")

/* `name` may be NULL: as it is, or errors only when quiet. */
CHECKED enum osp_status log_level_set(const char *name, bool quiet);

#endif
