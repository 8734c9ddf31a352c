/* "truncation": "auto" of /v1/responses: the oldest messages of a conversation that does not fit
 * into the context are dropped. */
#ifndef SERVE_RESPONSES_RESPONSE_TRUNCATE_H
#define SERVE_RESPONSES_RESPONSE_TRUNCATE_H

#include <jansson.h>

#include "base/status.h"

enum {
    /* Without max_output_tokens, a truncated prompt leaves this part of the context free. */
    TRUNCATE_ANSWER_SHARE = 8,
    /* Tokens are dropped in steps of this part of the context. The next turns then drop the same
     * messages, and find their prompt in the prefix cache. */
    TRUNCATE_STEP_SHARE = 8
};

/* What truncation needs to know of a request. */
struct truncation {
    json_t *messages; /* in the form of a chat completion; borrowed */
    int context_tokens_max;
    int answer_tokens_max; /* max_output_tokens; 0: not set */
    /* Counts the tokens of the prompt with these messages. */
    enum osp_status (*count)(void *ctx, json_t *messages, size_t *n_tokens);
    void *ctx;
};

/* *kept: the messages that remain, to json_decref(). All of them if the prompt fits, and also if
 * it does not fit without all that may be dropped: the engine then refuses it. *n_dropped: how
 * many are missing.
 *
 * Kept are: system and developer messages; the last user message and all that follows it. If that
 * alone is too long, as in an agent's long loop, the oldest calls and results of the last turn are
 * dropped too, except for the last assistant message and its results. A result is dropped with
 * its call. */
CHECKED enum osp_status response_truncate(const struct truncation *t, json_t **kept,
                                          size_t *n_dropped);

#endif
