/* Checks the merges of a vocabulary's file, which define the order in which pairs are merged.
 * osprey merges the pair whose token has the lowest id, as the reference does; the list must
 * imply the same order: every split of every token into two tokens, in the order of the token's
 * id. The list is then not needed for encoding. */
#ifndef TEXT_TOKEN_VOCAB_MERGES_H
#define TEXT_TOKEN_VOCAB_MERGES_H

#include <stdbool.h>

#include "text/token/vocab.h"

enum { MERGES_MAX = 1 << 22 }; /* gpt-oss's list has 446,189 */

struct merges {
    const struct vocab *v;
    const char *list; /* the name of the list, for messages */
    size_t n;         /* pairs so far */
    int32_t id;       /* the current token; -1: none yet */
    size_t n_splits;  /* of the current and all earlier tokens */
    /* Of the current token, by the number of bytes of its first half */
    bool is_split[VOCAB_TOKEN_BYTES_MAX];
    bool is_seen[VOCAB_TOKEN_BYTES_MAX]; /* found in the list */
};

/* `v` is indexed, and outlives the check. */
void merges_begin(struct merges *m, const struct vocab *v, const char *list);
/* The next pair: the bytes of both halves, one after the other. n_left < 1: the pair is not one of
 * byte-level texts. OSP_EFORMAT or OSP_EUNSUPPORTED names the pair. */
CHECKED enum osp_status merges_add(struct merges *m, const char *bytes, int n_left, int n_right);
CHECKED enum osp_status merges_end(struct merges *m);

#endif
