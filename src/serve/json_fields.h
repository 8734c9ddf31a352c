/* The fields of a chat completion request, each with the reader that checks it and keeps what it says. */
#ifndef SERVE_JSON_FIELDS_H
#define SERVE_JSON_FIELDS_H

#include <jansson.h>

#include "serve/json_in.h"

/* *known says whether there is such a field; null is as if it were not given. Errors begin with the
 * name. */
CHECKED enum osp_status chat_field_read(bool *known, struct chat_params *p, const char *name,
                                        const json_t *v);

/* Whether what the fields say together can be done. */
CHECKED enum osp_status chat_fields_agree(const struct chat_params *p);

#endif
