/* Small questions about strings. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>

bool str_ends_with(const char *s, const char *end);

/* Whether `word` is one of a list with commas, "on,off,auto"; a NULL list is empty. */
bool str_in_list(const char *list, const char *word);

#endif
