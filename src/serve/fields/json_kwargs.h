/* The field chat_template_kwargs: the keys that this server knows. */
#ifndef SERVE_FIELDS_JSON_KWARGS_H
#define SERVE_FIELDS_JSON_KWARGS_H

#include "serve/fields/json_fields.h"

/* Keys that this server reads: X(name) */
#define TEMPLATE_KWARGS_LIST(X)                                                                    \
    X("reasoning_effort")                                                                          \
    X("enable_thinking")                                                                           \
    X("current_date")
bool template_kwarg_is_known(const char *name);
/* The reader of the field (json_fields.h): adds unknown keys to the ignored fields.
 * conversation_read() reads the known keys. */
CHECKED enum osp_status json_read_template_kwargs(struct request_params *p, const char *field,
                                                  const json_t *v);

#endif
