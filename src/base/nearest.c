#include "base/nearest.h"

#include <string.h>

enum { WORD_MAX = 64 }; /* of longer words only the beginning is compared */

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

int word_distance(const char *a, const char *b)
{
    int row[WORD_MAX + 1];
    int n_a = (int)strnlen(a, WORD_MAX), n_b = (int)strnlen(b, WORD_MAX);

    for (int j = 0; j <= n_b; j++)
        row[j] = j;
    for (int i = 1; i <= n_a; i++) {
        int diagonal = row[0];

        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            int above = row[j];

            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n_b];
}

bool is_near(const char *word, int distance)
{
    return 2 * distance <= (int)strnlen(word, WORD_MAX);
}
