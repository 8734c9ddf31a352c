/* API keys: lists and files of them, and what is compared. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/http/keys.h"

#define TEMPLATE "/tmp/osprey-keys-XXXXXX"

static char folder[] = TEMPLATE;

static const char *file_of(const char *text, size_t n_bytes)
{
    static char path[64];
    FILE *f;

    if (access(folder, F_OK) != 0) {
        memcpy(folder, TEMPLATE, sizeof TEMPLATE); /* mkdtemp() needs the template every time */
        assert_non_null(mkdtemp(folder));
    }
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

static void expect_none(const struct keys *k, const char *given)
{
    assert_int_equal(keys_find(k, given), -1);
}

static void test_list(void **state)
{
    struct keys k = {0};

    (void)state;
    assert_int_equal(keys_find(&k, ""), -1);
    assert_int_equal(keys_add_list(&k, "first,second"), OSP_OK);
    assert_int_equal(k.n, 2);
    assert_int_equal(keys_find(&k, "first"), 0);
    assert_int_equal(keys_find(&k, "second"), 1);
    expect_none(&k, "firs");
    expect_none(&k, "first,");
    expect_none(&k, "firstfirst");
    expect_none(&k, "");
    expect_none(&k, "First");
    expect_none(&k, "first,second");
    assert_int_equal(keys_add_list(&k, "third,second"), OSP_OK);
    assert_int_equal(keys_find(&k, "third"), 2);
    assert_int_equal(keys_find(&k, "second"), 1); /* the first of two */
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
    assert_int_equal(keys_find(&k, long_key), 0);
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
    assert_int_equal(keys_find(&k, "first"), 0);
    assert_int_equal(keys_find(&k, "alpha"), 1);
    assert_int_equal(keys_find(&k, "beta,gamma"), 2);
    assert_int_equal(keys_find(&k, "delta"), 3);
    expect_none(&k, "# of the team");
    expect_none(&k, "beta");
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

static void test_salts(void **state)
{
    struct keys k = {0}, again = {0};

    (void)state;
    assert_int_equal(keys_add_list(&k, "a,b"), OSP_OK);
    assert_int_equal(keys_add_list(&again, "a,b"), OSP_OK);
    keys_make_salts(&k);
    keys_make_salts(&again);
    for (int i = 0; i < k.n; i++) {
        assert_int_equal(strlen(k.salts[i]), KEY_SALT_BYTES - 1);
        assert_string_not_equal(k.salts[i], k.salts[1 - i]);
        assert_string_not_equal(k.salts[i], again.salts[i]);
    }
    keys_release(&k);
    keys_release(&again);
}

UNIT_MAIN(cmocka_unit_test(test_list), cmocka_unit_test(test_salts),
          cmocka_unit_test(test_what_is_no_key), cmocka_unit_test(test_file),
          cmocka_unit_test(test_files_without_keys), cmocka_unit_test(test_too_many))
