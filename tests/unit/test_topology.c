/* Topology from folders that imitate /sys/devices/system, the choice of CPUs, and binding. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bind.h"
#include "base/cpus.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/topology.h"

static char root[64];

/* Writes a file and creates its parent folders. */
static void put(const char *text, const char *format, int number)
{
    char path[256], rest[128];
    FILE *f;

    snprintf(rest, sizeof rest, format, number);
    snprintf(path, sizeof path, "%s/%s", root, rest);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_root(void)
{
    strcpy(root, "/tmp/osprey-topology-XXXXXX");
    assert_non_null(mkdtemp(root));
    topology_set_folder(root);
}

static void remove_root(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
    topology_set_folder(NULL);
}

/* Cores of n_threads threads whose ids are n_cores apart, as Linux numbers them; equal nodes. */
static void make_machine(int n_cores, int n_siblings, int n_nodes)
{
    char text[128];

    make_root();
    for (int cpu = 0; cpu < n_cores * n_siblings; cpu++) {
        if (n_siblings == 2)
            snprintf(text, sizeof text, "%d,%d\n", cpu % n_cores, cpu % n_cores + n_cores);
        else
            snprintf(text, sizeof text, "%d\n", cpu);
        put(text, "cpu/cpu%d/topology/thread_siblings_list", cpu);
    }
    for (int node = 0; node < n_nodes; node++) {
        const int n = n_cores / n_nodes, first = node * n;

        if (n_siblings == 2)
            snprintf(text, sizeof text, "%d-%d,%d-%d\n", first, first + n - 1, n_cores + first,
                     n_cores + first + n - 1);
        else
            snprintf(text, sizeof text, "%d-%d\n", first, first + n - 1);
        put(text, "node/node%d/cpulist", node);
    }
    snprintf(text, sizeof text, "0-%d\n", n_nodes - 1);
    put(text, "node/online", 0);
}

static void read_ids(struct topology *t, const char *list)
{
    int ids[64];
    int n = cpu_list_parse(ids, 64, list);

    assert_true(n >= 1);
    topology_read(t, ids, n);
}

/* The kernel's numbers of the chosen CPUs, as text. */
static const char *chosen(const struct topology *t, int n_threads)
{
    static char text[256];
    int cpus[64];
    size_t n = 0;

    topology_choose(t, n_threads, cpus);
    for (int i = 0; i < n_threads; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i ? " " : "", t->cpus[cpus[i]].id);
    return text;
}

static void check_counts(const struct topology *t, int n_cpus, int n_cores, int n_nodes)
{
    assert_int_equal(t->n_cpus, n_cpus);
    assert_int_equal(t->n_cores, n_cores);
    assert_int_equal(t->n_nodes, n_nodes);
}

static void test_lists(void **state)
{
    static const char *const wrong[] = {"x",   "-",    "1-",       "3-1",     "1,,2", "1,",
                                        "1 2", "0-70", "99999999", "0-99999", ",1",   "1-2-3"};
    int ids[64];

    (void)state;
    assert_int_equal(cpu_list_parse(ids, 64, ""), 0);
    assert_int_equal(cpu_list_parse(ids, 64, "\n"), 0);
    assert_int_equal(cpu_list_parse(ids, 64, "8,0-2,1\n"), 4);
    assert_memory_equal(ids, ((int[]){0, 1, 2, 8}), 4 * sizeof *ids);
    assert_int_equal(cpu_list_parse(ids, 64, "0-63"), 64);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cpu_list_parse(ids, 64, wrong[i]), -1);
}

static void test_one_socket(void **state)
{
    struct topology t;

    (void)state;
    make_machine(4, 1, 1);
    read_ids(&t, "0-3");
    check_counts(&t, 4, 4, 1);
    assert_string_equal(chosen(&t, 3), "0 1 2");
    assert_string_equal(chosen(&t, 6), "0 0 1 1 2 3"); /* more threads than CPUs */
    topology_release(&t);
    remove_root();
}

