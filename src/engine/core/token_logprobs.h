/* Log-probabilities of an answer's tokens, for requests that ask for them: written by the
 * engine's thread, read by the client's thread once their tokens are published. Their memory never
 * moves. Zeroed: not requested. */
#ifndef ENGINE_CORE_TOKEN_LOGPROBS_H
#define ENGINE_CORE_TOKEN_LOGPROBS_H

#include "base/status.h"
#include "osprey.h"

struct token_logprobs {
    float *logprobs;     /* (n_max); NULL: not requested */
    int32_t *top_tokens; /* (n_max, n_top) */
    float *top_logprobs; /* (n_max, n_top) */
    int n_max, n_top;
};

/* For up to n_max tokens. OSP_ENOMEM. */
CHECKED enum osp_status token_logprobs_init(struct token_logprobs *s, int n_max, int n_top);
void token_logprobs_release(struct token_logprobs *s); /* accepts a zeroed one */

/* Of one sample: top_tokens and top_logprobs have n_top entries at least. */
struct token_logprob {
    float logprob;
    const int32_t *top_tokens;
    const float *top_logprobs;
};
/* Stores those of token i, if they were requested. */
void token_logprobs_write(struct token_logprobs *s, int i,
                          const struct token_logprob *token_logprob);
/* Fills all of *out except its offset and returns it; NULL: not requested. `s` owns its lists. */
const struct osp_logprob *token_logprobs_at(const struct token_logprobs *s, int i, int32_t token,
                                            struct osp_logprob *out);

#endif
