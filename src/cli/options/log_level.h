/* --log-level, --quiet and --log-format. */
#ifndef CLI_OPTIONS_LOG_LEVEL_H
#define CLI_OPTIONS_LOG_LEVEL_H

#include "cli/options/options.h"

#define LOG_LEVEL_ROWS(T)                                                                          \
    TEXT_ROW(T, log_level, "log-level", NULL, "LEVEL",                                             \
             "log level on standard error: error, warn, info or debug"),                           \
        FLAG_ROW(T, quiet, "quiet", "-q", "write only errors to standard error")

#define LOG_FORMAT_ROW(T)                                                                          \
    TEXT_ROW(T, log_format, "log-format", NULL, "FORMAT",                                          \
             "format of the lines on standard error: plain, or json with one object per line "     \
             "(default plain)")

/* `name` may be NULL: the level stays, or becomes error if `quiet`. */
CHECKED enum osp_status log_level_set(const char *name, bool quiet);
/* `name` may be NULL: plain. */
CHECKED enum osp_status log_format_set(const char *name);

#endif