static void test_second_threads_of_cores_come_last(void **state)
{
    struct topology t;

    (void)state;
    make_machine(4, 2, 1);
    read_ids(&t, "0-7");
    check_counts(&t, 8, 4, 1);
    assert_string_equal(chosen(&t, 4), "0 1 2 3");
    assert_string_equal(chosen(&t, 5), "0 4 1 2 3");
    assert_string_equal(chosen(&t, 8), "0 4 1 5 2 6 3 7"); /* threads of a core are neighbours */
    topology_release(&t);
    remove_root();
}

static void test_two_sockets_of_two_nodes(void **state)
{
    struct topology t;

    (void)state;
    make_machine(16, 2, 4);
    read_ids(&t, "0-31");
    check_counts(&t, 32, 16, 4);
    assert_string_equal(chosen(&t, 1), "0");
    assert_string_equal(chosen(&t, 4), "0 4 8 12"); /* one on each node */
    assert_string_equal(chosen(&t, 6), "0 1 4 5 8 12");
    assert_string_equal(chosen(&t, 16), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
    topology_release(&t);
    remove_root();
}

static void test_a_mask_leaves_the_rest_out(void **state)
{
    struct topology t;

    (void)state;
    make_machine(16, 2, 4);
    read_ids(&t,
             "3,5-6,19,28"); /* 19 is on the core of 3; 28 on that of 12, which is not allowed */
    check_counts(&t, 5, 4, 3);
    assert_string_equal(chosen(&t, 4), "3 5 6 28");
    assert_string_equal(chosen(&t, 5), "3 19 5 6 28");
    topology_release(&t);
    remove_root();
}

/* Nothing under /sys, or invalid files: every CPU is a core on one node. */
static void test_a_system_that_tells_nothing(void **state)
{
    struct topology t;

    (void)state;
    make_root();
    read_ids(&t, "2,4");
    check_counts(&t, 2, 2, 1);
    topology_release(&t);
    put("all of them\n", "cpu/cpu%d/topology/thread_siblings_list", 2);
    put("0-3000000000\n", "node/online", 0);
    read_ids(&t, "2,4");
    check_counts(&t, 2, 2, 1);
    topology_release(&t);
    put("0,5000\n", "node/online", 0); /* a number that no kernel gives */
    put("2,4\n", "node/node%d/cpulist", 5000);
    read_ids(&t, "2,4");
    check_counts(&t, 2, 2, 1);
    topology_release(&t);
    remove_root();
}

/* ---- binding: with the CPUs that this machine really has ---- */

static int own_cpus(int ids[2])
{
    int *all, n = cpus_allowed(&all);

    for (int i = 0; i < 2 && i < n; i++)
        ids[i] = all[i];
    free(all);
    return n;
}

static void test_levels(void **state)
{
    struct bind b;
    int ids[2];
    const int n = own_cpus(ids);

    (void)state;
    make_root(); /* flat: as many cores as CPUs */
    assert_int_equal(bind_open(&b, 0, NULL), OSP_OK);
    assert_int_equal(b.level, BIND_NONE);
    bind_close(&b);
    assert_int_equal(bind_open(&b, n, "auto"), OSP_OK);
    assert_int_equal(b.level, BIND_CORES);
    assert_int_equal(b.n_nodes, 1);
    bind_close(&b);
    assert_int_equal(bind_open(&b, n + 1, "auto"), OSP_OK); /* more threads than CPUs */
    assert_int_equal(b.level, BIND_NONE);
    bind_close(&b);
    if (n > 1) {
        assert_int_equal(bind_open(&b, n - 1, "auto"), OSP_OK);
        assert_int_equal(b.level, BIND_NONE);
        bind_close(&b);
    }
    assert_int_equal(bind_open(&b, 1, "cores"), OSP_OK);
    assert_int_equal(b.level, BIND_CORES);
    bind_close(&b);
    assert_int_equal(bind_open(&b, 1, "everywhere"), OSP_EINVAL);
    assert_int_equal(bind_open(&b, 1, "0-"), OSP_EINVAL);
    assert_int_equal(bind_open(&b, 1, "8191"), OSP_EINVAL); /* not an allowed CPU */
    remove_root();
}

static void test_a_list(void **state)
{
    struct bind b;
    char list[16];
    int ids[2];

    (void)state;
    own_cpus(ids);
    snprintf(list, sizeof list, "%d", ids[0]);
    assert_int_equal(bind_open(&b, 0, list), OSP_OK);
    assert_int_equal(b.n_threads, 1);
    assert_int_equal(b.level, BIND_CORES);
    bind_close(&b);
    assert_int_equal(bind_open(&b, 3, list), OSP_OK);
    assert_int_equal(b.level, BIND_ALL);
    bind_close(&b);
}

/* Two CPUs, and no others for this process, each a node of its own: simulates a large machine on
 * this one. */
static bool make_two_nodes(void)
{
    char text[32];
    int ids[2];
    cpu_set_t both;

    if (own_cpus(ids) < 2)
        return false;
    make_root();
    CPU_ZERO(&both);
    for (int i = 0; i < 2; i++) {
        CPU_SET((size_t)ids[i], &both);
        snprintf(text, sizeof text, "%d\n", ids[i]);
        put(text, "node/node%d/cpulist", i);
    }
    put("0-1\n", "node/online", 0);
    assert_int_equal(sched_setaffinity(0, sizeof both, &both), 0);
    return true;
}

struct visit {
    int cpus[2]; /* how many CPUs each worker may use */
    int runs[2];
};

static void visit(void *ctx, int part, int worker)
{
    struct visit *v = ctx;
    cpu_set_t set;

    assert_int_equal(part, worker);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    v->cpus[worker] = CPU_COUNT(&set);
    v->runs[worker]++;
}

static void test_every_worker_once_on_its_node(void **state)
{
    struct visit v = {{0}, {0}};
    struct pool *p;
    char *memory;
    int before;

    (void)state;
    if (!make_two_nodes())
        return;
    before = pool_usable_cpus();
    assert_int_equal(pool_open_bound(&p, 2, "nodes"), OSP_OK);
    assert_int_equal(pool_nodes(p), 2);
    for (int i = 0; i < 100; i++)
        pool_run_each(p, visit, &v);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(v.runs[i], 100);
        assert_int_equal(v.cpus[i], 1);
    }
    assert_int_equal(pool_usable_cpus(), before); /* the caller is bound only during the call */
    assert_int_equal(mem_try_hugepages(&memory, 1, 8 << 20, "test"), OSP_OK);
    pool_interleave(p, memory, 8 << 20); /* refused if the kernel has no second node */
    memset(memory, 1, 8 << 20);
    free(memory);
    pool_close(p);
    remove_root();
}

