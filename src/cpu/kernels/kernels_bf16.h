/* Rounds activations to bf16, for ISAs with AMX tiles. An ISA's file includes kernels_float.h and
 * then this. */

typedef uint16_t halves_of __attribute__((vector_size(LANES * 2)));

/* Rounds to nearest, ties to even; any NaN becomes a quiet NaN. */
INLINE halves_of rounded_v(fvec x)
{
    const uvec bits = (uvec)x, even = bits >> 16 & 1u;
    const ivec is_nan = (ivec)((bits & 0x7FFFFFFFu) > 0x7F800000u);
    const uvec nearest = (bits + 0x7FFFu + even) >> 16;
    const uvec nan = (uvec){0} + 0x7FC0u;

    return __builtin_convertvector((uvec)choose_v(is_nan, (fvec)nan, (fvec)nearest), halves_of);
}

/* The row is zero-padded to bf16_row_columns(). */
static void isa_round_bf16(uint16_t *out, const float *x, int n)
{
    const int n_columns = bf16_row_columns(n);

    for (int i = 0; i < n_columns; i += LANES) {
        const int n_left = n - i;
        const halves_of v = rounded_v(n_left >= LANES ? load_v(x + i)
                                      : n_left > 0    ? load_part(x + i, n_left)
                                                      : all_v(0));

        memcpy(out + i, &v, sizeof(v));
    }
}
