/* Readers of the fields that list token ids, for the table of json_fields.c. */
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

#endif
