/* Malformed vocabulary files: each has its own clear error and leaks nothing. */
#include "unit.h"

#include <sys/resource.h>

#include "base/file.h"
#include "text/token/vocab.h"
#include "tokenizer_file.h"

/* A replacement in the small tokenizer.json, and the expected message. */
static const struct corruption {
    const char *old, *new;
    enum osp_status status;
    const char *says;
} corruptions[] = {
    {"{\"normalizer\"", "{\"normalizer", OSP_EFORMAT, "line 1"},
    {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", OSP_EUNSUPPORTED,
     "normalizer is {\"type\":\"NFC\"}, expected null"},
    {"\"added_tokens\"", "\"tokens_added\"", OSP_EFORMAT, "added_tokens: expected a list"},
    {"\"Sequence\"", "\"Split\"", OSP_EUNSUPPORTED, "pre_tokenizer.type is \"Split\""},
    {"\"Isolated\"", "\"Removed\"", OSP_EUNSUPPORTED, "behavior is \"Removed\""},
    {"\"invert\":false", "\"invert\":true", OSP_EUNSUPPORTED, "invert is true, expected false"},
    {"{1,3}", "{1,2}", OSP_EUNSUPPORTED, "expected the pattern of o200k"},
    {"\"Regex\":", "\"String\":", OSP_EUNSUPPORTED, "pattern.Regex is nothing"},
    {"\"use_regex\":false", "\"use_regex\":true", OSP_EUNSUPPORTED, "use_regex is true"},
    {"\"use_regex\":false}", "\"use_regex\":false},{}", OSP_EUNSUPPORTED,
     "pretokenizers.2 is {}, expected nothing"},
    {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":null", OSP_EUNSUPPORTED,
     "decoder.type is nothing"},
    {"\"BPE\"", "\"Unigram\"", OSP_EUNSUPPORTED, "model.type is \"Unigram\", expected \"BPE\""},
    {"\"ignore_merges\":true", "\"ignore_merges\":false", OSP_EUNSUPPORTED,
     "model.ignore_merges is false"},
    {"\"ignore_merges\":true", "\"ignore_merges\":true,\"unk_token\":\"x\"", OSP_EUNSUPPORTED,
     "model.unk_token is \"x\""},
    {"\"ignore_merges\":true", "\"ignore_merges\":true,\"byte_fallback\":true", OSP_EUNSUPPORTED,
     "model.byte_fallback is true"},
    {"\"vocab\":{", "\"vocab\":[], \"v\":{", OSP_EFORMAT, "model.vocab: expected an object"},
    {"\"abc\":258", "\"abc\":259", OSP_EFORMAT, "id of \"abc\" is not a number from 0 to 258"},
    {"\"abc\":258", "\"abc\":-1", OSP_EFORMAT, "token id -1"},
    {"\"abc\":258", "\"abc\":\"258\"", OSP_EFORMAT, "id of \"abc\" is not a number"},
    {"\"abc\":258", "\"abc\":257", OSP_EFORMAT, "token id 257 is defined twice"},
    {"\"abc\":258", "\"ab\":258", OSP_EFORMAT, "tokens 256 and 258 have the same bytes"},
    {"\"abc\":258", "\"abc\" 258", OSP_EFORMAT, "expected a colon"},
    {"\"abc\":258", "\"abc\":258,,", OSP_EFORMAT, "expected a token in quotes"},
    {"\"abc\":258", "\"abc\":258 \"", OSP_EFORMAT, "line 1"},
    {"\"abc\":258", "abc:258", OSP_EFORMAT, "expected a token in quotes"},
    {"\"abc\":258", "\"abc\":258]", OSP_EFORMAT, "line 1"},
    {"\"abc\":258", "\"abc\":2.58", OSP_EFORMAT, "id of \"abc\" is not a number"},
    {"\"abc\":258", "\"abc\":0258", OSP_EFORMAT, "id of \"abc\" is not a number"},
    {"\"abc\":258", "\"abc\":99999999999999999999", OSP_EFORMAT, "id of \"abc\" is not a number"},
    {"\"abc\":258", "\"a\\u0000c\":258", OSP_EFORMAT, "byte-level form"},
    {"\"abc\":258", "\"ab\\x\":258", OSP_EFORMAT, "byte-level form"},
    {"\"abc\":258", "\"ab\\uD800\":258", OSP_EFORMAT, "byte-level form"},
    {"\"abc\":258", "\"a\nc\":258", OSP_EFORMAT, "line 1"},
    {"\"vocab\":{", "\"vocab\":{},\"vocab\":{", OSP_EFORMAT, "duplicate"},
    {"\"a b\"", "\"a b\"]", OSP_EFORMAT, "line 1"},
    {"\"a b\"", "\"a b\" 1", OSP_EFORMAT, "expected a comma or the end of the merges"},
    {"\"a b\"", "[\"a\",\"b\",\"c\"]", OSP_EFORMAT, "model.merges[0] is not a pair"},
    {"\"abc\":258", "\"a c\":258", OSP_EFORMAT, "byte-level form"},
    {"\"abc\":258", "\"\xE2\x82\xAC\":258", OSP_EFORMAT, "byte-level form"},
    {"\"abc\":258", "\"\":258", OSP_EFORMAT, "token 258 has 0 bytes"},
    {"\"A\":65", "\"AA\":65", OSP_EFORMAT, "byte 0x41 has no token"},
    {"\"merges\":[", "\"merges\":{},\"m\":[", OSP_EFORMAT, "model.merges: expected a list"},
    {"\"a b\"", "\"a x\"", OSP_EFORMAT, "model.merges[0] is not a pair"},
    {"\"a b\"", "\"ab\"", OSP_EFORMAT, "model.merges[0] is not a pair"},
    {"\"a b\"", "17", OSP_EFORMAT, "model.merges[0] is not a pair"},
    {"\"a b\"", "[\"\",\"ab\"]", OSP_EFORMAT, "model.merges[0] is not a pair"},
    {"\"a b\",", "", OSP_EUNSUPPORTED, "has 3 pairs, expected 4"},
    {"\"a b\",", "\"a b\",\"a b\",", OSP_EFORMAT, "model.merges[1] occurs twice"},
    {"\"a b\",[\"b\",\"c\"]", "[\"b\",\"c\"],\"a b\"", OSP_EUNSUPPORTED,
     "lower id than the one before"},
    {"\"id\":259", "\"id\":258", OSP_EFORMAT,
     "added_tokens[0]: id 258 is out of range, expected 259 to"},
    {"\"id\":259", "\"id\":9000000000", OSP_EFORMAT, "added_tokens[0]: id 9000000000"},
    {"\"id\":259", "\"id\":1000000", OSP_ELIMIT, "more than 8192 special tokens"},
    {"\"id\":259", "\"id\":260", OSP_EFORMAT, "token id 260 is defined twice"},
    {"\"id\":259", "\"id\":true", OSP_EFORMAT, "added_tokens[0]: expected an integer id"},
    {"\"lstrip\":false", "\"lstrip\":true", OSP_EUNSUPPORTED, "added_tokens[0]: lstrip is true"},
    {"<|start|>", "<|end|>", OSP_EFORMAT, "are both \"<|end|>\""},
    {"<|start|>", "<|begin|>", OSP_EFORMAT, "control token <|start|> is missing"},
    {"<|start|>", "", OSP_EFORMAT, "token 259 has 0 bytes"},
    {"<|start|>", "<|reserved_268|>", OSP_EFORMAT, "are both \"<|reserved_268|>\""},
};

