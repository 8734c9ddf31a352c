/* Bytes <-> tokens: vocabulary, pre-tokenisation and byte-pair merges of o200k_harmony, read
 * from a tokenizer.json, a .tiktoken or a GGUF file. Immutable after opening, so that threads
 * may share it. */
#ifndef TEXT_TOKEN_TOKENIZER_H
#define TEXT_TOKEN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

struct tokenizer;
struct vocab;

/* Control tokens that Harmony requires. X(member, text) */
#define SPECIAL_LIST(X)                                                                            \
    X(start, "<|start|>")                                                                          \
    X(end, "<|end|>")                                                                              \
    X(message, "<|message|>")                                                                      \
    X(channel, "<|channel|>")                                                                      \
    X(constrain, "<|constrain|>")                                                                  \
    X(ret, "<|return|>")                                                                           \
    X(call, "<|call|>")                                                                            \
    X(endoftext, "<|endoftext|>")                                                                  \
    X(startoftext, "<|startoftext|>")

struct special_ids {
#define SPECIAL_MEMBER(member, text) int32_t member;
    SPECIAL_LIST(SPECIAL_MEMBER)
#undef SPECIAL_MEMBER
};

/* Opens a tokenizer.json, a .tiktoken file (o200k_harmony's specials are then added with their
 * published ids), a GGUF file, or a folder that contains one of them. */
CHECKED enum osp_status tokenizer_open(struct tokenizer **out, const char *path);
void tokenizer_close(struct tokenizer *t); /* accepts NULL */

/* The vocabulary, for tokenizer_write.c. */
const struct vocab *tokenizer_vocab(const struct tokenizer *t);

/* Ids are 0..size-1; some ids above the ordinary ones may be undefined. */
int32_t tokenizer_size(const struct tokenizer *t);
const struct special_ids *tokenizer_specials(const struct tokenizer *t);
/* Id of the special token with this text, or -1. */
int32_t tokenizer_special(const struct tokenizer *t, const char *text, size_t n_bytes);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

/* Appends the ids of text, always as ordinary text: "<|start|>" in it never becomes a control
 * token. Invalid UTF-8 is encoded as U+FFFD, one for each maximal ill-formed subpart. Linear time.
 * OSP_ELIMIT when `out` reaches its limit. */
CHECKED enum osp_status tokenizer_encode(const struct tokenizer *t, const char *text,
                                         size_t n_bytes, struct ids *out);
/* The same, but the texts of special tokens are encoded as those tokens. For trusted text only. */
CHECKED enum osp_status tokenizer_encode_with_specials(const struct tokenizer *t, const char *text,
                                                       size_t n_bytes, struct ids *out);

/* The bytes of one token. Special tokens return their text; undefined ids return "<|reserved_N|>",
 * written to `scratch`. OSP_EINVAL for an id outside of 0..size-1. */
CHECKED enum osp_status tokenizer_bytes(const struct tokenizer *t, int32_t id, char scratch[32],
                                        const char **bytes, size_t *n_bytes);
/* Appends the raw bytes of all ids. */
CHECKED enum osp_status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                         struct buf *out);
#endif
