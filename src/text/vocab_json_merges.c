/* The merges of a tokenizer.json say in which order pairs are joined. osprey joins the pair whose
 * token has the lowest id, as the reference does; here is checked that the list says the same. */
#include "text/vocab_json.h"

#include <string.h>

struct pair {
    struct json_span left, right;
};

/* "a b" or ["a", "b"]. */
static bool read_pair(struct pair *out, struct json_scan *s)
{
    struct json_span text;
    const char *space;

    if (scan_mark(s, '['))
        return scan_string(s, &out->left) && scan_mark(s, ',') && scan_string(s, &out->right) &&
               scan_mark(s, ']');
    if (!scan_string(s, &text))
        return false;
    space = memchr(text.at, ' ', text.n_bytes);
    if (!space)
        return false;
    out->left = (struct json_span){text.at, (size_t)(space - text.at)};
    out->right = (struct json_span){space + 1, text.n_bytes - out->left.n_bytes - 1};
    return true;
}

/* Id of the token that a merge makes, or -1; *n_left: bytes of its first half. */
static int32_t merged_token(const struct vocab *v, struct json_scan *s, int *n_left)
{
    char bytes[2 * VOCAB_TOKEN_BYTES_MAX];
    struct pair pair;
    int n_right;

    if (!read_pair(&pair, s))
        return -1;
    *n_left = byte_level_decode(bytes, pair.left);
    if (*n_left < 1)
        return -1;
    n_right = byte_level_decode(bytes + *n_left, pair.right);
    if (n_right < 1 || vocab_find(v, bytes, (size_t)*n_left) < 0 ||
        vocab_find(v, bytes + *n_left, (size_t)n_right) < 0)
        return -1;
    return vocab_find(v, bytes, (size_t)(*n_left + n_right));
}

/* In how many ways a token is two tokens. */
static size_t count_splits(const struct vocab *v, int32_t id)
{
    size_t n_bytes, n = 0;
    const char *bytes = vocab_bytes(v, id, &n_bytes);

    for (size_t i = 1; i < n_bytes; i++)
        n += vocab_find(v, bytes, i) >= 0 && vocab_find(v, bytes + i, n_bytes - i) >= 0;
    return n;
}

static enum osp_status check_count(const struct vocab *v, size_t n_merges)
{
    size_t n_splits = 0;

    for (int32_t id = 0; id < v->n_ordinary; id++)
        n_splits += count_splits(v, id);
    if (n_merges != n_splits)
        return fail(OSP_EUNSUPPORTED,
                    "model.merges has %zu pairs, but the ids as ranks imply %zu: every split of "
                    "every token",
                    n_merges, n_splits);
    return OSP_OK;
}

enum osp_status check_merges(const struct vocab *v, const struct vocab_lists *lists)
{
    static const char wrong[] = "model.merges[%zu] %s";
    int32_t seen[VOCAB_TOKEN_BYTES_MAX + 1] = {0}; /* by bytes of the left half: 1 + token's id */
    struct json_scan s = {lists->merges.at, lists->merges.at + lists->merges.n_bytes};
    int32_t id, last = 0;
    size_t n = 0;
    int n_left = 0;

    if (!scan_mark(&s, '['))
        return vocab_list_wrong(lists, &s, "a list");
    if (scan_peek(&s) == ']')
        return check_count(v, 0);
    do {
        id = merged_token(v, &s, &n_left);
        if (id < 0)
            return fail(OSP_EFORMAT, wrong, n, "is not a pair of tokens that make a token");
        if (id < last)
            return fail(OSP_EUNSUPPORTED, wrong, n,
                        "makes a token of lower id than the one before");
        if (seen[n_left] == id + 1)
            return fail(OSP_EFORMAT, wrong, n, "occurs twice");
        seen[n_left] = id + 1;
        last = id;
        n++;
    } while (scan_mark(&s, ','));
    if (!scan_mark(&s, ']'))
        return vocab_list_wrong(lists, &s, "a comma or the end of the merges");
    return check_count(v, n);
}
