#include "engine/draft/drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/draft/ngram.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* ---- ngram ---- */

struct ngram_drafter {
    struct drafter base;
    struct ngram_index index;
    int lookup_max;
};

static int ngram_propose(struct drafter *d, const int32_t *tokens, int n_tokens, int32_t *out,
                         int n_max)
{
    struct ngram_drafter *n = (struct ngram_drafter *)d;
    struct ngram_match match;
    int n_out;

    ngram_index_grow(&n->index, tokens, n_tokens - 1); /* the suffix itself is no match */
    match = ngram_find(&n->index, tokens, tokens, n_tokens, n->lookup_max, n_tokens);
    if (match.end == 0)
        return 0;
    n_out = min_int(n_max, n_tokens - match.end);
    memcpy(out, tokens + match.end, (size_t)n_out * sizeof *out);
    return n_out;
}

static void ngram_free(struct drafter *d)
{
    ngram_index_release(&((struct ngram_drafter *)d)->index);
    free(d);
}

enum osp_status ngram_drafter_new(struct drafter **out, int n_tokens_max, int lookup_min,
                                  int lookup_max)
{
    static const struct drafter_ops ops = {DRAFT_NGRAM, ngram_propose, ngram_free};
    struct ngram_drafter *n = mem_new(sizeof *n);
    enum osp_status st;

    n->base.ops = &ops;
    n->lookup_max = lookup_max;
    st = ngram_index_init(&n->index, n_tokens_max, lookup_min);
    *out = &n->base;
    if (st != OSP_OK) {
        ngram_free(&n->base);
        *out = NULL;
    }
    return st;
}

/* ---- prediction ---- */

enum {
    MATCH_MIN = 3, /* tokens that answer and prediction share where the drafter finds its place */
    MATCH_MAX = 16,
    MISSES_MAX = 16 /* one after the other, until the drafter waits for such a match */
};

struct prediction_drafter {
    struct drafter base;
    int32_t *tokens; /* (n) */
    int n;
    struct ngram_index index;
    int n_seen;   /* tokens of the request that were compared */
    int at;       /* tokens[at] is expected next */
    int n_misses; /* since the last hit */
};

static bool is_lost(const struct prediction_drafter *p)
{
    return p->n_misses > MISSES_MAX;
}

/* The token before tokens[n_tokens] is not the expected one. */
static void find_place(struct prediction_drafter *p, const int32_t *tokens, int n_tokens)
{
    const struct ngram_match match =
        ngram_find(&p->index, p->tokens, tokens, n_tokens, MATCH_MAX, p->at);

    if (match.end > 0) {
        p->at = match.end;
        p->n_misses = 0;
        return;
    }
    p->n_misses += !is_lost(p);
    p->at = min_int(p->at + 1, p->n);
}

static void compare(struct prediction_drafter *p, const int32_t *tokens, int n_tokens)
{
    if (!is_lost(p) && p->at < p->n && tokens[n_tokens - 1] == p->tokens[p->at]) {
        p->at++;
        p->n_misses = 0;
        return;
    }
    find_place(p, tokens, n_tokens);
}

static int prediction_propose(struct drafter *d, const int32_t *tokens, int n_tokens, int32_t *out,
                              int n_max)
{
    struct prediction_drafter *p = (struct prediction_drafter *)d;
    int n_out;

    ngram_index_grow(&p->index, p->tokens, p->n - 1); /* after the last one nothing follows */
    while (p->n_seen < n_tokens)
        compare(p, tokens, ++p->n_seen);
    n_out = is_lost(p) ? 0 : min_int(n_max, p->n - p->at);
    memcpy(out, p->tokens + p->at, (size_t)n_out * sizeof *out);
    return n_out;
}

static void prediction_free(struct drafter *d)
{
    struct prediction_drafter *p = (struct prediction_drafter *)d;

    ngram_index_release(&p->index);
    free(p->tokens);
    free(p);
}

enum osp_status prediction_drafter_new(struct drafter **out, const int32_t *prediction,
                                       int n_prediction, int n_prompt)
{
    static const struct drafter_ops ops = {DRAFT_PREDICTION, prediction_propose, prediction_free};
    struct prediction_drafter *p = mem_new(sizeof *p);
    enum osp_status st;

    p->base.ops = &ops;
    p->n = n_prediction;
    p->n_seen = n_prompt;
    TRY(mem_try_array(&p->tokens, (size_t)n_prediction + 1, sizeof *p->tokens, "a prediction"));
    memcpy(p->tokens, prediction, (size_t)n_prediction * sizeof *prediction);
    TRY(ngram_index_init(&p->index, n_prediction, MATCH_MIN));
out:
    *out = &p->base;
    if (st != OSP_OK) {
        prediction_free(&p->base);
        *out = NULL;
    }
    return st;
}
