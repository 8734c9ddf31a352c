/* The frame of a unit test file. It defines cmocka tests and ends in
 *
 *     UNIT_MAIN(cmocka_unit_test(test_a), cmocka_unit_test(test_b))
 *
 * which makes an executable that runs all of them, or the one that is named. `--list` prints the
 * names and `--limit-s` the seconds that each may take. tests/run_units runs every test in its own
 * process. A file whose tests need more time defines UNIT_LIMIT_S before it includes this file. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* cmocka's fail() would hide the one of base/status.h; fail_msg is redefined because it is used. */
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        _fail(__FILE__, __LINE__);                                                                 \
        abort(); /* never reached: _fail jumps, but is not declared noreturn */                    \
    } while (0)

/* Under the thread sanitizer computing takes ten times as long. Tests that let the same threads do
 * the same for many inputs use fewer there; the other builds compare the results of all. */
#ifdef __SANITIZE_THREAD__
enum { UNIT_IS_TSAN = 1 };
#else
enum { UNIT_IS_TSAN = 0 };
#endif

#ifndef UNIT_LIMIT_S
#define UNIT_LIMIT_S 60
#endif

static inline int unit_run(const char *group, const struct CMUnitTest *tests, size_t n)
{
    return _cmocka_run_group_tests(group, tests, n, NULL, NULL) == 0 ? 0 : 1;
}

/* A test that is listed several times, with other states, has one name. */
static inline int unit_run_named(const struct CMUnitTest *tests, size_t n, const char *name)
{
    int n_found = 0, n_failed = 0;

    for (size_t i = 0; i < n; i++)
        if (strcmp(tests[i].name, name) == 0) {
            n_found++;
            n_failed += unit_run(name, &tests[i], 1);
        }
    if (n_found == 0)
        fprintf(stderr, "no test is called %s\n", name);
    return n_found == 0 ? 2 : n_failed > 0;
}

static inline void unit_list(const struct CMUnitTest *tests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;

        while (strcmp(tests[first].name, tests[i].name) != 0)
            first++;
        if (first == i)
            puts(tests[i].name);
    }
}

static inline int unit_main(const struct CMUnitTest *tests, size_t n, const char *word)
{
    if (!word)
        return unit_run("all", tests, n);
    if (strcmp(word, "--limit-s") == 0)
        return printf("%d\n", UNIT_LIMIT_S) < 0;
    if (strcmp(word, "--list") != 0)
        return unit_run_named(tests, n, word);
    unit_list(tests, n);
    return 0;
}

#define UNIT_MAIN(...)                                                                             \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
                                                                                                   \
        return unit_main(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);        \
    }

#endif
