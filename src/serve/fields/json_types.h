/* Numbers and truth values of a request's JSON, each within its range. Errors begin with the
 * field's name. */
#ifndef SERVE_FIELDS_JSON_TYPES_H
#define SERVE_FIELDS_JSON_TYPES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

CHECKED enum osp_status json_number(double *out, const char *field, const json_t *v, double min,
                                    double max);
CHECKED enum osp_status json_int(json_int_t *out, const char *field, const json_t *v,
                                 json_int_t min, json_int_t max);
CHECKED enum osp_status json_bool(bool *out, const char *field, const json_t *v);

#endif
