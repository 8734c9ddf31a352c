/* A limit on the memory that jansson may allocate in this thread. Without it, a hostile body of
 * 4 MiB grows to 310 MiB of nodes. The allocation hook is process-wide; each thread has its own
 * count. */
#ifndef SERVE_FIELDS_JSON_BUDGET_H
#define SERVE_FIELDS_JSON_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

void json_budget_install(void); /* call once, before any thread reads JSON */
void json_budget_begin(size_t limit_bytes);
void json_budget_more(size_t n_bytes); /* raises the limit: more JSON is read than the body alone */
/* Ends the budget. OSP_ELIMIT: it was exceeded. OSP_ENOMEM: the system had no memory; jansson
 * may have dropped a part of a string without an error, so what was read must not be used. */
enum osp_status json_budget_end(void);

/* The limit for a body of this size. Honest bodies need up to ten times their text: messages of
 * a few words each. */
size_t json_budget_for(size_t body_bytes);

struct api_error;
/* Sets *out for a body whose reading returned `st` and whose budget ended with `memory`, which
 * is not OSP_OK. Returns the status of the request. The text of a body that was read
 * successfully although the limit was exceeded is complete. */
enum osp_status json_budget_failure(enum osp_status st, enum osp_status memory, size_t body_bytes,
                                    struct api_error *out);

#endif
