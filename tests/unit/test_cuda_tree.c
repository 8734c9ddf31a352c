/* Index arithmetic of attention with draft trees on a GPU (cuda/attention/attn_tree.h), without one:
 * which slot has the key of a position, and where a unit of 16 keys in shared memory has a key and a
 * value. A unit that was copied as the kernel copies it, with the keys and values of a path over it,
 * equals the unit of a page in which these were moved. */
#include "unit.h"

#include "base/rng.h"
#include "cpu/stages/kv.h"
#include "cuda/attention/attn_tree.h"

enum { PAGE_UNITS = PAGE_TOKENS / ATTN_UNIT_KEYS, D = ATTN_HEAD_DIM, LANES = 32, STEPS = D / 16 };

/* A mask of up to 17 bits with the highest one set, as of a row of a tree of 16 drafts. */
static uint32_t random_mask(uint64_t seed)
{
    const int own = (int)(rng_bits(seed, 0, 0) % 17);

    return ((uint32_t)rng_bits(seed, 1, 0) & ((1u << own) - 1)) | 1u << own;
}

static void test_path(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        const uint32_t mask = random_mask(seed);
        const int first = (int)(rng_bits(seed, 2, 0) % 5000);
        const int position = first + __builtin_popcount(mask) - 1;
        const struct attn_path p = attn_path_of(position, mask);
        int at = first;

        assert_int_equal(p.first, first);
        for (uint32_t left = mask; left != 0; left &= left - 1, at++)
            assert_int_equal(attn_path_slot(&p, at), first + __builtin_ctz(left));
        assert_int_equal(at, position + 1);
        for (int i = 0; i < first && i < 100; i++)
            assert_int_equal(attn_path_slot(&p, i), i);
        assert_int_equal(p.mask == 0, (mask & (mask + 1)) == 0);
        assert_int_equal(attn_path_moves(&p, first - 16, 16), false);
        assert_int_equal(attn_path_moves(&p, first - 15, 16), p.mask != 0);
    }
}

/* ---- a unit in shared memory ---- */

struct unit_bytes {
    int half, tile, scales, all; /* bytes */
};

static struct unit_bytes unit_of(enum dtype dtype)
{
    const int element = 4 / kv_parts(dtype), half = ATTN_UNIT_KEYS * D * element;
    const int scales = dtype == DTYPE_F8 ? ATTN_UNIT_KEYS * 4 : 0;

    return (struct unit_bytes){half, half / STEPS, scales, 2 * half + 2 * scales};
}

/* copy_rows() of attn_units.cuh for one lane: 16 bytes. */
static void copy_piece(char *to, const char *from, int first_row, int lane)
{
    const int row = first_row + lane / 4, piece = lane % 4;

    memcpy(to + row * 64 + (piece ^ (row & 2)) * 16, from + lane * 16, 16);
}

/* Copies unit `u` of a page as unit<DTYPE>::copy() does. */
static void copy_unit(char *ring, const struct tensor *kv, const char *keys, const char *values,
                      int u)
{
    const struct unit_bytes n = unit_of(kv->dtype);
    const int tile_rows = n.tile / 64, pieces = n.tile / 16;

    for (int at = 0; at < n.half / 16; at++)
        copy_piece(ring, keys + u * n.half + at / LANES * LANES * 16, at / LANES * LANES / 4,
                   at % LANES);
    for (int tile = 0; tile < STEPS; tile++)
        for (int at = 0; at < pieces; at++)
            copy_piece(ring + n.half, values + (tile * PAGE_UNITS + u) * n.tile, tile * tile_rows,
                       at);
    memcpy(ring + 2 * n.half, keys + PAGE_UNITS * n.half + u * n.scales, (size_t)n.scales);
    memcpy(ring + 2 * n.half + n.scales, values + PAGE_UNITS * n.half + u * n.scales,
           (size_t)n.scales);
}

/* What load_slot() and store_slot() of attn_tree.cu do. */
static void place_slot(char *ring, const struct tensor *kv, const char *keys, const char *values,
                       int slot, int position)
{
    const struct unit_bytes n = unit_of(kv->dtype);
    const int parts = kv_parts(kv->dtype), element = 4 / parts;
    const int at = position % ATTN_UNIT_KEYS;

    for (int i = 0; i < D / parts; i++)
        memcpy(ring + attn_unit_key(i, position), keys + kv_word(parts, D, 0, slot, i * parts) * 4,
               4);
    for (int d = 0; d < D; d++)
        memcpy(ring + n.half + attn_unit_value(parts, d, position),
               values + (kv_word(parts, D, 1, slot, d) * parts + slot % parts) * element,
               (size_t)element);
    for (int which = 0; which < 2 && n.scales > 0; which++)
        memcpy(ring + 2 * n.half + which * n.scales + at * 4,
               (which == 0 ? keys : values) + PAGE_UNITS * n.half + slot * 4, 4);
}

static void check_unit(enum dtype dtype)
{
    const struct unit_bytes n = unit_of(dtype);
    const size_t side_bytes = (size_t)kv_side_bytes(dtype, D);
    char *data = malloc(2 * side_bytes), *moved = malloc(2 * side_bytes);
    char *have = malloc((size_t)n.all), *want = malloc((size_t)n.all);
    const struct tensor kv = {
        .dtype = dtype, .n_dims = 5, .dim = {1, 2, 1, PAGE_TOKENS, D}, .data = data};

    for (size_t i = 0; i < 2 * side_bytes; i++)
        data[i] = (char)rng_bits(7, i, (uint32_t)dtype);
    for (int slot = 0; slot < PAGE_TOKENS; slot++)
        for (int position = 0; position < PAGE_TOKENS; position++) {
            const int u = position / ATTN_UNIT_KEYS;

            memcpy(moved, data, 2 * side_bytes);
            for (int which = 0; which < 2; which++)
                kv_copy_slot(&kv, which, moved + (size_t)which * side_bytes, position,
                             data + (size_t)which * side_bytes, slot);
            copy_unit(want, &kv, moved, moved + side_bytes, u);
            copy_unit(have, &kv, data, data + side_bytes, u);
            place_slot(have, &kv, data, data + side_bytes, slot, position);
            assert_memory_equal(have, want, (size_t)n.all);
        }
    free(data), free(moved), free(have), free(want);
}

static void test_unit(void **state)
{
    (void)state;
    check_unit(DTYPE_BF16);
    check_unit(DTYPE_F8);
}

UNIT_MAIN(cmocka_unit_test(test_path), cmocka_unit_test(test_unit))
