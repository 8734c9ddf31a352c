/* Readers of numbers and booleans of a request, each checked against its range. Errors begin
 * with the name of the field. */
#ifndef SERVE_FIELDS_JSON_TYPES_H
#define SERVE_FIELDS_JSON_TYPES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* Records OSP_EINVAL: "FIELD: must be WANTED, is ..."; a number is shown as its value, any other
 * value as its type. */
enum osp_status json_mismatch(const char *field, const json_t *v, const char *wanted);
CHECKED enum osp_status json_number(double *out, const char *field, const json_t *v, double min,
                                    double max);
CHECKED enum osp_status json_int(json_int_t *out, const char *field, const json_t *v,
                                 json_int_t min, json_int_t max);
CHECKED enum osp_status json_bool(bool *out, const char *field, const json_t *v);

#endif
