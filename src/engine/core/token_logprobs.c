#include "engine/core/token_logprobs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum osp_status token_logprobs_init(struct token_logprobs *s, int n_max, int n_top)
{
    const size_t n_entries = (size_t)n_max * (size_t)n_top;
    enum osp_status st;

    *s = (struct token_logprobs){.n_max = n_max, .n_top = n_top};
    TRY(mem_try_aligned(&s->logprobs, (size_t)n_max, sizeof *s->logprobs, "log-probabilities"));
    TRY(mem_try_aligned(&s->top_tokens, n_entries, sizeof *s->top_tokens, "likeliest tokens"));
    TRY(mem_try_aligned(&s->top_logprobs, n_entries, sizeof *s->top_logprobs, "likeliest tokens"));
out:
    if (st != OSP_OK)
        token_logprobs_release(s);
    return st;
}

void token_logprobs_release(struct token_logprobs *s)
{
    free(s->logprobs);
    free(s->top_tokens);
    free(s->top_logprobs);
    *s = (struct token_logprobs){0};
}

void token_logprobs_write(struct token_logprobs *s, int i,
                          const struct token_logprob *token_logprob)
{
    const size_t at = (size_t)i * (size_t)s->n_top;

    if (s->logprobs == NULL)
        return;
    assert(i >= 0 && i < s->n_max);
    s->logprobs[i] = token_logprob->logprob;
    if (s->n_top == 0)
        return;
    memcpy(s->top_tokens + at, token_logprob->top_tokens, (size_t)s->n_top * sizeof *s->top_tokens);
    memcpy(s->top_logprobs + at, token_logprob->top_logprobs,
           (size_t)s->n_top * sizeof *s->top_logprobs);
}

const struct osp_logprob *token_logprobs_at(const struct token_logprobs *s, int i, int32_t token,
                                            struct osp_logprob *out)
{
    const size_t at = (size_t)i * (size_t)s->n_top;
    int n_top = 0;

    if (s->logprobs == NULL)
        return NULL;
    while (n_top < s->n_top && s->top_tokens[at + (size_t)n_top] >= 0)
        n_top++; /* a small vocabulary may have fewer */
    *out = (struct osp_logprob){.token = token, .logprob = s->logprobs[i], .n_top = n_top};
    if (n_top > 0) {
        out->top_tokens = s->top_tokens + at;
        out->top_logprobs = s->top_logprobs + at;
    }
    return out;
}
