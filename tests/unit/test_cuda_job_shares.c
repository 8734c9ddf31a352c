/* Shares of the grouped experts' jobs (cuda/decode/job_shares.h): every item is in one share, and
 * the costs of shares differ by one item at most. */
#include "unit.h"

#include "base/rng.h"
#include "cuda/decode/job_shares.h"

enum { EXPERTS = 128, JOB_TOKENS = 24, PIECE = 8, ITEMS_MAX = 16384, SHARES = 132 };

/* Jobs as expert_jobs_kernel lists them, and the cost of each item. */
struct jobs {
    struct expert_slot first[EXPERTS + 1];
    int cost[ITEMS_MAX], n_items, all;
};

static void add_expert(struct jobs *j, int e, int count, int n_parts)
{
    struct expert_slot next = j->first[e];

    for (int left = count; left > 0; left -= JOB_TOKENS) {
        const int n = left < JOB_TOKENS ? left : JOB_TOKENS;

        next.job++;
        for (int part = 0; part < n_parts; part++) {
            assert_true(j->n_items < ITEMS_MAX);
            j->cost[j->n_items++] = JOB_COST + (n + PIECE - 1) / PIECE;
            j->all += j->cost[j->n_items - 1];
        }
    }
    next.entry += count;
    next.row += (count + PIECE - 1) / PIECE * PIECE;
    j->first[e + 1] = next;
}

/* The item in whose cost the beginning of share i is. */
static int expected_item(const struct jobs *j, int i, int n_shares)
{
    const int64_t at = (int64_t)j->all * i / n_shares;
    int64_t before = 0;
    int item = 0;

    while (item < j->n_items && before + j->cost[item] <= at)
        before += j->cost[item++];
    return item;
}

static void check_shares(const struct jobs *j, int n_parts, int n_shares)
{
    int item = 0, cost = 0, most = 0;

    for (int i = 0; i <= n_shares; i++) {
        const int first = first_item_of(j->first, EXPERTS, JOB_TOKENS, n_parts, i, n_shares);

        assert_int_equal(first, expected_item(j, i, n_shares));
        for (cost = 0; item < first; item++)
            cost += j->cost[item];
        most = cost > most ? cost : most;
    }
    assert_int_equal(item, j->n_items);
    assert_true(most <= j->all / n_shares + 1 + JOB_COST + JOB_TOKENS / PIECE);
}

/* Counts of up to `most` entries in one of `one_in` experts. */
static void check_random(uint64_t seed, int most, int one_in, int n_parts, int n_shares)
{
    struct jobs j = {.n_items = 0};

    for (int e = 0; e < EXPERTS; e++) {
        const uint64_t bits = rng_bits(seed, (uint64_t)e, 0);

        add_expert(&j, e,
                   bits % (uint64_t)one_in == 0 ? (int)(bits / 64 % (uint64_t)(most + 1)) : 0,
                   n_parts);
    }
    check_shares(&j, n_parts, n_shares);
}

static void test_random_counts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        check_random(seed, 16, 1, 15, SHARES);
        check_random(seed, 60, 1, 8, SHARES);
        check_random(seed, 300, 9, 15, SHARES);
        check_random(seed, 24, 2, 1, 7);
        check_random(seed, 3, 40, 15, SHARES);
    }
}

/* No entries; one expert, the first or the last, with all of them. */
static void test_extremes(void **state)
{
    (void)state;
    check_random(1, 0, 1, 15, SHARES);
    for (int only = 0; only < EXPERTS; only += EXPERTS - 1) {
        struct jobs j = {.n_items = 0};

        for (int e = 0; e < EXPERTS; e++)
            add_expert(&j, e, e == only ? 4096 : 0, 15);
        check_shares(&j, 15, SHARES);
    }
}

UNIT_MAIN(cmocka_unit_test(test_random_counts), cmocka_unit_test(test_extremes))
