/* Reads metrics in Prometheus text format. */
#ifndef CLI_CLIENT_PROMETHEUS_H
#define CLI_CLIENT_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>

/* A metric to look for, by its name. A server with several engines, or a counter with several
 * labels, has several values of one name. */
struct metric {
    const char *name;
    double sum; /* of all values; NaN and infinite ones are left out */
    int n;      /* how many; 0: the server does not have the metric */
};

/* Adds the values in `text` (n_bytes) to the n metrics. Lines that are not understood are skipped,
 * so that a newer server can be read. */
void prometheus_read(struct metric *metrics, int n, const char *text, size_t n_bytes);

#endif
