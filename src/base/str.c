#include "base/str.h"

#include <string.h>

#include "base/memory.h"

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

enum osp_status str_copy(char **out, const char *s, const char *what)
{
    const size_t n_bytes = strlen(s) + 1;
    enum osp_status st;

    TRY(mem_try_array(out, n_bytes, 1, what));
    memcpy(*out, s, n_bytes);
out:
    return st;
}
