#include "engine/sched/prefix_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void prefix_log_add(struct prefix_log *log, const struct prefix_change *change)
{
    if (mem_try_grow(&log->changes, log->n, &log->capacity, sizeof *log->changes,
                     "changes of the prefix cache") != OSP_OK) {
        log->is_incomplete = true;
        return;
    }
    log->changes[log->n++] = *change;
}

void prefix_log_release(struct prefix_log *log)
{
    free(log->changes);
    memset(log, 0, sizeof *log);
}
