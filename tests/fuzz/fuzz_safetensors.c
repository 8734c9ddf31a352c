/* Fuzzes the safetensors reader: whatever is accepted must describe memory inside of the input.
 * The input is read as a file and as the JSON of a header; its allocation has exactly that size, so
 * that ASan sees every read beyond it. Seeds: tests/golden/checkpoints. */
#include <stdlib.h>
#include <string.h>

#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the first and last byte of each tensor, and looks each one up. */
static void touch(const struct st_file *f, const uint8_t *data, size_t size)
{
    size_t total = 0;

    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct st_tensor *t = &f->tensors[i];

        if (t->data < data || t->size_bytes > (size_t)(data + size - t->data))
            abort();
        if (st_file_find(f, t->name) != t)
            abort();
        total += t->size_bytes;
    }
    if (total != f->data_bytes || total > size)
        abort();
}

/* The same bytes behind a right length, so that mutations of the JSON are not lost on the
 * length. */
static void read_as_header(const uint8_t *data, size_t size)
{
    enum { LENGTH_BYTES = 8, DATA_BYTES = 64 };
    size_t n = LENGTH_BYTES + size + DATA_BYTES;
    unsigned char *bytes = calloc(1, n);
    struct st_file f;

    for (int i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (unsigned char)(size >> (8 * i));
    memcpy(bytes + LENGTH_BYTES, data, size);
    if (safetensors_from_bytes(&f, "fuzz", bytes, n) == OSP_OK) {
        touch(&f, bytes, n);
        st_file_close(&f);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct st_file f;

    if (safetensors_from_bytes(&f, "fuzz", data, size) == OSP_OK) {
        touch(&f, data, size);
        st_file_close(&f);
    }
    if (size > 0)
        read_as_header(data, size);
    return 0;
}
