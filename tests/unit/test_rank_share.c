/* How ranks share out prefill rows, and where what they exchange lies (cuda/common/rank_share.h). */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "cuda/common/rank_share.h"

enum { ROWS_TESTED = 700, WIDTH = 96, N_ACTIVE = 4, SAMPLES = 16 };

/* Every row has one owner, and every rank has a row, for which the others wait. */
static void test_owners(void **state)
{
    (void)state;
    for (int n = 2; n <= RANK_PEERS_MAX; n++)
        for (int n_rows = RANK_SHARE_ROWS_MIN; n_rows < ROWS_TESTED; n_rows++) {
            const struct rank_share s = rank_share_of(n_rows, n);
            int next = 0;

            for (int r = 0; r < n; r++) {
                assert_int_equal(rank_share_first(s, r), next);
                assert_true(rank_share_rows(s, r) > 0);
                assert_true(rank_share_rows(s, r) <= s.part);
                next += rank_share_rows(s, r);
            }
            assert_int_equal(next, n_rows);
            for (int row = 0; row < n_rows; row++) {
                const int owner = rank_share_owner(s, row);

                assert_true(row >= rank_share_first(s, owner));
                assert_true(row < rank_share_first(s, owner + 1));
            }
        }
}

/* Parts of rows do not meet in the slot of their owner, and lie within it. */
static void test_places(void **state)
{
    (void)state;
    for (int n = 2; n <= RANK_PEERS_MAX; n++)
        for (int n_rows = RANK_SHARE_ROWS_MIN; n_rows < ROWS_TESTED; n_rows += 37) {
            const struct rank_share s = rank_share_of(n_rows, n);
            const int64_t n_places = rank_slot_bytes(n_rows, WIDTH, n) / (WIDTH * 4);
            bool *is_taken = calloc((size_t)(n_places * n), sizeof(*is_taken));

            assert_non_null(is_taken);
            for (int from = 0; from < n; from++)
                for (int row = 0; row < n_rows; row++) {
                    const int64_t place = rank_share_place(s, from, row);
                    bool *at = is_taken + rank_share_owner(s, row) * n_places + place;

                    assert_true(place >= 0 && place < n_places);
                    assert_false(*at);
                    *at = true;
                }
            free(is_taken);
        }
}

/* On every rank there is one block for each row, and a part is pushed by a block with a lower number
 * than the owner's block for the row, which waits for it. */
static void check_blocks(struct rank_share s, int n)
{
    static int numbers[RANK_PEERS_MAX][ROWS_TESTED];

    for (int rank = 0; rank < n; rank++) {
        int n_found = 0;

        for (int row = 0; row < s.n_rows; row++)
            numbers[rank][row] = -1;
        for (int block = 0; block < rank_share_blocks(s, n); block++) {
            const struct owned_row at = rank_share_block(s, n, rank, block);

            if (at.row < 0)
                continue;
            assert_int_equal(at.owner, rank_share_owner(s, at.row));
            assert_int_equal(numbers[rank][at.row], -1);
            numbers[rank][at.row] = block;
            n_found++;
        }
        assert_int_equal(n_found, s.n_rows);
    }
    for (int rank = 0; rank < n; rank++)
        for (int row = 0; row < s.n_rows; row++)
            if (rank_share_owner(s, row) != rank)
                assert_true(numbers[rank][row] < numbers[rank_share_owner(s, row)][row]);
}

static void test_blocks(void **state)
{
    (void)state;
    for (int n = 2; n <= RANK_PEERS_MAX; n++)
        for (int n_rows = RANK_SHARE_ROWS_MIN; n_rows < ROWS_TESTED; n_rows += 7)
            check_blocks(rank_share_of(n_rows, n), n);
}

static void test_gathered(void **state)
{
    (void)state;
    for (int n = 2; n <= RANK_PEERS_MAX; n++) {
        const int64_t window =
            rank_window_bytes(rank_slot_bytes(ROWS_TESTED, WIDTH, n), SAMPLES, WIDTH, n);
        const struct rank_gather g = rank_gather_at(window, ROWS_TESTED, WIDTH, N_ACTIVE, n);
        const int64_t list_bytes = ROWS_TESTED * N_ACTIVE * 4;

        assert_true(g.operand_at >= window);
        assert_int_equal(g.operand_at % 128, 0); /* read by TMA */
        assert_true(g.ids_at - g.operand_at >=
                    operand_bytes(operand_rows(ROWS_TESTED), WIDTH, ROUNDS_TO_BF16));
        assert_true(g.gates_at - g.ids_at >= list_bytes);
        assert_true(g.flags_at - g.gates_at >= list_bytes);
        assert_true(g.n_done_at - g.flags_at >= n * RANK_FLAG_BYTES);
        assert_true(g.end_at - g.n_done_at >= 4);
    }
}

UNIT_MAIN(cmocka_unit_test(test_owners), cmocka_unit_test(test_places),
          cmocka_unit_test(test_blocks), cmocka_unit_test(test_gathered))
