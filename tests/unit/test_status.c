/* fail() and the table of status codes. */
#include "unit.h"

#include <pthread.h>

#include "base/status.h"

static void test_fail_records_message_and_gives_code(void **state)
{
    (void)state;
    assert_int_equal(fail(OSP_EFORMAT, "%s: %d dims, needs %d", "w", 3, 4), OSP_EFORMAT);
    assert_string_equal(fail_message(), "w: 3 dims, needs 4");
    assert_int_equal(fail_prefix(OSP_EIO, "file %d", 7), OSP_EIO);
    assert_string_equal(fail_message(), "file 7: w: 3 dims, needs 4");
}

static void test_fail_may_use_the_old_message(void **state)
{
    (void)state;
    (void)fail(OSP_EIO, "inner");
    (void)fail(OSP_EIO, "outer (%s)", fail_message());
    assert_string_equal(fail_message(), "outer (inner)");
}

static void test_long_messages_are_cut(void **state)
{
    char text[2 * FAIL_MESSAGE_BYTES_MAX];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)fail(OSP_EIO, "%s", text);
    assert_int_equal(strlen(fail_message()), FAIL_MESSAGE_BYTES_MAX - 1);
    (void)fail_prefix(OSP_EIO, "%s", "front");
    assert_int_equal(strlen(fail_message()), FAIL_MESSAGE_BYTES_MAX - 1);
    assert_memory_equal(fail_message(), "front: xxx", 10);
}

static void *fail_elsewhere(void *arg)
{
    (void)fail(OSP_EIO, "other thread");
    return arg;
}

static void test_messages_belong_to_threads(void **state)
{
    pthread_t thread;

    (void)state;
    (void)fail(OSP_EINVAL, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(fail_message(), "mine");
}

static void test_table(void **state)
{
    (void)state;
    assert_string_equal(status_name(OSP_EBUSY), "OSP_EBUSY");
    assert_string_equal(status_type(OSP_EBUSY), "rate_limit_error");
    assert_int_equal(status_http(OSP_EBUSY), 429);
    assert_string_equal(status_text(OSP_OK), "ok");
    assert_string_equal(status_name((enum osp_status)9999), "OSP_EINTERNAL");
}

UNIT_MAIN(cmocka_unit_test(test_fail_records_message_and_gives_code),
          cmocka_unit_test(test_fail_may_use_the_old_message),
          cmocka_unit_test(test_long_messages_are_cut),
          cmocka_unit_test(test_messages_belong_to_threads), cmocka_unit_test(test_table))
