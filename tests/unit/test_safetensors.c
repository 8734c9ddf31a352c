/* The safetensors reader: one test for each rule of the format; and truncation at every byte. */
#include "store/safetensors.h"

#include "checkpoint_edit.h"

static const char tensor_a[] =
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";

/* A file in memory. Owned by the test. */
struct image {
    unsigned char *bytes;
    size_t n_bytes;
};

static struct image image_new(const char *header, size_t n_header, uint64_t length, size_t n_data)
{
    struct image m = {mem_new(EDIT_LENGTH_BYTES + n_header + n_data),
                      EDIT_LENGTH_BYTES + n_header + n_data};

    for (int i = 0; i < EDIT_LENGTH_BYTES; i++)
        m.bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(m.bytes + EDIT_LENGTH_BYTES, header, n_header);
    return m;
}

/* Opens header and n_data zero bytes. */
static enum osp_status open_header(struct st_file *f, struct image *m, const char *header,
                                   size_t n_data)
{
    *m = image_new(header, strlen(header), strlen(header), n_data);
    return safetensors_from_bytes(f, "x.safetensors", m->bytes, m->n_bytes);
}

struct bad {
    const char *label, *header;
    size_t n_data;
    const char *fragments[4];
};

#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct bad bads[] = {
    {"empty header", "", 0, {"x.safetensors", "'{'"}},
    {"not an object", "[1]", 0, {"begins with byte 0x5b", "'{'"}},
    {"space first", " {}", 0, {"begins with byte 0x20"}},
    {"padded with newline", "{}\n", 0, {"ends with byte 0x0a", "spaces"}},
    {"two values", "{}{}", 0, {"JSON"}},
    {"cut JSON", "{\"a\":}", 0, {"JSON", "line 1"}},
    {"not UTF-8", "{\"\xff\":{}}", 0, {"JSON"}},
    {"NUL in a name", "{\"a\\u0000b\":{}}", 0, {"JSON"}},
    {"escape in a name", "{\"a\\u001b[2J\":{}}", 0, {"control character 0x1b at byte 1"}},
    {"no name", "{\"\":{}}", 0, {"0 bytes", "1 to 256"}},
    {"duplicate name", "{\"a\":{},\"a\":{}}", 0, {"JSON", "duplicate", "\"a\""}},
    {"deep nesting", "{\"a\":[[[[[[[[{}]]]]]]]]}", 0, {"tensor a is an array"}},
    {"entry is a number", "{\"a\":1}", 0, {"tensor a is an integer, expected an object"}},
    {"metadata is a list", "{\"__metadata__\":[]}", 0, {"__metadata__ is an array"}},
    {"metadata has a number", "{\"__metadata__\":{\"n\":1}}", 0, {"an integer, expected a string"}},
    {"no dtype",
     "{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}",
     4,
     {"tensor a: dtype is nothing", "a string"}},
    {"unknown dtype", ENTRY("F4", "[2]", "[0,1]"), 1, {"tensor a: dtype is \"F4\"", "BF16"}},
    {"lower-case dtype", ENTRY("f32", "[1]", "[0,4]"), 4, {"\"f32\""}},
    {"no shape",
     "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}",
     4,
     {"tensor a: shape is nothing"}},
    {"shape is a number", ENTRY("U8", "4", "[0,4]"), 4, {"shape is an integer"}},
    {"negative dimension", ENTRY("U8", "[-4]", "[0,4]"), 4, {"dimension 0 is negative"}},
    {"fractional dimension", ENTRY("U8", "[4.0]", "[0,4]"), 4, {"dimension 0 is a number with"}},
    {"dimension is a string", ENTRY("U8", "[1,\"4\"]", "[0,4]"), 4, {"dimension 1 is a string"}},
    {"nine dimensions", ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, {"9 dimensions", "8"}},
    {"shape overflows", ENTRY("U8", "[4294967296,4294967296]", "[0,0]"), 0, {"shape overflows"}},
    {"bytes overflow", ENTRY("F64", "[4611686018427387904]", "[0,0]"), 0, {"shape overflows"}},
    {"dimension over 63 bits", ENTRY("U8", "[9223372036854775808]", "[0,0]"), 0, {"JSON", "big"}},
    {"wraps to the right size", ENTRY("U8", "[9223372036854775807,2,2]", "[0,4]"), 4, {"overflow"}},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, {"data_offsets is nothing"}},
    {"one offset", ENTRY("U8", "[4]", "[0]"), 4, {"data_offsets is an array of 1"}},
    {"three offsets", ENTRY("U8", "[4]", "[0,4,8]"), 4, {"array of 3", "[begin, end]"}},
    {"negative offset", ENTRY("U8", "[4]", "[-4,0]"), 4, {"negative number"}},
    {"offset is a string", ENTRY("U8", "[4]", "[\"0\",4]"), 4, {"data_offsets has a string"}},
    {"end before begin", ENTRY("U8", "[4]", "[4,0]"), 4, {"[4, 0]", "begin <= end"}},
    {"span too short", ENTRY("F32", "[2,3]", "[0,20]"), 24, {"20 bytes", "24", "F32 [2, 3]"}},
    {"span too long", ENTRY("F32", "[2,3]", "[0,28]"), 28, {"28 bytes", "24"}},
    {"data cut", ENTRY("F32", "[2,3]", "[0,24]"), 23, {"tensor a", "byte 24", "23", "truncated"}},
    {"huge end", ENTRY("U8", "[4]", "[0,9223372036854775807]"), 4, {"9223372036854775807", "4"}},
    {"trailing bytes", ENTRY("F32", "[2,3]", "[0,24]"), 25, {"24", "25", "1 trailing"}},
    {"gap at the start", ENTRY("U8", "[4]", "[1,5]"), 5, {"begins at byte 1, expected 0"}},
    {"gap between",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
     5,
     {"tensor b", "byte 3, expected 2", "a gap after a"}},
    {"overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3,
     {"tensor b", "byte 1, expected 2", "overlaps with a"}},
    {"the same bytes twice",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
     2,
     {"tensor b", "overlaps with a"}},
    {"data without tensors", "{}", 1, {"1 trailing"}},
    {"fourth key",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"offset\":0}}",
     1,
     {"tensor a has 4 keys"}},
};

