/* The grammars of a model that were compiled last, and the vocabulary prepared for token masks,
 * which is made when it is first needed. For all threads. */
#ifndef ENGINE_GRAMMAR_GRAMMAR_CACHE_H
#define ENGINE_GRAMMAR_GRAMMAR_CACHE_H

#include "osprey.h"
#include "text/grammar/constraint.h"

enum {
    CACHED_GRAMMARS_MAX = 512, /* kept at most: as many as a request may have functions */
    CACHED_GRAMMAR_BYTES_MAX = 64 << 20,
    GRAMMAR_TEXT_BYTES_MAX = 1 << 20
};

/* A kind of grammar beside those of requests: the arguments of a forced call of a function that is
 * not strict (grammar_from_loose_schema). */
enum { FORM_LOOSE_SCHEMA = OSP_FORM_CHOICE + 1 };

struct grammar_cache;

/* Immutable once made. */
struct grammar_vocab {
    struct token_index *index;
    struct special_ids specials;
};

struct grammar_cache *grammar_cache_new(void);
void grammar_cache_free(
    struct grammar_cache *cache); /* accepts NULL; waits for grammar_cache_warm */

/* The compiled grammar of a form that is not OSP_FORM_NONE, to grammar_unref(). OSP_EINVAL or
 * OSP_ELIMIT: the text is not a valid grammar. */
CHECKED enum osp_status grammar_cache_get(struct grammar_cache *cache, enum osp_form form,
                                          const char *text, struct grammar **out);
/* t: borrowed for the call; NULL: the tokenizer at `path` is opened. *tools lives as long as the
 * cache. */
CHECKED enum osp_status grammar_cache_prepare(struct grammar_cache *cache,
                                              const struct tokenizer *t, const char *path,
                                              const struct grammar_vocab **vocab);
/* Prepares in a thread of its own. `path` is copied. */
void grammar_cache_warm(struct grammar_cache *cache, const char *path);

#endif
