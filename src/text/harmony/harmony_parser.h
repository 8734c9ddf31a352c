/* Tokens -> messages, streaming. Total: no sequence of tokens is an error, and no content byte is
 * lost. The rules for malformed headers are reference gpt-oss.md E.8 and E.9. */
#ifndef TEXT_HARMONY_HARMONY_PARSER_H
#define TEXT_HARMONY_HARMONY_PARSER_H

#include "text/token/detok.h"
#include "text/harmony/harmony.h"

/* How a message's content is presented to a client. */
enum harmony_part {
    PART_REASONING, /* analysis channel */
    PART_CONTENT,   /* final, commentary without recipient (a preamble), or unknown channel */
    PART_TOOL_CALL  /* content is the arguments of a call to `recipient` */
};

struct harmony_header {
    char role[128]; /* "assistant"; the tool's name for a tool's message */
    char channel[32];
    char recipient[128];   /* "functions.get_weather" as written, "" = none */
    char content_type[64]; /* "<|constrain|>json", "json", "code", "" */
    enum harmony_part part;
};

/* The function's name in a recipient, without "functions.". Points into `recipient`. */
const char *harmony_call_name(const char *recipient);
/* The same, as sent to clients, who may send it back (harmony_name_check). Necessary because a name
 * invented by the model can contain any character and have any length. */
void harmony_call_name_safe(char out[HARMONY_NAME_BYTES_MAX + 1], const char *recipient);

/* Callbacks: begin (header known), delta (whole UTF-8 characters of content, n_bytes > 0), end.
 * Every begin has its end. `terminator` is the control token that ended the message, or -1 at the
 * end of the stream. The header pointer is valid during the call. */
struct harmony_sink {
    void *ctx;
    void (*begin)(void *ctx, const struct harmony_header *header);
    void (*delta)(void *ctx, const struct harmony_header *header, const char *text, size_t n_bytes);
    void (*end)(void *ctx, const struct harmony_header *header, int32_t terminator);
};

struct harmony_parser;

/* With role_preset the parser starts as if <|start|>assistant had been read: the state in which a
 * completion begins. `t` and `sink` are borrowed until free. NULL: out of memory. All later calls
 * work without allocation. */
struct harmony_parser *harmony_parser_new(const struct tokenizer *t,
                                          const struct harmony_sink *sink, bool role_preset);
void harmony_parser_free(struct harmony_parser *r); /* accepts NULL */
/* Names of the functions offered, so that a bare "get_weather" is recognised as a call.
 * Borrowed. */
void harmony_parser_set_tools(struct harmony_parser *r, const char *const *names, size_t n);
void harmony_parser_push(struct harmony_parser *r, int32_t token);
void harmony_parser_finish(struct harmony_parser *r); /* end of stream; closes an open message */
/* True while inside the content of a message. */
bool harmony_parser_in_content(const struct harmony_parser *r);

#endif
