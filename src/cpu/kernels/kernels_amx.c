/* ISA "amx": as "avx512", but packed MXFP4 and BF16 weights are multiplied with bf16 activations by
 * tile products; see kernels_amx_tiles.h. A process needs permission to use tiles, which isa.c
 * requests. */
#include "cpu/kernels/kernels_zmm.h"

#include "cpu/kernels/kernels_int8.h"
#include "cpu/kernels/kernels_bf16.h"

/* The operand of ldtilecfg: the shapes of the eight tiles, then entries of tiles that do not
 * exist. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};

/* Not the compilers' intrinsics: with those, a compiler may move a store behind the tile load that
 * reads it. */
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
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

/* For each code, e2m1 times 2^126 as bf16, looked up by the low four bits of each word. Subtracting
 * from it, with saturation at zero, lowers the exponent. The sign bit is kept. */
INLINE __m512i look_up_exponents(__m512i codes)
{
    const __m256i values = _mm256_setr_epi16(
        0, 0x7E00, 0x7E80, 0x7EC0, 0x7F00, 0x7F40, 0x7F80, 0x7FC0, 0, (short)0xFE00, (short)0xFE80,
        (short)0xFEC0, (short)0xFF00, (short)0xFF40, (short)0xFF80, (short)0xFFC0);

    return _mm512_permutexvar_epi16(codes, _mm512_broadcast_i64x4(values));
}

#define look_up_words(codes)       ((words)look_up_exponents((__m512i)(codes)))
#define subtract_words(from, less) ((words)_mm512_subs_epu16((__m512i)(from), (__m512i)(less)))

#include "cpu/kernels/kernels_amx_tiles.h"

extern const struct kernels kernels_amx;
const struct kernels kernels_amx = {.name = "amx",
                                    ISA_FUNCTIONS,
                                    ATTN_FUNCTIONS,
                                    ATTN_I16_FUNCTIONS,
                                    .round_bf16 = isa_round_bf16,
                                    .panel_bf16 = tile_panel_bf16,
                                    .gemm_bf16_act = tile_gemm_bf16,
                                    .round_permuted = tile_round_permuted,
                                    .gemm_permuted = tile_gemm_permuted};
