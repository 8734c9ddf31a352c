/* Reads the list of merges of a tokenizer.json, in place. */
#include <stdbool.h>
#include <string.h>

#include "text/token/vocab_json.h"
#include "text/token/vocab_merges.h"

struct pair {
    struct json_span left, right;
};

/* "a b" or ["a", "b"]. */
static bool read_pair(struct pair *out, struct json_scan *s)
{
    struct json_span text;
    const char *space;

    if (scan_char(s, '['))
        return scan_string(s, &out->left) && scan_char(s, ',') && scan_string(s, &out->right) &&
               scan_char(s, ']');
    if (!scan_string(s, &text))
        return false;
    space = memchr(text.at, ' ', text.n_bytes);
    if (!space)
        return false;
    out->left = (struct json_span){text.at, (size_t)(space - text.at)};
    out->right = (struct json_span){space + 1, text.n_bytes - out->left.n_bytes - 1};
    return true;
}

/* Writes the bytes of the next pair, one half after the other; *n_left is -1 if it is none. */
static void decode_pair(char bytes[2 * VOCAB_TOKEN_BYTES_MAX], int *n_left, int *n_right,
                        struct json_scan *s)
{
    struct pair pair;

    *n_left = *n_right = -1;
    if (!read_pair(&pair, s))
        return;
    *n_left = vocab_json_decode(bytes, pair.left);
    if (*n_left >= 1)
        *n_right = vocab_json_decode(bytes + *n_left, pair.right);
}

enum osp_status check_merges(const struct vocab *v, const struct vocab_lists *lists)
{
    struct json_scan s = {lists->merges.at, lists->merges.at + lists->merges.n_bytes};
    char bytes[2 * VOCAB_TOKEN_BYTES_MAX];
    struct merges merges;
    enum osp_status st = OSP_OK;
    int n_left, n_right;

    merges_begin(&merges, v, "model.merges");
    if (!scan_char(&s, '['))
        return vocab_list_error(lists, &s, "a list");
    if (scan_peek(&s) == ']')
        return merges_end(&merges);
    do {
        decode_pair(bytes, &n_left, &n_right, &s);
        TRY(merges_add(&merges, bytes, n_left, n_right));
    } while (scan_char(&s, ','));
    if (!scan_char(&s, ']'))
        return vocab_list_error(lists, &s, "a comma or the end of the merges");
    st = merges_end(&merges);
out:
    return st;
}
