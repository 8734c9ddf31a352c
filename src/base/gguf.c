/* Reads the header and the keys of a GGUF file. */
#include "base/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC_BYTES = 4,
    VERSION_MIN = 2, /* version 1 had 32-bit lengths, and no gpt-oss */
    VERSION_MAX = 3,
    NAMES_BYTES_MAX = 2 * GGUF_KEYS_MAX * GGUF_KEY_BYTES_MAX /* with their padding */
};

static const char MAGIC[] = "GGUF";
static const char LFS_POINTER[] = "version https://git-lfs";

static const struct {
    size_t n_bytes;
    const char *text;
} types[N_GGUF_TYPES] = {
#define GGUF_TYPE_ROW(name, id, bytes, text) [id] = {bytes, text},
    GGUF_TYPE_LIST(GGUF_TYPE_ROW)
#undef GGUF_TYPE_ROW
};

/* ---- the cursor ---- */

enum osp_status gguf_take(struct gguf_cursor *c, const unsigned char **out, size_t n)
{
    if (n > c->n_bytes - c->at)
        return fail(OSP_EFORMAT,
                    "%s: byte %zu: %s needs %zu bytes, the file has %zu left (truncated?)", c->path,
                    c->at, c->where, n, c->n_bytes - c->at);
    *out = c->bytes + c->at;
    c->at += n;
    return OSP_OK;
}

static uint64_t load_le(const unsigned char *bytes, size_t n)
{
    uint64_t value = 0;

    while (n > 0)
        value = value << 8 | bytes[--n];
    return value;
}

enum osp_status gguf_take_u64(struct gguf_cursor *c, uint64_t *out)
{
    const unsigned char *bytes = NULL;
    enum osp_status st = gguf_take(c, &bytes, sizeof *out);

    if (st == OSP_OK)
        *out = load_le(bytes, sizeof *out);
    return st;
}

enum osp_status gguf_take_u32(struct gguf_cursor *c, uint32_t *out)
{
    const unsigned char *bytes = NULL;
    enum osp_status st = gguf_take(c, &bytes, sizeof *out);

    if (st == OSP_OK)
        *out = (uint32_t)load_le(bytes, sizeof *out);
    return st;
}

enum osp_status gguf_take_text(struct gguf_cursor *c, struct gguf_text *out, size_t bytes_max)
{
    const unsigned char *bytes = NULL;
    const size_t begin = c->at;
    uint64_t n = 0;
    enum osp_status st;

    TRY(gguf_take_u64(c, &n));
    if (n > bytes_max)
        return fail(OSP_EFORMAT, "%s: byte %zu: %s has a string of %llu bytes, limit is %zu",
                    c->path, begin, c->where, (unsigned long long)n, bytes_max);
    TRY(gguf_take(c, &bytes, (size_t)n));
    *out = (struct gguf_text){(const char *)bytes, (size_t)n};
out:
    return st;
}

/* ---- one key ---- */

static enum osp_status check_bools(const struct gguf_cursor *c, const struct gguf_key *k)
{
    for (size_t i = 0; k->type == GGUF_BOOL && i < k->n_bytes; i++)
        if (k->data[i] > 1)
            return fail(OSP_EFORMAT, "%s: %s: a boolean is %d, expected 0 or 1", c->path, c->where,
                        k->data[i]);
    return OSP_OK;
}

static enum osp_status read_items(struct gguf_cursor *c, struct gguf_key *k)
{
    const size_t begin = c->at;
    struct gguf_text text;
    enum osp_status st = OSP_OK;

    k->data = c->bytes + c->at;
    if (k->type == GGUF_STRING && !k->is_array) {
        TRY(gguf_take_text(c, &text, GGUF_STRING_BYTES_MAX));
        k->data = (const unsigned char *)text.at;
        k->n_bytes = text.n_bytes;
        return OSP_OK;
    }
    if (k->type == GGUF_STRING)
        for (uint64_t i = 0; i < k->n; i++)
            TRY(gguf_take_text(c, &text, GGUF_STRING_BYTES_MAX));
    else
        TRY(gguf_take(c, &k->data, (size_t)k->n * types[k->type].n_bytes));
    k->n_bytes = c->at - begin;
    TRY(check_bools(c, k));
out:
    return st;
}

static enum osp_status read_type(struct gguf_cursor *c, enum gguf_type *out)
{
    uint32_t id = 0;
    const size_t begin = c->at;
    enum osp_status st = gguf_take_u32(c, &id);

