/* The field bad_words: words that are not generated. Each is banned by the logit bias of its token,
 * so it must be a single token, both with and without a space before it, as vLLM encodes it. */
#ifndef SERVE_JOB_BAD_WORDS_H
#define SERVE_JOB_BAD_WORDS_H

#include "serve/fields/request_params.h"

/* Adds the biases of the words to params->biases, after all fields have been read. words: NULL or
 * null: none. OSP_EUNSUPPORTED that names the word: it has several tokens. */
CHECKED enum osp_status bad_words_apply(struct request_params *p, const struct osp_tokenizer *t,
                                        const json_t *words);

#endif
