/* Readers of the fields for constrained decoding, for the table of json_fields.c. */
#ifndef SERVE_FIELDS_JSON_RESPONSE_FORMAT_H
#define SERVE_FIELDS_JSON_RESPONSE_FORMAT_H

#include "serve/fields/request_params.h"

CHECKED enum osp_status json_read_response_format(struct request_params *p, const char *field,
                                                  const json_t *v);
CHECKED enum osp_status json_read_structured_outputs(struct request_params *p, const char *field,
                                                     const json_t *v);
CHECKED enum osp_status json_read_regex(struct request_params *p, const char *field,
                                        const json_t *v);
CHECKED enum osp_status json_read_choice(struct request_params *p, const char *field,
                                         const json_t *v);
/* A schema without a wrapper: guided_json and json_schema. */
CHECKED enum osp_status json_read_json_schema(struct request_params *p, const char *field,
                                              const json_t *v);
/* guided_grammar and grammar: refused unless empty. */
CHECKED enum osp_status json_refuse_grammar(struct request_params *p, const char *field,
                                            const json_t *v);
/* Makes the engine's failure name the field that the client sent. Returns `st`. */
CHECKED enum osp_status json_form_explain(const struct request_params *p, enum osp_status st);

#endif