    if (st == OSP_OK && id >= N_GGUF_TYPES)
        return fail(OSP_EFORMAT, "%s: byte %zu: %s has type %u, expected 0 to %d", c->path, begin,
                    c->where, (unsigned)id, N_GGUF_TYPES - 1);
    *out = (enum gguf_type)id;
    return st;
}

static enum osp_status read_value(struct gguf_cursor *c, struct gguf_key *k)
{
    enum osp_status st;

    k->n = 1;
    TRY(read_type(c, &k->type));
    k->is_array = k->type == GGUF_ARRAY;
    if (k->is_array) {
        TRY(read_type(c, &k->type));
        if (k->type == GGUF_ARRAY)
            return fail(OSP_EFORMAT, "%s: %s is an array of arrays, which no gpt-oss file has",
                        c->path, c->where);
        TRY(gguf_take_u64(c, &k->n));
        if (k->n > GGUF_ITEMS_MAX)
            return fail(OSP_EFORMAT, "%s: %s has %llu items, limit is %d", c->path, c->where,
                        (unsigned long long)k->n, GGUF_ITEMS_MAX);
    }
    TRY(read_items(c, k));
out:
    return st;
}

static enum osp_status read_name(struct gguf_header *h, struct gguf_cursor *c, struct gguf_key *k)
{
    const size_t begin = c->at;
    struct gguf_text text;
    char *copy;
    enum osp_status st;

    snprintf(c->where, sizeof c->where, "the name of key %zu", h->n_keys);
    TRY(gguf_take_text(c, &text, GGUF_KEY_BYTES_MAX));
    if (text.n_bytes == 0)
        return fail(OSP_EFORMAT, "%s: byte %zu: key %zu has no name", c->path, begin, h->n_keys);
    for (size_t i = 0; i < text.n_bytes; i++)
        if ((unsigned char)text.at[i] < ' ' || text.at[i] == 0x7f)
            return fail(OSP_EFORMAT,
                        "%s: byte %zu: the name of key %zu has control character 0x%02x", c->path,
                        begin, h->n_keys, (unsigned char)text.at[i]);
    copy = arena_try(&h->names, text.n_bytes + 1);
    if (!copy)
        return arena_failure(&h->names, text.n_bytes + 1, "the names of GGUF keys");
    memcpy(copy, text.at, text.n_bytes);
    k->name = copy;
    snprintf(c->where, sizeof c->where, "key %s", copy);
out:
    return st;
}

/* ---- the header ---- */

bool gguf_is(const unsigned char *bytes, size_t n_bytes)
{
    return n_bytes >= MAGIC_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

static enum osp_status read_magic(struct gguf_cursor *c)
{
    if (gguf_is(c->bytes, c->n_bytes)) {
        c->at = MAGIC_BYTES;
        return OSP_OK;
    }
    if (c->n_bytes >= sizeof LFS_POINTER - 1 &&
        memcmp(c->bytes, LFS_POINTER, sizeof LFS_POINTER - 1) == 0)
        return fail(OSP_EFORMAT,
                    "%s: is a Git LFS pointer, not the weights: run git lfs pull in its folder, or "
                    "download the model with hf download",
                    c->path);
    if (c->n_bytes < MAGIC_BYTES)
        return fail(OSP_EFORMAT, "%s: has %zu bytes, too few for a GGUF file", c->path, c->n_bytes);
    return fail(OSP_EFORMAT,
                "%s: begins with bytes %02x %02x %02x %02x, expected \"GGUF\": not a GGUF file",
                c->path, c->bytes[0], c->bytes[1], c->bytes[2], c->bytes[3]);
}

static enum osp_status read_version(struct gguf_header *h, struct gguf_cursor *c)
{
    enum osp_status st;

    strcpy(c->where, "the version");
    TRY(gguf_take_u32(c, &h->version));
    if (h->version != 0 && (h->version & 0xffff) == 0)
        return fail(OSP_EUNSUPPORTED, "%s: is a big-endian GGUF file, expected little-endian",
                    c->path);
    if (h->version < VERSION_MIN || h->version > VERSION_MAX)
        return fail(OSP_EUNSUPPORTED, "%s: GGUF version is %u, supported are %d and %d", c->path,
                    (unsigned)h->version, VERSION_MIN, VERSION_MAX);
out:
    return st;
}

static enum osp_status read_counts(struct gguf_header *h, struct gguf_cursor *c, uint64_t *n_keys)
{
    enum osp_status st;

    strcpy(c->where, "the number of tensors");
    TRY(gguf_take_u64(c, &h->n_tensors));
    strcpy(c->where, "the number of keys");
    TRY(gguf_take_u64(c, n_keys));
    if (*n_keys > GGUF_KEYS_MAX)
        return fail(OSP_EFORMAT, "%s: has %llu keys, limit is %d", c->path,
                    (unsigned long long)*n_keys, GGUF_KEYS_MAX);
out:
    return st;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct gguf_key *)a)->name, ((const struct gguf_key *)b)->name);
}