static void assert_refused(const struct corruption *c)
{
    struct tokenizer *t = NULL;
    enum osp_status st;
    struct buf b;

    buf_init(&b, 4 << 20);
    put_tokenizer_json(&b);
    replace_once(&b, c->old, c->new);
    st = open_bytes(&t, b.data, b.size_bytes);
    if (st != c->status || !strstr(fail_message(), c->says) || !strstr(fail_message(), "/tmp/"))
        fail_msg("%s -> %s: %s \"%s\", needs %s \"%s\"", c->old, c->new, status_name(st),
                 fail_message(), status_name(c->status), c->says);
    assert_null(t);
    buf_release(&b);
}

static void test_corrupt_tokenizer_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof corruptions / sizeof corruptions[0]; i++)
        assert_refused(&corruptions[i]);
}

/* Escapes and white space where JSON allows them change nothing. */
static void test_other_spellings(void **state)
{
    static const struct corruption same[] = {
        {"\"abc\":258", " \"\\u0061b\\u0063\" :\n\t258 ", OSP_OK, NULL},
        {"\"a b\"", " [ \"\\u0061\" , \"b\" ] ", OSP_OK, NULL},
        {"\"a b\"", "\"a \\u0062\"", OSP_OK, NULL},
        {"\"vocab\":{", "\"note\":[{\"]\":\"}\\\"\"}],\"vocab\" : {", OSP_OK, NULL},
    };
    struct tokenizer *t = NULL;
    struct buf b;

    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        buf_init(&b, 1 << 20);
        put_tokenizer_json(&b);
        replace_once(&b, same[i].old, same[i].new);
        if (open_bytes(&t, b.data, b.size_bytes) != OSP_OK)
            fail_msg("%s: %s", same[i].new, fail_message());
        tokenizer_close(t);
        buf_release(&b);
    }
}

