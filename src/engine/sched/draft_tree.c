#include "engine/sched/draft_tree.h"

bool draft_is_chain(const int8_t *parents, int n)
{
    for (int i = 0; i < n; i++)
        if (parents[i] != i - 1)
            return false;
    return true;
}

int draft_depth(const int8_t *parents, int i)
{
    int n = 0;

    for (; i >= 0; i = parents[i])
        n++;
    return n;
}

int draft_path(int32_t out[DRAFTS_MAX], const int32_t *tokens, const int8_t *parents, int i)
{
    const int n = draft_depth(parents, i);

    for (int at = n - 1; at >= 0; at--, i = parents[i])
        out[at] = tokens[i];
    return n;
}

uint32_t draft_mask(const int8_t *parents, int i)
{
    uint32_t mask = 1;

    for (; i >= 0; i = parents[i])
        mask |= 1u << (1 + i);
    return mask;
}

int draft_child(const int32_t *tokens, const int8_t *parents, int n, int parent, int32_t token)
{
    for (int i = parent + 1; i < n; i++)
        if (parents[i] == parent && tokens[i] == token)
            return i;
    return -1;
}