static enum osp_status sort_keys(struct gguf_header *h)
{
    if (h->n_keys > 0)
        qsort(h->keys, h->n_keys, sizeof *h->keys, compare_keys);
    for (size_t i = 1; i < h->n_keys; i++)
        if (strcmp(h->keys[i - 1].name, h->keys[i].name) == 0)
            return fail(OSP_EFORMAT, "%s: key %s occurs twice", h->path, h->keys[i].name);
    return OSP_OK;
}

static enum osp_status read_alignment(struct gguf_header *h)
{
    const struct gguf_int_spec rule = {.key = "general.alignment",
                                       .fallback = GGUF_ALIGNMENT,
                                       .min = 1,
                                       .max = GGUF_ALIGNMENT_MAX};
    int alignment = 0;
    enum osp_status st;

    TRY(gguf_get_int(&alignment, h, &rule));
    if ((alignment & (alignment - 1)) != 0)
        return fail(OSP_EFORMAT, "%s: key general.alignment is %d, expected a power of two",
                    h->path, alignment);
    h->alignment = (size_t)alignment;
out:
    return st;
}

enum osp_status gguf_header_read(struct gguf_header *out, const char *path,
                                 const unsigned char *bytes, size_t n_bytes)
{
    struct gguf_cursor c = {.path = path, .bytes = bytes, .n_bytes = n_bytes};
    uint64_t n_keys = 0;
    enum osp_status st;

    *out = (struct gguf_header){.path = path};
    arena_init(&out->names, NAMES_BYTES_MAX);
    TRY(read_magic(&c));
    TRY(read_version(out, &c));
    TRY(read_counts(out, &c, &n_keys));
    TRY(mem_try_array(&out->keys, (size_t)n_keys, sizeof *out->keys, "the keys of a GGUF file"));
    for (; out->n_keys < n_keys; out->n_keys++) {
        TRY(read_name(out, &c, &out->keys[out->n_keys]));
        TRY(read_value(&c, &out->keys[out->n_keys]));
    }
    TRY(sort_keys(out));
    TRY(read_alignment(out));
    out->end = c.at;
out:
    if (st != OSP_OK)
        gguf_header_release(out);
    return st;
}

void gguf_header_release(struct gguf_header *h)
{
    free(h->keys);
    arena_release(&h->names);
    memset(h, 0, sizeof *h);
}

/* ---- values ---- */

static int compare_name(const void *name, const void *key)
{
    return strcmp(name, ((const struct gguf_key *)key)->name);
}

const struct gguf_key *gguf_find(const struct gguf_header *h, const char *name)
{
    if (h->n_keys == 0)
        return NULL;
    return bsearch(name, h->keys, h->n_keys, sizeof *h->keys, compare_name);
}

static enum osp_status fail_type(const struct gguf_header *h, const struct gguf_key *k,
                                 const char *expected)
{
    return fail(OSP_EFORMAT, "%s: key %s is %s%s, expected %s", h->path, k->name,
                k->is_array ? "an array, each item " : "", types[k->type].text, expected);
}

enum osp_status gguf_int_at(int64_t *out, const struct gguf_header *h, const struct gguf_key *k,
                            uint64_t i)
{
    const unsigned char *at = k->data + i * types[k->type].n_bytes;
    const uint64_t bits = load_le(at, types[k->type].n_bytes);

    switch (k->type) {
    case GGUF_I8:
        *out = (int8_t)bits;
        return OSP_OK;
    case GGUF_I16:
        *out = (int16_t)bits;
        return OSP_OK;
    case GGUF_I32:
        *out = (int32_t)bits;
        return OSP_OK;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_BOOL:
    case GGUF_I64:
        *out = (int64_t)bits;
        return OSP_OK;
    case GGUF_U64:
        *out = bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
        return OSP_OK;
    case GGUF_F32:
    case GGUF_F64:
    case GGUF_STRING:
    case GGUF_ARRAY:
    case N_GGUF_TYPES:
        break;
    }
    return fail_type(h, k, "an integer");
}

