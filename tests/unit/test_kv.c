/* Checks the rounding of keys and values, and pages read as rows, against a search through all
 * codes. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "cpu/kernels/kernels.h"
#include "cpu/stages/kv.h"

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* ---- BF16 ---- */

/* The nearer of the two neighbours whose lower halves are zero, in double. */
static uint16_t nearest_bf16(uint32_t bits)
{
    const uint32_t low = bits & 0xFFFF0000u;
    const double x = (double)float_of(bits), below = (double)float_of(low);
    const double above = (low & 0x7F800000u) == 0x7F000000u && (low & 0x7F0000u) == 0x7F0000u
                             ? copysign(ldexp(1, 128), x)
                             : (double)float_of(low + 0x10000u);
    const double to_below = fabs(x - below), to_above = fabs(above - x);
    const bool is_even = (low >> 16 & 1) == 0;

    return (uint16_t)((to_below < to_above || (to_below == to_above && is_even) ? low
                                                                                : low + 0x10000u) >>
                      16);
}

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t high = 0; high < 0x10000u; high++)
        for (uint32_t i = 0; i < 8; i++) {
            static const uint32_t lows[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234, 0xC000};
            const uint32_t bits = high << 16 | lows[i];
            const float x = float_of(bits);

            if (isnan(x))
                assert_true(isnan(float_of((uint32_t)bf16_of(x) << 16)));
            else if (isinf(x))
                assert_int_equal(bf16_of(x), bits >> 16);
            else
                assert_int_equal(bf16_of(x), nearest_bf16(bits));
        }
}

/* ---- E4M3 ---- */

/* The values of the format, by its definition. */
static double e4m3(int code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double value =
        exponent == 0 ? mantissa * pow(2, -9) : (8 + mantissa) * pow(2, exponent - 10);

    return code >= 128 ? -value : value;
}

static int nearest_e4m3(double x)
{
    int best = 0;

    for (int code = 0; code < 127; code++) {
        const double distance = fabs(fabs(x) - e4m3(code)), least = fabs(fabs(x) - e4m3(best));

        if (distance < least || (distance == least && code % 2 == 0))
            best = code;
    }
    return signbit(x) ? best + 128 : best;
}

static void test_f8_codes(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++)
        if (code % 128 != 127) {
            assert_true((double)f8_value((uint8_t)code) == e4m3(code));
            assert_int_equal(f8_of((float)e4m3(code)), code);
        }
    for (int code = 0; code < 126; code++) { /* the ties, and both neighbours of each */
        const float middle = (float)((e4m3(code) + e4m3(code + 1)) / 2);

        assert_int_equal(f8_of(middle), code % 2 == 0 ? code : code + 1);
        assert_int_equal(f8_of(-middle), 128 + (code % 2 == 0 ? code : code + 1));
        assert_int_equal(f8_of(nextafterf(middle, 0)), code);
        assert_int_equal(f8_of(nextafterf(middle, 1000)), code + 1);
    }
    assert_int_equal(f8_of(448.00003f), 126);
    for (uint64_t i = 0; i < 100000; i++) {
        const float x =
            (float)((rng_uniform(1, i, 0) * 2 - 1) * 448 * pow(2, -20 * rng_uniform(1, i, 1)));

        assert_int_equal(f8_of(x), nearest_e4m3((double)x));
    }
}

/* Words with every code at every place of a word, at all ISAs that have the kernel. */
static void test_f8_kernels(void **state)
{
    enum { WIDTH = 16, ROWS = 64 };
    static uint8_t words[ROWS * WIDTH * 4];
    static float out[4 * ROWS * WIDTH];
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);

    (void)state;
    for (int i = 0; i < ROWS * WIDTH * 4; i++) {
        const int code = i * 5 / 4 & 0xFF;

        words[i] = (uint8_t)(code % 128 == 127 ? 0 : code);
    }
    for (int l = 0; l < n; l++) {
        if (isas[l]->widen_f8 == NULL)
            continue;
        isas[l]->widen_f8(out, words, ROWS);
        for (int i = 0; i < ROWS * WIDTH * 4; i++) {
            const int row = i / 4 / WIDTH, column = i / 4 % WIDTH;

            assert_int_equal(bits_of(out[(4 * row + i % 4) * WIDTH + column]),
                             bits_of((float)e4m3(words[i])));
        }
    }
}

