/* The headers that the messages of an answer may have, in the orders in which gpt-oss writes
 * them. After <|start|>:
 *
 *     assistant  [ to=functions.F]  <|channel|>
 *
 * after <|channel|>, without a recipient:
 *
 *     analysis <|message|>            final <|message|>             commentary <|message|>
 *     commentary to=functions.F  [ json] <|message|>  or a space and <|constrain|>
 *
 * and with one:
 *
 *     commentary  [ json] <|message|>  or a space and <|constrain|>
 *
 * After <|constrain|> comes json <|message|>. Immutable once made. */
#ifndef ENGINE_GRAMMAR_ANSWER_HEADER_H
#define ENGINE_GRAMMAR_ANSWER_HEADER_H

#include "engine/grammar/call_rules.h"
#include "text/grammar/choice_set.h"

/* Kinds of messages, as bits. */
enum {
    MESSAGE_REASONING = 1 << 0,
    MESSAGE_FINAL = 1 << 1,
    MESSAGE_PREAMBLE = 1 << 2,
    MESSAGE_CALL = 1 << 3,
    MESSAGE_ANY = 1 << 4 /* its channel will decide */
};

/* The meaning of a phrase is the index of the function in its rules, or NO_FUNCTION. */
enum { NO_FUNCTION = -1 };

struct answer_headers {
    struct choice_set roles, channels, called_channels, types;
};

/* rules: NULL: there are no functions. */
CHECKED enum osp_status answer_headers_init(struct answer_headers *h, const struct special_ids *s,
                                            const struct call_rules *rules);
void answer_headers_release(struct answer_headers *h); /* accepts a zeroed one */

#endif
