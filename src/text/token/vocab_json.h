/* Shared parts of the tokenizer.json reader, for vocab_json*.c only. */
#ifndef TEXT_TOKEN_VOCAB_JSON_H
#define TEXT_TOKEN_VOCAB_JSON_H

#include "text/token/json_scan.h"
#include "text/token/vocab.h"

/* The two lists that are read in place: their spans in the text, including brackets. */
struct vocab_lists {
    const char *text;               /* the whole file, for the positions in messages */
    struct json_span vocab, merges; /* n_bytes 0: absent, or of another type */
    const char *error_at;           /* the position where the text is not JSON */
};

/* Finds the lists. False, with the position, if the text scanned so far is not JSON. */
bool vocab_lists_find(struct vocab_lists *out, const char *text, size_t n_bytes);

/* Writes the bytes of a string in byte-level form, with JSON escapes, and returns their number. -1
 * if a character does not stand for a byte or there are more than VOCAB_TOKEN_BYTES_MAX. */
int vocab_json_decode(char out[VOCAB_TOKEN_BYTES_MAX], struct json_span string);

CHECKED enum osp_status vocab_list_count(const struct vocab_lists *lists, size_t *n_tokens);
/* Defines the ordinary tokens of a vocabulary whose capacity is at least the bytes of the list. */
CHECKED enum osp_status vocab_list_define(struct vocab *v, const struct vocab_lists *lists);

/* A failure with the position in the file. */
enum osp_status vocab_list_error(const struct vocab_lists *lists, const struct json_scan *s,
                                 const char *expected);

/* OSP_EUNSUPPORTED unless the list of merges is implied by ids as ranks: every split of every token
 * into two tokens, in the order of the token's id. The list is then not needed for encoding. */
CHECKED enum osp_status check_merges(const struct vocab *v, const struct vocab_lists *lists);

#endif
