/* Tiles of decode rows (cuda/attention/attn_tiles.h): every row is in one tile, with rows of its
 * sequence that have as many splits, and a launch has blocks for all tiles. */
#include "unit.h"

#include "cuda/attention/attn_tiles.h"

enum { KEYS_OF_A_SPLIT = ATTN_UNIT_KEYS * ATTN_GROUP_UNITS * ATTN_SPLIT_GROUPS };

/* Begins of tiles of at most n_most rows among n rows of a sequence from `position` on. Checks each
 * tile. */
static int tiles_of_rows(int position, int n, int n_most)
{
    int n_tiles = 0, first = 0;

    for (int i = 0; i < n; i++) {
        if (attn_begins_tile(i, n, n_most, position + i)) {
            n_tiles++;
            first = i;
        }
        assert_true(i - first < n_most);
        assert_int_equal(attn_splits_at(position + i), attn_splits_at(position + first));
    }
    return n_tiles;
}

static void test_rows_of_a_tile(void **state)
{
    (void)state;
    for (int n_most = 1; n_most <= ATTN_TILE_ROWS; n_most++)
        for (int n = 1; n <= ATTN_TILED_ROWS_MAX; n++)
            for (int position = 0; position < 40 * KEYS_OF_A_SPLIT; position++) {
                const int n_tiles = tiles_of_rows(position, n, n_most);

                assert_true(attn_begins_tile(0, n, n_most, position));
                assert_true(n_tiles >= (n + n_most - 1) / n_most);
                assert_true(n_tiles <= attn_tiles_at_most(n, 1, n_most));
            }
}

/* Where the number of splits does not change, there is no tile more than needed, and sizes differ
 * by few rows. */
static void test_tiles_are_even(void **state)
{
    (void)state;
    for (int n_most = 1; n_most <= ATTN_TILE_ROWS; n_most++)
        for (int n = 1; n <= ATTN_TILED_ROWS_MAX; n++) {
            assert_int_equal(tiles_of_rows(KEYS_OF_A_SPLIT, n, n_most), (n + n_most - 1) / n_most);
            assert_true(attn_tile_rows(n, n_most) <= n_most);
        }
    assert_int_equal(attn_tile_rows(1, 4), 1);
    assert_int_equal(attn_tile_rows(5, 4), 3);
    assert_int_equal(attn_tile_rows(5, 2), 2);
}

/* A step of several sequences, each at the position with most tiles. */
static void test_bound_of_a_step(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (int turn = 0; turn < 20000; turn++) {
        const int n_most = 1 + turn % ATTN_TILE_ROWS;
        int n_rows = 0, n_seqs = 0, n_tiles = 0;

        for (;;) {
            random = random * 1664525u + 1013904223u;

            const int n = 1 + (int)(random >> 8) % (1 + (int)(random >> 16) % 17);
            int most = 0;

            if (n_rows + n > ATTN_TILED_ROWS_MAX)
                break;
            for (int position = 3 * KEYS_OF_A_SPLIT - n; position <= 3 * KEYS_OF_A_SPLIT;
                 position++) {
                const int n_of_seq = tiles_of_rows(position, n, n_most);

                most = n_of_seq > most ? n_of_seq : most;
            }
            n_rows += n;
            n_seqs++;
            n_tiles += most;
        }
        assert_true(n_tiles <= attn_tiles_at_most(n_rows, n_seqs, n_most));
    }
}

/* Of rows that fit, a warp has two units of a split at most. */
static void test_units_of_a_warp(void **state)
{
    (void)state;
    for (int n = 1; n <= ATTN_TILED_UNITS_MAX; n++)
        assert_true(n <= attn_splits(n, ATTN_SPLITS_MAX) * ATTN_GROUP_UNITS * 2);
    assert_false(ATTN_TILED_UNITS_MAX + 1 <=
                 attn_splits(ATTN_TILED_UNITS_MAX + 1, ATTN_SPLITS_MAX) * ATTN_GROUP_UNITS * 2);
}

UNIT_MAIN(cmocka_unit_test(test_rows_of_a_tile), cmocka_unit_test(test_tiles_are_even),
          cmocka_unit_test(test_bound_of_a_step), cmocka_unit_test(test_units_of_a_warp))
