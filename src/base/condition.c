#include "base/condition.h"

#include <time.h>

void condition_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

bool condition_wait(pthread_cond_t *c, pthread_mutex_t *held, uint64_t deadline_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                .tv_nsec = (long)(deadline_ns % 1000000000u)};

    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(c, held) == 0;
    return pthread_cond_timedwait(c, held, &at) == 0;
}
