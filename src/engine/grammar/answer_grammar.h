/* Constrained decoding of one request's answer: the token mask before each sample, updated by each
 * sampled token. Where the prompt ends as an assistant's message begins (<|start|>assistant), the
 * answer is messages of Harmony with the headers of answer_header.h: reasoning is free, the final
 * message follows the grammar if there is one, calls go to functions that may be called, and their
 * arguments follow those functions' grammars. Only a complete final message or a complete call ends
 * the answer. After any other prompt the whole answer follows the grammar. Owned by the request;
 * used by the thread that owns its sequence. */
#ifndef ENGINE_GRAMMAR_ANSWER_GRAMMAR_H
#define ENGINE_GRAMMAR_ANSWER_GRAMMAR_H

#include "engine/grammar/call_rules.h"

/* After so many messages reasoning and preambles are not allowed, and a call ends the answer. */
enum { ANSWER_MESSAGES_MAX = 32 };

struct answer_grammar;

struct answer_grammar_config {
    const struct grammar_vocab *tools; /* borrowed */
    struct grammar *grammar;           /* shared; NULL: the final message is free */
    struct call_rules
        *calls; /* owned from the call on, also when it fails; NULL: there are no functions */
    const int32_t *prompt; /* (n_prompt) */
    int n_prompt;
    const int *stop_ids; /* (n_stop_ids) that end an answer of the engine */
    int n_stop_ids;
    uint32_t *
        mask; /* (n_mask_words), borrowed, the sequence's; its present bits limit all later masks */
    int n_mask_words;
};

/* Fills the mask for the first sample. */
CHECKED enum osp_status answer_grammar_new(struct answer_grammar **out,
                                           const struct answer_grammar_config *config);
void answer_grammar_free(struct answer_grammar *f); /* accepts NULL */
/* Number of the answer's tokens that were accepted. */
int answer_grammar_n_tokens(const struct answer_grammar *f);
/* Accepts the answer's next token. The mask for the next sample can be made from now on. */
void answer_grammar_accept(struct answer_grammar *f, int32_t token);

/* Of the n next tokens, those in front that leave the mask of the next sample as it is: text of a
 * message without a grammar. The mask must be filled. Such tokens and one that follows them may be
 * accepted together, before the next mask is made. */
int answer_grammar_n_free(const struct answer_grammar *f, const int32_t *tokens, int n);

/* Whether one of the next tokens can leave the mask as it is. */
bool answer_grammar_is_free(const struct answer_grammar *f);

enum mask_effort {
    MASK_QUICK, /* at most MASK_QUICK_STEPS; fails at once where more are known to be needed */
    MASK_WHOLE  /* as long as it takes: at most CONSTRAINT_STEPS_MAX and some ms more */
};
/* For an engine whose other requests wait meanwhile: 0.2 to 0.4 ms. A usual mask within a string
 * takes 10,000 to 30,000. */
enum { MASK_QUICK_STEPS = 1 << 16, MASK_QUICK_READINGS = 32 };

/* Fills the mask for the next sample; *made false: that takes more steps. OSP_ELIMIT: the grammar
 * is too ambiguous for this answer. */
CHECKED enum osp_status answer_grammar_fill_mask(struct answer_grammar *f, enum mask_effort effort,
                                                 bool *made);
/* Accepts a token and fills the mask, as long as it takes. */
CHECKED enum osp_status answer_grammar_advance(struct answer_grammar *f, int32_t token);

#endif
