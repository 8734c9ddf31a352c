/* A budget on what jansson may allocate in this thread: a hostile body of 4 MiB would otherwise
 * grow to 310 MiB of nodes. The hook is process-wide, the account is each thread's own. */
#ifndef SERVE_FIELDS_JSON_BUDGET_H
#define SERVE_FIELDS_JSON_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

void json_budget_install(void); /* once, before any thread reads JSON */
void json_budget_begin(size_t limit_bytes);
void json_budget_more(size_t n_bytes); /* what is read is more than was known */
/* What became of it: OSP_OK, OSP_ELIMIT when the budget was exceeded, OSP_ENOMEM when the system
 * had no memory. jansson may lose a piece of a string and say nothing: in the last case what was
 * read is not to be trusted. */
enum osp_status json_budget_end(void);

/* What an honest body of this size can need: messages of a few words are ten times their text. */
size_t json_budget_for(size_t body_bytes);

struct api_error;
/* What a body's reading, which gave `st`, comes to when the budget ended with `memory`, which is
 * not OSP_OK: sets the error and gives its status. Text of a body that was read in spite of a limit
 * is whole. */
enum osp_status json_budget_failure(enum osp_status st, enum osp_status memory, size_t body_bytes,
                                    struct api_error *out);

#endif
