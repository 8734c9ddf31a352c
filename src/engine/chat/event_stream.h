/* The client's side of a request's text: tokens in, events out. Knows nothing of threads; decodes,
 * reads Harmony, looks for stop strings. Owned by the client's thread. */
#ifndef ENGINE_CHAT_EVENT_STREAM_H
#define ENGINE_CHAT_EVENT_STREAM_H

#include "engine/chat/completion_cache.h"
#include "engine/chat/stop_text.h"
#include "text/harmony/harmony_parser.h"

/* An event that waits to be heard; texts are offsets into event_stream.text. */
struct pending_event {
    enum osp_event_kind kind;
    size_t text, n_bytes, name, call_id;
    size_t logprobs_end; /* of a text: the scores up to here go with it */
    int call_index;
    bool is_preamble;
};

struct event_stream {
    const struct tokenizer *tokenizer; /* borrowed */
    struct harmony_parser *reader;     /* NULL: raw */
    struct harmony_sink sink;          /* of the reader, which borrows it */
    struct detok detok;                /* raw */
    char **functions;                  /* (n_functions) owned */
    size_t n_functions;
    struct stop_text stop;
    struct buf text;               /* of the pending events */
    struct pending_event *pending; /* (n_pending) */
    size_t n_pending, n_pending_max, n_emitted;
    struct osp_logprob
        *token_logprobs; /* (n_token_logprobs) of the answer's tokens, for events to come */
    size_t n_token_logprobs, n_token_logprobs_max, n_logprobs_emitted;
    size_t n_answer_bytes,
        n_emitted_bytes;      /* of the answer's text: known, and given out by `stop` */
    int n_tokens, tokens_min; /* read; before tokens_min no stop string is found */
    bool in_preamble;  /* the latest message's text is one: the commentary channel, to the user */
    bool is_cut;       /* the latest message has ended only with the stream */
    bool in_content;   /* inside the content of an answer's message */
    bool is_priming;   /* the prompt's own end is read: its content is no news */
    bool in_reasoning; /* inside the content of an analysis message */
    bool one_call, has_call; /* the answer ends with its first call; that has ended */
    bool is_broken;          /* there was no memory for some text: no event follows */
    bool no_control_text;    /* raw: control tokens have none */
    int n_calls, n_reasoning_tokens;
    struct text_hashes text_hashes; /* so far */
};

struct event_stream_options {
    const struct tokenizer *tokenizer; /* outlives the stream */
    bool raw, no_control_text;         /* raw: control tokens have none */
    bool stop_in_text;                 /* a stop string that is found stays in the text */
    const char *const *functions;      /* offered, (n_functions) copied */
    size_t n_functions;
    bool one_call;           /* the answer ends with its first call */
    const char *const *stop; /* (n_stop) copied */
    int n_stop, tokens_min;
    const int32_t *prompt; /* (n_prompt): its last, open message tells where the answer begins */
    size_t n_prompt;
};

/* `s` must not move afterwards. */
CHECKED enum osp_status event_stream_init(struct event_stream *s,
                                          const struct event_stream_options *opt);
void event_stream_release(struct event_stream *s); /* accepts a zeroed one */

/* score: the token's, whose lists outlive the stream; `offset` is set here. NULL: events tell
 * none. */
void event_stream_push(struct event_stream *s, int32_t token,
                       const struct osp_logprob *token_logprob);
/* A token that is not part of the answer, but ended it: with a raw one's score. */
void event_stream_push_end(struct event_stream *s, const struct osp_logprob *token_logprob);
void event_stream_finish(struct event_stream *s); /* no token follows */
/* True once a stop string was found or the one call has ended: the answer is over. */
bool event_stream_stopped(const struct event_stream *s);
/* True once there was no memory for the text: what would follow is lost. */
bool event_stream_broken(const struct event_stream *s);
/* The next event that tokens have brought; its strings are valid until the next push. False:
 * none. */
bool event_stream_next(struct event_stream *s, struct osp_event *out);
/* Gives `out` the scores that no event has told of. */
void event_stream_rest(struct event_stream *s, struct osp_event *out);

#endif
