/* Checked sizes, allocation that can fail, and the arena. */
#include "unit.h"

#include <stdlib.h>

#include "base/memory.h"

static void test_sizes_are_checked(void **state)
{
    size_t out = 7;

    (void)state;
    assert_true(mul_size(6, 7, &out));
    assert_int_equal(out, 42);
    assert_false(mul_size(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(add_size(SIZE_MAX, 1, &out));
    assert_int_equal(out, 42);
    assert_true(add_size(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
}

static void test_arrays_are_zeroed_and_may_be_empty(void **state)
{
    int64_t *v = NULL;

    (void)state;
    assert_int_equal(mem_try_array(&v, 100, sizeof *v, "v"), OSP_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(v[i], 0);
    free(v);
    assert_int_equal(mem_try_array(&v, 0, sizeof *v, "v"), OSP_OK);
    free(v);
}

static void test_impossible_sizes_are_errors_of_the_world(void **state)
{
    void *p = NULL;

    (void)state;
    assert_int_equal(mem_try_array(&p, SIZE_MAX / 2, 4, "the weights"), OSP_ENOMEM);
    assert_non_null(strstr(fail_message(), "the weights"));
    assert_int_equal(mem_try_aligned(&p, SIZE_MAX / 2, 4, "rows"), OSP_ENOMEM);
    assert_int_equal(mem_try_aligned(&p, SIZE_MAX - 3, 1, "rows"), OSP_ENOMEM);
    assert_null(p);
}

static void test_lists_grow(void **state)
{
    size_t capacity = 0, too_many = SIZE_MAX / 2;
    int *v = NULL;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        mem_grow(&v, (size_t)i, &capacity, sizeof *v);
        assert_true(capacity > (size_t)i);
        v[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v[i], i);
    assert_int_equal(mem_try_grow(&v, too_many, &too_many, sizeof *v, "the words"), OSP_ENOMEM);
    assert_non_null(strstr(fail_message(), "the words"));
    assert_int_equal(v[999], 999); /* as before */
    free(v);
}

static void test_aligned(void **state)
{
    (void)state;
    for (size_t n = 0; n < 200; n += 33) {
        char *p = NULL;

        assert_int_equal(mem_try_aligned(&p, n, 1, "p"), OSP_OK);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, n);
        free(p);
    }
}

static void test_strings(void **state)
{
    char *a = mem_strdup("abc"), *b = mem_strndup("abcdef", 2), *c = mem_printf("%d-%s", 5, "x");
    char *empty = mem_strndup("", 0);

    (void)state;
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_string_equal(c, "5-x");
    assert_string_equal(empty, "");
    free(a);
    free(b);
    free(c);
    free(empty);
}

static void test_arena_gives_separate_zeroed_aligned_memory(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < 500; i++) {
        unsigned char *p = arena_try(&a, i);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t k = 0; k < i; k++)
            assert_int_equal(p[k], 0);
        memset(p, 0xFF, i);
    }
    arena_release(&a);
    arena_release(&a);
}

static void test_arena_holds_its_limit(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 64);
    assert_non_null(arena_try(&a, 48));
    assert_null(arena_try(&a, 17));
    assert_non_null(arena_try(&a, 16));
    assert_null(arena_try(&a, 1));
    assert_null(arena_try(&a, SIZE_MAX));
    assert_int_equal(a.used_bytes, 64);
    arena_release(&a);
    assert_non_null(arena_try(&a, 64)); /* the limit is unchanged, the memory is available again */
    arena_release(&a);
}

static void test_arena_serves_large_pieces(void **state)
{
    struct arena a;
    char *large, *small;

    (void)state;
    arena_init(&a, SIZE_MAX);
    small = arena_try(&a, 100);
    large = arena_try(&a, 10 << 20);
    assert_non_null(small);
    assert_non_null(large);
    memset(large, 1, 10 << 20);
    memset(small, 2, 100);
    assert_int_equal(large[0], 1);
    arena_release(&a);
}

UNIT_MAIN(cmocka_unit_test(test_sizes_are_checked),
          cmocka_unit_test(test_arrays_are_zeroed_and_may_be_empty),
          cmocka_unit_test(test_impossible_sizes_are_errors_of_the_world),
          cmocka_unit_test(test_lists_grow), cmocka_unit_test(test_aligned),
          cmocka_unit_test(test_strings),
          cmocka_unit_test(test_arena_gives_separate_zeroed_aligned_memory),
          cmocka_unit_test(test_arena_holds_its_limit),
          cmocka_unit_test(test_arena_serves_large_pieces))
