/* The guarantees of the tokenizer on a small vocabulary and on the published one. */
#include "unit.h"

#include <jansson.h>

#include "base/rng.h"
#include "tokenizer_file.h"

static const char published[] = "tests/golden/tokenizer/o200k_base.tiktoken";

static struct tokenizer *open_published(void)
{
    struct tokenizer *t = NULL;

    if (tokenizer_open(&t, published) != OSP_OK)
        fail_msg("%s", fail_message());
    return t;
}

static void assert_ids(const struct ids *got, const int32_t *expected, size_t n)
{
    assert_int_equal(got->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got->data[i], expected[i]);
}

#define ASSERT_ENCODES(t, encode, text, ...)                                                       \
    do {                                                                                           \
        static const int32_t expected[] = {__VA_ARGS__};                                           \
        struct ids ids;                                                                            \
                                                                                                   \
        ids_init(&ids, 1000);                                                                      \
        assert_int_equal(encode(t, text, sizeof text - 1, &ids), OSP_OK);                          \
        assert_ids(&ids, expected, sizeof expected / sizeof *expected);                            \
        ids_release(&ids);                                                                         \
    } while (0)

/* ---- the published vocabulary ---- */

/* A file of texts and their ids. */
static void assert_vectors(const char *path, size_t n_least)
{
    json_t *vectors = json_load_file(path, 0, NULL);
    struct tokenizer *t = open_published();
    const char *text;
    json_t *expected, *id;
    struct ids ids;
    size_t i;

    assert_in_range(json_object_size(vectors), n_least, SIZE_MAX);
    ids_init(&ids, 1000);
    json_object_foreach(vectors, text, expected)
    {
        ids_clear(&ids);
        assert_int_equal(tokenizer_encode(t, text, strlen(text), &ids), OSP_OK);
        assert_int_equal(ids.n, json_array_size(expected));
        json_array_foreach(expected, i, id) assert_int_equal(ids.data[i], json_integer_value(id));
    }
    ids_release(&ids);
    tokenizer_close(t);
    json_decref(vectors);
}

static void test_vectors(void **state)
{
    (void)state;
    assert_vectors("tests/golden/tokenizer/tokenizer_vectors.json", 35);
}

static void test_vectors_of_long_words(void **state)
{
    (void)state;
    assert_vectors("tests/golden/tokenizer/long_vectors.json", 100);
}

static void test_published_control_tokens(void **state)
{
    struct tokenizer *t = open_published();
    const struct special_ids *s = tokenizer_specials(t);

    (void)state;
    assert_int_equal(tokenizer_size(t), 201088);
    assert_int_equal(s->start, 200006);
    assert_int_equal(s->end, 200007);
    assert_int_equal(s->message, 200008);
    assert_int_equal(s->channel, 200005);
    assert_int_equal(s->constrain, 200003);
    assert_int_equal(s->ret, 200002);
    assert_int_equal(s->call, 200012);
    assert_int_equal(s->endoftext, 199999);
    assert_int_equal(s->startoftext, 199998);
    assert_int_equal(tokenizer_special(t, "<|endofprompt|>", 15), 200018);
    assert_int_equal(tokenizer_special(t, "<|reserved_200018|>", 19), 200018);
    assert_int_equal(tokenizer_special(t, "<|reserved_201087|>", 19), 201087);
    assert_int_equal(tokenizer_special(t, "<|reserved_201088|>", 19), -1);
    assert_int_equal(tokenizer_special(t, "<|start|", 8), -1);
    assert_int_equal(tokenizer_special(t, "", 0), -1);
    assert_false(tokenizer_is_special(t, 199997));
    assert_true(tokenizer_is_special(t, 199998));
    assert_true(tokenizer_is_special(t, 201087));
    assert_false(tokenizer_is_special(t, 201088));
    assert_false(tokenizer_is_special(t, -1));
    tokenizer_close(t);
}

