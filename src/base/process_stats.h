/* Resource usage of this process as reported by the operating system. */
#ifndef BASE_PROCESS_STATS_H
#define BASE_PROCESS_STATS_H

#include <stdint.h>

struct process_stats {
    int64_t resident_bytes, virtual_bytes, n_files; /* open descriptors */
    double cpu_seconds;
};

/* A value that cannot be read is 0. */
void process_stats_read(struct process_stats *out);

#endif
