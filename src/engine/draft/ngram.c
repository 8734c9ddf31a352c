#include "engine/draft/ngram.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { HEADS_MIN = 64 };

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

enum osp_status ngram_index_init(struct ngram_index *x, int n_max, int n_least)
{
    enum osp_status st;

    *x = (struct ngram_index){.n_max = n_max, .n_least = n_least, .n_heads = HEADS_MIN};
    x->n = n_least - 1;
    while (x->n_heads < n_max && x->n_heads < 1 << 20)
        x->n_heads *= 2;
    TRY(mem_try_array(&x->heads, (size_t)x->n_heads, sizeof *x->heads, "n-grams of a request"));
    TRY(mem_try_array(&x->older, (size_t)n_max + 1, sizeof *x->older, "n-grams of a request"));
out:
    if (st != OSP_OK)
        ngram_index_release(x);
    return st;
}

void ngram_index_release(struct ngram_index *x)
{
    free(x->heads);
    free(x->older);
    memset(x, 0, sizeof *x);
}

/* The head of the n_least tokens that end before tokens[end]. */
static int32_t *head_of(const struct ngram_index *x, const int32_t *tokens, int end)
{
    uint64_t hash = 0;

    for (int i = end - x->n_least; i < end; i++)
        hash = (hash ^ (uint32_t)tokens[i]) * 0x9E3779B97F4A7C15u;
    return &x->heads[(hash >> 32) & (uint64_t)(x->n_heads - 1)];
}

void ngram_index_grow(struct ngram_index *x, const int32_t *tokens, int n)
{
    const int last = min_int(min_int(n, x->n_max), x->n + NGRAM_GROWTH_MAX);

    while (x->n < last) {
        int32_t *head = head_of(x, tokens, ++x->n);

        x->older[x->n] = *head;
        *head = x->n;
    }
}

/* Equal tokens before the two ends, at most n_most. */
static int match_length(const int32_t *a, int n_a, const int32_t *b, int n_b, int n_most)
{
    const int n = min_int(min_int(n_a, n_b), n_most);
    int i = 0;

    while (i < n && a[n_a - 1 - i] == b[n_b - 1 - i])
        i++;
    return i;
}

/* Ends come from the newest to the oldest. */
static bool is_better(const struct ngram_match *a, const struct ngram_match *best, int near)
{
    if (a->n_tokens != best->n_tokens)
        return a->n_tokens > best->n_tokens;
    return a->end >= near && best->end >= near;
}

struct ngram_match ngram_find(const struct ngram_index *x, const int32_t *list, const int32_t *text,
                              int n_text, int n_most, int near)
{
    struct ngram_match best = {0, 0};
    int end;

    if (x->heads == NULL || n_text < x->n_least)
        return best;
    end = *head_of(x, text, n_text);
    for (int i = 0; i < NGRAM_CANDIDATES_MAX && end > 0; i++, end = x->older[end]) {
        const struct ngram_match match = {end, match_length(list, end, text, n_text, n_most)};

        if (match.n_tokens >= x->n_least && is_better(&match, &best, near))
            best = match;
    }
    return best;
}
