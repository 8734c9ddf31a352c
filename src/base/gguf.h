/* The container format GGUF (llama.cpp, Ollama): a header, keys with values, a directory of
 * tensors, data. Here are the header and the keys, which describe the model and hold its
 * vocabulary; the directory belongs to store/gguf_file.h. Nothing is copied but the names of
 * keys: values point into the file's bytes. Every length is compared with the file before it is
 * used.
 *
 * All numbers are little-endian. Versions 2 and 3 have this form. */
#ifndef BASE_GGUF_H
#define BASE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"

enum {
    GGUF_KEYS_MAX = 4096,            /* gpt-oss has 37 */
    GGUF_KEY_BYTES_MAX = 256,        /* the longest that is known has 60 */
    GGUF_STRING_BYTES_MAX = 1 << 26, /* some files hold a whole tokenizer.json, of 28 MB */
    GGUF_ITEMS_MAX = 1 << 24,        /* of an array; gpt-oss has 446,189 merges */
    GGUF_ALIGNMENT = 32,             /* of tensors, unless general.alignment says otherwise */
    GGUF_ALIGNMENT_MAX = 1 << 20
};

/* X(name, id in the file, bytes; 0: of variable length, text) */
#define GGUF_TYPE_LIST(X)                                                                          \
    X(U8, 0, 1, "an 8-bit integer")                                                                \
    X(I8, 1, 1, "an 8-bit integer")                                                                \
    X(U16, 2, 2, "a 16-bit integer")                                                               \
    X(I16, 3, 2, "a 16-bit integer")                                                               \
    X(U32, 4, 4, "a 32-bit integer")                                                               \
    X(I32, 5, 4, "a 32-bit integer")                                                               \
    X(F32, 6, 4, "a 32-bit float")                                                                 \
    X(BOOL, 7, 1, "a boolean")                                                                     \
    X(STRING, 8, 0, "a string")                                                                    \
    X(ARRAY, 9, 0, "an array")                                                                     \
    X(U64, 10, 8, "a 64-bit integer")                                                              \
    X(I64, 11, 8, "a 64-bit integer")                                                              \
    X(F64, 12, 8, "a 64-bit float")

enum gguf_type {
#define GGUF_TYPE_ENUM(name, id, bytes, text) GGUF_##name = (id),
    GGUF_TYPE_LIST(GGUF_TYPE_ENUM) N_GGUF_TYPES
#undef GGUF_TYPE_ENUM
};

struct gguf_key {
    const char *name;    /* owned by the header */
    enum gguf_type type; /* never GGUF_ARRAY: an array has n items of this type */
    bool is_array;
    uint64_t n;                /* 1 unless an array */
    const unsigned char *data; /* of a string: its text; of an array of strings: see gguf_next() */
    size_t n_bytes;
};

struct gguf_header {
    const char *path; /* for messages; borrowed */
    uint32_t version;
    struct gguf_key *keys; /* sorted by name */
    size_t n_keys;
    uint64_t n_tensors;
    size_t end; /* the first byte after the keys: of the directory of tensors */
    size_t alignment;
    struct arena names;
};

/* Whether a file begins like a GGUF file. */
bool gguf_is(const unsigned char *bytes, size_t n_bytes);

/* Reads and checks header and keys. OSP_EFORMAT names the file, the position and the key. Values
 * point into `bytes`, which the caller keeps. */
CHECKED enum osp_status gguf_header_read(struct gguf_header *out, const char *path,
                                         const unsigned char *bytes, size_t n_bytes);
void gguf_header_release(struct gguf_header *h); /* accepts a zeroed one */
const struct gguf_key *gguf_find(const struct gguf_header *h, const char *name); /* or NULL */

/* A number: its range, and its default when the key is absent. */
struct gguf_int_spec {
    const char *key;
    bool required;
    int fallback, min, max;
};
struct gguf_number_spec {
    const char *key;
    double fallback, min, max; /* allowed: min < value <= max */
};
/* An array counts as a number if all its items are the same. */
CHECKED enum osp_status gguf_get_int(int *out, const struct gguf_header *h,
                                     const struct gguf_int_spec *rule);
CHECKED enum osp_status gguf_get_number(double *out, const struct gguf_header *h,
                                        const struct gguf_number_spec *rule);
CHECKED enum osp_status gguf_get_bool(bool *out, const struct gguf_header *h, const char *key,
                                      bool fallback);
/* Item i of an array of integers or booleans, or the number itself. */
CHECKED enum osp_status gguf_int_at(int64_t *out, const struct gguf_header *h,
                                    const struct gguf_key *k, uint64_t i);

struct gguf_text {
    const char *at; /* not terminated; may contain any byte */
    size_t n_bytes;
};
/* n_bytes 0 and `at` NULL when the key is absent. */
CHECKED enum osp_status gguf_get_text(struct gguf_text *out, const struct gguf_header *h,
                                      const char *key);
bool gguf_text_is(const struct gguf_text *t, const char *text);

/* The array of strings of this key; OSP_EFORMAT if it is absent or something else. */
CHECKED enum osp_status gguf_get_texts(const struct gguf_key **out, const struct gguf_header *h,
                                       const char *key);
/* Walks an array of strings: *at begins as k->data and moves on. Call it k->n times. */
struct gguf_text gguf_next(const unsigned char **at);

/* ---- for readers of the directory ---- */

/* A position in the file's bytes; `where` describes it in messages. */
struct gguf_cursor {
    const char *path;
    const unsigned char *bytes;
    size_t n_bytes, at;
    char where[GGUF_KEY_BYTES_MAX + 64];
};
/* The next n bytes; OSP_EFORMAT if the file has fewer. */
CHECKED enum osp_status gguf_take(struct gguf_cursor *c, const unsigned char **out, size_t n);
CHECKED enum osp_status gguf_take_u32(struct gguf_cursor *c, uint32_t *out);
CHECKED enum osp_status gguf_take_u64(struct gguf_cursor *c, uint64_t *out);
/* A string of at most bytes_max. */
CHECKED enum osp_status gguf_take_text(struct gguf_cursor *c, struct gguf_text *out,
                                       size_t bytes_max);

#endif
