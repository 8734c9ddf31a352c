#include "emulated/emulated_amx.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tensor.h"

#define LANES 16
typedef float fvec __attribute__((vector_size(64)));

static inline fvec fma_v(fvec a, fvec b, fvec c)
{
    for (int i = 0; i < LANES; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}

static inline float widened(uint32_t half)
{
    const uint32_t bits = half << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline fvec load_bf16(const uint16_t *p)
{
    fvec v = {0};

    for (int i = 0; i < LANES; i++)
        v[i] = widened(p[i]);
    return v;
}

static inline void sums_v(float out[4], fvec a, fvec b, fvec c, fvec d)
{
    const fvec of[4] = {a, b, c, d};

    for (int k = 0; k < 4; k++) {
        out[k] = 0;
        for (int i = 0; i < LANES; i++)
            out[k] += of[k][i];
    }
}

#include "cpu/kernels/round_fenv.h"
#include "cpu/kernels/kernels_float.h"

#include "cpu/kernels/kernels_sums.h"

typedef int8_t bytes __attribute__((vector_size(64)));
enum { INT8_TOKENS = 8 };

static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline bytes expand_low(bytes codes)
{
    for (int i = 0; i < 64; i++)
        codes[i] = doubled[codes[i] & 15];
    return codes;
}

static inline bytes expand_high(bytes codes)
{
    for (int i = 0; i < 64; i++)
        codes[i] = doubled[(uint8_t)codes[i] >> 4];
    return codes;
}

static inline bytes four(const int8_t *a)
{
    bytes v;

    for (int i = 0; i < 64; i++)
        v[i] = a[i % 4];
    return v;
}

static inline ivec begin(int32_t bias)
{
    return (ivec){0} + bias;
}

static inline ivec dot(ivec sum, bytes w, bytes a)
{
    for (int i = 0; i < 64; i++)
        sum[i / 4] += w[i] * a[i];
    return sum;
}

static inline fvec total(ivec sum)
{
    fvec v = {0};

    for (int i = 0; i < LANES; i++)
        v[i] = (float)sum[i];
    return v;
}

static inline fvec scales_of(const uint8_t *p)
{
    uvec bits = {0};

    for (int i = 0; i < LANES; i++)
        bits[i] = (uint32_t)p[i] << 23;
    return (fvec)bits;
}

static int32_t bias_of(const int8_t *codes)
{
    (void)codes;
    return 0;
}

#define ISA_GEMM_INT8 interleaved_or_not
#include "cpu/kernels/kernels_int8.h"
#include "cpu/kernels/kernels_int8_gemm.h"

#include "cpu/kernels/kernels_bf16.h"

/* ---- tiles ---- */

struct tile_config {
    uint8_t palette;
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};
static struct tile_config shape;
static bool has_tiles;
static uint8_t tiles[8][16][64];

static void tile_fault(const char *what)
{
    fprintf(stderr, "emulated tiles: %s\n", what);
    abort();
}

static void tiles_configure(const struct tile_config *config)
{
    for (int t = 0; t < 8; t++)
        if (config->n_rows[t] > 16 || config->row_bytes[t] > 64 || config->row_bytes[t] % 4 != 0)
            tile_fault("a shape");
    shape = *config;
    has_tiles = config->palette == 1;
    memset(tiles, 0, sizeof(tiles));
}

static void tile_load(int t, const void *from, ptrdiff_t stride)
{
    if (!has_tiles)
        tile_fault("no configuration");
    memset(tiles[t], 0, sizeof(tiles[t]));
    for (int r = 0; r < shape.n_rows[t]; r++)
        memcpy(tiles[t][r], (const char *)from + r * stride, shape.row_bytes[t]);
}

static void tile_store(int t, void *to, ptrdiff_t stride)
{
    for (int r = 0; r < shape.n_rows[t]; r++)
        memcpy((char *)to + r * stride, tiles[t][r], shape.row_bytes[t]);
}

static void tile_check_dot(int c, int a, int b)
{
    if (!has_tiles || shape.n_rows[c] != shape.n_rows[a] ||
        shape.row_bytes[c] != shape.row_bytes[b] || shape.row_bytes[a] != 4 * shape.n_rows[b])
        tile_fault("shapes that cannot be multiplied");
}

static float tile_half(int t, int row, int i)
{
    uint16_t half;

    memcpy(&half, tiles[t][row] + 2 * i, sizeof(half));
    return widened(half);
}

static void tile_dot_bf16(int c, int a, int b)
{
    tile_check_dot(c, a, b);
    for (int m = 0; m < shape.n_rows[c]; m++)
        for (int n = 0; n < shape.row_bytes[b] / 4; n++) {
            float even = 0, odd = 0, sum;

            for (int k = 0; k < shape.n_rows[b]; k++) {
                even = fmaf(tile_half(a, m, 2 * k), tile_half(b, k, 2 * n), even);
                odd = fmaf(tile_half(a, m, 2 * k + 1), tile_half(b, k, 2 * n + 1), odd);
            }
            memcpy(&sum, tiles[c][m] + 4 * n, sizeof(sum));
            sum += even + odd;
            memcpy(tiles[c][m] + 4 * n, &sum, sizeof(sum));
        }
}

typedef uint16_t table_words __attribute__((vector_size(64)));

static inline table_words look_up_words(table_words codes)
{
    static const uint16_t values[16] = {0, 0x7E00, 0x7E80, 0x7EC0, 0x7F00, 0x7F40, 0x7F80, 0x7FC0,
                                        0, 0xFE00, 0xFE80, 0xFEC0, 0xFF00, 0xFF40, 0xFF80, 0xFFC0};

    for (int i = 0; i < 32; i++)
        codes[i] = values[codes[i] & 15];
    return codes;
}

static inline table_words subtract_words(table_words from, table_words less)
{
    for (int i = 0; i < 32; i++)
        from[i] = from[i] > less[i] ? (uint16_t)(from[i] - less[i]) : 0;
    return from;
}

#define TILES_CONFIGURE tiles_configure
#define TILES_RELEASE() (has_tiles = false)
#define TILE_ZERO(c)    memset(tiles[c], 0, sizeof(tiles[c]))
#define TILE_LOAD       tile_load
#define TILE_STORE      tile_store
#define TILE_DOT_BF16   tile_dot_bf16
#include "cpu/kernels/kernels_amx_tiles.h"

const struct kernels emulated_amx = {
    .name = "emulated amx",
    ISA_FUNCTIONS,
    .interleave_int8 = isa_interleave_int8,
    .round_bf16 = isa_round_bf16,
    .gemm_bf16_act = tile_gemm_bf16,
    .panel_bf16 = tile_panel_bf16,
    .round_permuted = tile_round_permuted,
    .gemm_permuted = tile_gemm_permuted,
};
