/* Trees of drafts: shapes and their likeliest nodes, the walk that orders a guessed tree, paths and
 * masks of its rows; and the candidates of stage sample, against all scores. Rows of trees on the
 * device: test_tree_rows.c. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "backend/gumbel.h"
#include "backend/tree_mask.h"
#include "base/rng.h"
#include "engine/draft/draft_shape.h"
#include "sample_stage.h"

/* Two nodes behind the last token, two behind the first of them, one behind the second. */
static const signed char PARENTS[] = {-1, -1, 0, 0, 1, 2};
enum { N = sizeof PARENTS };

static void test_shapes(void **state)
{
    const signed char bad[][3] = {{0, 0, 1}, {-1, 0, -1}, {-1, 0, 2}, {-2, -1, 0}};
    const struct draft_shape s = draft_shape_of(PARENTS, N);
    const int8_t ranks[N] = {0, 1, 0, 1, 0, 0};

    (void)state;
    assert_true(draft_shape_is_valid(PARENTS, N) && draft_shape_is_valid(PARENTS, 0));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(draft_shape_is_valid(bad[i], 3));
    assert_memory_equal(s.ranks, ranks, N);
    assert_int_equal(draft_shape_levels(&s), 3);
    assert_int_equal(draft_shape_candidates(&s), 2);
    assert_true(draft_shape_has_child(&s, 0) && draft_shape_has_child(&s, 2));
    assert_false(draft_shape_has_child(&s, 3) || draft_shape_has_child(&s, 5));
}

/* Chances of the nodes: 0.6, 0.3, 0.36, 0.18, 0.18, 0.216. */
static void test_likeliest(void **state)
{
    const double chances[DRAFTS_MAX] = {0.6, 0.3};
    const struct draft_shape s = draft_shape_of(PARENTS, N);
    const struct draft_shape three = draft_shape_likeliest(&s, chances, 3);
    const struct draft_shape four = draft_shape_likeliest(&s, chances, 4);
    const struct draft_shape all = draft_shape_likeliest(&s, chances, DRAFTS_MAX);
    double sum = 0, p = 1;

    (void)state;
    assert_int_equal(three.n, 3);
    assert_memory_equal(three.parents, ((int8_t[]){-1, -1, 0}), 3);
    assert_memory_equal(three.ranks, ((int8_t[]){0, 1, 0}), 3);
    assert_int_equal(four.n, 4);
    assert_memory_equal(four.parents, ((int8_t[]){-1, -1, 0, 2}), 4);
    assert_int_equal(all.n, N);
    assert_memory_equal(all.parents, s.parents, N);
    for (int i = 0; i < N; i++)
        sum += p *= draft_shape_acceptance(&s, chances);
    assert_true(fabs(sum - 1.836) < 1e-3);
}

/* The best path first; nodes without a token, and those behind them, are left out. */
static void test_walk(void **state)
{
    const struct draft_shape s = draft_shape_of(PARENTS, N);
    const int32_t tokens[N] = {10, 11, 12, 13, 14, 15}, some[N] = {10, 11, -1, 13, 14, 15};
    int32_t out[DRAFTS_MAX], path[DRAFTS_MAX];
    int8_t parents[DRAFTS_MAX];

    (void)state;
    assert_int_equal(draft_shape_walk(&s, tokens, out, parents), N);
    assert_memory_equal(out, ((int32_t[]){10, 12, 15, 13, 11, 14}), sizeof tokens);
    assert_memory_equal(parents, ((int8_t[]){-1, 0, 1, 0, -1, 4}), N);
    assert_int_equal(draft_path(path, out, parents, 2), 3);
    assert_memory_equal(path, ((int32_t[]){10, 12, 15}), 3 * sizeof *path);
    assert_int_equal(draft_path(path, out, parents, -1), 0);
    assert_int_equal(draft_mask(parents, -1), 1);
    assert_int_equal(draft_mask(parents, 2), 0xF); /* in place */
    assert_int_equal(draft_mask(parents, 5), 1 | 1 << 5 | 1 << 6);
    assert_int_equal(draft_child(out, parents, N, -1, 11), 4);
    assert_int_equal(draft_child(out, parents, N, 0, 15), -1);  /* behind another one */
    assert_int_equal(draft_child(out, parents, 4, -1, 11), -1); /* not among the first */
    assert_int_equal(draft_shape_walk(&s, some, out, parents), 4);
    assert_memory_equal(out, ((int32_t[]){10, 13, 11, 14}), 4 * sizeof *out);
    assert_memory_equal(parents, ((int8_t[]){-1, 0, -1, 2}), 4);
    assert_false(draft_is_chain(parents, 4));
    assert_true(draft_is_chain(parents, 2));
}

static void test_masks(void **state)
{
    const struct batch_counts counts = {.n_rows = 3, .n_seqs = 1, .has_trees = true};
    struct batch *b = batch_init(malloc((size_t)batch_bytes(counts)), counts);

    (void)state;
    for (int i = 0; i < 3; i++) {
        ((uint32_t *)(uintptr_t)BATCH_TREE_MASKS(b))[i] = (const uint32_t[]){1, 3, 1 | 4}[i];
        ((int32_t *)(uintptr_t)BATCH_POSITIONS(b))[i] = (const int32_t[]){70, 71, 71}[i];
        assert_int_equal(tree_first(b, i), 70);
        assert_int_equal(tree_slot(b, i), 70 + i);
    }
    assert_true(tree_mask_is_plain(3) && tree_mask_is_plain(1) && !tree_mask_is_plain(5));
    free(b);
}

