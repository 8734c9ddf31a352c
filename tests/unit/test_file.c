/* Reading and mapping files, paths, human-readable sizes. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/osprey-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* Gives a path to free(). */
static char *write_file(const char *name, const char *data, size_t n_bytes)
{
    char *path = path_join(folder, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n_bytes, f), n_bytes);
    fclose(f);
    return path;
}

static void test_read_whole(void **state)
{
    char *path = write_file("a", "ab\0cd", 5), *text;
    size_t n;

    (void)state;
    assert_int_equal(file_read(&text, &n, path, 5), OSP_OK);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "ab\0cd", 6);
    free(text);
    assert_int_equal(file_read(&text, &n, path, 4), OSP_ELIMIT);
    assert_non_null(strstr(fail_message(), path));
    free(path);
    path = write_file("empty", "", 0);
    assert_int_equal(file_read(&text, &n, path, 0), OSP_OK);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    free(text);
    free(path);
}

/* Files in /proc report a size of 0. */
static void test_read_file_of_unknown_size(void **state)
{
    char *text;
    size_t n;

    (void)state;
    assert_int_equal(file_read(&text, &n, "/proc/self/status", 1 << 20), OSP_OK);
    assert_true(n > 100);
    free(text);
    assert_int_equal(file_read(&text, &n, "/proc/self/status", 10), OSP_ELIMIT);
}

static void test_failures_name_the_file(void **state)
{
    struct file_map m;
    char *text;
    size_t n;

    (void)state;
    assert_int_equal(file_read(&text, &n, "/nowhere/x", 10), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "/nowhere/x"));
    assert_int_equal(file_map_open(&m, "/nowhere/x"), OSP_ENOTFOUND);
    assert_int_equal(file_read(&text, &n, folder, 10), OSP_EINVAL);
    assert_int_equal(file_map_open(&m, folder), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "folder"));
}

static void test_map(void **state)
{
    char *path = write_file("m", "hello", 5);
    struct file_map m = {0};

    (void)state;
    assert_int_equal(file_map_open(&m, path), OSP_OK);
    assert_int_equal(m.size_bytes, 5);
    assert_memory_equal(m.data, "hello", 5);
    file_map_close(&m);
    assert_null(m.data);
    file_map_close(&m);
    free(path);
    path = write_file("e", "", 0);
    assert_int_equal(file_map_open(&m, path), OSP_OK);
    assert_null(m.data);
    assert_int_equal(m.size_bytes, 0);
    file_map_close(&m);
    free(path);
}

static void assert_joined(const char *a, const char *b, const char *expected)
{
    char *path = path_join(a, b);

    assert_string_equal(path, expected);
    free(path);
}

static void test_paths(void **state)
{
    char *path = write_file("f", "", 0);

    (void)state;
    assert_joined("a", "b", "a/b");
    assert_joined("a/", "b", "a/b");
    assert_joined("/", "b", "/b");
    assert_joined("", "b", "b");
    assert_true(path_is_folder(folder));
    assert_false(path_is_file(folder));
    assert_true(path_is_file(path));
    assert_false(path_is_folder(path));
    assert_false(path_is_file("/nowhere/x"));
    free(path);
}

static void assert_size_text(double n_bytes, const char *expected)
{
    char text[16];

    assert_string_equal(format_bytes(text, n_bytes), expected);
}

static void test_sizes_for_people(void **state)
{
    (void)state;
    assert_size_text(0, "0 B");
    assert_size_text(999, "999 B");
    assert_size_text(1000, "1.0 kB");
    assert_size_text(999949, "999.9 kB");
    assert_size_text(999960, "1.0 MB");
    assert_size_text(13.8e9, "13.8 GB");
    assert_size_text(2.5e18, "2.5 EB");
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(test_read_whole, make_folder, remove_folder),
          cmocka_unit_test(test_read_file_of_unknown_size),
          cmocka_unit_test_setup_teardown(test_failures_name_the_file, make_folder, remove_folder),
          cmocka_unit_test_setup_teardown(test_map, make_folder, remove_folder),
          cmocka_unit_test_setup_teardown(test_paths, make_folder, remove_folder),
          cmocka_unit_test(test_sizes_for_people))
