/* Shared by the files that implement options.h. */
#ifndef CLI_OPTIONS_OPTION_PARTS_H
#define CLI_OPTIONS_OPTION_PARTS_H

#include "cli/options/options.h"

/* Sets the field of a row in `into`; text values are borrowed. NULL: a flag without a value.
 * OSP_EINVAL names the allowed values. */
CHECKED enum osp_status option_set(const struct option_row *row, void *into, const char *text);

/* Reads the environment variable of every row. Warns about vLLM's variables for kernels that have
 * no row. */
CHECKED enum osp_status option_environment(const struct option_row *rows, void *into);

#endif
