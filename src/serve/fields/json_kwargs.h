/* The field chat_template_kwargs: which of its keys are known. */
#ifndef SERVE_FIELDS_JSON_KWARGS_H
#define SERVE_FIELDS_JSON_KWARGS_H

#include "serve/fields/json_fields.h"

/* Keys that have a meaning here: X(name) */
#define TEMPLATE_KWARGS_LIST(X)                                                                    \
    X("reasoning_effort")                                                                          \
    X("enable_thinking")                                                                           \
    X("current_date")
bool template_kwarg_is_known(const char *name);
/* The field's reader (json_fields.h): notes the keys that are not known as ignored.
 * conversation_read() reads those that are. */
CHECKED enum osp_status json_read_template_kwargs(struct request_params *p, const char *field,
                                                  const json_t *v);

#endif
