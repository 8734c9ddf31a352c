#include "cuda/device/options.h"

#include <stdio.h>

bool gpu_tile_parse(int *rows, int *tokens, const char *text)
{
    int n_bytes = 0;

    return sscanf(text, "%dx%d%n", rows, tokens, &n_bytes) == 2 && text[n_bytes] == '\0' &&
           *rows > 0 && *tokens > 0;
}

/* Which tiles the GPU has kernels for is known when it is opened (kernel_config.c). */
static bool gpu_is_tile(const char *value)
{
    int rows, tokens;

    return gpu_tile_parse(&rows, &tokens, value);
}

const struct device_option_row gpu_option_rows[N_GPU_OPTIONS + 1] = {
#define GPU_OPTION_ROW(member, ...) {__VA_ARGS__},
    GPU_OPTION_LIST(GPU_OPTION_ROW)
#undef GPU_OPTION_ROW
};