/* ---- I16 ---- */

/* Every code at both places of a word, at all ISAs that have the kernel. */
static void test_i16_codes(void **state)
{
    enum { WIDTH = 16, ROWS = 65536 / WIDTH };
    static int16_t words[ROWS * WIDTH * 2];
    static float out[2 * ROWS * WIDTH];
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);

    (void)state;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        words[2 * i] = (int16_t)(i - 32768);
        words[2 * i + 1] = (int16_t)(i * 7);
    }
    for (int l = 0; l < n; l++) {
        if (isas[l]->widen_i16 == NULL)
            continue;
        isas[l]->widen_i16(out, words, ROWS);
        for (int i = 0; i < ROWS * WIDTH * 2; i++) {
            const int row = i / 2 / WIDTH, column = i / 2 % WIDTH;

            assert_true(out[(2 * row + i % 2) * WIDTH + column] == (float)words[i]);
        }
    }
}

/* One key/value head of 64 columns, eight query heads; a row that sees [first, end). */
struct attention {
    _Alignas(64) int16_t words[2][PAGE_TOKENS * 64];
    float scales[2][PAGE_TOKENS];
    float q[8 * 64], units[8], acc[8 * 64];
    int16_t codes[8 * 64];
    struct softmax states[8];
};

static void set_slot(struct attention *a, int which, int slot, int16_t code, float scale)
{
    for (int d = 0; d < 64; d++)
        a->words[which][kv_word(2, 64, which, slot, d) * 2 + (which == 0 ? d : slot) % 2] = code;
    a->scales[which][slot] = scale;
}

static void attend(const struct kernels *k, struct attention *a, int first, int end)
{
    memset(a->acc, 0, sizeof(a->acc));
    for (int h = 0; h < 8; h++)
        a->states[h] = (struct softmax){.largest = -INFINITY};
    k->codes_i16(a->codes, a->units, a->q, 8, 64);
    k->attend_i16(&(struct attend){.codes = a->codes,
                                   .q_scales = a->units,
                                   .states = a->states,
                                   .acc = a->acc,
                                   .sides = {a->words[0], a->words[1]},
                                   .scales = {a->scales[0], a->scales[1]},
                                   .n_heads = 8,
                                   .head_dim = 64,
                                   .first = first,
                                   .end = end,
                                   .scale = 1});
}

static void assert_result(const struct attention *a, double want)
{
    for (int i = 0; i < 8 * 64; i++) {
        const double found = (double)a->acc[i] / (double)a->states[i / 64].denominator;

        if (!(isnan(want) ? isnan(found) : fabs(found - want) <= 2.5e-4 * fabs(want)))
            fail_msg("column %d is %g, expected %g", i, found, want);
    }
}

/* Sums at the limit of 32 bits: keys and queries of the largest norm, in the same and in opposite
 * directions, and the largest values with weights of any kind. */
static void test_i16_extremes(void **state)
{
    static struct attention a;
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas), key = KV_I16_NORM / 8;

    (void)state;
    for (int l = 0; l < n; l++)
        for (int sign = -1; sign <= 1 && isas[l]->attend_i16 != NULL; sign++) {
            for (int i = 0; i < 8 * 64; i++)
                a.q[i] = (float)sign;
            for (int slot = 0; slot < PAGE_TOKENS; slot++) {
                set_slot(&a, 0, slot, (int16_t)(slot == 17 ? key : -key), 1.0f / (float)key);
                set_slot(&a, 1, slot, slot == 17 ? KV_I16_VALUE_MAX : -KV_I16_VALUE_MAX, 1);
            }
            attend(isas[l], &a, 0, PAGE_TOKENS); /* scores 64 and -64, or all equal */
            assert_result(&a, KV_I16_VALUE_MAX * (sign > 0 ? 1.0 : sign < 0 ? -1.0 : -62.0 / 64));
        }
}

