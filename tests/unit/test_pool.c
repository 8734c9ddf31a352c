/* The worker pool: every part runs once, reuse, wake-up from sleep; and the usable CPUs. */
#include "unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/memory.h"
#include "base/pool.h"

enum { PARTS_MAX = 10000, WORKERS_MAX = 16 };

struct tally {
    atomic_int parts[PARTS_MAX];
    atomic_int workers[WORKERS_MAX];
    /* Written by the worker that runs the part, read by the caller afterwards */
    int plain[PARTS_MAX];
    atomic_bool bad_worker;
};

static void count_part(void *ctx, int part, int worker)
{
    struct tally *t = ctx;

    atomic_fetch_add(&t->parts[part], 1);
    t->plain[part]++;
    if (worker < 0 || worker >= WORKERS_MAX)
        atomic_store(&t->bad_worker, true);
    else
        atomic_fetch_add(&t->workers[worker], 1);
}

static void run_and_check(struct pool *p, struct tally *t, int n_parts)
{
    int n_run = 0;

    memset(t, 0, sizeof *t);
    pool_run(p, count_part, t, n_parts);
    for (int i = 0; i < PARTS_MAX; i++) {
        assert_int_equal(t->parts[i], i < n_parts);
        assert_int_equal(t->plain[i], i < n_parts);
    }
    for (int i = 0; i < WORKERS_MAX; i++) {
        assert_true(i < pool_threads(p) || t->workers[i] == 0);
        n_run += t->workers[i];
    }
    assert_int_equal(n_run, n_parts);
    assert_false(t->bad_worker);
}

static void test_each_part_runs_once(void **state)
{
    static const int sizes[] = {0, 1, 2, 3, 7, 64, 1000, PARTS_MAX};
    struct tally *t = mem_new(sizeof *t);

    (void)state;
    for (int n_threads = 1; n_threads <= 8; n_threads++) {
        struct pool *p;

        assert_int_equal(pool_open(&p, n_threads), OSP_OK);
        assert_int_equal(pool_threads(p), n_threads);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            run_and_check(p, t, sizes[i]);
        pool_close(p);
    }
    free(t);
}

static void add_part(void *ctx, int part, int worker)
{
    (void)worker;
    atomic_fetch_add((atomic_long *)ctx, part);
}

/* Many short loops in a row: a late worker must not claim parts of the next loop. */
static void test_short_loops_in_a_row(void **state)
{
    struct pool *p;

    (void)state;
    assert_int_equal(pool_open(&p, 4), OSP_OK);
    for (long loop = 1; loop <= 20000; loop++) {
        int n_parts = (int)(loop % 9);
        atomic_long sum = 0;

        pool_run(p, add_part, &sum, n_parts);
        assert_int_equal(sum, (long)n_parts * (n_parts - 1) / 2);
    }
    pool_close(p);
}

/* Every part waits until all others have begun, so the loop ends only if all threads take part,
 * also after the workers have gone to sleep. */
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
    while (atomic_load(&m->arrived) < m->n)
        sched_yield();
}

static void test_sleeping_workers_wake(void **state)
{
    struct pool *p;

    (void)state;
    assert_int_equal(pool_open(&p, 4), OSP_OK);
    for (int i = 0; i < 50; i++) {
        struct meeting m = {.n = 4};

        usleep(i % 2 ? 2000 : 0); /* not a wait for a condition: it lets the workers go to sleep */
        pool_run(p, meet, &m, 4);
        assert_int_equal(m.arrived, 4);
    }
    pool_close(p);
}

static void test_open_and_close_without_work(void **state)
{
    struct pool *p;

    (void)state;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(pool_open(&p, 3), OSP_OK);
        pool_close(p);
    }
    pool_close(NULL);
}

static void test_bad_thread_counts(void **state)
{
    struct pool *p = NULL;

    (void)state;
    assert_int_equal(pool_open(&p, -1), OSP_EINVAL);
    assert_int_equal(pool_open(&p, 1000000), OSP_EINVAL);
    assert_null(p);
}

static void test_usable_cpus_follow_the_affinity_mask(void **state)
{
    cpu_set_t all, one;
    struct pool *p;
    size_t first = 0;

    (void)state;
    assert_true(pool_usable_cpus() >= 1);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_true(pool_usable_cpus() <= CPU_COUNT(&all));
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pool_usable_cpus(), 1);
    assert_int_equal(pool_open(&p, 0), OSP_OK);
    assert_int_equal(pool_threads(p), 1);
    pool_close(p);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

/* ---- quota, in a folder that looks like /sys/fs/cgroup ---- */

static char root[64];

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s%s", root, folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_root(void)
{
    strcpy(root, "/tmp/osprey-cgroup-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static void remove_root(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void test_quota_version_2(void **state)
{
    (void)state;
    make_root();
    assert_int_equal(cgroup_cpus(root, "0::/a/b\n"), 0); /* no such group: no quota */
    put("", "cpu.max", "max 100000\n");
    assert_int_equal(cgroup_cpus(root, "0::/\n"), 0);
    put("/a", "cpu.max", "350000 100000\n");
    put("/a/b", "cpu.max", "800000 100000\n");
    assert_int_equal(cgroup_cpus(root, "0::/a/b\n"), 3); /* the ancestor has the smaller quota */
    put("/a/b", "cpu.max", "50000 100000\n");
    assert_int_equal(cgroup_cpus(root, "0::/a/b\n"), 1); /* half a CPU is still one thread */
    put("/a/b", "cpu.max", "nonsense");
    assert_int_equal(cgroup_cpus(root, "0::/a/b\n"), 3);
    remove_root();
}

static void test_quota_version_1(void **state)
{
    const char *self = "12:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n";

    (void)state;
    make_root();
    put("/cpu", "cpu.cfs_quota_us", "-1\n");
    put("/cpu", "cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_cpus(root, self), 0);
    put("/cpu", "cpu.cfs_quota_us", "200000\n");
    assert_int_equal(cgroup_cpus(root, self), 2); /* a container sees its own group as the root */
    assert_int_equal(cgroup_cpus(root, "12:cpuset:/docker/x\n"), 0);
    assert_int_equal(cgroup_cpus(root, ""), 0);
    assert_int_equal(cgroup_cpus(root, "no colons here"), 0);
    put("/cpu", "cpu.cfs_period_us", "0\n");
    assert_int_equal(cgroup_cpus(root, self), 0);
    remove_root();
}

UNIT_MAIN(cmocka_unit_test(test_each_part_runs_once), cmocka_unit_test(test_short_loops_in_a_row),
          cmocka_unit_test(test_sleeping_workers_wake),
          cmocka_unit_test(test_open_and_close_without_work),
          cmocka_unit_test(test_bad_thread_counts),
          cmocka_unit_test(test_usable_cpus_follow_the_affinity_mask),
          cmocka_unit_test(test_quota_version_2), cmocka_unit_test(test_quota_version_1))
