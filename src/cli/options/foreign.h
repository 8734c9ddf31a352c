/* Options of vLLM and llama-server that osprey does not have, so that a pasted command line
 * runs: each is accepted with one line that says why it changes nothing, or refused with what to
 * do instead. `osprey help --foreign` prints the table. */
#ifndef CLI_OPTIONS_FOREIGN_H
#define CLI_OPTIONS_FOREIGN_H

#include <stdbool.h>

#include "base/status.h"

enum foreign_value {
    FOREIGN_NONE, /* takes no value */
    FOREIGN_ONE,  /* takes one */
    FOREIGN_MODE  /* takes one if the next word is one of FOREIGN_MODES */
};

#define FOREIGN_MODES "on,off,auto,1,0,true,false"

struct foreign_option {
    const char *words; /* with commas: "--flash-attn,-fa" */
    enum foreign_value value;
    const char *only; /* the only value that may be ignored; NULL: any; "": none, it is an error */
    const char *why;
};

/* Up to one whose `words` are NULL. */
const struct foreign_option *foreign_list(void);

/* --no-NAME finds --NAME if that takes no value, --NAME.KEY (vLLM's way into a JSON value) finds
 * --NAME. NULL = none. */
const struct foreign_option *foreign_find(const char *word);

/* Says that the option is ignored, or why it cannot be. `value` may be NULL. */
CHECKED enum osp_status foreign_ignore(const struct foreign_option *option, const char *word,
                                       const char *value);

#endif
