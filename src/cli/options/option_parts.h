/* What the files of options.h share. */
#ifndef CLI_OPTIONS_OPTION_PARTS_H
#define CLI_OPTIONS_OPTION_PARTS_H

#include "cli/options/options.h"

/* Sets the field of a row in `into`; a text is borrowed. NULL is a flag without a value.
 * OSP_EINVAL says what the value must be. */
CHECKED enum osp_status option_set(const struct option_row *row, void *into, const char *text);

/* Every row's variable that is set. Those that look like a choice of kernels and are none are
 * named on standard error. */
CHECKED enum osp_status option_environment(const struct option_row *rows, void *into);

#endif
