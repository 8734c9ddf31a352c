/* The memory of the host, and what this process may still allocate of it. */
#ifndef BASE_HOST_MEMORY_H
#define BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* INT64_MAX: not known, or no limit. */
struct host_memory {
    int64_t total_bytes, available_bytes; /* MemTotal and MemAvailable of /proc/meminfo */
    int64_t swap_bytes, swap_free_bytes;  /* SwapTotal and SwapFree */
    int64_t group_limit_bytes;            /* the least of the process's control groups; version
                                                  1 has a number near 2^63 for no limit */
    int64_t group_left_bytes;             /* what they leave; page cache counts as available */
};

/* root: "" for this machine; a test has a folder of its own. */
void host_memory_read(struct host_memory *out, const char *root);

/* What this process may still allocate: MemAvailable, or what its control groups leave if that is
 * less; INT64_MAX when neither can be read. */
int64_t host_available_bytes(void);

#endif
