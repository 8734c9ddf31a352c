/* Checks the merges of a tokenizer.json, which define the order in which pairs are merged. osprey
 * merges the pair whose token has the lowest id, as the reference does; the list must imply the
 * same order. */
#include "text/token/vocab_json.h"

#include <stdbool.h>
#include <string.h>

enum { MERGES_MAX = 1 << 22 }; /* gpt-oss's list has 446,189 */

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

/* The splits of a token into two tokens, computed once for each token in the order of the list. */
struct splits {
    const struct vocab *v;
    int32_t id; /* the current token; -1: none yet */
    size_t n;   /* splits of this and all earlier tokens */
    /* Of the current token, by the number of bytes of its first half */
    bool is_split[VOCAB_TOKEN_BYTES_MAX];
    bool is_seen[VOCAB_TOKEN_BYTES_MAX]; /* found in the list */
};

static void splits_of(struct splits *s, int32_t id)
{
    size_t n_bytes;
    const char *bytes = vocab_bytes(s->v, id, &n_bytes);

    for (size_t i = 1; i < n_bytes;
         i++) { /* prefetches all lookups of a token: each is one cache line */
        vocab_prefetch(s->v, bytes, i);
        vocab_prefetch(s->v, bytes + i, n_bytes - i);
    }
    for (size_t i = 1; i < n_bytes; i++) {
        s->is_split[i] =
            vocab_find(s->v, bytes, i) >= 0 && vocab_find(s->v, bytes + i, n_bytes - i) >= 0;
        s->is_seen[i] = false;
        s->n += s->is_split[i];
    }
}

/* Advances to a token with a higher id. */
static void splits_advance(struct splits *s, int32_t id)
{
    while (s->id < id)
        splits_of(s, ++s->id);
}

/* The id of these bytes, first compared with the current token, which most pairs form; -1: no
 * token. */
static int32_t token_of(const struct splits *s, const char *bytes, size_t n_bytes)
{
    if (s->id >= 0) {
        size_t n_here;
        const char *here = vocab_bytes(s->v, s->id, &n_here);

        if (n_here == n_bytes && memcmp(here, bytes, n_bytes) == 0)
            return s->id;
    }
    return vocab_find(s->v, bytes, n_bytes);
}

/* Id of the token that a merge forms, or -1; *n_left: bytes of its first half. */
static int32_t merged_token(const struct splits *splits, struct json_scan *s, int *n_left)
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
    if (n_right < 1)
        return -1;
    return token_of(splits, bytes, (size_t)(*n_left + n_right));
}

static enum osp_status check_count(struct splits *s, size_t n_merges)
{
    splits_advance(s, s->v->n_ordinary - 1);
    if (n_merges != s->n)
        return fail(
            OSP_EUNSUPPORTED,
            "model.merges has %zu pairs, expected %zu: every split of every token into two tokens",
            n_merges, s->n);
    return OSP_OK;
}

/* Checks the n-th merge of the list. */
static enum osp_status check_merge(struct splits *splits, struct json_scan *s, size_t n)
{
    static const char wrong[] = "model.merges[%zu] %s";
    int n_left = 0;
    const int32_t id = merged_token(splits, s, &n_left);

    if (id >= 0 && id < splits->id)
        return fail(OSP_EUNSUPPORTED, wrong, n,
                    "forms a token with a lower id than the one before it");
    splits_advance(splits, id);
    if (id < 0 || !splits->is_split[n_left])
        return fail(OSP_EFORMAT, wrong, n, "is not a pair of tokens that together form a token");
    if (splits->is_seen[n_left])
        return fail(OSP_EFORMAT, wrong, n, "occurs twice");
    splits->is_seen[n_left] = true;
    return OSP_OK;
}

enum osp_status check_merges(const struct vocab *v, const struct vocab_lists *lists)
{
    struct splits splits = {.v = v, .id = -1};
    struct json_scan s = {lists->merges.at, lists->merges.at + lists->merges.n_bytes};
    enum osp_status st = OSP_OK;
    size_t n = 0;

    if (!scan_char(&s, '['))
        return vocab_list_error(lists, &s, "a list");
    if (scan_peek(&s) == ']')
        return check_count(&splits, 0);
    do {
        if (n == MERGES_MAX)
            return fail(OSP_ELIMIT, "model.merges: more than %d pairs", MERGES_MAX);
        TRY(check_merge(&splits, &s, n++));
    } while (scan_char(&s, ','));
    if (!scan_char(&s, ']'))
        return vocab_list_error(lists, &s, "a comma or the end of the merges");
    st = check_count(&splits, n);
out:
    return st;
}
