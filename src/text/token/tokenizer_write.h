/* Writes a vocabulary as the tokenizer.json that vocab_json.c and Hugging Face's tokenizers
 * read. */
#ifndef TEXT_TOKEN_TOKENIZER_WRITE_H
#define TEXT_TOKEN_TOKENIZER_WRITE_H

#include "text/token/tokenizer.h"

/* Appends the text. OSP_ELIMIT or OSP_ENOMEM if it does not fit. */
CHECKED enum osp_status tokenizer_write_json(const struct tokenizer *t, struct buf *out);

#endif
