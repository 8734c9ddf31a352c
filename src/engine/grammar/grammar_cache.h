/* What a model's answers are held to their forms with: grammars that were compiled lately, and
 * the vocabulary as token masks want it, made when it is first needed. For all threads. */
#ifndef ENGINE_GRAMMAR_GRAMMAR_CACHE_H
#define ENGINE_GRAMMAR_GRAMMAR_CACHE_H

#include "osprey.h"
#include "text/grammar/constraint.h"

enum {
    CACHED_GRAMMARS_MAX = 512, /* that are kept: as many as a request may have functions */
    CACHED_GRAMMAR_BYTES_MAX = 64 << 20,
    GRAMMAR_TEXT_BYTES_MAX = 1 << 20
};

struct grammar_cache;

/* Immutable once there. */
struct grammar_vocab {
    struct token_index *index;
    struct special_ids specials;
};

struct grammar_cache *grammar_cache_new(void);
void grammar_cache_free(
    struct grammar_cache *cache); /* accepts NULL; waits for grammar_cache_warm */

/* The grammar of a form that is not OSP_FORM_NONE, to grammar_unref(). OSP_EINVAL or OSP_ELIMIT:
 * it is none. */
CHECKED enum osp_status grammar_cache_get(struct grammar_cache *cache, enum osp_form form,
                                          const char *text, struct grammar **out);
/* t: borrowed for the call; NULL: the tokenizer at `path` is opened. *tools lives as long as the
 * kit. */
CHECKED enum osp_status grammar_cache_prepare(struct grammar_cache *cache,
                                              const struct tokenizer *t, const char *path,
                                              const struct grammar_vocab **vocab);
/* Prepares in a thread of its own. `path` is copied. */
void grammar_cache_warm(struct grammar_cache *cache, const char *path);

#endif
