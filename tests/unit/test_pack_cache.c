/* The cache of packed weights: the second start maps what the first one wrote, computes the same,
 * and uses no file that is damaged, does not match or is not trusted. */
#include "model/pack_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_edit.h"
#include "model/model.h"
#include "model/pack_file.h"

enum { N_TOKENS = 5, PAGES = 2 };

#define MODEL "models/osprey-nano"

static void succeeds(enum osp_status st)
{
    if (st != OSP_OK)
        fail_msg("%s", fail_message());
}

/* ---- the file ---- */

static const char first[100] = "first", second[70000] = "second";

static void pieces_fill(struct pack_piece pieces[2])
{
    pieces[0] = (struct pack_piece){first, sizeof first};
    pieces[1] = (struct pack_piece){second, sizeof second};
}

static void test_file_comes_back(void **state)
{
    char *folder = folder_new(), *path = path_join(folder, "x.pack");
    struct file_map map = {.data = NULL};
    struct pack_piece pieces[2];

    (void)state;
    pieces_fill(pieces);
    assert_int_equal(pack_file_read(&map, path, "key", pieces, 2), OSP_ENOTFOUND);
    pieces_fill(pieces);
    succeeds(pack_file_write(path, "key", pieces, 2));
    pieces[0].data = pieces[1].data = NULL;
    succeeds(pack_file_read(&map, path, "key", pieces, 2));
    assert_memory_equal(pieces[0].data, first, sizeof first);
    assert_memory_equal(pieces[1].data, second, sizeof second);
    for (int i = 0; i < 2; i++)
        assert_int_equal((uintptr_t)pieces[i].data % 4096, 0);
    file_map_close(&map);
    free(path);
    folder_remove(folder);
}

/* A file with another key or other sizes is refused. */
static void test_file_of_others_is_refused(void **state)
{
    char *folder = folder_new(), *path = path_join(folder, "x.pack");
    struct file_map map = {.data = NULL};
    struct pack_piece pieces[2];

    (void)state;
    pieces_fill(pieces);
    succeeds(pack_file_write(path, "key", pieces, 2));
    assert_int_equal(pack_file_read(&map, path, "kez", pieces, 2), OSP_EFORMAT);
    assert_int_equal(pack_file_read(&map, path, "a longer key", pieces, 2), OSP_EFORMAT);
    assert_int_equal(pack_file_read(&map, path, "key", pieces, 1), OSP_EFORMAT);
    pieces[0].size_bytes++;
    assert_int_equal(pack_file_read(&map, path, "key", pieces, 2), OSP_EFORMAT);
    pieces[0].size_bytes--;
    succeeds(pack_file_read(&map, path, "key", pieces, 2));
    file_map_close(&map);
    free(path);
    folder_remove(folder);
}

/* Every byte of the header is checked, and the first and last bytes of every piece. */
static void test_damage_is_noticed(void **state)
{
    char *folder = folder_new(), *path = path_join(folder, "x.pack");
    const size_t data_begin = 4096, second_begin = 8192;
    struct file_map map = {.data = NULL};
    struct pack_piece pieces[2];
    size_t n_bytes, n_header = 48 + 8 + 2 * 24; /* header, key, entries */
    size_t places[256], n = 0;
    char *bytes;

    (void)state;
    pieces_fill(pieces);
    succeeds(pack_file_write(path, "key", pieces, 2));
    bytes = bytes_read(folder, "x.pack", &n_bytes);
    assert_memory_equal(bytes + data_begin, first, sizeof first);
    for (size_t at = 0; at < n_header; at++)
        places[n++] = at;
    places[n++] = data_begin;
    places[n++] = data_begin + sizeof first - 1;
    places[n++] = second_begin;
    places[n++] = second_begin + sizeof second - 1;
    for (size_t i = 0; i < n; i++) {
        bytes[places[i]] ^= 1;
        bytes_write(folder, "x.pack", bytes, n_bytes);
        if (pack_file_read(&map, path, "key", pieces, 2) != OSP_EFORMAT)
            fail_msg("byte %zu was changed, and nobody noticed", places[i]);
        bytes[places[i]] ^= 1;
    }
    for (size_t cut = 0; cut < n_bytes; cut += cut < 200 ? 7 : 9973) {
        bytes_write(folder, "x.pack", bytes, cut);
        assert_int_equal(pack_file_read(&map, path, "key", pieces, 2), OSP_EFORMAT);
    }
    bytes_write(folder, "x.pack", bytes, n_bytes);
    succeeds(pack_file_read(&map, path, "key", pieces, 2));
    file_map_close(&map);
    free(bytes);
    free(path);
    folder_remove(folder);
}

/* A file that another user can write, or a folder in which another user can create one, is not
 * trusted. */