/* ---- candidates ---- */

enum { ROWS = 40, VOCAB = 300, N_CANDIDATES = 6, NO_ID = 250 /* ids from here on have no text */ };

struct scored {
    float score;
    int32_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *left = a, *right = b;

    if (left->score != right->score)
        return left->score > right->score ? -1 : 1;
    return left->id - right->id;
}

/* All scores in order, without filters. */
static void expected(int32_t out[N_CANDIDATES], const float *z, const struct batch_sample *s,
                     const int32_t *ids)
{
    const uint64_t key = rng_key(s->seed, s->position);
    struct scored all[NO_ID];
    float largest = z[0];

    for (int i = 1; i < NO_ID; i++)
        largest = z[i] > largest ? z[i] : largest;
    for (int i = 0; i < NO_ID; i++)
        all[i] = (struct scored){s->temperature > 0
                                     ? gumbel_score(gumbel_ln_weight(z[i], largest, s->temperature),
                                                    key, ids != NULL ? ids[i] : i, -INFINITY)
                                     : z[i],
                                 i};
    qsort(all, NO_ID, sizeof *all, by_score);
    for (int i = 0; i < N_CANDIDATES; i++)
        out[i] = ids != NULL ? ids[all[i].id] : all[i].id;
}

/* Ties, greedy and sampled rows, top_k below the number of candidates, a row with a NaN. */
static void check_candidates(const int32_t *ids)
{
    const struct backend_options opt = {.n_threads = 2, .n_rows_max = ROWS, .n_samples_max = ROWS};
    const struct batch_counts counts = {
        .n_rows = ROWS, .n_seqs = 1, .n_samples = ROWS, .n_pages = 2};
    const struct backend_ops *ops = backend_find("cpu");
    struct batch *b = batch_init(malloc((size_t)batch_bytes(counts)), counts);
    static float logits[ROWS][VOCAB], logprobs[ROWS];
    static int32_t tokens[ROWS], have[ROWS][DRAFT_CANDIDATES_MAX];
    struct batch_sample samples[ROWS];
    struct backend *device;
    struct sample_args a = {
        .tokens = {.dtype = DTYPE_I32, .n_dims = 1, .dim = {ROWS}, .data = tokens},
        .logprobs = {.dtype = DTYPE_F32, .n_dims = 1, .dim = {ROWS}, .data = logprobs},
        .logits = {.dtype = DTYPE_F32, .n_dims = 2, .dim = {ROWS, VOCAB}, .data = logits},
        .candidates = {.dtype = DTYPE_I32,
                       .n_dims = 2,
                       .dim = {ROWS, DRAFT_CANDIDATES_MAX},
                       .data = have},
        .ids = {.dtype = DTYPE_I32, .n_dims = 1, .dim = {VOCAB}, .data = (void *)(uintptr_t)ids},
        .n_valid = NO_ID};

    assert_int_equal(ops->open(&device, &opt), OSP_OK);
    ((struct batch_seq *)(uintptr_t)BATCH_SEQS(b))[0] =
        (struct batch_seq){.n_rows = ROWS, .table = {0, 1}, .n_pages = {1, 1}};
    b->n_candidates = N_CANDIDATES;
    for (int row = 0; row < ROWS; row++) {
        samples[row] =
            (struct batch_sample){.temperature = row % 3 == 0 ? 0 : 0.5F + (float)(row % 5),
                                  .top_p = 1,
                                  .top_k = row % 8 == 7 ? 4 : 0,
                                  .position = (uint32_t)row,
                                  .seed = 11};
        for (int i = 0; i < VOCAB; i++)
            logits[row][i] = (float)(rng_bits(5, (uint64_t)row, (uint32_t)i) % 64) / 8;
    }
    logits[4][9] = NAN;
    run_sample_stage(ops, device, &a, b, samples, ROWS);
    for (int row = 0; row < ROWS; row++) {
        int32_t want[N_CANDIDATES];
        int n = N_CANDIDATES;

        if (row == 4)
            n = 0;
        else if (samples[row].top_k > 0 && samples[row].temperature > 0)
            n = samples[row].top_k;
        if (n == N_CANDIDATES) {
            expected(want, logits[row], &samples[row], ids);
            assert_memory_equal(have[row], want, sizeof want);
        }
        assert_true(n == 0 || have[row][0] == tokens[row]);
        for (int i = 0; i < DRAFT_CANDIDATES_MAX; i++)
            assert_true((have[row][i] >= 0) == (i < n));
    }
    ops->close(device);
    free(b);
}

static void test_candidates(void **state)
{
    static int32_t ids[VOCAB];

    (void)state;
    for (int i = 0; i < VOCAB; i++)
        ids[i] = 3 * i + 1;
    check_candidates(NULL);
    check_candidates(ids);
}

UNIT_MAIN(cmocka_unit_test(test_shapes), cmocka_unit_test(test_likeliest),
          cmocka_unit_test(test_walk), cmocka_unit_test(test_masks),
          cmocka_unit_test(test_candidates))
