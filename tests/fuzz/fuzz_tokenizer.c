/* Fuzzing entry for libFuzzer. The first byte chooses: a text, which must be reproduced by its ids
 * with ill-formed sequences replaced, also through the streaming decoder in parts; or a vocabulary
 * file, which must be refused or work. Run from the root of the repository. */
#include <stdlib.h>
#include <string.h>

#include "text/token/detok.h"
#include "text/token/tokenizer.h"
#include "text/token/vocab_files.h"

enum { OUT_BYTES_MAX = 1 << 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const struct tokenizer *published(void)
{
    static struct tokenizer *t;

    if (!t && tokenizer_open(&t, "tests/golden/tokenizer/o200k_base.tiktoken") != OSP_OK)
        abort();
    return t;
}

/* Through the streaming decoder, token by token. */
static void decode_streaming(const struct tokenizer *t, const struct ids *ids, struct buf *out)
{
    struct detok d;

    detok_init(&d);
    for (size_t i = 0; i < ids->n; i++) {
        const char *bytes;
        char scratch[32];
        size_t n;

        if (tokenizer_bytes(t, ids->data[i], scratch, &bytes, &n) != OSP_OK)
            abort();
        if (!detok_push(&d, bytes, n, out))
            abort();
    }
    if (!detok_finish(&d, out))
        abort();
}

static void clean(const char *text, size_t n_bytes, struct buf *out)
{
    struct detok d;

    detok_init(&d);
    if (!detok_push(&d, text, n_bytes, out) || !detok_finish(&d, out))
        abort();
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->size_bytes == b->size_bytes && memcmp(buf_text(a), buf_text(b), a->size_bytes) == 0;
}

static void fuzz_text(const char *text, size_t n_bytes)
{
    const struct tokenizer *t = published();
    struct buf whole, streamed, expected;
    struct ids ids;

    buf_init(&whole, OUT_BYTES_MAX);
    buf_init(&streamed, OUT_BYTES_MAX);
    buf_init(&expected, OUT_BYTES_MAX);
    ids_init(&ids, OUT_BYTES_MAX);
    if (tokenizer_encode(t, text, n_bytes, &ids) != OSP_OK)
        abort();
    for (size_t i = 0; i < ids.n; i++)
        if (tokenizer_is_special(t, ids.data[i]))
            abort();
    if (tokenizer_decode(t, ids.data, ids.n, &whole) != OSP_OK)
        abort();
    decode_streaming(t, &ids, &streamed);
    clean(text, n_bytes, &expected);
    if (!same(&whole, &expected) || !same(&streamed, &expected))
        abort();
    ids_clear(&ids);
    if (tokenizer_encode_with_specials(t, text, n_bytes, &ids) != OSP_OK)
        abort();
    ids_release(&ids);
    buf_release(&whole);
    buf_release(&streamed);
    buf_release(&expected);
}

typedef enum osp_status read_fn(struct vocab *v, struct specials *s, const char *data,
                                size_t n_bytes);

static void fuzz_file(read_fn *read, const char *data, size_t n_bytes)
{
    struct specials s = {0};
    struct vocab v = {0};

    if (read(&v, &s, data, n_bytes) == OSP_OK)
        for (int32_t id = 0; id < v.n_ordinary; id++) {
            size_t n;
            const char *bytes = vocab_bytes(&v, id, &n);

            if (vocab_find(&v, bytes, n) != id)
                abort();
        }
    vocab_release(&v);
    specials_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *rest = (const char *)data + 1;

    if (!n_bytes)
        return 0;
    switch (data[0]) {
    case '{':
        fuzz_file(vocab_read_json, (const char *)data, n_bytes);
        break;
    case '=':
        fuzz_file(vocab_read_tiktoken, rest, n_bytes - 1);
        break;
    default:
        fuzz_text(rest, n_bytes - 1);
    }
    return 0;
}
