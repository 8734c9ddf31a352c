#include "text/token/vocab_merges.h"

#include <string.h>

void merges_begin(struct merges *m, const struct vocab *v, const char *list)
{
    *m = (struct merges){.v = v, .list = list, .id = -1};
}

/* The splits of a token are computed once, when its first pair comes. */
static void find_splits(struct merges *m, int32_t id)
{
    size_t n_bytes;
    const char *bytes = vocab_bytes(m->v, id, &n_bytes);

    for (size_t i = 1; i < n_bytes;
         i++) { /* prefetches all lookups of a token: each is one cache line */
        vocab_prefetch(m->v, bytes, i);
        vocab_prefetch(m->v, bytes + i, n_bytes - i);
    }
    for (size_t i = 1; i < n_bytes; i++) {
        m->is_split[i] =
            vocab_find(m->v, bytes, i) >= 0 && vocab_find(m->v, bytes + i, n_bytes - i) >= 0;
        m->is_seen[i] = false;
        m->n_splits += m->is_split[i];
    }
}

/* Advances to a token with a higher id. */
static void advance(struct merges *m, int32_t id)
{
    while (m->id < id)
        find_splits(m, ++m->id);
}

/* The id of these bytes, first compared with the current token, which most pairs form; -1: no
 * token. */
static int32_t token_of(const struct merges *m, const char *bytes, size_t n_bytes)
{
    if (m->id >= 0) {
        size_t n_here;
        const char *here = vocab_bytes(m->v, m->id, &n_here);

        if (n_here == n_bytes && memcmp(here, bytes, n_bytes) == 0)
            return m->id;
    }
    return vocab_find(m->v, bytes, n_bytes);
}

enum osp_status merges_add(struct merges *m, const char *bytes, int n_left, int n_right)
{
    static const char wrong[] = "%s[%zu] %s";
    const bool is_pair = n_left >= 1 && n_right >= 1;
    const int32_t id = is_pair ? token_of(m, bytes, (size_t)(n_left + n_right)) : -1;

    if (m->n == MERGES_MAX)
        return fail(OSP_ELIMIT, "%s: more than %d pairs", m->list, MERGES_MAX);
    if (id >= 0 && id < m->id)
        return fail(OSP_EUNSUPPORTED, wrong, m->list, m->n,
                    "forms a token with a lower id than the one before it");
    advance(m, id);
    if (id < 0 || !m->is_split[n_left])
        return fail(OSP_EFORMAT, wrong, m->list, m->n,
                    "is not a pair of tokens that together form a token");
    if (m->is_seen[n_left])
        return fail(OSP_EFORMAT, wrong, m->list, m->n, "occurs twice");
    m->is_seen[n_left] = true;
    m->n++;
    return OSP_OK;
}

enum osp_status merges_end(struct merges *m)
{
    advance(m, m->v->n_ordinary - 1);
    if (m->n != m->n_splits)
        return fail(OSP_EUNSUPPORTED,
                    "%s has %zu pairs, expected %zu: every split of every token into two tokens",
                    m->list, m->n, m->n_splits);
    return OSP_OK;
}
