/* String helpers. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>

#include "base/status.h"

bool str_ends_with(const char *s, const char *end);

/* A copy to free(), for strings from outside; the OSP_ENOMEM message contains `what`. */
CHECKED enum osp_status str_copy(char **out, const char *s, const char *what);

/* Whether `word` is in a comma-separated list such as "on,off,auto"; a NULL list is empty. */
bool str_in_list(const char *list, const char *word);

#endif
