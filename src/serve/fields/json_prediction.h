/* Reader of `prediction` (predicted outputs) for the table of json_fields.c. */
#ifndef SERVE_FIELDS_JSON_PREDICTION_H
#define SERVE_FIELDS_JSON_PREDICTION_H

#include "serve/fields/request_params.h"

/* {"type": "content", "content": a text or a list of text parts}; null: none. */
CHECKED enum osp_status json_read_prediction(struct request_params *p, const char *field,
                                             const json_t *v);

#endif
