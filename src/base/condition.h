/* Condition variables with a deadline on the clock of clock_ns(). */
#ifndef BASE_CONDITION_H
#define BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void condition_init(pthread_cond_t *c);

/* False when the deadline has passed; UINT64_MAX means no deadline. True may be a spurious
 * wakeup. */
bool condition_wait(pthread_cond_t *c, pthread_mutex_t *held, uint64_t deadline_ns);

#endif