static void *count_own(void *arg)
{
    *(int *)arg = pool_usable_cpus();
    return NULL;
}

/* The caller stays bound until the pool closes, also with a second pool; other threads are
 * unbound. */
static void test_a_bound_caller_is_released(void **state)
{
    struct pool *p, *q;
    pthread_t thread;
    int before = pool_usable_cpus(), seen = 0;

    (void)state;
    make_root();
    assert_int_equal(pool_open_bound(&p, 1, "cores"), OSP_OK);
    assert_int_equal(pool_open_bound(&q, 1, "cores"), OSP_OK);
    assert_int_equal(pthread_create(&thread, NULL, count_own, &seen), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen, before);
    for (int i = 0; i < 3; i++) {
        pool_bind_caller(p);
        assert_int_equal(pool_usable_cpus(), 1);
        pool_bind_caller(q);
    }
    pool_close(p);
    assert_int_equal(pool_usable_cpus(), 1);
    pool_close(q);
    assert_int_equal(pool_usable_cpus(), before);
    remove_root();
}

UNIT_MAIN(cmocka_unit_test(test_lists), cmocka_unit_test(test_one_socket),
          cmocka_unit_test(test_second_threads_of_cores_come_last),
          cmocka_unit_test(test_two_sockets_of_two_nodes),
          cmocka_unit_test(test_a_mask_leaves_the_rest_out),
          cmocka_unit_test(test_a_system_that_tells_nothing), cmocka_unit_test(test_levels),
          cmocka_unit_test(test_a_list), cmocka_unit_test(test_every_worker_once_on_its_node),
          cmocka_unit_test(test_a_bound_caller_is_released))