static void test_file_that_others_can_write(void **state)
{
    static const mode_t modes[] = {0620, 0602, 0666}, folder_modes[] = {0770, 0707, 01777};
    char *folder = folder_new(), *path = path_join(folder, "x.pack");
    char *link = path_join(folder, "link.pack");
    struct file_map map = {.data = NULL};
    struct pack_piece pieces[2];
    struct stat info;

    (void)state;
    pieces_fill(pieces);
    succeeds(pack_file_write(path, "key", pieces, 2));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(pack_file_read(&map, path, "key", pieces, 2), OSP_EIO);
        assert_non_null(strstr(fail_message(), "x.pack: refused: mode"));
    }
    assert_int_equal(chmod(path, 0600), 0);
    for (size_t i = 0; i < sizeof folder_modes / sizeof folder_modes[0]; i++) {
        assert_int_equal(chmod(folder, folder_modes[i]), 0);
        assert_int_equal(pack_file_read(&map, path, "key", pieces, 2), OSP_EIO);
        assert_non_null(strstr(fail_message(), "chmod go-w"));
    }
    assert_int_equal(chmod(folder, 0700), 0);
    if (geteuid() == 0) { /* only root can give a file away */
        assert_int_equal(chown(path, 54321, 0), 0);
        assert_int_equal(pack_file_read(&map, path, "key", pieces, 2), OSP_EIO);
        assert_non_null(strstr(fail_message(), "it belongs to user id 54321, expected root"));
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_int_equal(symlink("/dev/zero", link), 0);
    assert_int_equal(pack_file_read(&map, link, "key", pieces, 2), OSP_EIO);
    succeeds(pack_file_read(&map, path, "key", pieces, 2));
    file_map_close(&map);
    free(link);
    free(path);
    folder_remove(folder);
}

/* ---- the model ---- */

static struct model *open_with(const char *path, const char *cache, unsigned mxfp4_layers)
{
    const struct model_options opt = {.path = path,
                                      .n_threads = 2,
                                      .n_rows_max = N_TOKENS,
                                      .n_samples_max = N_TOKENS,
                                      .n_pages = {PAGES, PAGES},
                                      .mxfp4_layers = mxfp4_layers,
                                      .pack_cache = cache};
    struct model *m;

    succeeds(model_open(&m, &opt));
    return m;
}

static char *only_file(const char *folder)
{
    DIR *dir = opendir(folder);
    char *name = NULL;

    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (!is_hidden(e)) {
            assert_null(name);
            name = mem_strdup(e->d_name);
        }
    closedir(dir);
    return name;
}

/* The packed bytes of the weights that a slot names. */
static void assert_same_packed(struct model *a, struct model *b)
{
    assert_int_equal(a->pack_cache.n_slots, b->pack_cache.n_slots);
    assert_true(a->pack_cache.n_slots > 0);
    for (size_t i = 0; i < a->pack_cache.n_slots; i++) {
        assert_int_equal(a->pack_cache.slots[i].size_bytes, b->pack_cache.slots[i].size_bytes);
        assert_memory_equal(a->pack_cache.slots[i].data, b->pack_cache.slots[i].data,
                            a->pack_cache.slots[i].size_bytes);
    }
}

static void assert_mapped(struct model *m, const struct tensor *t)
{
    const unsigned char *at = t->data, *begin = m->pack_cache.map.data;

    assert_int_equal(t->layout, LAYOUT_PACKED);
    assert_true(at >= begin && at < begin + m->pack_cache.map.size_bytes);
}

/* The ISA of this machine may have no packed layout; then there is nothing to cache. */
static bool packs(const struct model *m)
{
    struct device_info info;

    model_device_info(m, &info);
    return info.pack_layout != NULL;
}

static void test_second_start_maps(void **state)
{
    char *cache = folder_new(), *name;
    struct model *cold = open_with(MODEL, cache, MXFP4_ALL), *warm;

    (void)state;
    assert_false(cold->pack_cache.is_mapped);
    if (packs(cold)) {
        name = only_file(cache);
        assert_non_null(name);
        warm = open_with(MODEL, cache, MXFP4_ALL);
        assert_true(warm->pack_cache.is_mapped);
        assert_same_packed(cold, warm);
        assert_mapped(warm, &warm->logits.head);
        assert_mapped(warm, &warm->embed_rmsnorm.table);
        assert_mapped(warm, &warm->layers[7].experts.w_down);
        assert_mapped(warm, &warm->layers[0].attn_qkv.wqkv[1]);
        assert_int_equal(warm->report.attn_bytes, cold->report.attn_bytes);
        assert_int_equal(warm->report.embed_bytes, cold->report.embed_bytes);
        model_close(warm);
        free(name);
    }
    model_close(cold);
    folder_remove(cache);
}

