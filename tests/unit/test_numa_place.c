/* Weights with several NUMA nodes: each thread's share is its own copy, of checkpoint data, of
 * packed weights or of mapped packed weights, with the same bytes; a step computes the same bits.
 * The nodes are simulated: each CPU of this machine counts as one node. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cpus.h"
#include "base/pool.h"
#include "base/topology.h"
#include "checkpoint_edit.h"
#include "steps.h"

enum { N_TOKENS = 70, ROWS_MAX = 19 };

#define MODEL "models/osprey-nano"

/* A folder like /sys/devices/system with two nodes; NULL if there is only one CPU. */
static char *two_nodes(void)
{
    char *folder, text[32], path[64];
    int *cpus, n = cpus_allowed(&cpus);

    if (n < 2) {
        free(cpus);
        return NULL;
    }
    folder = folder_new();
    for (int i = 0; i < 2; i++) {
        char *node = mem_printf("%s/node%s", folder, i == 0 ? "" : "/node1");

        mkdir(node, 0700);
        free(node);
        node = mem_printf("%s/node/node%d", folder, i);
        mkdir(node, 0700);
        free(node);
        snprintf(path, sizeof path, "node/node%d/cpulist", i);
        snprintf(text, sizeof text, "%d\n", cpus[i]);
        bytes_write(folder, path, text, strlen(text));
    }
    bytes_write(folder, "node/online", "0-1\n", 4);
    free(cpus);
    return folder;
}

static struct model *open_on(const char *affinity, const char *cache, const char *isa)
{
    struct model_options opt = {.path = MODEL,
                                .n_threads = 2,
                                .n_rows_max = ROWS_MAX,
                                .n_samples_max = ROWS_MAX,
                                .n_pages = {2, 2},
                                .cpu_affinity = affinity,
                                .cpu_features = isa,
                                .pack_cache = cache};
    struct model *m;

    must(model_open(&m, &opt));
    return m;
}

static float *run_texts(struct model *m)
{
    const size_t n = (size_t)N_TOKENS * (size_t)model_config(m)->vocab_size;
    float *logits = mem_new(n * sizeof(float));
    int32_t tokens[N_TOKENS];
    struct steps_seq seq = {.tokens = tokens, .n_tokens = N_TOKENS, .logits = logits};

    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = (i * 37 + 5) % 1000;
    steps_play(m, &seq, ROWS_MAX, 1);
    return logits;
}

static bool is_in_checkpoint(const struct model *m, const struct tensor *t)
{
    for (int i = 0; i < m->checkpoint.n_files; i++) {
        const struct file_map *map = &m->checkpoint.files[i].map;

        if ((unsigned char *)t->data >= map->data &&
            (unsigned char *)t->data < map->data + map->size_bytes)
            return true;
    }
    return false;
}

static void assert_same_bytes(const struct tensor *a, const struct tensor *b)
{
    assert_true(a->data != b->data);
    assert_int_equal(a->layout, b->layout);
    assert_memory_equal(a->data, b->data, (size_t)tensor_bytes(a));
}

static void check_placed(struct model *plain, struct model *placed)
{
    float *expected = run_texts(plain), *found = run_texts(placed);
    struct device_info info;

    model_device_info(placed, &info);
    assert_non_null(strstr(info.name, "2 threads on 2 nodes"));
    assert_false(is_in_checkpoint(placed, &placed->logits.head));
    for (int i = 0; i < 3; i++) {
        assert_false(is_in_checkpoint(placed, &placed->layers[1].attn_qkv.wqkv[i]));
        assert_same_bytes(&plain->layers[1].attn_qkv.wqkv[i], &placed->layers[1].attn_qkv.wqkv[i]);
    }
    assert_same_bytes(&plain->logits.head, &placed->logits.head);
    assert_same_bytes(&plain->layers[0].attn_out.wo, &placed->layers[0].attn_out.wo);
    assert_same_bytes(&plain->layers[2].router.wr, &placed->layers[2].router.wr);
    assert_memory_equal(expected, found,
                        (size_t)N_TOKENS * (size_t)model_config(plain)->vocab_size * sizeof(float));
    free(expected);
    free(found);
}

static void test_copies_are_the_same(void **state)
{
    char *nodes = two_nodes(), *cache = folder_new();
    const int before = pool_usable_cpus();

    (void)state;
    for (int round = 0; nodes && round < 2; round++) { /* the second start maps the cache */
        struct model *plain = open_on("off", "off", NULL), *placed;

        topology_set_folder(nodes);
        placed = open_on("nodes", cache, NULL);
        if (round == 1 && placed->pack_cache.n_slots > 0)
            assert_true(placed->pack_cache.is_mapped);
        check_placed(plain, placed);
        model_close(placed);
        topology_set_folder(NULL);
        model_close(plain);
        assert_int_equal(pool_usable_cpus(), before);
    }
    if (nodes)
        folder_remove(nodes);
    folder_remove(cache);
}

UNIT_MAIN(cmocka_unit_test(test_copies_are_the_same))
