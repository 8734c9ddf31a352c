/* What the operating system says of this process. */
#ifndef BASE_PROCESS_STATS_H
#define BASE_PROCESS_STATS_H

#include <stdint.h>

struct process_stats {
    int64_t resident_bytes, virtual_bytes, n_files; /* open descriptors */
    double cpu_seconds;
};

/* What cannot be found out is 0. */
void process_stats_read(struct process_stats *out);

#endif
