/* The worker pool. A loop is one 64-bit ticket: its number in the upper half, the parts not yet
 * claimed in the lower. A part is claimed by lowering the ticket with compare-and-swap, so a worker
 * that comes late to a loop that is over finds nothing to claim, and nobody ever waits for it: the
 * caller waits only for parts that somebody works on.
 *
 * The loop's description (fn, ctx, n_parts) is plain memory: the caller writes it before it
 * publishes the ticket and not again before all parts are done; a worker reads it only between its
 * claim and its count of done parts. */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
    POOL_THREADS_MAX = 1024,
    CACHE_LINE_BYTES = 64,
    SPIN_NS = 100 * 1000,   /* longer than the gap between two stages, far shorter than a step */
    SPIN_TURNS_A_LOOK = 32, /* pauses between two looks at the clock */
    TAKEN_AWAY_NS =
        50 * 1000 /* 32 pauses take about 1 us: more means that the CPU was taken away */
};

struct pool_worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t ticket;
    _Alignas(CACHE_LINE_BYTES) atomic_uint epoch; /* loops so far; idle workers sleep on it */
    atomic_int n_sleepers;
    _Alignas(CACHE_LINE_BYTES) atomic_uint n_done; /* parts; the caller sleeps on it */
    atomic_bool caller_sleeps;
    _Alignas(CACHE_LINE_BYTES) pool_fn *fn;
    void *ctx;
    uint32_t n_parts;
    atomic_bool stop;
    bool may_spin; /* not when there are more threads than CPUs */
    int n_threads, n_workers;
    struct pool_worker *workers; /* (n_workers) */
};

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins until *word differs from `old`; false when it took too long or another process wants this
 * CPU. */
static bool spin_while_equal(atomic_uint *word, unsigned old)
{
    uint64_t start_ns = clock_ns(), last_ns = start_ns;

    for (;;) {
        uint64_t now_ns;

        for (int i = 0; i < SPIN_TURNS_A_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old)
                return true;
            cpu_pause();
        }
        now_ns = clock_ns();
        if (now_ns - last_ns > TAKEN_AWAY_NS || now_ns - start_ns > SPIN_NS)
            return false;
        last_ns = now_ns;
    }
}

/* Claims one part of the present loop; false when none is left. */
static bool claim(struct pool *p, int *part)
{
    uint64_t ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);

    while ((uint32_t)ticket > 0) {
        if (atomic_compare_exchange_weak_explicit(&p->ticket, &ticket, ticket - 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *part = (int)(p->n_parts - (uint32_t)ticket);
            return true;
        }
    }
    return false;
}

static void work(struct pool *p, int worker)
{
    int part;

    while (claim(p, &part)) {
        uint32_t n_parts = p->n_parts;

        p->fn(p->ctx, part, worker);
        if (atomic_fetch_add(&p->n_done, 1) + 1 == n_parts && atomic_load(&p->caller_sleeps))
            futex_wake(&p->n_done, 1);
    }
}

static void wait_for_loop(struct pool *p, unsigned seen)
{
    if (p->may_spin && spin_while_equal(&p->epoch, seen))
        return;
    atomic_fetch_add(&p->n_sleepers, 1);
    while (atomic_load(&p->epoch) == seen)
        futex_wait(&p->epoch, seen);
    atomic_fetch_sub(&p->n_sleepers, 1);
}

static void *worker_main(void *arg)
{
    struct pool_worker *w = arg;
    struct pool *p = w->pool;

    for (;;) {
        unsigned seen = atomic_load(&p->epoch);

        if (atomic_load(&p->stop))
            return NULL;
        work(p, w->index);
        wait_for_loop(p, seen);
    }
}

static void announce(struct pool *p)
{
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->n_sleepers) > 0)
        futex_wake(&p->epoch, INT_MAX);
}

static void wait_until_done(struct pool *p)
{
    unsigned done;

    while ((done = atomic_load(&p->n_done)) < p->n_parts) {
        if (p->may_spin && spin_while_equal(&p->n_done, done))
            continue;
        atomic_store(&p->caller_sleeps, true);
        done = atomic_load(&p->n_done);
        if (done < p->n_parts)
            futex_wait(&p->n_done, done);
        atomic_store(&p->caller_sleeps, false);
    }
}

static void run_alone(pool_fn *fn, void *ctx, int n_parts)
{
    for (int part = 0; part < n_parts; part++)
        fn(ctx, part, 0);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_parts)
{
    uint64_t number;

    if (p->n_workers == 0 || n_parts <= 1) {
        run_alone(fn, ctx, n_parts);
        return;
    }
    number = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
    p->fn = fn;
    p->ctx = ctx;
    p->n_parts = (uint32_t)n_parts;
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->ticket, number << 32 | (uint32_t)n_parts, memory_order_release);
    announce(p);
    work(p, 0);
    wait_until_done(p);
}

static enum osp_status start_workers(struct pool *p)
{
    for (int i = 1; i < p->n_threads; i++) {
        struct pool_worker *w = &p->workers[p->n_workers];
        int code;

        *w = (struct pool_worker){.pool = p, .index = i};
        code = pthread_create(&w->thread, NULL, worker_main, w);
        if (code != 0)
            return fail(OSP_ENOMEM, "cannot start worker thread %d of %d: %s", i, p->n_threads,
                        strerror(code));
        p->n_workers++;
    }
    return OSP_OK;
}

enum osp_status pool_open(struct pool **out, int n_threads)
{
    int n_cpus = pool_usable_cpus();
    struct pool *p = NULL;
    enum osp_status st;

    if (n_threads == 0)
        n_threads = n_cpus < POOL_THREADS_MAX ? n_cpus : POOL_THREADS_MAX;
    if (n_threads < 0 || n_threads > POOL_THREADS_MAX)
        return fail(OSP_EINVAL, "%d threads, allowed are 1 to %d", n_threads, POOL_THREADS_MAX);
    st = mem_try_aligned(&p, 1, sizeof *p, "worker pool");
    if (st != OSP_OK)
        return st;
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    p->may_spin = n_threads <= n_cpus;
    p->workers = mem_new((size_t)n_threads * sizeof *p->workers);
    st = start_workers(p);
    if (st != OSP_OK) {
        pool_close(p);
        return st;
    }
    *out = p;
    return OSP_OK;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    announce(p);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p);
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}
