/* Level "amx": as "avx512", but MXFP4 times many tokens and all products of BF16 weights are tile
 * products; see kernels_tiles.h. A thread that uses tiles needs the process's permission, which
 * features.c asks for. */
#include "cpu/kernels_zmm.h"

static void tile_products_int8(const struct int8_products *p);
#define LEVEL_PRODUCTS_INT8 tile_products_int8
#include "cpu/kernels_int8.h"
#include "cpu/kernels_rounded.h"

/* What the instruction reads: the eight tiles' shapes, then others that are not used. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};

/* The compilers' own functions let stores pass a tile's load: these do not. */
#define TILES_CONFIGURE(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)) : "memory")
#define TILES_RELEASE()         __asm__ volatile("tilerelease" ::: "memory")
#define TILE_ZERO(c)            __asm__ volatile("tilezero %%tmm" #c ::)
#define TILE_LOAD(t, p, stride)                                                                    \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((ptrdiff_t)(stride))            \
                     : "memor"                                                                     \
                       "y")
#define TILE_STORE(t, p, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((ptrdiff_t)(stride))        \
                     : "memory")
#define TILE_DOT_INT8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

/* 2 e2m1 for each of the sixteen codes: tiles multiply signed bytes. */
INLINE bytes signed_low(bytes codes)
{
    const __m512i values = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));

    return _mm512_permutexvar_epi8(codes, values);
}

INLINE bytes signed_high(bytes codes)
{
    return signed_low(_mm512_srli_epi16(codes, 4));
}

#include "cpu/kernels_tiles.h"

extern const struct kernels kernels_amx;
const struct kernels kernels_amx = {.name = "amx",
                                    LEVEL_FUNCTIONS,
                                    ATTN_FUNCTIONS,
                                    .round_bf16 = level_round_bf16,
                                    .panel_bf16 = tile_panel_bf16,
                                    .products_rounded = tile_products_rounded};
