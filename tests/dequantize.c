/* The block types of GGUF as a filter, for comparisons with the gguf package (tests/tools): blocks of
 * one type on standard input, their float32 values on standard output.
 *
 *   dequantize TYPE     Q4_K, F16, ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/ggml_blocks.h"

enum { BLOCK_BYTES_MAX = 256, BLOCK_VALUES_MAX = 256 };

static enum st_dtype find_type(const char *name)
{
    for (int i = 0; i < N_ST_DTYPES; i++)
        if (strcmp(st_dtype_name((enum st_dtype)i), name) == 0 && ggml_is_known((enum st_dtype)i))
            return (enum st_dtype)i;
    fprintf(stderr, "dequantize: %s is not a type that is read\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    unsigned char block[BLOCK_BYTES_MAX];
    float values[BLOCK_VALUES_MAX];
    enum st_dtype dtype;

    if (argc != 2) {
        fprintf(stderr, "usage: dequantize TYPE\n");
        return 2;
    }
    dtype = find_type(argv[1]);
    while (fread(block, 1, st_dtype_bytes(dtype), stdin) == st_dtype_bytes(dtype)) {
        const size_t n = (size_t)st_dtype_values(dtype);

        ggml_dequantize(values, dtype, block, (int64_t)n);
        if (fwrite(values, sizeof *values, n, stdout) != n)
            return 1;
    }
    return 0;
}
