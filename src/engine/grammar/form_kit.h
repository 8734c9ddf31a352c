/* What a model's answers are held to their forms with: grammars that were compiled lately, and the vocabulary as
 * token masks want it, made when it is first needed. For all threads. */
#ifndef ENGINE_GRAMMAR_FORM_KIT_H
#define ENGINE_GRAMMAR_FORM_KIT_H

#include "osprey.h"
#include "text/grammar/constraint.h"

enum {
    FORM_GRAMMARS_MAX = 512, /* that are kept: as many as a request may have functions */
    FORM_GRAMMAR_BYTES_MAX = 64 << 20,
    FORM_TEXT_BYTES_MAX = 1 << 20
};

struct form_kit;

/* Immutable once there. */
struct form_tools {
    struct token_index *index;
    struct special_ids specials;
};

struct form_kit *form_kit_new(void);
void form_kit_free(struct form_kit *kit); /* accepts NULL; waits for form_kit_warm */

/* The grammar of a form that is not OSP_FORM_NONE, to grammar_drop(). OSP_EINVAL or OSP_ELIMIT: it is none. */
CHECKED enum osp_status form_kit_grammar(struct form_kit *kit, enum osp_form form, const char *text,
                                         struct grammar **out);
/* t: borrowed for the call; NULL: the tokenizer at `path` is opened. *tools lives as long as the kit. */
CHECKED enum osp_status form_kit_prepare(struct form_kit *kit, const struct tokenizer *t,
                                         const char *path, const struct form_tools **tools);
/* Prepares in a thread of its own. `path` is copied. */
void form_kit_warm(struct form_kit *kit, const char *path);

#endif
