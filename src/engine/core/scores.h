/* Log-probabilities of an answer's tokens, for requests that ask for them: written by the engine's thread, read by the
 * client's once their tokens are published. Their memory never moves. Zeroed: not asked for. */
#ifndef ENGINE_CORE_SCORES_H
#define ENGINE_CORE_SCORES_H

#include "base/status.h"
#include "osprey.h"

struct scores {
    float *logprobs;     /* (n_max); NULL: not asked for */
    int32_t *top_tokens; /* (n_max, n_top) */
    float *top_logprobs; /* (n_max, n_top) */
    int n_max, n_top;
};

/* Of up to n_max tokens. OSP_ENOMEM. */
CHECKED enum osp_status scores_init(struct scores *s, int n_max, int n_top);
void scores_release(struct scores *s); /* accepts a zeroed one */

/* Of one draw: top_tokens and top_logprobs have n_top entries at least. */
struct score {
    float logprob;
    const int32_t *top_tokens;
    const float *top_logprobs;
};
/* Keeps token i's, if they were asked for. */
void scores_write(struct scores *s, int i, const struct score *score);
/* Fills *out but for its offset and gives it; NULL: not asked for. Its lists are those of `s`. */
const struct osp_logprob *scores_at(const struct scores *s, int i, int32_t token,
                                    struct osp_logprob *out);

#endif