static void test_text_cannot_become_a_control_token(void **state)
{
    struct tokenizer *t = open_published();

    (void)state;
    ASSERT_ENCODES(t, tokenizer_encode, "<|start|>", 27, 91, 5236, 91, 29);
    ASSERT_ENCODES(t, tokenizer_encode_with_specials, "<|start|>assistant<|start", 200006, 173781,
                   27, 91, 5236);
    ASSERT_ENCODES(t, tokenizer_encode_with_specials, " <|constrain|>json", 220, 200003, 4108);
    tokenizer_close(t);
}

/* A part before a control token ends as text does: white space there is not a prefix. */
static void test_every_part_ends_for_itself(void **state)
{
    struct tokenizer *t = open_published();

    (void)state;
    ASSERT_ENCODES(t, tokenizer_encode_with_specials, "trailing  <|end|>  leading", 371, 24408, 256,
                   200007, 220, 8117);
    tokenizer_close(t);
}

/* ---- a small vocabulary ---- */

static void test_merges_lowest_rank_first(void **state)
{
    struct tokenizer *t = open_test_tokenizer();

    (void)state;
    assert_int_equal(tokenizer_size(t), TEST_SIZE);
    ASSERT_ENCODES(t, tokenizer_encode, "abc", TEST_ABC);
    ASSERT_ENCODES(t, tokenizer_encode, "abcab", TEST_ABC, TEST_AB);
    ASSERT_ENCODES(t, tokenizer_encode, "bcx", TEST_BC, 'x');
    ASSERT_ENCODES(t, tokenizer_encode, "\xC3\xA9", 0xC3, 0xA9);
    tokenizer_close(t);
}

/* The definition, applied literally, for the small vocabulary: while some adjacent pair is a token,
 * merge the leftmost one with the lowest id. */
static size_t merge_naively(int32_t *ids, size_t n)
{
    static const int32_t merges[][3] = {{'a', 'b', TEST_AB},
                                        {'b', 'c', TEST_BC},
                                        {'a', TEST_BC, TEST_ABC},
                                        {TEST_AB, 'c', TEST_ABC}};

    for (int32_t token = TEST_AB; token <= TEST_ABC; token++)
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t m = 0; m < 4; m++)
                if (merges[m][2] == token && ids[i] == merges[m][0] && ids[i + 1] == merges[m][1]) {
                    ids[i] = token;
                    memmove(&ids[i + 1], &ids[i + 2], (n - i - 2) * sizeof *ids);
                    n--;
                    break;
                }
    return n;
}

/* Long words are merged by another implementation than short ones. */
static void test_words_of_every_length(void **state)
{
    enum { N = 400 };
    struct tokenizer *t = open_test_tokenizer();
    int32_t expected[N];
    char text[N];
    struct ids ids;

    (void)state;
    ids_init(&ids, N);
    for (size_t n = 1; n < N; n++) {
        for (size_t i = 0; i < n; i++) {
            text[i] = (char)('a' + rng_bits(n, i, 0) % 4);
            expected[i] = text[i];
        }
        ids_clear(&ids);
        assert_int_equal(tokenizer_encode(t, text, n, &ids), OSP_OK);
        assert_ids(&ids, expected, merge_naively(expected, n));
    }
    ids_release(&ids);
    tokenizer_close(t);
}

static void test_ill_formed_text_is_replaced(void **state)
{
    struct tokenizer *t = open_test_tokenizer();

    (void)state;
    ASSERT_ENCODES(t, tokenizer_encode, "\xF0\x9F!", 0xEF, 0xBF, 0xBD, '!');
    ASSERT_ENCODES(t, tokenizer_encode, "\x80\x80", 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD);
    ASSERT_ENCODES(t, tokenizer_encode_with_specials, "0123456789\xFF<|end|>", '0', '1', '2', '3',
                   '4', '5', '6', '7', '8', '9', 0xEF, 0xBF, 0xBD, TEST_FIRST_SPECIAL + 1);
    tokenizer_close(t);
}

