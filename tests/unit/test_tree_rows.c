/* Rows of draft trees (tree_rows.h) on the CPU, at every ISA of this machine and with every type of
 * cache. Thousands of stored positions at the fastest ISA only. On a GPU: check_tree_rows.c.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: the fastest ISA and the smallest model,
 * with a fourth of the places. */
#define UNIT_LIMIT_S 300
#include "unit.h"

#include "cpu/kernels/kernels.h"
#include "tree_rows.h"

enum { QUICK_STEP = 4 }; /* CHECK_QUICK: every fourth place of a tree */

static void check_isa(const char *folder, const char *isa, enum dtype kv_dtype, bool is_long)
{
    const int step = getenv("CHECK_QUICK") != NULL ? QUICK_STEP : 1;

    setenv("OSPREY_CPU_FEATURES", isa, 1);
    assert_int_equal(check_trees(folder, isa, kv_dtype, is_long, step), 0);
}

static const char *const folders[] = {"models/osprey-nano", "tests/golden/model/odd",
                                      "tests/golden/model/bf16"};
enum { N_FOLDERS = sizeof(folders) / sizeof(folders[0]) };

static void test_paths_have_the_bits_of_single_rows(void **state)
{
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);
    const bool is_quick = getenv("CHECK_QUICK") != NULL;

    (void)state;
    for (int i = is_quick ? n - 1 : 0; i < n; i++)
        for (int f = is_quick ? 1 : 0; f < (is_quick ? 2 : N_FOLDERS); f++)
            check_isa(folders[f], isas[i]->name, DTYPE_NONE, f == 1 && i == n - 1);
}

static void test_every_type_of_cache(void **state)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F8, DTYPE_I16};
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);
    const bool is_quick = getenv("CHECK_QUICK") != NULL;

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int isa = is_quick ? n - 1 : 0; isa < n; isa++)
            check_isa(folders[1], isas[isa]->name, types[i], false);
}

UNIT_MAIN(cmocka_unit_test(test_paths_have_the_bits_of_single_rows),
          cmocka_unit_test(test_every_type_of_cache))
