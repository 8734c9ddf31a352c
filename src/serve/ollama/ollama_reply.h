/* The JSON of /api/chat and /api/generate, whole or as lines of a stream, written from the engine's
 * events. A call of a function is written when it is complete, as its arguments are an object. */
#ifndef SERVE_OLLAMA_OLLAMA_REPLY_H
#define SERVE_OLLAMA_OLLAMA_REPLY_H

#include "serve/reply/reply.h"

struct ollama_reply {
    bool is_chat;      /* else of /api/generate */
    const char *model; /* borrowed */
    bool hides_thinking;
    struct answer_budget *budget;          /* of a whole answer; borrowed; NULL: no limit */
    const struct osp_tokenizer *tokenizer; /* for logprobs; borrowed; NULL: no logprobs */
    /* of a whole answer, or of the line that is being written; calls and logprobs: JSON without
     * brackets */
    struct buf thinking, text, calls, logprobs;
    struct buf arguments;      /* of the open call */
    char *call_id, *call_name; /* of the open call; owned; NULL: none is open */
    int n_calls;
    enum osp_finish finish; /* valid after DONE */
};

void ollama_reply_init(struct ollama_reply *r, bool is_chat, const char *model);
void ollama_reply_release(struct ollama_reply *r); /* accepts a zeroed reply */

/* Keeps an event, as reply_append() does. */
CHECKED bool ollama_reply_append(struct ollama_reply *r, const struct osp_event *event);
/* Writes a line with everything that was kept since the last one, if there is anything. */
void ollama_reply_line(struct ollama_reply *r, struct buf *out);
/* Writes the last line of a stream, or the whole answer. */
void ollama_reply_end(struct ollama_reply *r, const struct osp_usage *usage, struct buf *out);
/* Writes the answer to a request that generates nothing. reason: "load" or "unload". */
void ollama_reply_nothing(const struct ollama_reply *r, const char *reason, struct buf *out);

#endif
