/* The low-priority thread: order, bound, priority, end; and the cancellation of its work. */
#include "unit.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/task_queue.h"
#include "base/cancel.h"
#include "base/queue.h"
#include "base/thread.h"
#include "tokenizer_file.h"

enum { QUEUED_MAX = 3, FOREVER = -1 };

/* A task that waits until it is released, then records that it has run. */
struct gate {
    struct queue *open, *done;
};

static void wait_at_gate(void *ctx)
{
    struct gate *g = ctx;

    (void)queue_wait_pop(g->open, FOREVER);
    assert_true(queue_try_push(g->done, g));
}

static void note_priority(void *ctx)
{
    *(int *)ctx = getpriority(PRIO_PROCESS, 0);
}

struct numbers {
    int values[QUEUED_MAX + 1], n;
};

static struct numbers seen;

static void note_number(void *ctx)
{
    seen.values[seen.n++] = *(int *)ctx;
}

static void test_order_and_bound(void **state)
{
    static int numbers[] = {1, 2, 3};
    struct gate gate = {queue_new(1), queue_new(1)};
    struct task_queue *b;

    (void)state;
    seen.n = 0;
    assert_int_equal(task_queue_open(&b, "test", QUEUED_MAX), OSP_OK);
    assert_int_equal(task_queue_push(b, wait_at_gate, &gate), OSP_OK);
    for (int i = 0; i < QUEUED_MAX;) /* the first may not have left the queue yet */
        i += task_queue_push(b, note_number, &numbers[i]) == OSP_OK;
    assert_int_equal(task_queue_push(b, note_number, &numbers[0]), OSP_EBUSY);
    assert_non_null(strstr(fail_message(), "limit is 3"));
    assert_true(queue_try_push(gate.open, &gate));
    assert_ptr_equal(queue_wait_pop(gate.done, FOREVER), &gate);
    task_queue_close(b); /* runs the queued tasks */
    assert_int_equal(seen.n, QUEUED_MAX);
    for (int i = 0; i < QUEUED_MAX; i++)
        assert_int_equal(seen.values[i], i + 1);
    task_queue_close(NULL);
    queue_free(gate.open);
    queue_free(gate.done);
}

/* Only the queue's own thread has lower priority. */
static void test_priority(void **state)
{
    const int usual = getpriority(PRIO_PROCESS, 0);
    struct task_queue *b;
    int nice = -1;

    (void)state;
    assert_int_equal(task_queue_open(&b, "test", 1), OSP_OK);
    assert_int_equal(task_queue_push(b, note_priority, &nice), OSP_OK);
    task_queue_close(b);
    assert_int_equal(nice, usual > THREAD_BACKGROUND_NICE ? usual : THREAD_BACKGROUND_NICE);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), usual);
}

static void *look_from_elsewhere(void *ctx)
{
    *(bool *)ctx = cancel_is_set();
    return NULL;
}

static void test_a_flag_is_of_one_thread(void **state)
{
    atomic_bool flag = false;
    bool elsewhere = true;
    pthread_t other;

    (void)state;
    assert_false(cancel_is_set());
    cancel_begin(&flag);
    assert_false(cancel_is_set());
    atomic_store(&flag, true);
    assert_true(cancel_is_set());
    pthread_create(&other, NULL, look_from_elsewhere, &elsewhere);
    pthread_join(other, NULL);
    assert_false(elsewhere);
    cancel_end();
    assert_false(cancel_is_set());
}

/* Words, one long word, names of control tokens, ids: every loop over text checks the flag. */
static void test_encoding_is_canceled(void **state)
{
    enum { N = 4096 };
    struct tokenizer *t = open_test_tokenizer();
    atomic_bool flag = true;
    char words[N], word[N];
    int32_t id = 'a';
    struct buf text;
    struct ids ids;

    (void)state;
    memset(words, ' ', N);
    memset(word, 'x', N);
    ids_init(&ids, N);
    buf_init(&text, N);
    cancel_begin(&flag);
    assert_int_equal(tokenizer_encode(t, words, N, &ids), OSP_ECANCELED);
    assert_int_equal(tokenizer_encode(t, word, N, &ids), OSP_ECANCELED);
    assert_int_equal(tokenizer_encode_with_specials(t, "<|start|>", 9, &ids), OSP_ECANCELED);
    assert_int_equal(tokenizer_decode(t, &id, 1, &text), OSP_ECANCELED);
    atomic_store(&flag, false);
    assert_int_equal(tokenizer_encode(t, word, N, &ids), OSP_OK);
    assert_int_equal(tokenizer_decode(t, &id, 1, &text), OSP_OK);
    cancel_end();
    ids_release(&ids);
    buf_release(&text);
    tokenizer_close(t);
}

UNIT_MAIN(cmocka_unit_test(test_order_and_bound), cmocka_unit_test(test_priority),
          cmocka_unit_test(test_a_flag_is_of_one_thread),
          cmocka_unit_test(test_encoding_is_canceled))
