/* The table of CUDA kernels, which needs no card: everything that a step can ask has one answer. */
#include "unit.h"

#include <string.h>

#include "cuda/tuning.h"

enum { N_ROWS_MAX = 8192 };

/* Rows of the table that answer, on request or not. */
static int count_answers(const struct tuning_key *k, bool is_on_request, enum family family)
{
    int n = 0;

    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *r = &tuning_rows[i];

        n += r->stages >> k->stage & r->cards >> k->card & r->formats >> k->format &
                 r->kinds >> k->kind & 1 &&
             k->n_rows >= r->n_rows_min && k->n_rows <= r->n_rows_max &&
             r->is_on_request == is_on_request &&
             (!is_on_request || kernel_texts[r->kernel].family == family);
    }
    return n;
}

static void check_key(const struct tuning_key *k)
{
    const struct tuning_row *row = tuning_find(k, FAMILY_AUTO);

    if (count_answers(k, false, FAMILY_AUTO) != 1)
        fail_msg("stage %d, card %d, format %d, kind %d, %d rows: %d kernels", k->stage, k->card,
                 k->format, k->kind, k->n_rows, count_answers(k, false, FAMILY_AUTO));
    assert_non_null(row);
    assert_false(row->is_on_request);
    for (int f = FAMILY_NATIVE; f < N_FAMILIES; f++) {
        const bool is_meant = kernel_texts[row->kernel].family == (enum family)f;

        assert_true(count_answers(k, true, (enum family)f) + is_meant <= 1);
    }
}

static void check_stage(struct tuning_key k)
{
    const unsigned formats = stage_formats(k.stage) ? stage_formats(k.stage) : SET(WEIGHTS_NONE);

    for (int f = 0; f < N_FORMATS; f++) {
        k.format = (enum weight_format)f;
        for (k.n_rows = 1; formats & SET(f) && k.n_rows <= N_ROWS_MAX; k.n_rows++)
            check_key(&k);
    }
}

static void test_one_kernel_for_everything(void **state)
{
    (void)state;
    for (int stage = 0; stage < N_STAGES; stage++)
        for (int card = 0; card < N_CARDS; card++)
            for (int kind = ROW_PROMPT; kind <= ROW_GENERATED; kind++)
                check_stage((struct tuning_key){.stage = (enum stage)stage,
                                                .card = (enum card)card,
                                                .kind = (enum row_kind)kind});
}

static void test_wishes(void **state)
{
    struct tuning_key k = {.stage = STAGE_experts,
                           .card = CARD_HOPPER,
                           .format = WEIGHTS_MXFP4,
                           .kind = ROW_GENERATED,
                           .n_rows = 1};

    (void)state;
    assert_int_equal(tuning_find(&k, FAMILY_SIMT)->kernel, KERNEL_MATMUL_SIMT);
    assert_int_equal(kernel_texts[tuning_find(&k, FAMILY_MMA)->kernel].family, FAMILY_MMA);
    assert_null(tuning_find(&k, FAMILY_NATIVE)); /* Hopper has no block-scaled products */
}

static void test_cards(void **state)
{
    (void)state;
    assert_int_equal(card_of_capability(7), N_CARDS);
    assert_int_equal(card_of_capability(8), CARD_AMPERE);
    assert_int_equal(card_of_capability(9), CARD_HOPPER);
    assert_int_equal(card_of_capability(10), CARD_BLACKWELL);
    assert_int_equal(card_of_capability(12), CARD_BLACKWELL_RTX);
    assert_int_equal(card_of_capability(13), N_CARDS);
}

/* Symbols tell kernels apart in the report of what ran. */
static void test_symbols_differ(void **state)
{
    (void)state;
    for (int i = 0; i < N_KERNELS; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(kernel_texts[i].symbol, kernel_texts[j].symbol);
}

UNIT_MAIN(cmocka_unit_test(test_one_kernel_for_everything), cmocka_unit_test(test_wishes),
          cmocka_unit_test(test_cards), cmocka_unit_test(test_symbols_differ))