static void test_zero_bytes_are_text(void **state)
{
    struct tokenizer *t = open_test_tokenizer();

    (void)state;
    ASSERT_ENCODES(t, tokenizer_encode, "a\0b", 'a', 0, 'b');
    tokenizer_close(t);
}

static void test_undefined_ids_have_names(void **state)
{
    struct tokenizer *t = open_test_tokenizer();
    const char *bytes;
    char scratch[32];
    size_t n_bytes;

    (void)state;
    assert_int_equal(tokenizer_bytes(t, 268, scratch, &bytes, &n_bytes), OSP_OK);
    assert_int_equal(n_bytes, 16);
    assert_memory_equal(bytes, "<|reserved_268|>", 16);
    assert_int_equal(tokenizer_special(t, bytes, n_bytes), 268);
    assert_int_equal(tokenizer_special(t, "<|reserved_260|>", 16), -1); /* that one has a name */
    assert_int_equal(tokenizer_bytes(t, -1, scratch, &bytes, &n_bytes), OSP_EINVAL);
    assert_int_equal(tokenizer_bytes(t, TEST_SIZE, scratch, &bytes, &n_bytes), OSP_EINVAL);
    tokenizer_close(t);
}

static void test_decode_is_raw(void **state)
{
    static const int32_t ids[] = {TEST_ABC, 0xFF, 0, TEST_FIRST_SPECIAL, 267};
    static const int32_t bad[] = {'a', TEST_SIZE};
    struct tokenizer *t = open_test_tokenizer();
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    assert_int_equal(tokenizer_decode(t, ids, 5, &out), OSP_OK);
    assert_int_equal(out.size_bytes, 30);
    assert_memory_equal(out.data, "abc\xFF\0<|start|><|reserved_267|>", 30);
    assert_int_equal(tokenizer_decode(t, bad, 2, &out), OSP_EINVAL);
    buf_release(&out);
    buf_init(&out, 4);
    assert_int_equal(tokenizer_decode(t, ids, 5, &out), OSP_ELIMIT);
    buf_release(&out);
    tokenizer_close(t);
}

static void test_limits_are_told(void **state)
{
    struct tokenizer *t = open_test_tokenizer();
    char text[400];
    struct ids ids;

    (void)state;
    memset(text, 'x', sizeof text);
    ids_init(&ids, 10);
    assert_int_equal(tokenizer_encode(t, text, 10, &ids), OSP_OK);
    ids_clear(&ids);
    assert_int_equal(tokenizer_encode(t, text, 11, &ids), OSP_ELIMIT);
    ids_clear(&ids);
    assert_int_equal(tokenizer_encode(t, text, sizeof text, &ids), OSP_ELIMIT);
    ids_clear(&ids);
    assert_int_equal(tokenizer_encode(t, "1", 1, &ids), OSP_OK);
    assert_int_equal(tokenizer_encode(t, NULL, 0, &ids), OSP_OK);
    assert_int_equal(ids.n, 1);
    ids_release(&ids);
    tokenizer_close(t);
}

UNIT_MAIN(cmocka_unit_test(test_vectors), cmocka_unit_test(test_vectors_of_long_words),
          cmocka_unit_test(test_published_control_tokens),
          cmocka_unit_test(test_text_cannot_become_a_control_token),
          cmocka_unit_test(test_every_part_ends_for_itself),
          cmocka_unit_test(test_merges_lowest_rank_first),
          cmocka_unit_test(test_words_of_every_length),
          cmocka_unit_test(test_ill_formed_text_is_replaced),
          cmocka_unit_test(test_zero_bytes_are_text),
          cmocka_unit_test(test_undefined_ids_have_names), cmocka_unit_test(test_decode_is_raw),
          cmocka_unit_test(test_limits_are_told))
