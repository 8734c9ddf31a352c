/* Byte-pair merges of one piece of text (pretokenize.h). A token's id is its rank. The adjacent
 * pair whose concatenation has the lowest rank is merged first, the leftmost among equals. */
#ifndef TEXT_TOKEN_BPE_H
#define TEXT_TOKEN_BPE_H

#include "base/buf.h"
#include "text/token/vocab.h"

enum { BPE_PIECE_BYTES_MAX = 1 << 26 }; /* merging takes 32 bytes of memory per byte: 2 GiB */

/* Appends the ids of a piece of 1..BPE_PIECE_BYTES_MAX bytes; O(n log n) for long pieces.
 * OSP_ELIMIT when `out` reaches its limit. */
CHECKED enum osp_status bpe_encode(const struct vocab *v, const char *piece, size_t n_bytes,
                                   struct ids *out);

#endif
