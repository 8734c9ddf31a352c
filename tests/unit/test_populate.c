/* Mapped weights are populated in pieces, with progress; a truncated file is an error and not a
 * signal. */
#include "unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "store/populate.h"

enum { FILE_BYTES = 20 << 20 };

static char path[64];

static struct file_map map_new(void)
{
    struct file_map map;
    int fd;

    strcpy(path, "/tmp/osprey-populate-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
    close(fd);
    assert_int_equal(file_map_open(&map, path), OSP_OK);
    return map;
}

static size_t resident_pages(const struct file_map *map)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = map->size_bytes / page;
    unsigned char *in = mem_new(n);
    size_t sum = 0;

    assert_int_equal(mincore((void *)(uintptr_t)map->data, map->size_bytes, in), 0);
    for (size_t i = 0; i < n; i++)
        sum += in[i] & 1;
    free(in);
    return sum;
}

struct told {
    int n;
    int64_t last, total;
};

static void note(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct told *t = ctx;

    assert_true(done_bytes > t->last);
    *t = (struct told){t->n + 1, done_bytes, total_bytes};
}

/* Before Linux 5.14, pages are read on first access, and a truncated file is not detected. */
static bool system_populates(void)
{
    char *memory;
    bool ok = false;

    assert_int_equal(mem_try_hugepages(&memory, 1, 4 << 20, "test"), OSP_OK);
#ifdef MADV_POPULATE_READ
    ok = madvise(memory, 4 << 20, MADV_POPULATE_READ) == 0;
#endif
    free(memory);
    return ok;
}

static void test_pieces_come_in(void **state)
{
    struct file_map map = map_new();
    const struct mapped_region pieces[] = {
        {map.data + 5, 100}, {map.data + 12289, (9 << 20) + 1}, {map.data, 0}};
    const int64_t total = 100 + (9 << 20) + 1;
    struct told told = {0};

    (void)state;
    assert_int_equal(regions_populate(pieces, 3, 2, note, &told), OSP_OK);
    assert_int_equal(told.last, total);
    assert_int_equal(told.total, total);
    if (system_populates())
        assert_true(resident_pages(&map) >= (9 << 20) / (size_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(regions_populate(pieces, 0, 2, NULL, NULL), OSP_OK);
    assert_int_equal(regions_populate(pieces, 3, -1, NULL, NULL), OSP_EINVAL);
    file_map_close(&map);
    unlink(path);
}

static void test_a_cut_file_is_an_error(void **state)
{
    struct file_map map = map_new();
    const struct mapped_region piece = {map.data, map.size_bytes};

    (void)state;
    assert_int_equal(truncate(path, FILE_BYTES / 2), 0);
    if (system_populates()) {
        assert_int_equal(regions_populate(&piece, 1, 2, NULL, NULL), OSP_EIO);
        assert_non_null(strstr(fail_message(), "was truncated"));
    }
    file_map_close(&map);
    unlink(path);
}

UNIT_MAIN(cmocka_unit_test(test_pieces_come_in), cmocka_unit_test(test_a_cut_file_is_an_error))
