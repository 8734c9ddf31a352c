#include "engine/draft/draft_shape.h"

#include <assert.h>

bool draft_shape_is_valid(const signed char *parents, int n)
{
    for (int i = 0; i < n; i++)
        if (parents[i] < -1 || parents[i] >= i || (i > 0 && parents[i] < parents[i - 1]))
            return false;
    return n >= 0 && n <= DRAFTS_MAX;
}

struct draft_shape draft_shape_of(const signed char *parents, int n)
{
    struct draft_shape s = {.n = n};

    assert(draft_shape_is_valid(parents, n));
    for (int i = 0; i < n; i++) {
        s.parents[i] = parents[i];
        s.ranks[i] = (int8_t)(i > 0 && parents[i] == parents[i - 1] ? s.ranks[i - 1] + 1 : 0);
    }
    return s;
}

int draft_shape_levels(const struct draft_shape *s)
{
    return draft_depth(s->parents, s->n - 1); /* the last node is on the last level */
}

int draft_shape_candidates(const struct draft_shape *s)
{
    int n = 0;

    for (int i = 0; i < s->n; i++)
        n = s->ranks[i] + 1 > n ? s->ranks[i] + 1 : n;
    return n;
}

bool draft_shape_has_child(const struct draft_shape *s, int node)
{
    for (int i = node + 1; i < s->n; i++)
        if (s->parents[i] == node)
            return true;
    return false;
}

/* ---- the likeliest nodes ---- */

static void path_chances(double out[DRAFTS_MAX], const struct draft_shape *s, const double *chances)
{
    for (int i = 0; i < s->n; i++)
        out[i] = chances[s->ranks[i]] * (s->parents[i] >= 0 ? out[s->parents[i]] : 1);
}

struct draft_shape draft_shape_likeliest(const struct draft_shape *s, const double *chances, int n)
{
    struct draft_shape out = {.n = 0};
    bool is_chosen[DRAFTS_MAX] = {false};
    double path[DRAFTS_MAX];
    int8_t at[DRAFTS_MAX];

    path_chances(path, s, chances);
    for (int k = 0; k < n && k < s->n; k++) {
        int best = -1;

        for (int i = 0; i < s->n; i++)
            if (!is_chosen[i] && (s->parents[i] < 0 || is_chosen[s->parents[i]]) &&
                (best < 0 || path[i] > path[best]))
                best = i;
        is_chosen[best] = true;
    }
    for (int i = 0; i < s->n; i++) {
        if (!is_chosen[i])
            continue;
        at[i] = (int8_t)out.n;
        out.parents[out.n] = s->parents[i] < 0 ? -1 : at[s->parents[i]];
        out.ranks[out.n++] = s->ranks[i];
    }
    return out;
}

static double chain_tokens(double acceptance, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum = acceptance * (1 + sum);
    return sum;
}

double draft_shape_acceptance(const struct draft_shape *s, const double *chances)
{
    enum { HALVINGS = 20 }; /* to a millionth */
    double path[DRAFTS_MAX], sum = 0, low = 0, high = 1;

    path_chances(path, s, chances);
    for (int i = 0; i < s->n; i++)
        sum += path[i];
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;

        if (chain_tokens(middle, s->n) < sum)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- the tree that was guessed ---- */

int draft_shape_walk(const struct draft_shape *s, const int32_t *tokens,
                     int32_t out_tokens[DRAFTS_MAX], int8_t out_parents[DRAFTS_MAX])
{
    int8_t path[DRAFTS_MAX + 1] = {-1}, at[DRAFTS_MAX]; /* nodes from the root, and their places */
    int next[DRAFTS_MAX + 1] = {0}, depth = 0, n = 0;

    while (depth >= 0) {
        int i = next[depth];

        while (i < s->n && (s->parents[i] != path[depth] || tokens[i] < 0))
            i++;
        next[depth] = i + 1;
        if (i >= s->n) {
            depth--;
            continue;
        }
        out_tokens[n] = tokens[i];
        out_parents[n] = path[depth] < 0 ? -1 : at[path[depth]];
        at[i] = (int8_t)n++;
        path[++depth] = (int8_t)i;
        next[depth] = i + 1;
    }
    return n;
}
