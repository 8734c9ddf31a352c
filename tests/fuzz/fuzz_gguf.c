/* Fuzzes the GGUF reader: whatever is accepted must describe memory inside of the input, values of
 * keys included. The input is read as a whole file; as the keys and the directory behind a header
 * with the counts of the input's first two bytes, so that mutations are not lost on the counts; and
 * as the keys of a vocabulary. Every allocation has exactly the size of its input, so that ASan sees
 * every read beyond it. Seeds: bench/peers/write_gguf.py, tests/unit/gguf_write.h. */
#include <stdlib.h>
#include <string.h>

#include "store/ggml_blocks.h"
#include "store/gguf_config.h"
#include "store/gguf_file.h"
#include "text/token/specials.h"
#include "text/token/vocab_files.h"

enum { BLOCK_VALUES_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_keys(const struct gguf_header *keys, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < keys->n_keys; i++) {
        const struct gguf_key *k = &keys->keys[i];
        const unsigned char *at = k->data;

        if (gguf_find(keys, k->name) != k)
            abort();
        if (k->n_bytes > 0 && (k->data < data || k->n_bytes > (size_t)(data + size - k->data)))
            abort();
        for (uint64_t n = 0; k->is_array && k->type == GGUF_STRING && n < k->n; n++)
            (void)gguf_next(&at);
        if (k->is_array && k->type == GGUF_STRING && at != k->data + k->n_bytes)
            abort();
    }
}

/* Converts the first and the last block of each tensor, and looks each one up. */
static void touch_tensors(const struct st_file *f, const uint8_t *data, size_t size)
{
    float values[BLOCK_VALUES_MAX];

    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct st_tensor *t = &f->tensors[i];
        const size_t n_bytes = st_dtype_bytes(t->dtype);

        if (t->data < data || t->size_bytes > (size_t)(data + size - t->data))
            abort();
        if (st_file_find(f, t->name) != t)
            abort();
        ggml_dequantize(values, t->dtype, t->data, st_dtype_values(t->dtype));
        ggml_dequantize(values, t->dtype, t->data + t->size_bytes - n_bytes,
                        st_dtype_values(t->dtype));
    }
}

/* The keys alone, whatever follows them. */
static void read_keys(const uint8_t *data, size_t size)
{
    struct gptoss_config config;
    struct gguf_header keys;

    if (gguf_header_read(&keys, "fuzz", data, size) != OSP_OK)
        return;
    touch_keys(&keys, data, size);
    (void)!gguf_config_read(&config, &keys);
    gguf_header_release(&keys);
}

static void read_file(const uint8_t *data, size_t size)
{
    struct gguf_header keys;
    struct st_file f;

    if (gguf_file_from_bytes(&f, &keys, "fuzz", data, size) != OSP_OK)
        return;
    touch_tensors(&f, data, size);
    gguf_header_release(&keys);
    st_file_close(&f);
}

static void read_vocabulary(const uint8_t *data, size_t size)
{
    struct vocab v = {.size = 0};
    struct specials s = {.n = 0};

    (void)!vocab_read_gguf(&v, &s, "fuzz", (const char *)data, size);
    vocab_release(&v);
    specials_release(&s);
}

static void put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static void read_as_body(const uint8_t *data, size_t size)
{
    enum { HEADER_BYTES = 24 };
    const size_t n = HEADER_BYTES + size - 2;
    uint8_t *bytes = calloc(1, n);

    memcpy(bytes, "GGUF\3\0\0\0", 8);
    put_u64(bytes + 8, data[0]);
    put_u64(bytes + 16, data[1]);
    memcpy(bytes + HEADER_BYTES, data + 2, size - 2);
    read_keys(bytes, n);
    read_file(bytes, n);
    read_vocabulary(bytes, n);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_keys(data, size);
    read_file(data, size);
    read_vocabulary(data, size);
    if (size >= 2)
        read_as_body(data, size);
    return 0;
}
