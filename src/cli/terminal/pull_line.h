/* Shows a running pull on standard error: one line that is replaced on a terminal, otherwise a line
 * every ten seconds. */
#ifndef CLI_TERMINAL_PULL_LINE_H
#define CLI_TERMINAL_PULL_LINE_H

#include <stdbool.h>

#include "osprey_tools.h"

enum { PULL_SAMPLES = 20, PULL_LINE_BYTES_MAX = 256, PULL_TIME_BYTES_MAX = 32 };

struct pull_line {
    bool quiet, is_terminal;
    bool has_line; /* one is on the terminal */
    uint64_t shown_ns, start_ns;
    /* the last ten seconds, for the rate */
    struct {
        uint64_t time_ns;
        int64_t received_bytes;
    } samples[PULL_SAMPLES];
    int n_samples;
};

void pull_line_init(struct pull_line *l, bool quiet);
void pull_line_show(struct pull_line *l, const struct osp_pull_progress *p);
void pull_line_clear(struct pull_line *l);

/* "3 min 20 s", into out; returns out. */
char *pull_format_time(char out[PULL_TIME_BYTES_MAX], double seconds);
/* "a/b: 3.1 GB of 13.8 GB, 22 %, 118.0 MB/s, 1 min 31 s left, 4 of 15 files"; a rate of 0 is left
 * out. */
void pull_format_line(char out[PULL_LINE_BYTES_MAX], const struct osp_pull_progress *p,
                      double bytes_per_s);

#endif
