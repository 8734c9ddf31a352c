/* Reads the system's clocks. */
#include "base/clock.h"

#include <time.h>

uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double clock_lap_s(uint64_t *since_ns)
{
    const uint64_t before_ns = *since_ns;

    *since_ns = clock_ns();
    return (double)(*since_ns - before_ns) * 1e-9;
}

int64_t clock_unix_s(void)
{
    return (int64_t)time(NULL);
}

double clock_unix_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void clock_date_utc(char out[11])
{
    time_t now = time(NULL);
    struct tm parts;

    gmtime_r(&now, &parts);
    strftime(out, 11, "%Y-%m-%d", &parts);
}
