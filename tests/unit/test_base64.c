/* Base64: the vectors of RFC 4648, section 10, every byte, and invalid texts. */
#include "unit.h"

#include "base/base64.h"

static const struct {
    const char *bytes, *text;
} VECTORS[] = {{"f", "Zg=="},        {"fo", "Zm8="},        {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};

static void test_vectors(void **state)
{
    char bytes[8];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof VECTORS / sizeof VECTORS[0]; i++) {
        size_t n_bytes = strlen(VECTORS[i].bytes);
        struct buf out;

        buf_init(&out, 64);
        assert_true(base64_append(&out, VECTORS[i].bytes, n_bytes));
        assert_string_equal(buf_text(&out), VECTORS[i].text);
        buf_release(&out);
        assert_true(base64_decode(VECTORS[i].text, strlen(VECTORS[i].text), bytes, n_bytes, &n));
        assert_int_equal(n, n_bytes);
        assert_memory_equal(bytes, VECTORS[i].bytes, n_bytes);
        assert_false(
            base64_decode(VECTORS[i].text, strlen(VECTORS[i].text), bytes, n_bytes - 1, &n));
    }
}

static void test_every_byte(void **state)
{
    unsigned char bytes[256];
    char back[256];
    struct buf out;
    size_t n;

    (void)state;
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    buf_init(&out, 1024);
    assert_true(base64_append(&out, bytes, sizeof bytes));
    assert_true(base64_decode(out.data, out.size_bytes, back, sizeof back, &n));
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(back, bytes, sizeof bytes);
    buf_release(&out);
}

static void test_what_is_none(void **state)
{
    static const char *const texts[] = {
        "", "Z", "Zg=", "Zg===", "Z===", "Zm9v\n", "Zm 9", "=Zm9", "Zg==Zg=="};
    char bytes[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(base64_decode(texts[i], strlen(texts[i]), bytes, sizeof bytes, &n));
    assert_false(base64_decode("Zm\0v", 4, bytes, sizeof bytes, &n));
}

UNIT_MAIN(cmocka_unit_test(test_vectors), cmocka_unit_test(test_every_byte),
          cmocka_unit_test(test_what_is_none))
