/* A request, shared by the client and the engine's thread, freed with the last of their two
 * references. The engine's thread owns `seq` from submission until it has ended the request; the
 * client's thread owns `stream` and what follows; the outbox is between them. */
#ifndef ENGINE_CORE_REQUEST_H
#define ENGINE_CORE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/grammar/answer_grammar.h"
#include "engine/chat/event_stream.h"
#include "engine/core/drafts.h"
#include "engine/core/metrics.h"
#include "engine/core/token_logprobs.h"

/* What the engine has published so far. The tokens are in seq.tokens, which never moves and holds
 * all of them, so that a slow reader never delays a step. */
struct outbox {
    int n_tokens; /* prompt and answer */
    int n_cached; /* of the prompt */
    /* The engine has the request. Before that its grammars are compiled; a request that ends before
     * it is accepted is refused. */
    bool is_accepted;
    bool ended;
    enum seq_end end;
    enum osp_status status; /* SEQ_END_FAILED and SEQ_END_TIMEOUT */
    struct seq_times times;
    int n_accepted_prediction, n_rejected_prediction; /* see struct osp_usage */
};

struct osp_request {
    atomic_int n_refs;
    atomic_bool cancel;
    atomic_bool is_answered; /* set before `cancel`: a stop string has ended the answer */
    struct seq seq;
    struct request_marks marks; /* owned by the engine's thread */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct outbox outbox; /* under the lock */
    char *message;        /* set once, before the outbox ends with a failure */
    char *ignored; /* set once, before it is accepted: osp_request_ignored(); NULL: nothing */
    char *client, *user, *salt; /* memory of seq.client_key, .user_key and .salt */
    /* NULL: no grammar. Owned by the engine's thread, as is its mask and what follows; by the mask
     * thread while mask_is_pending. */
    struct answer_grammar *grammar;
    enum osp_status grammar_status; /* why the next token's mask cannot be made */
    char *grammar_message;          /* the same as a message */
    bool mask_is_pending;           /* engine's thread: the mask thread makes it (mask_thread.h) */
    struct osp_request *next_mask;  /* in a list of that thread */
    struct request_drafts drafts;   /* owned by the engine's thread */
    struct token_logprobs
        token_logprobs; /* of the answer's tokens, written before those are published */
    struct token_logprobs
        prompt_token_logprobs; /* (n_prompt) likewise, before the first of those; [0] is not set */

    /* Called by osp_cancel() once `cancel` is set, from any thread; NULL: the engine checks
     * `cancel` between steps. */
    void (*on_cancel)(void *ctx);
    void *on_cancel_ctx;

    struct event_stream stream;
    struct outbox seen;                        /* the client's copy */
    int n_read;                                /* tokens passed to the stream, prompt included */
    int n_emitted;                             /* of these, tokens that were part of an event */
    struct completion_cache *completion_cache; /* keeps the answer; NULL: it is not kept */
    uint64_t prompt_key;
    bool is_finished; /* the stream knows that no token follows */
    bool is_over;     /* DONE or ERROR was returned */
};

/* Makes a request with one reference, the client's. Fails as event_stream_init and seq_init do. */
CHECKED enum osp_status request_new(struct osp_request **out, const struct sched_limits *limits,
                                    const struct event_stream_options *stream, int n_tokens_max);
void request_retain(struct osp_request *r);
void request_drop(struct osp_request *r);

/* Tokens of the prediction that can matter: the answer has no more. */
int request_n_prediction(const struct osp_request *r, const struct osp_request_options *opt);

/* Engine's thread: publishes to the client what a step has changed in r->seq. */
void request_publish(struct osp_request *r);
/* Engine's thread: r->seq has ended as SEQ_END_FAILED or SEQ_END_TIMEOUT for this reason. */
void request_publish_failure(struct osp_request *r, enum osp_status status, const char *message);
/* That reason, once it is published. */
const char *request_message(const struct osp_request *r);

/* The engine has r, whose grammars are compiled. From any thread. */
void request_accept(struct osp_request *r);
bool request_is_accepted(struct osp_request *r);
/* Waits until it is accepted or has ended, as request_wait() does: OSP_OK, OSP_ETIMEOUT, or why
 * it was refused. */
CHECKED enum osp_status request_wait_accepted(struct osp_request *r, uint64_t deadline_ns);

/* Client's thread: updates r->seen once it differs, waiting until `deadline_ns` of clock_ns() (0:
 * not at all, UINT64_MAX: without limit). False: nothing new by then. */
bool request_wait(struct osp_request *r, uint64_t deadline_ns);

#endif