static void test_every_truncation(void **state)
{
    struct tokenizer *t = NULL;
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    put_tokenizer_json(&b);
    for (size_t n = 0; n < b.size_bytes; n += 37)
        assert_int_not_equal(open_bytes(&t, b.data, n), OSP_OK);
    assert_null(t);
    buf_release(&b);
}

static void test_long_token(void **state)
{
    struct corruption c = {"\"abc\":258", NULL, OSP_EFORMAT, "byte-level form"};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    buf_putc(&b, '"');
    for (int i = 0; i < 5000; i++)
        buf_putc(&b, 'a');
    buf_puts(&b, "\":258");
    c.new = b.data;
    assert_refused(&c);
    buf_release(&b);
}

/* ---- limits ---- */

/* Peak resident memory of this process, which tests/run_units starts for each test. */
static size_t peak_bytes(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (size_t)usage.ru_maxrss * 1024;
}

/* The small file, with 20 MiB of small values in an unused member, followed by `end`. */
static void bomb(struct buf *b, const char *piece, const char *end)
{
    struct buf small;

    buf_init(&small, 1 << 20);
    put_tokenizer_json(&small);
    buf_puts(b, "{\"x\":[");
    while (b->size_bytes < 20 << 20)
        buf_puts(b, piece);
    buf_printf(b, "0]%s,%s", end, buf_text(&small) + 1);
    buf_release(&small);
}

static void assert_bomb_refused(const char *piece, const char *end, enum osp_status status)
{
    enum { ALLOWED_BYTES = 400 << 20 };
    struct tokenizer *t = NULL;
    struct buf b;

    buf_init(&b, 32 << 20);
    bomb(&b, piece, end);
    assert_int_equal(open_bytes(&t, b.data, b.size_bytes), status);
    buf_release(&b);
    if (peak_bytes() > ALLOWED_BYTES)
        fail_msg("%s: %zu MiB of memory at the peak", piece, peak_bytes() >> 20);
}