/* NaN within the row's slots propagates, outside it does not; a row may see a single slot. */
static void test_i16_slots(void **state)
{
    static struct attention a;
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);

    (void)state;
    for (int l = 0; l < n; l++)
        for (int slot = 0; slot < PAGE_TOKENS && isas[l]->attend_i16 != NULL; slot++) {
            for (int i = 0; i < 8 * 64; i++)
                a.q[i] = 1;
            for (int i = 0; i < PAGE_TOKENS; i++)
                for (int which = 0; which < 2; which++)
                    set_slot(&a, which, i, 1000, i == slot ? 0.001f : NAN);
            attend(isas[l], &a, slot, slot + 1);
            assert_result(&a, 1);
            if (slot == 0)
                continue;
            for (int which = 0; which < 2; which++) {
                for (int i = 0; i < slot; i++)
                    set_slot(&a, 1 - which, i, 1000, 0.001f);
                for (int i = 0; i < slot; i++)
                    set_slot(&a, which, i, 1000, i == slot / 2 ? NAN : 0.001f);
                attend(isas[l], &a, 0, slot + 1);
                assert_result(&a, (double)NAN);
            }
            a.q[0] = NAN; /* of the first head only */
            set_slot(&a, 0, slot / 2, 1000, 0.001f);
            set_slot(&a, 1, slot / 2, 1000, 0.001f);
            attend(isas[l], &a, 0, slot + 1);
            assert_true(isnan(a.acc[0]) && isnan(a.states[0].denominator));
            assert_true(a.acc[64] > 0);
        }
}

/* ---- pages ---- */

enum { HEADS = 3, PAGES = 2, D_MAX = 40 };

struct cache {
    struct tensor kv;
    float rows[PAGE_TOKENS][2 * HEADS * D_MAX];
};

static struct cache *cache_new(enum dtype dtype, int head_dim)
{
    struct cache *c = calloc(1, sizeof(*c));
    const int64_t page_bytes = kv_page_bytes(dtype, HEADS, head_dim);

    assert_non_null(c);
    c->kv = (struct tensor){
        .dtype = dtype, .n_dims = 5, .dim = {PAGES, 2, HEADS, PAGE_TOKENS, head_dim}};
    c->kv.data = malloc((size_t)(PAGES * page_bytes));
    assert_non_null(c->kv.data);
    memset(c->kv.data, 0xFF, (size_t)(PAGES * page_bytes));
    return c;
}

static void cache_free(struct cache *c)
{
    free(c->kv.data);
    free(c);
}

static void put_all(struct cache *c)
{
    const int n = 2 * HEADS * (int)c->kv.dim[4];

    for (int slot = PAGE_TOKENS - 1; slot >= 0; slot--) {
        for (int i = 0; i < n; i++)
            c->rows[slot][i] =
                (float)((rng_uniform((uint64_t)slot, (uint64_t)i, 0) - 0.5) * (1 + slot));
        kv_store(&c->kv, 1, slot, c->rows[slot]);
    }
}

/* The largest difference between a stored number and the original. */
static double tolerance(enum dtype dtype, int which, double x, double largest, double norm)
{
    if (dtype == DTYPE_F32)
        return 0;
    if (dtype == DTYPE_BF16)
        return fabs(x) / 256;
    if (dtype == DTYPE_I16)
        return 0.503 * (which == 1 ? largest / 16383 : fmax(norm / 46200, largest / 32767));
    return fabs(x) / 16 * 1.00001 + largest / 448 / 1024 * 1.00001;
}

static void assert_side(const struct cache *c, int which, int head)
{
    const int D = (int)c->kv.dim[4];
    static float out[PAGE_TOKENS * D_MAX];

    kv_load(out, &c->kv, kv_side(&c->kv, 1, which, head), which);
    for (int slot = 0; slot < PAGE_TOKENS; slot++) {
        const float *want = c->rows[slot] + (which * HEADS + head) * D;
        double largest = 0, squares = 0;

        for (int d = 0; d < D; d++) {
            largest = fabs((double)want[d]) > largest ? fabs((double)want[d]) : largest;
            squares += (double)want[d] * (double)want[d];
        }
        for (int d = 0; d < D; d++)
            assert_true(fabs((double)out[slot * D + d] - (double)want[d]) <=
                        tolerance(c->kv.dtype, which, (double)want[d], largest, sqrt(squares)));
    }
}

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F8, DTYPE_I16};

