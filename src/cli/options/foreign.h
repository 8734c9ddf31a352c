/* Options of vLLM and llama-server that osprey does not have. So that a pasted command line runs,
 * each is either ignored with a message that gives the reason, or refused with a message that names
 * the alternative. `osprey help --foreign` prints the table. */
#ifndef CLI_OPTIONS_FOREIGN_H
#define CLI_OPTIONS_FOREIGN_H

#include <stdbool.h>

#include "base/status.h"

enum foreign_value {
    FOREIGN_NONE, /* takes no value */
    FOREIGN_ONE,  /* takes one */
    FOREIGN_MODE  /* takes one if the next argument is one of FOREIGN_MODES */
};

#define FOREIGN_MODES "on,off,auto,1,0,true,false"

struct foreign_option {
    const char *words; /* all spellings, with commas: "--flash-attn,-fa" */
    enum foreign_value value;
    const char *only; /* the only value that is ignored, others are refused; NULL: all are ignored;
                         "": all are refused */
    const char *why;  /* the reason, or the alternative */
};

/* The last row has NULL as `words`. */
const struct foreign_option *foreign_list(void);

/* --no-NAME finds --NAME if --NAME takes no value; --NAME.KEY (vLLM's syntax for a member of a JSON
 * value) finds --NAME. NULL: not found. */
const struct foreign_option *foreign_find(const char *word);

/* Prints why the option is ignored, or fails with the reason why it is refused. `value` may be
 * NULL. */
CHECKED enum osp_status foreign_ignore(const struct foreign_option *option, const char *word,
                                       const char *value);

#endif
