/* String helpers. */
#include "unit.h"

#include "base/str.h"

static void test_endings(void **state)
{
    (void)state;
    assert_true(str_ends_with("tokenizer.json", ".json"));
    assert_true(str_ends_with(".json", ".json"));
    assert_true(str_ends_with("x", ""));
    assert_false(str_ends_with("json", ".json"));
    assert_false(str_ends_with("tokenizer.json5", ".json"));
}

static void test_lists(void **state)
{
    (void)state;
    assert_true(str_in_list("on,off,auto", "on"));
    assert_true(str_in_list("on,off,auto", "auto"));
    assert_true(str_in_list("on", "on"));
    assert_false(str_in_list("on,off,auto", "of"));
    assert_false(str_in_list("on,off,auto", "offf"));
    assert_false(str_in_list("on,off,auto", "on,off"));
    assert_false(str_in_list("", "on"));
    assert_false(str_in_list(NULL, "on"));
}

UNIT_MAIN(cmocka_unit_test(test_endings), cmocka_unit_test(test_lists))