static void test_bad_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct st_file f;
        struct image m;
        enum osp_status st = open_header(&f, &m, bads[i].header, bads[i].n_data);

        assert_failure(st, OSP_EFORMAT, bads[i].label, bads[i].fragments, 4);
        free(m.bytes);
    }
}

/* A header within its size limit whose parsed tree would exceed the memory limit. */
static void test_header_has_a_budget(void **state)
{
    const size_t n = SAFETENSORS_HEADER_BYTES_MAX;
    char *header = malloc(n + 1);
    struct st_file f;
    struct image m;
    size_t at;

    (void)state;
    assert_non_null(header);
    at = (size_t)sprintf(header, "{\"a\":[");
    for (; at + 5 < n; at += 3)
        memcpy(header + at, "{},", 3);
    strcpy(header + at, "0]}");
    assert_failure(open_header(&f, &m, header, 0), OSP_ELIMIT, "budget",
                   (const char *const[]){"x.safetensors: line 1", "more bytes of memory"}, 2);
    free(m.bytes);
    free(header);
}

static void test_header_length_is_checked(void **state)
{
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63,
                                       SAFETENSORS_HEADER_BYTES_MAX + 1, sizeof tensor_a - 1 + 25};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct image m = image_new(tensor_a, sizeof tensor_a - 1, lengths[i], 24);
        struct st_file f;

        assert_failure(safetensors_from_bytes(&f, "x", m.bytes, m.n_bytes), OSP_EFORMAT, "length",
                       (const char *const[]){"header length"}, 1);
        free(m.bytes);
    }
}

static void test_good_file_is_read(void **state)
{
    static const char header[] =
        "{\"z\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},"
        "\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"empty\":{\"dtype\":\"I64\",\"shape\":[4,0,4611686018427387904],\"data_offsets\":[24,24]}"
        "}"
        "   ";
    const struct st_tensor *a, *z;
    struct st_file f;
    struct image m;

    (void)state;
    assert_int_equal(open_header(&f, &m, header, 26), OSP_OK);
    assert_int_equal(f.n_tensors, 3);
    assert_int_equal(f.data_bytes, 26);
    a = st_file_find(&f, "a");
    z = st_file_find(&f, "z");
    assert_non_null(a);
    assert_non_null(z);
    assert_null(st_file_find(&f, "__metadata__"));
    assert_int_equal(a->dtype, ST_F32);
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->dim[1], 3);
    assert_int_equal(z->n_dims, 0);
    assert_int_equal(z->size_bytes, 2);
    assert_ptr_equal(z->data, m.bytes + m.n_bytes - 2);
    assert_int_equal(st_file_find(&f, "empty")->size_bytes, 0);
    st_file_close(&f);
    st_file_close(&f);
    free(m.bytes);
}

