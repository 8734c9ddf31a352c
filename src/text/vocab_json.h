/* Parts of the tokenizer.json reader, for vocab_json*.c only. */
#ifndef TEXT_VOCAB_JSON_H
#define TEXT_VOCAB_JSON_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "text/vocab.h"

/* Appends the bytes that a byte-level string stands for; false if a character stands for none or
 * `out` is full. */
bool byte_level_decode(struct buf *out, const char *text, size_t n_bytes);

/* OSP_EUNSUPPORTED unless the list of merges is what ids as ranks imply: every split of every
 * token into two tokens, in the order of the token's id. Then the list can be left aside. */
CHECKED enum osp_status check_merges(const struct vocab *v, json_t *merges);

#endif
