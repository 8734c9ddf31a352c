/* Readers of the fields that list token ids or words, for the table of json_fields.c. */
#ifndef SERVE_FIELDS_JSON_SAMPLING_H
#define SERVE_FIELDS_JSON_SAMPLING_H

#include "serve/fields/request_params.h"
#include "serve/fields/json_types.h"

CHECKED enum osp_status json_read_biases(struct request_params *p, const char *field,
                                         const json_t *v);
CHECKED enum osp_status json_read_allowed(struct request_params *p, const char *field,
                                          const json_t *v);
CHECKED enum osp_status json_read_stop_tokens(struct request_params *p, const char *field,
                                              const json_t *v);
/* Checks bad_words; bad_words_apply() (serve/job/bad_words.h) makes biases of them. */
enum { BAD_WORDS_MAX = OSP_LOGIT_BIASES_MAX / 2 };
CHECKED enum osp_status json_read_bad_words(struct request_params *p, const char *field,
                                            const json_t *v);
const char *json_bad_word(const json_t *v); /* without spaces before it, as in vLLM */

#endif
