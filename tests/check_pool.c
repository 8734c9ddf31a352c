/* The cost of the worker pool: a loop in which all threads take part, while the workers spin and
 * while they sleep; the CPU time of an idle pool; and how late another thread of the process runs
 * while all CPUs work. Unbound and bound to cores, with 1, 2, 4... threads up to the number of
 * CPUs. Fails when an idle pool uses more than a hundredth of a CPU. The times are only printed,
 * because others may be using the machine. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"

enum {
    LOOPS = 20000,
    ROUNDS = 20,     /* of LOOPS / ROUNDS each; the fastest counts */
    SLEEPS = 50,     /* loops after a pause */
    PAUSE_US = 2000, /* longer than the workers spin */
    IDLE_US = 500 * 1000,
    WAKES = 200, /* wake-ups of the other thread */
    WAKE_EVERY_US = 1000,
    WORK_NS = 200 * 1000, /* a typical part of a stage of a decode step */
    THREADS_MAX = 256
};

static void must(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "%s\n", fail_message());
    exit(2);
}

/* A loop that ends only when every thread has arrived. */
struct meeting {
    atomic_int arrived;
    int n;
};

static void meet(void *ctx, int part, int worker)
{
    struct meeting *m = ctx;

    (void)part;
    (void)worker;
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load_explicit(&m->arrived, memory_order_acquire) < m->n)
        ;
}

static void meet_all(struct pool *p)
{
    struct meeting m = {.n = pool_threads(p)};

    pool_run(p, meet, &m, m.n);
}

static double process_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds per loop, of the fastest round. */
static double spinning_us(struct pool *p)
{
    double best = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t begin_ns = clock_ns();
        double us;

        for (int i = 0; i < LOOPS / ROUNDS; i++)
            meet_all(p);
        us = (double)(clock_ns() - begin_ns) * 1e-3 / (LOOPS / ROUNDS);
        best = us < best ? us : best;
    }
    return best;
}

/* Median over loops that find the workers asleep. */
static double sleeping_us(struct pool *p)
{
    double times[SLEEPS];

    for (int i = 0; i < SLEEPS; i++) {
        uint64_t begin_ns;

        usleep(PAUSE_US);
        begin_ns = clock_ns();
        meet_all(p);
        times[i] = (double)(clock_ns() - begin_ns) * 1e-3;
    }
    qsort(times, SLEEPS, sizeof *times, compare);
    return times[SLEEPS / 2];
}

/* CPUs in use while the pool is idle. */
static double idle_cpus(struct pool *p)
{
    double before;

    meet_all(p);
    usleep(PAUSE_US);
    before = process_seconds();
    usleep(IDLE_US);
    return (process_seconds() - before) / (IDLE_US * 1e-6);
}

/* ---- another thread, such as the one that serves connections ---- */

struct other {
    double late_us[WAKES];
    atomic_bool done;
};

static void *wake_often(void *arg)
{
    struct other *o = arg;

    for (int i = 0; i < WAKES; i++) {
        const uint64_t begin_ns = clock_ns();

        usleep(WAKE_EVERY_US);
        o->late_us[i] = (double)(clock_ns() - begin_ns) * 1e-3 - WAKE_EVERY_US;
    }
    atomic_store(&o->done, true);
    return NULL;
}

static void work(void *ctx, int part, int worker)
{
    const uint64_t begin_ns = clock_ns();

    (void)ctx;
    (void)part;
    (void)worker;
    while (clock_ns() - begin_ns < WORK_NS)
        ;
}

static void measure_other(struct pool *p, int n_threads, double *p50_us, double *p99_us)
{
    static struct other o;
    pthread_t thread;

    atomic_store(&o.done, false);
    if (pthread_create(&thread, NULL, wake_often, &o) != 0)
        exit(2);
    while (!atomic_load(&o.done))
        pool_run(p, work, NULL, n_threads);
    pthread_join(thread, NULL);
    qsort(o.late_us, WAKES, sizeof *o.late_us, compare);
    *p50_us = o.late_us[WAKES / 2];
    *p99_us = o.late_us[WAKES * 99 / 100];
}

/* ---- measurements ---- */

static bool measure(int n_threads, const char *affinity)
{
    double spin_us, sleep_us, idle, p50_us, p99_us;
    struct pool *p;

    must(pool_open_bound(&p, n_threads, affinity));
    pool_bind_caller(p);
    spin_us = spinning_us(p);
    sleep_us = sleeping_us(p);
    idle = idle_cpus(p);
    pool_close(p); /* unbinds this thread, and so the threads that it starts later */
    must(pool_open_bound(&p, n_threads, affinity));
    measure_other(p, n_threads, &p50_us, &p99_us);
    pool_close(p);
    printf("| %d | %s | %.2f | %.1f | %.4f | %.0f | %.0f |\n", n_threads, affinity, spin_us,
           sleep_us, idle, p50_us, p99_us);
    return idle < 0.01;
}

int main(void)
{
    const int n_cpus = pool_usable_cpus() < THREADS_MAX ? pool_usable_cpus() : THREADS_MAX;
    int n_bad = 0;

    printf(
        "| threads | bound to | loop of all, spinning (us) | asleep (us) | CPUs busy when idle | "
        "another thread late, p50 (us) | p99 |\n|---:|:---|---:|---:|---:|---:|---:|\n");
    for (int n = 1; n <= n_cpus; n = n < n_cpus && 2 * n > n_cpus ? n_cpus : 2 * n) {
        n_bad += !measure(n, "off");
        n_bad += !measure(n, "cores");
    }
    printf("%d idle pools used the CPU\n", n_bad);
    return n_bad > 0;
}
