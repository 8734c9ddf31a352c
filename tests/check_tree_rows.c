/* Rows of draft trees on a device have the bits of decode rows of their paths that come one by one
 * (tree_rows.h): with every type of cache, with heads that tensor core kernels support and others,
 * at the edges of pages, windows, units of keys and splits.
 *
 *     check_tree_rows [DEVICE [MODEL...]]
 *
 * Default: the GPU if there is one, else the CPU, with osprey-nano and the shorter contexts
 * (test_tree_rows has the others of the CPU). With a DEVICE and no MODEL: osprey-nano and two models
 * of tests/golden/model, thousands of positions with the first of them. gpt-oss-120b and
 * gpt-oss-20b: four layers of that shape, with generated weights in MXFP4. CHECK_QUICK in the
 * environment, for builds with sanitizers and compute-sanitizer: a fourth of the places, none of
 * thousands of positions. */
#include "store/mxfp4_layers.h"
#include "tree_rows.h"

static const struct {
    const char *name;
    enum dtype dtype;
} types[] = {{"bf16", DTYPE_BF16}, {"fp8", DTYPE_F8}, {"f32", DTYPE_F32}};
enum { N_TYPES = sizeof types / sizeof types[0], QUICK_STEP = 4, SHAPE_LAYERS = 4 };

int main(int argc, char **argv)
{
    static const char *const defaults[] = {"models/osprey-nano", "tests/golden/model/odd",
                                           "tests/golden/model/bf16"};
    const char *const *folders = argc > 2 ? (const char *const *)argv + 2 : defaults;
    const int n_folders = argc > 2   ? argc - 2
                          : argc > 1 ? (int)(sizeof defaults / sizeof defaults[0])
                                     : 1;
    const bool is_quick = getenv("CHECK_QUICK") != NULL;
    int n_bad = 0;

    steps_device = argc > 1 ? argv[1] : "auto";
    for (int f = 0; f < n_folders; f++) {
        steps_dummy_layers = strncmp(folders[f], "gpt-oss-", 8) == 0 ? SHAPE_LAYERS : 0;
        steps_mxfp4_layers = steps_dummy_layers > 0 ? MXFP4_ALL : 0;
        for (int t = 0; t < N_TYPES; t++) {
            const int n = check_trees(folders[f], types[t].name, types[t].dtype,
                                      argc > 1 && !is_quick && f == 0, is_quick ? QUICK_STEP : 1);

            printf("%s, %s: %s\n", folders[f], types[t].name, n == 0 ? "the same bits" : "FAILED");
            n_bad += n;
        }
    }
    printf("check_tree_rows: %d comparisons failed\n", n_bad);
    return n_bad > 0;
}
