/* How much memory of the host this process may still take. */
#ifndef ENGINE_MEMORY_HOST_MEMORY_H
#define ENGINE_MEMORY_HOST_MEMORY_H

#include <stdint.h>

/* MemAvailable of /proc/meminfo, lowered to what the process's memory cgroup leaves; INT64_MAX when
 * neither can be read. Page cache counts as available in both. */
int64_t host_available_bytes(void);

#endif
