/* The JSON of a text completion, whole or in chunks, written from the engine's events. Logprobs
 * are four parallel lists, as in OpenAI's completions API. */
#ifndef SERVE_REPLY_TEXT_REPLY_H
#define SERVE_REPLY_TEXT_REPLY_H

#include "serve/reply/reply.h"

/* Each is the content of a JSON list. */
struct text_logprobs {
    struct buf tokens, logprobs, tops, offsets;
};

struct text_reply {
    int index;
    bool streams;
    /* Optional parts of the answer; set after text_reply_init(), borrowed. */
    const struct osp_tokenizer *tokenizer; /* for logprobs; NULL: no logprobs */
    bool return_ids;
    const int32_t *prompt; /* (n_prompt) with return_ids */
    size_t n_prompt;
    struct reply_extras extras;
    const struct osp_request_options *options; /* of the request; NULL: defaults */
    const struct osp_request *request;
    const struct osp_tokenizer *tokens; /* used with n_prompt_logprobs */
    bool has_prompt_logprob; /* with echo: the prompt's logprobs precede those of the answer */
    int n_prompt_logprobs;   /* prompt_logprobs: alternatives at each position; -1: not requested */

    /* of a whole answer; set after text_reply_init(); borrowed; NULL: no limit */
    struct answer_budget *budget;
    bool began; /* the first chunk was written */
    /* of a whole answer, or of a stream with logprobs; with echo it begins with the prompt */
    struct buf text;
    size_t n_echo_bytes; /* of the prompt's text */
    size_t n_sent_bytes; /* text already sent by a stream */
    struct text_logprobs logprobs_json;
    size_t n_counted_bytes, n_counted_chars; /* the part of the text whose characters are counted */
    bool prompt_logprobs_done;               /* the prompt's logprobs are, or were, in `logprobs` */
    struct buf ids;
    enum osp_finish finish; /* of a whole answer; valid after DONE */
    struct stop_reason stop;
};

void text_reply_init(struct text_reply *r, int index);
void text_reply_release(struct text_reply *r); /* accepts a zeroed reply */

/* Puts the prompt's text before the answer's. */
void text_reply_echo(struct text_reply *r, const char *text, size_t n_bytes);
/* Keeps an event, as reply_append() does. */
CHECKED bool text_reply_append(struct text_reply *r, const struct osp_event *event);
/* Writes a chunk of everything kept since the previous chunk. */
void text_reply_chunk(struct text_reply *r, const struct reply_head *head,
                      const struct osp_event *event, struct buf *out);
/* Writes the answer of n choices, which have kept all their events. */
void text_reply_full(const struct text_reply *r, int n, const struct reply_head *head,
                     const struct osp_usage *usage, struct buf *out);

#endif