static void test_file_without_tensors_is_read(void **state)
{
    struct st_file f;
    struct image m;

    (void)state;
    assert_int_equal(open_header(&f, &m, "{}  ", 0), OSP_OK);
    assert_null(st_file_find(&f, "a"));
    st_file_close(&f);
    free(m.bytes);
}

static void test_long_names_are_refused(void **state)
{
    char header[512] = "{\"";
    struct st_file f;
    struct image m;

    (void)state;
    memset(header + 2, 'n', ST_NAME_BYTES_MAX + 1);
    strcat(header, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    assert_failure(open_header(&f, &m, header, 1), OSP_EFORMAT, "long name",
                   (const char *const[]){"257 bytes", "1 to 256"}, 2);
    free(m.bytes);
}

/* Every truncation of a real shard inside the header, and some after it. The bytes are an
 * allocation of exactly that size, so that a sanitizer detects a read beyond it. */
static void test_truncation_everywhere(void **state)
{
    size_t n_bytes, n_header;
    char *bytes = bytes_read(GOLDEN_CHECKPOINTS "hf", "model-00000-of-00002.safetensors", &n_bytes);

    (void)state;
    n_header = EDIT_LENGTH_BYTES + header_bytes_of(bytes);
    for (size_t n = 0; n < n_bytes; n += n <= n_header ? 1 : 97) {
        char *cut = malloc(n + !n);
        struct st_file f;

        memcpy(cut, bytes, n);
        if (safetensors_from_bytes(&f, "cut", cut, n) != OSP_EFORMAT)
            fail_msg("a file cut to %zu of %zu bytes was read", n, n_bytes);
        free(cut);
    }
    free(bytes);
}

/* The same with an adjusted length, so that the header's text itself is truncated. */
static void test_cut_headers_everywhere(void **state)
{
    size_t n_bytes, n_header;
    char *bytes = bytes_read(GOLDEN_CHECKPOINTS "hf", "model-00000-of-00002.safetensors", &n_bytes);

    (void)state;
    n_header = header_bytes_of(bytes);
    while (bytes[EDIT_LENGTH_BYTES + n_header - 1] == ' ')
        n_header--;
    for (size_t n = 0; n < n_header; n++) {
        struct image m = image_new(bytes + EDIT_LENGTH_BYTES, n, n, 0);
        struct st_file f;

        if (safetensors_from_bytes(&f, "cut", m.bytes, m.n_bytes) != OSP_EFORMAT)
            fail_msg("a header cut to %zu of %zu bytes was read", n, n_header);
        free(m.bytes);
    }
    free(bytes);
}

static void test_missing_file_and_folder(void **state)
{
    struct st_file f;

    (void)state;
    assert_failure(safetensors_open(&f, "/nowhere/x.safetensors"), OSP_ENOTFOUND, "missing",
                   (const char *const[]){"/nowhere/x.safetensors"}, 1);
    assert_int_not_equal(safetensors_open(&f, "/tmp"), OSP_OK);
    assert_failure(safetensors_open(&f, "/dev/null"), OSP_EFORMAT, "empty",
                   (const char *const[]){"/dev/null", "0 bytes", "at least 8"}, 3);
}

UNIT_MAIN(cmocka_unit_test(test_bad_headers_are_refused),
          cmocka_unit_test(test_header_has_a_budget),
          cmocka_unit_test(test_header_length_is_checked), cmocka_unit_test(test_good_file_is_read),
          cmocka_unit_test(test_file_without_tensors_is_read),
          cmocka_unit_test(test_long_names_are_refused),
          cmocka_unit_test(test_truncation_everywhere),
          cmocka_unit_test(test_cut_headers_everywhere),
          cmocka_unit_test(test_missing_file_and_folder))
