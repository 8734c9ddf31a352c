/* The changes of a prefix cache since they were last taken: whole pages that were added or removed.
 * Part of the scheduler, so it does no input or output; kv_events/ publishes them. */
#ifndef ENGINE_SCHED_PREFIX_LOG_H
#define ENGINE_SCHED_PREFIX_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/batch.h"

enum prefix_change_kind { PREFIX_STORED, PREFIX_REMOVED };

struct prefix_change {
    enum prefix_change_kind kind;
    uint64_t hash;               /* of the page and all before it (prefix_hash.h) */
    uint64_t parent;             /* of the page before it, or of the salt */
    uint64_t salt;               /* hash of the salt; 0: none. Only of a first page */
    bool is_first;               /* no page comes before it */
    int32_t tokens[PAGE_TOKENS]; /* of a stored page */
};

struct prefix_log {
    struct prefix_change *changes; /* (n) */
    size_t n, capacity;
    bool is_incomplete; /* there was no memory for a change */
};

void prefix_log_add(struct prefix_log *log, const struct prefix_change *change);
void prefix_log_release(struct prefix_log *log); /* accepts a zeroed one; leaves it empty */

#endif
