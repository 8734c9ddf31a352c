#include "base/str.h"

#include <string.h>

bool str_ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), n_end = strlen(end);

    return n >= n_end && memcmp(s + n - n_end, end, n_end) == 0;
}

bool str_in_list(const char *list, const char *word)
{
    size_t n_word = strlen(word);

    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (n == n_word && memcmp(list, word, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}