/* Some writers give a value for each layer, all the same. */
static enum osp_status check_same(const struct gguf_header *h, const struct gguf_key *k)
{
    const size_t n_bytes = types[k->type].n_bytes;

    for (uint64_t i = 1; i < k->n; i++)
        if (memcmp(k->data, k->data + i * n_bytes, n_bytes) != 0)
            return fail(OSP_EUNSUPPORTED,
                        "%s: key %s: items 0 and %llu differ, expected the same for every layer",
                        h->path, k->name, (unsigned long long)i);
    return OSP_OK;
}

enum osp_status gguf_get_int(int *out, const struct gguf_header *h,
                             const struct gguf_int_spec *rule)
{
    const struct gguf_key *k = gguf_find(h, rule->key);
    int64_t value = 0;
    enum osp_status st;

    *out = rule->fallback;
    if (!k && rule->required)
        return fail(OSP_EFORMAT, "%s: key %s is missing, expected an integer from %d to %d",
                    h->path, rule->key, rule->min, rule->max);
    if (!k)
        return OSP_OK;
    if (k->type == GGUF_BOOL || k->n == 0)
        return fail_type(h, k, "an integer");
    TRY(gguf_int_at(&value, h, k, 0));
    TRY(check_same(h, k));
    if (value < rule->min || value > rule->max)
        return fail(OSP_EFORMAT, "%s: key %s is %lld, expected %d to %d", h->path, rule->key,
                    (long long)value, rule->min, rule->max);
    *out = (int)value;
out:
    return st;
}

enum osp_status gguf_get_number(double *out, const struct gguf_header *h,
                                const struct gguf_number_spec *rule)
{
    const struct gguf_key *k = gguf_find(h, rule->key);
    enum osp_status st;
    float single;

    *out = rule->fallback;
    if (!k)
        return OSP_OK;
    if (k->n == 0 || (k->type != GGUF_F32 && k->type != GGUF_F64))
        return fail_type(h, k, "a float");
    TRY(check_same(h, k));
    if (k->type == GGUF_F32) {
        memcpy(&single, k->data, sizeof single); /* hosts of osprey are little-endian */
        *out = single;
    } else {
        memcpy(out, k->data, sizeof *out);
    }
    if (!(*out > rule->min && *out <= rule->max))
        return fail(OSP_EFORMAT, "%s: key %s is %g, expected more than %g and at most %g", h->path,
                    rule->key, *out, rule->min, rule->max);
out:
    return st;
}

enum osp_status gguf_get_bool(bool *out, const struct gguf_header *h, const char *key,
                              bool fallback)
{
    const struct gguf_key *k = gguf_find(h, key);

    *out = fallback;
    if (!k)
        return OSP_OK;
    if (k->is_array || k->type != GGUF_BOOL)
        return fail_type(h, k, "a boolean");
    *out = k->data[0] != 0;
    return OSP_OK;
}

enum osp_status gguf_get_text(struct gguf_text *out, const struct gguf_header *h, const char *key)
{
    const struct gguf_key *k = gguf_find(h, key);

    *out = (struct gguf_text){NULL, 0};
    if (!k)
        return OSP_OK;
    if (k->is_array || k->type != GGUF_STRING)
        return fail_type(h, k, "a string");
    *out = (struct gguf_text){(const char *)k->data, k->n_bytes};
    return OSP_OK;
}

bool gguf_text_is(const struct gguf_text *t, const char *text)
{
    return t->at && t->n_bytes == strlen(text) && memcmp(t->at, text, t->n_bytes) == 0;
}

enum osp_status gguf_get_texts(const struct gguf_key **out, const struct gguf_header *h,
                               const char *key)
{
    *out = gguf_find(h, key);
    if (!*out)
        return fail(OSP_EFORMAT, "%s: key %s is missing, expected an array of strings", h->path,
                    key);
    if (!(*out)->is_array || (*out)->type != GGUF_STRING)
        return fail_type(h, *out, "an array of strings");
    return OSP_OK;
}

struct gguf_text gguf_next(const unsigned char **at)
{
    const size_t n_bytes = (size_t)load_le(*at, sizeof(uint64_t));
    const struct gguf_text text = {(const char *)*at + sizeof(uint64_t), n_bytes};

    *at += sizeof(uint64_t) + n_bytes;
    return text;
}
