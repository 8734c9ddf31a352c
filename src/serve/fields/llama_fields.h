/* Fields of llama.cpp's samplers and server, which llama-server's native API, its web page and the
 * options of Ollama have in common. What the engine has is honoured. Samplers that it lacks are
 * accepted at the value that turns them off, and refused at any other. */
#ifndef SERVE_FIELDS_LLAMA_FIELDS_H
#define SERVE_FIELDS_LLAMA_FIELDS_H

#include "serve/fields/json_fields.h"

/* The order in which the engine applies its samplers, as the JSON list of a `samplers` field. */
#define LLAMA_SAMPLERS "[\"penalties\",\"temperature\",\"top_k\",\"top_p\",\"min_p\"]"

/* The i-th row of the table; NULL if i is past the last row. */
const struct field *llama_field_at(size_t i);
/* Applies repeat_last_n, which the penalties depend on. Called when all fields have been read. */
CHECKED enum osp_status llama_fields_finish(struct request_params *p);

#endif
