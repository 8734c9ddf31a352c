/* backend_ops.copy_rows of the CPU: rows of several requests go to their places, and nothing else
 * changes. check_drafts cuda compares that of a GPU, through the answers of a draft head. */
#include "unit.h"

#include "backend/backend.h"
#include "base/rng.h"

enum { N_ROWS = 600, ROW_FLOATS = 12, N_CASES = 50 };

static const struct backend_ops *ops;
static struct backend *device;

static int open_device(void **state)
{
    const struct backend_options options = {.n_threads = 1, .n_rows_max = 1, .n_samples_max = 1};

    (void)state;
    ops = backend_find("cpu");
    return ops->open(&device, &options) == OSP_OK ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    ops->close(device);
    return 0;
}

static int draw(uint64_t seed, int i, int n)
{
    return (int)(rng_bits(seed, (uint64_t)i, 0) % (uint64_t)n);
}

/* Ranges of 1 to 3 rows: the targets one behind the other, with gaps; the sources anywhere. */
static struct row_copies random_copies(float *to, const float *from, uint64_t seed)
{
    struct row_copies c = {.to = to, .from = from, .row_bytes = ROW_FLOATS * sizeof(float)};
    int row = 0;

    for (int i = 0; i < ROW_COPIES_MAX && row + 3 <= N_ROWS; i++) {
        const int n = 1 + draw(seed, 3 * i, 3);

        c.rows[c.n++] =
            (struct row_copy){.to = row, .from = draw(seed, 3 * i + 1, N_ROWS - n + 1), .n = n};
        row += n + draw(seed, 3 * i + 2, 2);
    }
    return c;
}

static void test_rows_go_to_their_places(void **state)
{
    static float from[N_ROWS][ROW_FLOATS], to[N_ROWS][ROW_FLOATS], want[N_ROWS][ROW_FLOATS];

    (void)state;
    for (uint64_t seed = 1; seed <= N_CASES; seed++) {
        struct row_copies c;

        for (int i = 0; i < N_ROWS; i++)
            for (int k = 0; k < ROW_FLOATS; k++) {
                from[i][k] = (float)(i * ROW_FLOATS + k);
                to[i][k] = want[i][k] = -1;
            }
        c = random_copies(&to[0][0], &from[0][0], seed);
        assert_true(c.n > ROW_COPIES_MAX / 2);
        for (int i = 0; i < c.n; i++)
            for (int row = 0; row < c.rows[i].n; row++)
                memcpy(want[c.rows[i].to + row], from[c.rows[i].from + row], sizeof want[0]);
        assert_int_equal(ops->copy_rows(device, &c), OSP_OK);
        assert_memory_equal(to, want, sizeof want);
    }
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(test_rows_go_to_their_places, open_device, close_device))