/* 20 MiB of "{}" took 1.6 GB, in a valid file and in one with an error after them. */
static void test_small_values_are_not_made_in_millions(void **state)
{
    (void)state;
    assert_bomb_refused("{},", "", OSP_ELIMIT);
    assert_non_null(strstr(fail_message(), "line 1, column "));
    assert_non_null(strstr(fail_message(), "needs more bytes of memory than the limit of"));
    assert_bomb_refused("{},", "]", OSP_EFORMAT);
    assert_bomb_refused("[[],[]],", "", OSP_ELIMIT);
    assert_bomb_refused("{\"a\":{\"b\":1}},", "", OSP_ELIMIT);
}

static void test_nesting_and_long_strings(void **state)
{
    struct corruption c = {"\"normalizer\":null", NULL, OSP_ELIMIT, "nested deeper than the limit"};
    struct buf b;

    (void)state;
    buf_init(&b, 4 << 20);
    buf_puts(&b, "\"normalizer\":");
    for (int i = 0; i < 100; i++)
        buf_putc(&b, '[');
    for (int i = 0; i < 100; i++)
        buf_putc(&b, ']');
    c.new = b.data;
    assert_refused(&c);
    buf_clear(&b);
    buf_puts(&b, "\"normalizer\":\"");
    for (int i = 0; i < 1 << 20; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, "x\"");
    c.new = b.data;
    c.says = "a string with more bytes than the limit";
    assert_refused(&c);
    buf_release(&b);
}

static void test_size_of_the_file(void **state)
{
    char path[] = "/tmp/osprey-test-XXXXXX";
    struct tokenizer *t = NULL;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (64 << 20) + 1), 0);
    close(fd);
    assert_int_equal(tokenizer_open(&t, path), OSP_ELIMIT);
    assert_non_null(strstr(fail_message(), "67108865 bytes, limit is 67108864"));
    unlink(path);
}

static uint64_t inverse_of_odd(uint64_t x)
{
    uint64_t y = x; /* correct in its last three bits; each round doubles their number */

    for (int i = 0; i < 5; i++)
        y *= 2 - x * y;
    return y;
}

/* Tokens of eight bytes that a known hash maps to one slot: comparing each with all earlier ones
 * would take too long. */
static void test_tokens_of_one_hash(void **state)
{
    enum { N = 100000 };
    const uint64_t inverse = inverse_of_odd(0x9E3779B97F4A7C15u);
    struct vocab v = {.bytes = NULL};

    (void)state;
    assert_int_equal(vocab_init(&v, 256 + N, 256 + N, 256 + 8 * N), OSP_OK);
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;

        assert_int_equal(vocab_define(&v, i, &byte, 1), OSP_OK);
    }
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t hash = (i + 1) << 32, key = (hash ^ hash >> 32) * inverse - 8;
        char bytes[8];

        memcpy(bytes, &key, 8);
        assert_int_equal(vocab_define(&v, (int64_t)(256 + i), bytes, 8), OSP_OK);
    }
    assert_int_equal(vocab_index(&v), OSP_ELIMIT);
    assert_non_null(strstr(fail_message(), "share the hash of token"));
    vocab_release(&v);
}

/* More text than tokens is allowed, because files are indented. More tokens than memory for them is
 * not. */
static void test_bytes_of_all_tokens(void **state)
{
    struct vocab v = {.bytes = NULL};
    static char token[VOCAB_TOKEN_BYTES_MAX];
    const int n = VOCAB_BYTES_MAX / VOCAB_TOKEN_BYTES_MAX;

    (void)state;
    assert_int_equal(vocab_init(&v, n + 1, n + 1, (size_t)1 << 26), OSP_OK);
    for (int i = 0; i < n; i++)
        assert_int_equal(vocab_define(&v, i, token, sizeof token), OSP_OK);
    assert_int_equal(vocab_define(&v, n, token, 1), OSP_ELIMIT);
    vocab_release(&v);
}

/* ---- .tiktoken ---- */

