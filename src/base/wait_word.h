/* A counter in memory that several processes share: one writes it, others wait until it has reached
 * a number. A waiter spins for a moment and then sleeps on a futex, so that more processes than
 * CPUs make progress. Zeroed memory is a counter at 0; it wraps at 2^32. */
#ifndef BASE_WAIT_WORD_H
#define BASE_WAIT_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wait_word {
    _Alignas(64) atomic_uint value; /* a cache line of its own */
    atomic_uint n_waiters;
};

void wait_word_set(struct wait_word *w, uint32_t value);
/* Whether the counter is at `value` or behind it. */
bool wait_word_has(const struct wait_word *w, uint32_t value);
/* Waits for that for up to timeout_ns; false: it is not there yet. */
bool wait_word_wait(struct wait_word *w, uint32_t value, uint64_t timeout_ns);

#endif
