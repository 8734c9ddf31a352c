/* Log-probabilities of an answer's tokens, for requests that ask for them: written by the
 * engine's thread, read by the client's once their tokens are published. Their memory never
 * moves. Zeroed: not asked for. */
#ifndef ENGINE_CORE_TOKEN_LOGPROBS_H
#define ENGINE_CORE_TOKEN_LOGPROBS_H

#include "base/status.h"
#include "osprey.h"

struct token_logprobs {
    float *logprobs;     /* (n_max); NULL: not asked for */
    int32_t *top_tokens; /* (n_max, n_top) */
    float *top_logprobs; /* (n_max, n_top) */
    int n_max, n_top;
};

/* Of up to n_max tokens. OSP_ENOMEM. */
CHECKED enum osp_status token_logprobs_init(struct token_logprobs *s, int n_max, int n_top);
void token_logprobs_release(struct token_logprobs *s); /* accepts a zeroed one */

/* Of one draw: top_tokens and top_logprobs have n_top entries at least. */
struct token_logprob {
    float logprob;
    const int32_t *top_tokens;
    const float *top_logprobs;
};
/* Keeps token i's, if they were asked for. */
void token_logprobs_write(struct token_logprobs *s, int i,
                          const struct token_logprob *token_logprob);
/* Fills *out but for its offset and gives it; NULL: not asked for. Its lists are those of `s`. */
const struct osp_logprob *token_logprobs_at(const struct token_logprobs *s, int i, int32_t token,
                                            struct osp_logprob *out);

#endif
