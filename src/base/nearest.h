/* "Did you mean": how far two words are apart. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>

/* Insertions, deletions and changes of a letter that turn one into the other (Levenshtein). */
int word_distance(const char *a, const char *b);
/* Whether words at this distance are similar enough to suggest one for `word`. */
bool is_near(const char *word, int distance);

#endif