/* Each set of layers, and each state of the checkpoint, has a file of its own. */
static void test_other_weights_have_another_file(void **state)
{
    char *cache = folder_new(), *folder = checkpoint_copy("single"), *path;
    struct model *m = open_with(folder, cache, MXFP4_NONE);

    (void)state;
    if (packs(m)) {
        model_close(m);
        m = open_with(folder, cache, MXFP4_QKV);
        assert_false(m->pack_cache.is_mapped);
        model_close(m);
        path = path_join(folder, "model.safetensors");
        assert_int_equal(
            utimensat(AT_FDCWD, path, (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
        free(path);
        m = open_with(folder, cache, MXFP4_QKV);
        assert_false(m->pack_cache.is_mapped);
        model_close(m);
        m = open_with(folder, cache, MXFP4_QKV);
        assert_true(m->pack_cache.is_mapped);
    }
    model_close(m);
    folder_remove(folder);
    folder_remove(cache);
}

static void test_broken_file_is_made_again(void **state)
{
    char *cache = folder_new(), *name;
    struct model *m = open_with(GOLDEN_CHECKPOINTS "hf", cache, MXFP4_NONE);

    (void)state;
    name = only_file(cache);
    if (name) {
        for (int round = 0; round < 2; round++) {
            model_close(m);
            if (round == 0)
                edit_size(cache, name, -1);
            else
                edit_byte(cache, name, 4096, 0x55);
            m = open_with(GOLDEN_CHECKPOINTS "hf", cache, MXFP4_NONE);
            assert_false(m->pack_cache.is_mapped);
        }
        model_close(m);
        m = open_with(GOLDEN_CHECKPOINTS "hf", cache, MXFP4_NONE);
        assert_true(m->pack_cache.is_mapped);
    }
    model_close(m);
    free(name);
    folder_remove(cache);
}

static int n_files(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += !is_hidden(e);
    closedir(dir);
    return n;
}

/* A file that others can write is replaced; in a folder that others can write no file is read or
 * written. */
static void test_places_that_others_can_write(void **state)
{
    char *cache = folder_new(), *inner = path_join(cache, "a/b"), *name, *path;
    struct model *m = open_with(MODEL, inner, MXFP4_NONE);
    const bool has_layout = packs(m);
    struct stat info;

    (void)state;
    model_close(m);
    if (has_layout) {
        name = only_file(inner);
        path = path_join(inner, name);
        assert_int_equal(stat(inner, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0700);
        assert_int_equal(chmod(path, 0666), 0);
        m = open_with(MODEL, inner, MXFP4_NONE);
        assert_false(m->pack_cache.is_mapped);
        model_close(m);
        assert_int_equal(stat(path, &info), 0); /* written again */
        assert_int_equal(info.st_mode & 07777, 0600);
        assert_int_equal(chmod(inner, 0777), 0);
        m = open_with(MODEL, inner, MXFP4_NONE);
        assert_false(m->pack_cache.is_mapped);
        assert_null(m->pack_cache.path);
        model_close(m);
        assert_int_equal(unlink(path), 0);
        m = open_with(MODEL, inner, MXFP4_NONE);
        model_close(m);
        assert_int_equal(n_files(inner), 0);
        free(path);
        free(name);
    }
    rmdir(inner);
    free(inner);
    inner = path_join(cache, "a");
    rmdir(inner);
    free(inner);
    folder_remove(cache);
}

/* Without a usable folder name opening fails; a folder that cannot be written only makes the next
 * start slower. */
static void test_places(void **state)
{
    struct model_options opt = {.path = GOLDEN_CHECKPOINTS "hf",
                                .n_rows_max = 1,
                                .n_samples_max = 1,
                                .pack_cache = "/proc/none/x"};
    struct model *m = open_with(GOLDEN_CHECKPOINTS "hf", "off", MXFP4_NONE);

    (void)state;
    assert_null(m->pack_cache.path);
    if (packs(m)) {
        struct model *other;

        assert_int_equal(model_open(&other, &opt), OSP_EIO);
        assert_non_null(strstr(fail_message(), "/proc/none/x"));
    }
    model_close(m);
}

UNIT_MAIN(cmocka_unit_test(test_file_comes_back), cmocka_unit_test(test_file_of_others_is_refused),
          cmocka_unit_test(test_damage_is_noticed), cmocka_unit_test(test_second_start_maps),
          cmocka_unit_test(test_other_weights_have_another_file),
          cmocka_unit_test(test_broken_file_is_made_again), cmocka_unit_test(test_places),
          cmocka_unit_test(test_file_that_others_can_write),
          cmocka_unit_test(test_places_that_others_can_write))
