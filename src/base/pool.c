/* The worker pool. A loop is one 64-bit ticket: the loop number in the upper half, the number of
 * unclaimed parts in the lower half. A worker claims a part by decrementing the ticket with
 * compare-and-swap. A worker that arrives after the loop has ended finds nothing to claim, and the
 * caller does not wait for it: the caller waits only for claimed parts.
 *
 * The loop's description (fn, ctx, n_parts) is plain memory. The caller writes it before it
 * publishes the ticket and not again until all parts are done. A worker reads it only between
 * claiming a part and counting the part as done. */
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

#include "base/bind.h"
#include "base/clock.h"
#include "base/memory.h"

enum {
    POOL_THREADS_MAX = 1024,
    CACHE_LINE_BYTES = 64,
    SPIN_NS = 100 * 1000, /* longer than the gap between two stages, far shorter than a step */
    SPINS_PER_CHECK = 32, /* pause instructions between two reads of the clock */
    DESCHEDULED_NS =
        50 * 1000 /* 32 pauses take about 1 us: more means that the CPU was preempted */
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
    _Alignas(CACHE_LINE_BYTES) atomic_uint n_done; /* parts done; the caller sleeps on it */
    atomic_bool caller_sleeps;
    _Alignas(CACHE_LINE_BYTES) pool_fn *fn;
    void *ctx;
    uint32_t n_parts;
    atomic_bool stop;
    bool may_spin; /* false if there are more threads than CPUs */
    int n_threads, n_workers;
    struct pool_worker *workers; /* (n_workers) */
    struct bind bind;
    uint64_t pool_id; /* unique in this process, because an address may be reused */
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

/* Spins until *word differs from `old`. False after SPIN_NS, or when another process needs this
 * CPU. */
static bool spin_while_equal(atomic_uint *word, unsigned old)
{
    uint64_t start_ns = clock_ns(), last_ns = start_ns;

    for (;;) {
        uint64_t now_ns;

        for (int i = 0; i < SPINS_PER_CHECK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old)
                return true;
            cpu_pause();
        }
        now_ns = clock_ns();
        if (now_ns - last_ns > DESCHEDULED_NS || now_ns - start_ns > SPIN_NS)
            return false;
        last_ns = now_ns;
    }
}

/* Claims one part of the current loop; false when all are claimed. */
static bool claim_part(struct pool *p, int *part)
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

static void run_parts(struct pool *p, int worker)
{
    int part;

    while (claim_part(p, &part)) {
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

    bind_this_thread(&p->bind, w->index);
    for (;;) {
        unsigned seen = atomic_load(&p->epoch);

        if (atomic_load(&p->stop))
            return NULL;
        run_parts(p, w->index);
        wait_for_loop(p, seen);
    }
}

static void publish_loop(struct pool *p)
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

static void run_serial(pool_fn *fn, void *ctx, int n_parts)
{
    for (int part = 0; part < n_parts; part++)
        fn(ctx, part, 0);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_parts)
{
    uint64_t pool_id;

    if (p->n_workers == 0 || n_parts <= 1) {
        run_serial(fn, ctx, n_parts);
        return;
    }
    pool_id = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
    p->fn = fn;
    p->ctx = ctx;
    p->n_parts = (uint32_t)n_parts;
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->ticket, pool_id << 32 | (uint32_t)n_parts, memory_order_release);
    publish_loop(p);
    run_parts(p, 0);
    wait_until_done(p);
}

/* ---- one part per worker ---- */

struct each {
    pool_fn *fn;
    void *ctx;
    pthread_barrier_t barrier;
};

/* No worker leaves its part before all have arrived, so no worker takes two. */
static void run_on_caller(void *ctx, int part, int worker)
{
    struct each *e = ctx;

    (void)part;
    pthread_barrier_wait(&e->barrier);
    e->fn(e->ctx, worker, worker);
}

void pool_run_each(struct pool *p, pool_fn *fn, void *ctx)
{
    struct each e = {.fn = fn, .ctx = ctx};
    struct bind_mask mask = {.is_saved = false};

    if (p->bind.level != BIND_NONE) {
        bind_save(&mask);
        bind_this_thread(&p->bind, 0);
    }
    pthread_barrier_init(&e.barrier, NULL, (unsigned)p->n_threads);
    pool_run(p, run_on_caller, &e, p->n_threads);
    pthread_barrier_destroy(&e.barrier);
    bind_restore(&mask);
}

/* ---- binding of the caller ---- */

/* For a thread that runs loops permanently: the pool that it is bound for, and its previous
 * mask. */
static _Thread_local struct {
    uint64_t pool;
    struct bind_mask mask;
} caller;

void pool_bind_caller(struct pool *p)
{
    if (p->bind.level == BIND_NONE || caller.pool == p->pool_id)
        return;
    if (!caller.mask.is_saved)
        bind_save(&caller.mask);
    bind_this_thread(&p->bind, 0);
    caller.pool = p->pool_id;
}

static void release_caller(const struct pool *p)
{
    if (caller.pool != p->pool_id)
        return;
    bind_restore(&caller.mask);
    caller.pool = 0;
}

/* ---- open and close ---- */

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
    return pool_open_bound(out, n_threads, NULL);
}

enum osp_status pool_open_bound(struct pool **out, int n_threads, const char *affinity)
{
    static _Atomic uint64_t n_opened;
    struct pool *p = NULL;
    struct bind bind;
    enum osp_status st;

    if (n_threads < 0 || n_threads > POOL_THREADS_MAX)
        return fail(OSP_EINVAL, "%d threads requested, expected 1 to %d", n_threads,
                    POOL_THREADS_MAX);
    TRY(bind_open(&bind, n_threads, affinity));
    if (bind.n_threads > POOL_THREADS_MAX)
        bind.n_threads = POOL_THREADS_MAX;
    TRY(mem_try_aligned(&p, 1, sizeof *p, "worker pool"));
    memset(p, 0, sizeof *p);
    p->bind = bind;
    bind = (struct bind){.cpu_of = NULL};
    p->pool_id = atomic_fetch_add(&n_opened, 1) + 1;
    p->n_threads = p->bind.n_threads;
    p->may_spin = p->n_threads <= p->bind.n_cpus;
    p->workers = mem_new((size_t)p->n_threads * sizeof *p->workers);
    TRY(start_workers(p));
    *out = p;
    p = NULL;
out:
    bind_close(&bind);
    pool_close(p);
    return st;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    publish_loop(p);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i].thread, NULL);
    release_caller(p);
    bind_close(&p->bind);
    free(p->workers);
    free(p);
}

void pool_interleave(const struct pool *p, void *data, size_t size_bytes)
{
    bind_interleave(&p->bind, data, size_bytes);
}

int pool_nodes(const struct pool *p)
{
    return p->bind.n_nodes;
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}
