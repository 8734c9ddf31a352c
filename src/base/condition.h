/* Conditions that are waited for up to a time of clock_ns(). */
#ifndef BASE_CONDITION_H
#define BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void condition_init(pthread_cond_t *c);

/* False when the time is up; UINT64_MAX is for ever. As always, true may be for nothing. */
bool condition_wait(pthread_cond_t *c, pthread_mutex_t *held, uint64_t deadline_ns);

#endif
