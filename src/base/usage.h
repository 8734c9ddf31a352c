/* What the operating system says of this process. */
#ifndef BASE_USAGE_H
#define BASE_USAGE_H

#include <stdint.h>

struct usage_figures {
    int64_t resident_bytes, virtual_bytes, n_files; /* open descriptors */
    double cpu_seconds;
};

/* What cannot be found out is 0. */
void usage_read(struct usage_figures *out);

#endif
