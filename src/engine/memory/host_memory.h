/* How much of the host's memory this process may still allocate. */
#ifndef ENGINE_MEMORY_HOST_MEMORY_H
#define ENGINE_MEMORY_HOST_MEMORY_H

#include <stdint.h>

/* MemAvailable of /proc/meminfo, or what the process's memory cgroup leaves if that is less;
 * INT64_MAX when neither can be read. Page cache counts as available in both. */
int64_t host_available_bytes(void);

#endif
