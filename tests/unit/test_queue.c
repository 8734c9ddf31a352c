/* The bounded queue: order, bounds, waiting and end. */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/queue.h"

static int items[8];

static void test_first_in_first_out_and_bounded(void **state)
{
    struct queue *q = queue_new(3);

    (void)state;
    for (int round = 0; round < 5; round++) { /* the ring wraps around */
        assert_null(queue_try_pop(q));
        assert_true(queue_try_push(q, &items[0]));
        assert_true(queue_try_push(q, &items[1]));
        assert_true(queue_try_push(q, &items[2]));
        assert_false(queue_try_push(q, &items[3]));
        assert_ptr_equal(queue_try_pop(q), &items[0]);
        assert_ptr_equal(queue_wait_pop(q, -1), &items[1]);
        assert_ptr_equal(queue_wait_pop(q, 0), &items[2]);
    }
    queue_free(q);
    queue_free(NULL);
}

static void test_wake_ends_one_wait(void **state)
{
    struct queue *q = queue_new(2);

    (void)state;
    queue_wake(q);
    assert_null(queue_wait_pop(q, -1)); /* it does not wait forever */
    queue_wake(q);
    assert_true(queue_try_push(q, &items[0]));
    assert_ptr_equal(queue_wait_pop(q, -1), &items[0]); /* an item is not lost */
    assert_null(queue_wait_pop(q, 0));
    queue_free(q);
}

static void test_wait_times_out(void **state)
{
    struct queue *q = queue_new(1);
    uint64_t start_ns = clock_ns();

    (void)state;
    assert_null(queue_wait_pop(q, 20 * 1000 * 1000));
    assert_true(clock_ns() - start_ns >= 20 * 1000 * 1000);
    assert_null(queue_wait_pop(q, 0));
    queue_free(q);
}

static void test_end_refuses_and_drains(void **state)
{
    struct queue *q = queue_new(4);

    (void)state;
    assert_true(queue_try_push(q, &items[0]));
    queue_end(q);
    assert_false(queue_try_push(q, &items[1]));
    assert_ptr_equal(queue_wait_pop(q, -1), &items[0]);
    assert_null(queue_wait_pop(q, -1));
    queue_free(q);
}

struct traffic {
    struct queue *q;
    atomic_long n_popped, sum;
};

enum { TRAFFIC_ITEMS = 5000 };
static char bytes[TRAFFIC_ITEMS + 1]; /* item k is &bytes[k] */

static void *push_all(void *arg)
{
    struct traffic *t = arg;

    for (int i = 1; i <= TRAFFIC_ITEMS; i++)
        while (!queue_try_push(t->q, &bytes[i]))
            sched_yield();
    return NULL;
}

static void *pop_until_end(void *arg)
{
    struct traffic *t = arg;
    char *item;

    while ((item = queue_wait_pop(t->q, -1))) {
        atomic_fetch_add(&t->n_popped, 1);
        atomic_fetch_add(&t->sum, item - bytes);
    }
    return NULL;
}

static void test_many_threads_on_both_sides(void **state)
{
    struct traffic t = {.q = queue_new(16)};
    pthread_t threads[4];

    (void)state;
    pthread_create(&threads[0], NULL, push_all, &t);
    pthread_create(&threads[1], NULL, push_all, &t);
    pthread_create(&threads[2], NULL, pop_until_end, &t);
    pthread_create(&threads[3], NULL, pop_until_end, &t);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    queue_end(t.q);
    pthread_join(threads[2], NULL);
    pthread_join(threads[3], NULL);
    assert_int_equal(t.n_popped, 2 * TRAFFIC_ITEMS);
    assert_int_equal(t.sum, (long)TRAFFIC_ITEMS * (TRAFFIC_ITEMS + 1));
    queue_free(t.q);
}

UNIT_MAIN(cmocka_unit_test(test_first_in_first_out_and_bounded),
          cmocka_unit_test(test_wake_ends_one_wait), cmocka_unit_test(test_wait_times_out),
          cmocka_unit_test(test_end_refuses_and_drains),
          cmocka_unit_test(test_many_threads_on_both_sides))
