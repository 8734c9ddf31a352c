/* Time: a monotonic clock for durations, the wall clock for dates and log lines. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);                /* monotonic */
double clock_lap_s(uint64_t *since_ns); /* seconds since *since_ns, which is set to now */
int64_t clock_unix_s(void);             /* seconds since 1970 */
double clock_unix_seconds(void);        /* the same with fractions */
void clock_date_utc(char out[11]);      /* "2026-01-31" */

#endif
