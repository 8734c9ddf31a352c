#include "base/wait_word.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    SPINS = 64, /* reads before the first yield: less than a system call */
    YIELDS = 16 /* then the CPU is given to other processes before this one sleeps */
};

void wait_word_set(struct wait_word *w, uint32_t value)
{
    atomic_store(&w->value, value);
    if (atomic_load(&w->n_waiters) > 0)
        syscall(SYS_futex, &w->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool has(uint32_t now, uint32_t value)
{
    return (int32_t)(now - value) >= 0;
}

bool wait_word_has(const struct wait_word *w, uint32_t value)
{
    return has(atomic_load_explicit(&w->value, memory_order_acquire), value);
}

/* The writer reads n_waiters after it has written the value, and the waiter the value after it has
 * counted itself: one of them sees the other. */
static void sleep_once(struct wait_word *w, uint32_t value, uint64_t timeout_ns)
{
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                                     .tv_nsec = (long)(timeout_ns % 1000000000u)};
    uint32_t seen;

    atomic_fetch_add(&w->n_waiters, 1);
    seen = atomic_load(&w->value);
    if (!has(seen, value))
        syscall(SYS_futex, &w->value, FUTEX_WAIT, seen, &timeout, NULL, 0);
    atomic_fetch_sub(&w->n_waiters, 1);
}

bool wait_word_wait(struct wait_word *w, uint32_t value, uint64_t timeout_ns)
{
    uint64_t begin_ns, now_ns;

    for (int i = 0; i < SPINS; i++)
        if (wait_word_has(w, value))
            return true;
    for (int i = 0; i < YIELDS; i++) {
        sched_yield();
        if (wait_word_has(w, value))
            return true;
    }
    begin_ns = now_ns = clock_ns();
    while (!wait_word_has(w, value) && now_ns - begin_ns < timeout_ns) {
        sleep_once(w, value, timeout_ns - (now_ns - begin_ns));
        now_ns = clock_ns();
    }
    return wait_word_has(w, value);
}
