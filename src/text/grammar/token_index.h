/* The vocabulary in the form that token masks need: a trie of the tokens' bytes, with ordinary text
 * separated from control tokens. Built once for a tokenizer, then immutable, so that threads may
 * share it.
 *
 * "Plain" tokens consist of whole characters that a JSON string contains literally; 97 % of o200k
 * are plain. The others, with quotes, backslashes, control characters or partial characters, are
 * "hard". */
#ifndef TEXT_GRAMMAR_TOKEN_INDEX_H
#define TEXT_GRAMMAR_TOKEN_INDEX_H

#include "text/token/alphabet.h"
#include "text/token/tokenizer.h"

enum {
    INDEXED_BYTES_MAX = 255, /* longer tokens are never allowed; o200k's longest has 128 bytes */
    N_LENGTHS = 4,           /* groups of plain tokens: of at most 8, 16, 32 bytes, and longer */
    PLAIN_CHARS_MASKS = 32   /* masks of plain tokens of at most 0, 1, ... 31 characters */
};

/* In preorder: parents before children. The children of node i begin at i + 1; the next sibling of
 * node c is at nodes[c].end. Node 0 is the root. */
struct trie_node {
    int32_t token; /* the token that ends here, or -1 */
    uint32_t end;  /* the index after its subtree */
    uint8_t byte, depth;
};

struct trie {
    struct trie_node *nodes;
    uint32_t n_nodes;
    uint32_t children[256]; /* of the root, by byte; 0: no child */
};

struct token_index {
    /* Ids are below n_tokens; control tokens, including stop tokens, are in no trie */
    int32_t n_tokens;
    size_t n_words; /* 32-bit words of a mask */
    struct trie all, hard;
    /* By the smallest alphabet that contains the token */
    struct trie plain[N_ALPHABETS][N_LENGTHS];
    int plain_bytes_max[N_ALPHABETS][N_LENGTHS]; /* longest token of the group; ascending */
    uint32_t *plain_masks; /* (N_ALPHABETS, N_LENGTHS, n_words): the group and all shorter ones */
    uint32_t *ordinary;    /* (n_words): all tokens but control tokens */
    uint32_t *all_plain;   /* (n_words) */
    uint32_t *plain_of_chars; /* (PLAIN_CHARS_MASKS, n_words): at most that many characters */
    int32_t *long_plain;      /* plain tokens with more characters, longest first */
    uint8_t *long_chars;      /* their characters */
    int n_long_plain;
    char *bytes;       /* of all tokens */
    uint32_t *offsets; /* (n_tokens + 1) */
};

CHECKED enum osp_status token_index_new(struct token_index **out, const struct tokenizer *t);
void token_index_free(struct token_index *x); /* accepts NULL */

static inline const char *token_index_bytes(const struct token_index *x, int32_t token,
                                            size_t *n_bytes)
{
    *n_bytes = x->offsets[token + 1] - x->offsets[token];
    return x->bytes + x->offsets[token];
}

static inline void mask_set(uint32_t *bits, int32_t token)
{
    bits[token >> 5] |= UINT32_C(1) << (token & 31);
}

static inline bool mask_has(const uint32_t *bits, int32_t token)
{
    return bits[token >> 5] >> (token & 31) & 1;
}

#endif
