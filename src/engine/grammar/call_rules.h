/* How an answer may call functions: which functions, whether it must call one, and the grammars of
 * their arguments. A chat and a request's options become a text, which is sent to a worker as it
 * is, and the text becomes the rules. */
#ifndef ENGINE_GRAMMAR_CALL_RULES_H
#define ENGINE_GRAMMAR_CALL_RULES_H

#include "base/buf.h"
#include "engine/chat/chat.h"
#include "engine/grammar/grammar_cache.h"

enum {
    CALLS_TEXT_BYTES_MAX = 4 << 20,       /* schemas of a request's functions, together */
    CALLS_IGNORED_BYTES_MAX = 400,        /* of the list of what they ignore, which is cut there */
    CALLS_WORK_MAX = 4 * COMPILE_WORK_MAX /* of compiling them; counted as if none were cached */
};

struct call_rule {
    char *name;
    struct grammar *arguments;
};

struct call_rules {
    struct call_rule *functions; /* (n_functions) that may be called */
    size_t n_functions;
    bool must_call; /* no final message before the first call */
    bool one_call;  /* a call ends the answer */
    struct buf
        ignored; /* what the grammars leave out of schemas that are not strict, "" if nothing */
};

/* Returns the text, to free(), or NULL when nothing is constrained: any function may be called or
 * none, no function is strict, and there is no other grammar. OSP_EINVAL: the options contradict
 * the chat. */
CHECKED enum osp_status calls_text(char **out, const struct osp_chat *chat,
                                   const struct osp_request_options *opt);
/* OSP_EINVAL or OSP_ELIMIT that name the function: its schema is not supported. */
CHECKED enum osp_status call_rules_open(struct call_rules **out, struct grammar_cache *grammars,
                                        const char *text);
void call_rules_free(struct call_rules *r); /* accepts NULL */

#endif
