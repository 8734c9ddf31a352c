/* The prompts of llama-server's /completion: a text, token ids, a list of both, an object with a
 * prompt_string, or a list of such prompts. */
#ifndef SERVE_LLAMA_LLAMA_PROMPT_H
#define SERVE_LLAMA_LLAMA_PROMPT_H

#include <jansson.h>

#include "base/buf.h"
#include "base/status.h"
#include "osprey.h"

enum { LLAMA_PROMPTS_MAX = 64 /* of a request */ };

struct llama_prompts {
    struct ids *list; /* (n) owned */
    int n;
};

/* Names of control tokens in texts become control tokens, as in llama-server. Errors begin with the
 * place, "prompt[2]". After a failure the prompts must be released, too. */
CHECKED enum osp_status llama_prompts_read(struct llama_prompts *out, const struct osp_tokenizer *t,
                                           int vocab_size, const json_t *v);
void llama_prompts_release(struct llama_prompts *p); /* accepts zeroed prompts */

#endif
