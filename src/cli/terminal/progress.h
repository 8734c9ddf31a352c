/* A progress bar on standard error: bytes done, bytes in all, and the time. */
#ifndef CLI_TERMINAL_PROGRESS_H
#define CLI_TERMINAL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "loading" */
    bool on;          /* standard error is a terminal */
    uint64_t start_ns, shown_ns;
};

void progress_init(struct progress *p, const char *what, bool quiet);
void progress_show(void *p, int64_t done_bytes, int64_t total_bytes); /* an osp_progress_fn */
void progress_clear(struct progress *p);

#endif
