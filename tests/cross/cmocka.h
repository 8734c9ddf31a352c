/* As much of cmocka as the kernels' tests use, for processors that the distribution's package is
 * not installed for: `make check-neon`. A failed assertion ends the program, which runs one
 * test. */
#ifndef CROSS_CMOCKA_H
#define CROSS_CMOCKA_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
#define cmocka_unit_test(function)                                                                 \
    {                                                                                              \
#function, function                                                                        \
    }

#define print_error(...) ((void)fprintf(stderr, __VA_ARGS__))

_Noreturn static inline void _fail(const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed\n", file, line);
    exit(1);
}

#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s\n", #condition);                                                       \
            _fail(__FILE__, __LINE__);                                                             \
        }                                                                                          \
    } while (0)
#define assert_int_equal(a, b)       assert_true((a) == (b))
#define assert_ptr_equal(a, b)       assert_true((const void *)(a) == (const void *)(b))
#define assert_non_null(a)           assert_true((a) != NULL)
#define assert_string_equal(a, b)    assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)

static inline int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests,
                                          size_t n, void *set_up, void *tear_down)
{
    (void)group, (void)set_up, (void)tear_down;
    for (size_t i = 0; i < n; i++)
        tests[i].run(NULL);
    return 0;
}

#endif
