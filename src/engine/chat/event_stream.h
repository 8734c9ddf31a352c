/* The client's side of a request's text: tokens in, events out. Uses no threads; detokenizes,
 * parses Harmony, finds stop strings. Owned by the client's thread. */
#ifndef ENGINE_CHAT_EVENT_STREAM_H
#define ENGINE_CHAT_EVENT_STREAM_H

#include "engine/chat/completion_cache.h"
#include "engine/chat/stop_text.h"
#include "text/harmony/harmony_parser.h"

/* An event not yet returned; its texts are offsets into event_stream.text. */
struct pending_event {
    enum osp_event_kind kind;
    size_t text, n_bytes, name, call_id;
    size_t logprobs_end; /* of a text: log-probabilities up to here go with it */
    int call_index;
    bool is_preamble;
};

struct event_stream {
    const struct tokenizer *tokenizer; /* borrowed */
    struct harmony_parser *reader;     /* NULL: raw */
    struct harmony_sink sink;          /* of the parser, which borrows it */
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
    size_t n_answer_bytes, n_emitted_bytes; /* of the answer's text: read, and returned by `stop` */
    int n_tokens, tokens_min; /* before tokens_min tokens no stop string is searched */
    bool in_preamble;        /* the latest message is a preamble: commentary channel, to the user */
    bool is_cut;             /* the latest message has ended only with the stream */
    bool in_content;         /* inside the content of an answer's message */
    bool is_priming;         /* the prompt's end is being read: it makes no events */
    bool in_reasoning;       /* inside the content of an analysis message */
    bool one_call, has_call; /* the answer ends with its first call; that call has ended */
    bool is_broken;          /* memory for some text was missing: no event follows */
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
    const int32_t *prompt; /* (n_prompt): its last, open message decides where the answer begins */
    size_t n_prompt;
};

/* `s` must not move afterwards. */
CHECKED enum osp_status event_stream_init(struct event_stream *s,
                                          const struct event_stream_options *opt);
void event_stream_release(struct event_stream *s); /* accepts a zeroed one */

/* token_logprob: the token's, whose lists outlive the stream; `offset` is set here. NULL: events
 * have none. */
void event_stream_push(struct event_stream *s, int32_t token,
                       const struct osp_logprob *token_logprob);
/* A token that ended the answer and is not part of it; a raw answer has its log-probability. */
void event_stream_push_end(struct event_stream *s, const struct osp_logprob *token_logprob);
void event_stream_finish(struct event_stream *s); /* no token follows */
/* True once a stop string was found or the one call has ended: the answer is over. */
bool event_stream_stopped(const struct event_stream *s);
/* True once memory for the text was missing: what follows is lost. */
bool event_stream_broken(const struct event_stream *s);
/* The next event made of the tokens; its strings are valid until the next push. False: there is
 * none. */
bool event_stream_next(struct event_stream *s, struct osp_event *out);
/* Gives `out` the log-probabilities that no event has returned. */
void event_stream_rest(struct event_stream *s, struct osp_event *out);

#endif
