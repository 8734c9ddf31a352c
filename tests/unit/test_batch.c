/* Checks the layout of batches, and names and sizes of tensors. */
#include "unit.h"

#include <stdlib.h>

#include "backend/backend.h"

static void test_arrays_do_not_overlap(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        const struct batch_counts counts = {.n_rows = 5 + n,
                                            .n_seqs = n,
                                            .n_samples = 2 * n + 1,
                                            .n_pages = 7 * n,
                                            .n_seen = 3 * n,
                                            .n_biases = n * n,
                                            .n_mask_words = 4 - n,
                                            .has_trees = n % 2 == 1};
        const int64_t size_bytes = batch_bytes(counts);
        struct batch *b = batch_init(malloc((size_t)size_bytes), counts);
        const struct {
            int32_t offset;
            size_t size_bytes;
        } arrays[] = {
            {b->offset_tokens, sizeof(int32_t) * (size_t)counts.n_rows},
            {b->offset_positions, sizeof(int32_t) * (size_t)counts.n_rows},
            {b->offset_row_seq, sizeof(int32_t) * (size_t)counts.n_rows},
            {b->offset_phases, sizeof(int32_t) * (size_t)counts.n_rows},
            {b->offset_seqs, sizeof(struct batch_seq) * (size_t)counts.n_seqs},
            {b->offset_samples, sizeof(struct batch_sample) * (size_t)counts.n_samples},
            {b->offset_pages, sizeof(int32_t) * (size_t)counts.n_pages},
            {b->offset_seen, sizeof(struct batch_seen) * (size_t)counts.n_seen},
            {b->offset_biases, sizeof(struct batch_bias) * (size_t)counts.n_biases},
            {b->offset_masks, sizeof(uint32_t) * (size_t)counts.n_mask_words},
            {b->offset_tree_masks, counts.has_trees ? sizeof(uint32_t) * (size_t)counts.n_rows : 0},
        };
        size_t end_bytes = sizeof(*b);

        assert_int_equal(b->size_bytes, size_bytes);
        for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
            assert_int_equal(arrays[i].offset % 8, 0);
            assert_true((size_t)arrays[i].offset >= end_bytes);
            end_bytes = (size_t)arrays[i].offset + arrays[i].size_bytes;
        }
        assert_true(end_bytes <= (size_t)size_bytes);
        free(b);
    }
}

static void test_zeroed_and_movable(void **state)
{
    const struct batch_counts counts = {.n_rows = 3, .n_seqs = 1, .n_samples = 2, .n_pages = 4};
    const size_t size_bytes = (size_t)batch_bytes(counts);
    unsigned char *memory = malloc(size_bytes), *copy = malloc(size_bytes);
    struct batch *b;

    (void)state;
    memset(memory, 0xFF, size_bytes);
    b = batch_init(memory, counts);
    for (int i = 0; i < 3; i++)
        assert_int_equal(BATCH_TOKENS(b)[i], 0);
    ((int32_t *)BATCH_PAGES(b))[3] = 77;
    ((struct batch_sample *)BATCH_SAMPLES(b))[1].seed = 1234567890123u;
    memcpy(copy, memory, size_bytes);
    assert_int_equal(BATCH_PAGES((struct batch *)copy)[3], 77);
    assert_int_equal(BATCH_SAMPLES((struct batch *)copy)[1].seed, 1234567890123u);
    free(memory);
    free(copy);
}

static void test_tensor_bytes(void **state)
{
    struct tensor t = {.dtype = DTYPE_MXFP4, .n_dims = 3, .dim = {3, 4, 64}};

    (void)state;
    assert_int_equal(tensor_bytes(&t), 3 * 4 * (32 + 2));
    t.dtype = DTYPE_BF16;
    assert_int_equal(tensor_bytes(&t), 3 * 4 * 64 * 2);
    t.dtype = DTYPE_F32;
    assert_int_equal(tensor_bytes(&t), 3 * 4 * 64 * 4);
    assert_string_equal(dtype_name(DTYPE_MXFP4), "MXFP4");
    assert_string_equal(dtype_name((enum dtype)99), "unknown");
}

static void test_devices_by_name(void **state)
{
    (void)state;
    assert_non_null(backend_find("cpu"));
    assert_ptr_equal(backend_find("auto"), backend_find(backend_find("cuda") ? "cuda" : "cpu"));
    assert_ptr_equal(backend_find(NULL), backend_find("auto"));
    assert_null(backend_find("abacus"));
    assert_non_null(strstr(fail_message(), "abacus"));
}

UNIT_MAIN(cmocka_unit_test(test_arrays_do_not_overlap), cmocka_unit_test(test_zeroed_and_movable),
          cmocka_unit_test(test_tensor_bytes), cmocka_unit_test(test_devices_by_name))
