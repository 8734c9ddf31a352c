/* Time. Monotonic for durations, wall clock for what people read. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);           /* monotonic */
int64_t clock_unix_s(void);        /* seconds since 1970 */
void clock_date_utc(char out[11]); /* "2026-01-31" */

#endif
