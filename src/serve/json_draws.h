/* The fields of a request that say how its tokens are drawn, beyond temperature and its like, and what is told of
 * them. Readers of the table in json_fields.c. */
#ifndef SERVE_JSON_DRAWS_H
#define SERVE_JSON_DRAWS_H

#include "serve/json_in.h"
#include "serve/json_types.h"

/* X(reader) */
#define JSON_DRAW_READERS(X)                                                                       \
    X(json_read_frequency)                                                                         \
    X(json_read_presence)                                                                          \
    X(json_read_repetition)                                                                        \
    X(json_read_biases)                                                                            \
    X(json_read_allowed)                                                                           \
    X(json_read_stop_tokens)                                                                       \
    X(json_read_tokens_min)                                                                        \
    X(json_read_logprobs)                                                                          \
    X(json_read_top_logprobs)                                                                      \
    X(json_read_token_ids)

#define JSON_DRAW_DECLARE(reader)                                                                  \
    CHECKED enum osp_status reader(struct chat_params *p, const char *field, const json_t *v);
JSON_DRAW_READERS(JSON_DRAW_DECLARE)
#undef JSON_DRAW_DECLARE

#endif
