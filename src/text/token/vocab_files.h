/* Readers of the file formats of a vocabulary. Each fills a zeroed vocabulary and zeroed
 * specials, which the caller releases in any case. The vocabulary is then indexed; the specials are
 * not sorted yet. Messages contain the position in the file but not its path. */
#ifndef TEXT_TOKEN_VOCAB_FILES_H
#define TEXT_TOKEN_VOCAB_FILES_H

#include "text/token/specials.h"
#include "text/token/vocab.h"

/* The published vocabulary of gpt-oss, o200k_harmony. */
enum {
    O200K_N_ORDINARY = 199998,
    O200K_SIZE = 201088,       /* more than any file defines: the rest is reserved */
    O200K_ENDOFPROMPT = 200018 /* the only id with two names */
};

/* tokenizer.json of Hugging Face: byte-level BPE with o200k's pre-tokenisation and ids as ranks. */
CHECKED enum osp_status vocab_read_json(struct vocab *v, struct specials *s, const char *data,
                                        size_t n_bytes);
/* o200k_base.tiktoken: lines of base64 and rank, without the control tokens, which are added. */
CHECKED enum osp_status vocab_read_tiktoken(struct vocab *v, struct specials *s, const char *data,
                                            size_t n_bytes);
/* The keys tokenizer.ggml.* of a GGUF file, of which the tensors are not read. Messages about the
 * container itself do contain the path. OSP_ENOTFOUND: the file has no vocabulary. */
CHECKED enum osp_status vocab_read_gguf(struct vocab *v, struct specials *s, const char *path,
                                        const char *data, size_t n_bytes);
#endif
