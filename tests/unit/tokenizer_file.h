/* A small tokenizer.json for tests, written to a temporary file: the 256 bytes as ids 0..255 in
 * byte order, then "ab" 256, "bc" 257, "abc" 258, then Harmony's control tokens from 259 in the
 * order of SPECIAL_LIST, except <|startoftext|>, which is 270, so that 267..269 are undefined. */
#ifndef TOKENIZER_FILE_H
#define TOKENIZER_FILE_H

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "text/token/pretokenize.h"
#include "text/token/tokenizer.h"

enum { TEST_AB = 256, TEST_BC, TEST_ABC, TEST_FIRST_SPECIAL, TEST_STARTOFTEXT = 270, TEST_SIZE };

/* The letter that stands for a byte in byte-level form. */
static inline void put_letter(struct buf *b, int byte)
{
    int n_hidden_before = byte <= 32 ? byte : byte <= 160 ? 33 + byte - 127 : 67;
    bool plain = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    uint32_t code_point = (uint32_t)(plain ? byte : 256 + n_hidden_before);
    char utf8[5] = {0};

    if (byte == '"' || byte == '\\')
        buf_putc(b, '\\');
    utf8_write(code_point, utf8);
    buf_puts(b, utf8);
}

static inline void put_added(struct buf *b, int id, const char *text, const char *comma)
{
    buf_printf(b, "{\"id\":%d,\"content\":\"%s\",\"special\":true,\"lstrip\":false}%s", id, text,
               comma);
}

static inline void put_tokenizer_json(struct buf *b)
{
    int id = TEST_FIRST_SPECIAL;

    buf_puts(b, "{\"normalizer\":null,\"added_tokens\":[");
#define PUT_SPECIAL(member, text)                                                                  \
    put_added(b, strcmp(text, "<|startoftext|>") == 0 ? TEST_STARTOFTEXT : id++, text,             \
              strcmp(text, "<|startoftext|>") == 0 ? "" : ",");
    SPECIAL_LIST(PUT_SPECIAL)
#undef PUT_SPECIAL
    buf_puts(b, "],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                "\"pattern\":{\"Regex\":");
    buf_json_string(b, pretok_pattern, strlen(pretok_pattern));
    buf_puts(b, "},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
                "\"add_prefix_space\":false,\"use_regex\":false}]},"
                "\"decoder\":{\"type\":\"ByteLevel\"},"
                "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{");
    for (int byte = 0; byte < 256; byte++) {
        buf_putc(b, '"');
        put_letter(b, byte);
        buf_printf(b, "\":%d,", byte);
    }
    buf_puts(b, "\"ab\":256,\"bc\":257,\"abc\":258},"
                "\"merges\":[\"a b\",[\"b\",\"c\"],[\"a\",\"bc\"],[\"ab\",\"c\"]]}}");
}

/* Replaces the first occurrence of `old`, which must exist. */
static inline void replace_once(struct buf *b, const char *old, const char *new)
{
    char *text = buf_take(b);
    char *at = strstr(text, old);

    if (!at)
        fail_msg("the test file has no %s", old);
    buf_append(b, text, (size_t)(at - text));
    buf_puts(b, new);
    buf_puts(b, at + strlen(old));
    free(text);
}

/* Writes bytes to a new temporary file and opens it. The file is deleted afterwards. */
static inline enum osp_status open_bytes(struct tokenizer **out, const void *data, size_t n_bytes)
{
    char path[] = "/tmp/osprey-test-XXXXXX";
    int fd = mkstemp(path);
    enum osp_status st;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n_bytes), (ssize_t)n_bytes);
    close(fd);
    st = tokenizer_open(out, path);
    unlink(path);
    return st;
}

static inline struct tokenizer *open_test_tokenizer(void)
{
    struct tokenizer *t = NULL;
    struct buf b;

    buf_init(&b, 1 << 20);
    put_tokenizer_json(&b);
    if (open_bytes(&t, b.data, b.size_bytes) != OSP_OK)
        fail_msg("%s", fail_message());
    buf_release(&b);
    return t;
}

#endif
