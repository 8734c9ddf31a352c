/* The JSON of llama-server's /completion, whole or as server-sent events, written from the engine's
 * events. */
#ifndef SERVE_LLAMA_LLAMA_REPLY_H
#define SERVE_LLAMA_LLAMA_REPLY_H

#include "serve/reply/reply.h"

struct llama_reply {
    int index;
    const char *model; /* borrowed, as all pointers but the buffers */
    const struct osp_request_options *options;
    bool streams, return_tokens;
    struct reply_extras extras;
    const struct osp_tokenizer *tokenizer;
    struct answer_budget *budget; /* of a whole answer; NULL: no limit */
    const int32_t *prompt;        /* (n_prompt) */
    size_t n_prompt;
    /* of a whole answer, or of the event that is being written; ids, probabilities: JSON without
     * brackets */
    struct buf text, ids, probabilities;
    bool began;              /* the first event was written */
    bool has_new_line;       /* the answer so far has one */
    enum osp_finish finish;  /* valid after DONE, as is: */
    const char *stop_string; /* that ended the answer; borrowed from the request; NULL: none */
};

void llama_reply_init(struct llama_reply *r, int index, const char *model);
void llama_reply_release(struct llama_reply *r); /* accepts a zeroed reply */

/* Keeps an event, as reply_append() does. */
CHECKED bool llama_reply_append(struct llama_reply *r, const struct osp_event *event);
/* Writes an event of the stream with everything that was kept since the last one. usage: of this
 * choice so far. */
void llama_reply_event(struct llama_reply *r, const struct osp_event *event,
                       const struct osp_usage *usage, struct buf *out);
/* Writes the object of a whole answer. */
void llama_reply_whole(const struct llama_reply *r, const struct osp_usage *usage, struct buf *out);

/* Writes the sampling parameters of a request or, from the defaults, of the server, as members of
 * an object. streams: whether it asks for a stream. */
void llama_put_settings(struct buf *out, const struct osp_request_options *options, bool streams);

#endif
