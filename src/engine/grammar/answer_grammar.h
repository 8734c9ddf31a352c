/* Holds one request's answer to a form: before each draw it says which tokens may come, and it
 * hears which one came. Where the prompt ends as an assistant's message begins
 * (<|start|>assistant), the answer is messages of Harmony with the headers of answer_header.h:
 * reasoning is free, the final message is held to the form if there is one, calls go to
 * functions that may be called and their arguments are held to those functions' grammars; only a
 * complete final message or a complete call ends the answer. Behind any other prompt all of the
 * answer is held to the form. Owned by the request; used by the thread that owns its sequence. */
#ifndef ENGINE_GRAMMAR_ANSWER_GRAMMAR_H
#define ENGINE_GRAMMAR_ANSWER_GRAMMAR_H

#include "engine/grammar/call_rules.h"

/* Then reasoning and preambles are over, and a call ends the answer. */
enum { ANSWER_MESSAGES_MAX = 32 };

struct answer_grammar;

struct answer_grammar_config {
    const struct grammar_vocab *tools; /* borrowed */
    struct grammar *grammar;           /* shared; NULL: the final message is free */
    struct call_rules *calls;          /* taken, also when it fails; NULL: there are no functions */
    const int32_t *prompt;             /* (n_prompt) */
    int n_prompt;
    const int *stop_ids; /* (n_stop_ids) that end an answer of the engine */
    int n_stop_ids;
    uint32_t *
        mask; /* (n_mask_words), borrowed: of the sequence; as it is now, it limits all that follow */
    int n_mask_words;
};

/* Fills the mask for the first draw. */
CHECKED enum osp_status answer_grammar_new(struct answer_grammar **out,
                                           const struct answer_grammar_config *config);
void answer_grammar_free(struct answer_grammar *f); /* accepts NULL */
/* How many tokens of the answer it has heard. */
int answer_grammar_n_tokens(const struct answer_grammar *f);
/* Takes the answer's next token. Its mask, that for the next draw, is to be made now. */
void answer_grammar_accept(struct answer_grammar *f, int32_t token);

enum mask_effort {
    MASK_QUICK, /* not more than MASK_QUICK_STEPS; nothing where that is known not to do */
    MASK_WHOLE  /* as long as it takes: at most CONSTRAINT_STEPS_MAX and some ms more */
};
/* Of an engine whose others wait meanwhile: 0.2 to 0.4 ms. A usual mask within a string takes
 * 10,000 to 30,000. */
enum { MASK_QUICK_STEPS = 1 << 16, MASK_QUICK_READINGS = 32 };

/* Fills the mask for the next draw; *made false: that takes more. OSP_ELIMIT: the form is too
 * ambiguous for this answer. */
CHECKED enum osp_status answer_grammar_fill_mask(struct answer_grammar *f, enum mask_effort effort,
                                                 bool *made);
/* Both of it, as long as it takes. */
CHECKED enum osp_status answer_grammar_advance(struct answer_grammar *f, int32_t token);

#endif