static void assert_tiktoken_refused(const char *data, size_t n_bytes, enum osp_status status,
                                    const char *says)
{
    struct tokenizer *t = NULL;

    assert_int_equal(open_bytes(&t, data, n_bytes), status);
    if (!strstr(fail_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", fail_message(), says);
    assert_null(t);
}

/* The published file with its line `line` (from 1) replaced; an empty `with` removes the line. */
static void assert_line_refused(int line, const char *with, const char *says)
{
    struct buf b;
    char *text, *at, *end;
    size_t n_bytes;
    enum osp_status st;

    st = file_read(&text, &n_bytes, "tests/golden/tokenizer/o200k_base.tiktoken", 1 << 24);
    assert_int_equal(st, OSP_OK);
    at = text;
    for (int i = 1; i < line; i++)
        at = strchr(at, '\n') + 1;
    end = strchr(at, '\n') + 1;
    buf_init(&b, 1 << 24);
    buf_append(&b, text, (size_t)(at - text));
    buf_puts(&b, with);
    buf_append(&b, end, n_bytes - (size_t)(end - text));
    assert_tiktoken_refused(b.data, b.size_bytes, *with ? OSP_EFORMAT : OSP_EUNSUPPORTED, says);
    buf_release(&b);
    free(text);
}

static void test_corrupt_tiktoken(void **state)
{
    (void)state;
    assert_tiktoken_refused("", 0, OSP_EUNSUPPORTED, "0 tokens");
    assert_tiktoken_refused("IQ== 0\n", 7, OSP_EUNSUPPORTED, "1 tokens");
    assert_line_refused(7, "", "199997 tokens");
    assert_line_refused(7, "\n", "line 7: expected base64, a space and a rank");
    assert_line_refused(7, "Jw== 6 \n", "line 7: rank is not a number");
    assert_line_refused(7, "Jw== -6\n", "line 7: rank is not a number");
    assert_line_refused(7, "Jw== \n", "line 7: rank is not a number");
    assert_line_refused(7, "Jw== 6\r\n", "line 7: rank is not a number");
    assert_line_refused(7, "Jw== 199998\n", "line 7: rank is not a number from 0 to 199997");
    assert_line_refused(7, "Jw== 5\n", "line 7: token id 5 is defined twice");
    assert_line_refused(7, "Jw= 6\n", "line 7: expected base64");
    assert_line_refused(7, "J=== 6\n", "line 7: expected base64");
    assert_line_refused(7, "J*== 6\n", "line 7: expected base64");
    assert_line_refused(7, " 6\n", "line 7: expected base64");
    assert_line_refused(7, "IQ== 6\n", "tokens 0 and 6 have the same bytes");
    assert_line_refused(7, "JyEhISEhIQ== 6\n", "byte 0x27 has no token");
}

static void test_paths(void **state)
{
    struct tokenizer *t = NULL;

    (void)state;
    assert_int_equal(tokenizer_open(&t, "tests/golden/tokenizer"), OSP_OK); /* a folder */
    assert_int_equal(tokenizer_size(t), 201088);
    tokenizer_close(t);
    tokenizer_close(NULL);
    t = NULL;
    assert_int_equal(tokenizer_open(&t, "tests/unit"), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "tests/unit: has neither"));
    assert_int_equal(tokenizer_open(&t, "tests/no such file"), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "tests/no such file"));
    assert_null(t);
}

UNIT_MAIN(cmocka_unit_test(test_corrupt_tokenizer_json), cmocka_unit_test(test_other_spellings),
          cmocka_unit_test(test_every_truncation), cmocka_unit_test(test_long_token),
          cmocka_unit_test(test_small_values_are_not_made_in_millions),
          cmocka_unit_test(test_nesting_and_long_strings), cmocka_unit_test(test_size_of_the_file),
          cmocka_unit_test(test_tokens_of_one_hash), cmocka_unit_test(test_bytes_of_all_tokens),
          cmocka_unit_test(test_corrupt_tiktoken), cmocka_unit_test(test_paths))
