/* The JSON of a text completion's choice, whole or in chunks, written by template from the
 * engine's events: log-probabilities are four lists side by side, as OpenAI had them before
 * chats. */
#ifndef SERVE_REPLY_TEXT_REPLY_H
#define SERVE_REPLY_TEXT_REPLY_H

#include "serve/reply/reply.h"

/* Each the inside of a JSON list. */
struct text_logprobs {
    struct buf tokens, logprobs, tops, offsets;
};

struct text_reply {
    int index;
    bool streams;
    /* What is told besides, set after text_reply_init(); borrowed. */
    const struct osp_tokenizer *tokenizer; /* of log-probabilities; NULL: they are not */
    bool return_ids;
    const int32_t *prompt; /* (n_prompt) with return_ids */
    size_t n_prompt;
    struct reply_extras extras;
    const struct osp_request_options *options; /* of the request; NULL: the usual ones */
    const struct osp_request *request;
    const struct osp_tokenizer *tokens; /* with n_prompt_logprobs */
    bool has_prompt_logprob;            /* they come before the answer's own, with echo */
    int n_prompt_logprobs; /* prompt_logprobs: so many of the likeliest; -1: it was not given */

    struct answer_budget
        *budget; /* of a whole answer, set after text_reply_init(); borrowed; NULL: no limit */
    bool began;  /* the first chunk is out */
    struct buf
        text; /* of a whole answer, and of one with scores; the prompt's is in front with echo */
    size_t n_echo_bytes; /* of the prompt's text */
    size_t n_sent_bytes; /* of a stream's text */
    struct text_logprobs logprobs_json;
    size_t n_counted_bytes, n_counted_chars; /* of the text: how far its characters are counted */
    bool prompt_logprobs_done;               /* has_prompt_logprob: they are in `scores`, or were */
    struct buf ids;
    enum osp_finish finish; /* of a whole answer, once it is done */
    struct stop_reason stop;
};

void text_reply_init(struct text_reply *r, int index);
void text_reply_release(struct text_reply *r); /* accepts a zeroed one */

/* The prompt's text comes first in the answer's. */
void text_reply_echo(struct text_reply *r, const char *text, size_t n_bytes);
/* Keeps an event, as reply_append() does. */
CHECKED bool text_reply_append(struct text_reply *r, const struct osp_event *event);
/* A chunk of what was kept since the one before. */
void text_reply_chunk(struct text_reply *r, const struct reply_head *head,
                      const struct osp_event *event, struct buf *out);
/* Of n choices that have kept all their events. */
void text_reply_full(const struct text_reply *r, int n, const struct reply_head *head,
                     const struct osp_usage *usage, struct buf *out);

#endif
