/* --log-level and --quiet. */
#ifndef CLI_LOG_LEVEL_H
#define CLI_LOG_LEVEL_H

#include "cli/options.h"

#define LOG_LEVEL_ROWS(T)                                                                          \
    {.name = "log-level",                                                                          \
     .kind = OPTION_TEXT,                                                                          \
     .offset = offsetof(T, log_level),                                                             \
     .value = "LEVEL",                                                                             \
     .help = "error, warn, info or debug, on standard error"},                                     \
    {                                                                                              \
        .name = "quiet", .aliases = "-q", .kind = OPTION_FLAG, .offset = offsetof(T, quiet),       \
        .help = "nothing on standard error but errors"                                             \
    }

/* `name` may be NULL: as it is, or errors only when quiet. */
CHECKED enum osp_status log_level_set(const char *name, bool quiet);

#endif
