/* The merges of a tokenizer.json say in which order pairs are joined. osprey joins the pair whose
 * token has the lowest id, as the reference does; here is checked that the list says the same. */
#include "text/vocab_json.h"

#include <string.h>

struct pair {
    const char *left, *right;
    size_t n_left, n_right;
};

/* "a b" or ["a", "b"]. */
static bool read_pair(struct pair *out, json_t *merge)
{
    const char *text = json_string_value(merge);
    const char *space = text ? strchr(text, ' ') : NULL;

    *out = (struct pair){0};
    if (space) {
        *out = (struct pair){text, space + 1, (size_t)(space - text), strlen(space + 1)};
        return true;
    }
    if (json_array_size(merge) != 2)
        return false;
    out->left = json_string_value(json_array_get(merge, 0));
    out->right = json_string_value(json_array_get(merge, 1));
    if (!out->left || !out->right)
        return false;
    out->n_left = strlen(out->left);
    out->n_right = strlen(out->right);
    return true;
}

/* Id of the token that a merge makes, or -1; *n_left: bytes of its first half. */
static int32_t merged_token(const struct vocab *v, json_t *merge, struct buf *bytes, size_t *n_left)
{
    struct pair pair;

    buf_clear(bytes);
    if (!read_pair(&pair, merge) || !byte_level_decode(bytes, pair.left, pair.n_left))
        return -1;
    *n_left = bytes->size_bytes;
    if (!byte_level_decode(bytes, pair.right, pair.n_right) || !*n_left ||
        *n_left == bytes->size_bytes)
        return -1;
    if (vocab_find(v, bytes->data, *n_left) < 0 ||
        vocab_find(v, bytes->data + *n_left, bytes->size_bytes - *n_left) < 0)
        return -1;
    return vocab_find(v, bytes->data, bytes->size_bytes);
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

enum osp_status check_merges(const struct vocab *v, json_t *merges)
{
    static const char wrong[] = "model.merges[%zu] %s";
    int32_t seen[VOCAB_TOKEN_BYTES_MAX + 1] = {0}; /* by bytes of the left half: 1 + token's id */
    enum osp_status st = OSP_OK;
    int32_t id, last = 0;
    struct buf bytes;
    json_t *merge;
    size_t i, n_left = 0;

    if (!json_is_array(merges))
        return fail(OSP_EFORMAT, "model.merges: needs a list");
    buf_init(&bytes, VOCAB_TOKEN_BYTES_MAX);
    json_array_foreach(merges, i, merge)
    {
        id = merged_token(v, merge, &bytes, &n_left);
        if (id < 0)
            TRY(fail(OSP_EFORMAT, wrong, i, "is not a pair of tokens that make a token"));
        if (id < last)
            TRY(fail(OSP_EUNSUPPORTED, wrong, i, "makes a token of lower id than the one before"));
        if (seen[n_left] == id + 1)
            TRY(fail(OSP_EFORMAT, wrong, i, "occurs twice"));
        seen[n_left] = id + 1;
        last = id;
    }
    TRY(check_count(v, json_array_size(merges)));
out:
    buf_release(&bytes);
    return st;
}