static void test_pages(void **state)
{
    static const int widths[] = {2, 16, 18, 32, 40};

    (void)state;
    for (int t = 0; t < 4; t++)
        for (int w = 0; w < 5; w++) {
            struct cache *c = cache_new(types[t], widths[w]);

            put_all(c);
            for (int which = 0; which < 2; which++)
                for (int head = 0; head < HEADS; head++)
                    assert_side(c, which, head);
            for (size_t i = 0; i < (size_t)kv_page_bytes(types[t], HEADS, widths[w]); i++)
                assert_int_equal(((unsigned char *)c->kv.data)[i], 0xFF); /* the other page */
            cache_free(c);
        }
}

/* Heads of zeros, of tiny numbers, and with a NaN or an infinity: only that head is affected. */
static void test_odd_numbers(void **state)
{
    static const float odd[] = {0.0f, 1e-38f, INFINITY, -INFINITY, NAN};

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct cache *c = cache_new(i < 5 ? DTYPE_F8 : DTYPE_I16, 16);
        float row[2 * HEADS * 16], rows[PAGE_TOKENS * 16];

        for (int k = 0; k < 2 * HEADS * 16; k++)
            row[k] = k / 16 == 1 ? 0.0f : 1.0f;
        row[16 + 5] = odd[i % 5];
        kv_store(&c->kv, 0, 9, row);
        for (int head = 0; head < HEADS; head++) {
            const float *out = rows + 9 * 16;

            kv_load(rows, &c->kv, kv_side(&c->kv, 0, 0, head), 0);
            for (int d = 0; d < 16; d++)
                if (head != 1)
                    assert_true(fabsf(out[d] - 1.0f) < 1e-4f);
                else if (i % 5 < 2)
                    assert_true(out[d] == 0.0f);
                else
                    assert_true(isnan(out[d]));
        }
        cache_free(c);
    }
}

/* A copied slot has the bytes that storing the row there gives, and no other slot changes. */
static void test_copied_slots(void **state)
{
    static const int slots[][2] = {{0, 63}, {17, 2}, {40, 41}, {5, 5}};

    (void)state;
    for (int i = 0; i < 16; i++) {
        struct cache *want = cache_new(types[i / 4], 24), *have = cache_new(types[i / 4], 24);
        const int from = slots[i % 4][0], to = slots[i % 4][1];
        float row[2 * HEADS * 24];

        for (int k = 0; k < 2 * HEADS * 24; k++)
            row[k] = (float)(rng_bits(3, (uint64_t)k, 0) % 1000) / 500 - 1;
        kv_store(&want->kv, 0, from, row);
        kv_store(&want->kv, 1, to, row);
        kv_store(&have->kv, 0, from, row);
        for (int which = 0; which < 2; which++)
            for (int head = 0; head < HEADS; head++)
                kv_copy_slot(&have->kv, which, kv_side(&have->kv, 1, which, head), to,
                             kv_side(&have->kv, 0, which, head), from);
        assert_memory_equal(have->kv.data, want->kv.data,
                            2 * (size_t)kv_page_bytes(types[i / 4], HEADS, 24));
        cache_free(want);
        cache_free(have);
    }
}

UNIT_MAIN(cmocka_unit_test(test_bf16), cmocka_unit_test(test_f8_codes),
          cmocka_unit_test(test_f8_kernels), cmocka_unit_test(test_i16_codes),
          cmocka_unit_test(test_i16_extremes), cmocka_unit_test(test_i16_slots),
          cmocka_unit_test(test_pages), cmocka_unit_test(test_odd_numbers),
          cmocka_unit_test(test_copied_slots))
