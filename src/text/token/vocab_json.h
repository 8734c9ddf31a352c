/* Parts of the tokenizer.json reader, for vocab_json*.c only. */
#ifndef TEXT_TOKEN_VOCAB_JSON_H
#define TEXT_TOKEN_VOCAB_JSON_H

#include "text/token/json_scan.h"
#include "text/token/vocab.h"

/* The two lists that are read in place: their spans in the text, brackets included. */
struct vocab_lists {
    const char *text;               /* of the whole file, for the places in messages */
    struct json_span vocab, merges; /* n_bytes 0: is not there, or of another kind */
    const char *error_at;           /* where the text is not JSON */
};

/* Finds them. False, with the place, when the text is not JSON as far as looked at. */
bool vocab_lists_find(struct vocab_lists *out, const char *text, size_t n_bytes);

/* Writes the bytes that a byte-level string, escapes and all, stands for and gives their number;
 * -1 if a character stands for none or there are more than VOCAB_TOKEN_BYTES_MAX. */
int byte_level_decode(char out[VOCAB_TOKEN_BYTES_MAX], struct json_span string);

CHECKED enum osp_status vocab_list_count(const struct vocab_lists *lists, size_t *n_tokens);
/* Defines the ordinary tokens of a vocabulary with room for as many bytes as the list has. */
CHECKED enum osp_status vocab_list_define(struct vocab *v, const struct vocab_lists *lists);

/* A message with the place in the file. */
enum osp_status vocab_list_error(const struct vocab_lists *lists, const struct json_scan *s,
                                 const char *expected);

/* OSP_EUNSUPPORTED unless the list of merges is what ids as ranks imply: every split of every
 * token into two tokens, in the order of the token's id. Then the list can be left aside. */
CHECKED enum osp_status check_merges(const struct vocab *v, const struct vocab_lists *lists);

#endif
