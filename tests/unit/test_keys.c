/* API keys: lists and files of them, and what is compared. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "serve/keys.h"

static char folder[] = "/tmp/osprey-keys-XXXXXX";

static const char *file_of(const char *text, size_t n_bytes)
{
    static char path[64];
    FILE *f;

    if (access(folder, F_OK) != 0)
        assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/keys", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n_bytes, f), n_bytes);
    fclose(f);
    return path;
}

static void remove_files(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/keys", folder);
    unlink(path);
    rmdir(folder);
}

static bool has(const struct keys *k, const char *given)
{
    return keys_find(k, given) >= 0;
}

static void test_list(void **state)
{
    struct keys k = {0};

    (void)state;
    assert_false(has(&k, ""));
    assert_int_equal(keys_add_list(&k, "first,second"), OSP_OK);
    assert_int_equal(k.n, 2);
    assert_true(has(&k, "first") && has(&k, "second"));
    assert_false(has(&k, "firs") || has(&k, "first,") || has(&k, "firstfirst"));
    assert_false(has(&k, "") || has(&k, "First") || has(&k, "first,second"));
    keys_release(&k);
}

static void test_what_is_no_key(void **state)
{
    static const char *const lists[] = {"", ",", "a,", "a,,b", "a b", "a\tb", "a\xc3\xa9"};
    char *long_key = calloc(1, KEY_BYTES_MAX + 2);
    struct keys k = {0};

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        assert_int_equal(keys_add_list(&k, lists[i]), OSP_EINVAL);
        assert_memory_equal(fail_message(), "--api-key: ", 11);
        keys_release(&k);
    }
    memset(long_key, 'x', KEY_BYTES_MAX + 1);
    assert_int_equal(keys_add_list(&k, long_key), OSP_EINVAL);
    long_key[KEY_BYTES_MAX] = '\0';
    assert_int_equal(keys_add_list(&k, long_key), OSP_OK);
    assert_true(has(&k, long_key));
    keys_release(&k);
    free(long_key);
}

static void test_file(void **state)
{
    static const char text[] = "# of the team\r\nalpha\r\n\n  \nbeta,gamma\n#last\ndelta";
    static const char fine[] = "# of the team\r\nalpha\r\n\nbeta,gamma\n#last\ndelta";
    struct keys k = {0};

    (void)state;
    assert_int_equal(keys_add_list(&k, "first"), OSP_OK);
    assert_int_equal(keys_add_file(&k, file_of(fine, sizeof fine - 1)), OSP_OK);
    assert_int_equal(k.n, 4);
    assert_true(has(&k, "first") && has(&k, "alpha") && has(&k, "beta,gamma") && has(&k, "delta"));
    assert_false(has(&k, "# of the team") || has(&k, "beta"));
    keys_release(&k);
    assert_int_equal(keys_add_file(&k, file_of(text, sizeof text - 1)), OSP_EINVAL); /* spaces */
    keys_release(&k);
    remove_files();
}

static void test_files_without_keys(void **state)
{
    struct keys k = {0};

    (void)state;
    assert_int_equal(keys_add_file(&k, file_of("\n# none\n", 8)), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "has no API key"));
    assert_int_equal(keys_add_file(&k, file_of("a\0b\n", 4)), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "NUL"));
    assert_int_equal(k.n, 0);
    remove_files();
    assert_int_not_equal(keys_add_file(&k, "/nonexistent/keys"), OSP_OK);
    assert_memory_equal(fail_message(), "--api-key-file: /nonexistent/keys", 33);
    keys_release(&k);
}

static void test_too_many(void **state)
{
    struct keys k = {0};

    (void)state;
    for (int i = 0; i < KEYS_MAX; i++)
        assert_int_equal(keys_add_list(&k, "x"), OSP_OK);
    assert_int_equal(keys_add_list(&k, "x"), OSP_EINVAL);
    keys_release(&k);
}

UNIT_MAIN(cmocka_unit_test(test_list), cmocka_unit_test(test_what_is_no_key),
          cmocka_unit_test(test_file), cmocka_unit_test(test_files_without_keys),
          cmocka_unit_test(test_too_many))
