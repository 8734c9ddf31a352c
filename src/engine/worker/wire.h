/* The worker protocol: frames between an engine's process and its worker (worker.h). A frame has a
 * kind, a length, and that many bytes, over a stream socket that both processes inherit. Both ends
 * are the same program, so that structs of plain numbers are sent as they are in memory; the first
 * frame has version and sizes to check that. The reader checks every length: an invalid frame ends
 * the connection. */
#ifndef ENGINE_WORKER_WIRE_H
#define ENGINE_WORKER_WIRE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "engine/memory/memory_plan.h"
#include "engine/core/model_api.h"
#include "engine/sched/sched.h"

enum {
    WIRE_VERSION = 13,
    FRAME_BYTES_MAX = 16 << 20,     /* a prompt of 2^20 tokens with room to spare */
    WIRE_QUEUE_BYTES_MAX = 64 << 20 /* that wait to be sent */
};

/* X(member, sender and content) */
#define FRAME_LIST(X)                                                                              \
    X(FRAME_OPEN, "parent: struct wire_hello, the model's options")                                \
    X(FRAME_PROGRESS, "worker: struct wire_progress")                                              \
    X(FRAME_OPENED, "worker: struct wire_outcome, struct wire_model")                              \
    X(FRAME_ENGINE, "parent: the engine's options")                                                \
    X(FRAME_ENGINE_OPENED, "worker: struct wire_outcome")                                          \
    X(FRAME_SUBMIT, "parent: struct wire_submit, the request's options, its lists")                \
    X(FRAME_CANCEL, "parent: struct wire_cancel")                                                  \
    X(FRAME_LOGPROBS, "worker: struct wire_logprobs, the logprobs of these tokens of the prompt")  \
    X(FRAME_EVENT, "worker: struct wire_event, tokens, their logprobs, the failure's message")     \
    X(FRAME_PING, "parent: nothing")                                                               \
    X(FRAME_PULSE, "worker: struct wire_pulse")                                                    \
    X(FRAME_METRICS, "worker: struct osp_engine_metrics")                                          \
    X(FRAME_ENGINE_CLOSE, "parent: nothing")                                                       \
    X(FRAME_QUIT, "parent: nothing")

enum frame_kind {
#define FRAME_ENUM(member, text) member,
    FRAME_LIST(FRAME_ENUM)
#undef FRAME_ENUM
        N_FRAME_KINDS
};

struct wire_progress {
    int64_t done_bytes, total_bytes;
};

struct wire_outcome {
    enum osp_status status;
    char message[FAIL_MESSAGE_BYTES_MAX];
};

struct wire_model {
    double load_seconds;
    struct memory_plan plan;
    struct model_facts facts;
};

struct wire_submit {
    uint64_t id;
    /* lengths of the lists after the options, in this order */
    int32_t n_prompt, n_biases, n_allowed, n_prediction;
    int64_t timeout_ms; /* what is left of it, in place of the options'; 0: none */
};

struct wire_cancel {
    uint64_t id;
    bool is_answered; /* as in struct osp_request */
};

/* Of the prompt, before the event of the answer's first token or end; in pieces, by position. */
struct wire_logprobs {
    uint64_t id;
    int32_t first, n; /* tokens */
    int32_t n_top;
};
enum { WIRE_LOGPROBS_MAX = 4096 /* tokens of a piece: 0.7 MB at most */ };

/* What a step has changed in a request: struct outbox of request.h, with the new tokens. */
struct wire_event {
    uint64_t id;
    int32_t n_cached; /* of the prompt */
    int32_t n_before,
        n_new; /* tokens, prompt included; n_new of them follow, with log-probabilities */
    int32_t has_logprobs, n_top;
    int32_t is_accepted; /* the engine has the request: its grammars are compiled */
    enum seq_end end;    /* SEQ_END_NONE: it goes on */
    enum osp_status status;
    int32_t n_message_bytes; /* of SEQ_END_FAILED; they follow the tokens */
    int32_t n_ignored_bytes; /* osp_request_ignored(), once, when is_accepted; after the message */
    struct seq_times times;
    int32_t n_accepted_prediction, n_rejected_prediction;
};

struct wire_pulse {
    struct osp_engine_stats stats;
    struct osp_engine_health health;
};

/* All structs that are sent as they are: both processes must have the same layout. */
#define WIRE_STRUCT_LIST(X)                                                                        \
    X(wire_progress)                                                                               \
    X(wire_outcome)                                                                                \
    X(wire_model)                                                                                  \
    X(wire_submit)                                                                                 \
    X(wire_cancel)                                                                                 \
    X(osp_engine_metrics)                                                                          \
    X(wire_logprobs)                                                                               \
    X(wire_event)                                                                                  \
    X(wire_pulse)                                                                                  \
    X(osp_model_options)                                                                           \
    X(osp_engine_options)                                                                          \
    X(osp_request_options)

struct wire_sizes {
#define WIRE_SIZE(type) int32_t type;
    WIRE_STRUCT_LIST(WIRE_SIZE)
#undef WIRE_SIZE
};

struct wire_hello {
    int32_t version, log_level, log_format;
    struct wire_sizes sizes;
    struct model_text text;
};

/* The hello of this program, except its text, which the caller sets. */
struct wire_hello wire_hello_make(void);
CHECKED enum osp_status wire_hello_check(const struct wire_hello *h);

/* ---- a connection ---- */

/* Owned by one thread, except outgoing frames, which the caller may guard with a lock. */
struct wire {
    int fd;
    struct buf in, out;
    size_t n_taken;    /* bytes of `in` that were taken */
    size_t n_sent;     /* bytes of `out` that were sent */
    size_t frame_from; /* begin of the frame that is being written */
};

void wire_init(struct wire *w, int fd); /* owns fd from now on */
void wire_release(struct wire *w);      /* accepts a released one */

/* Begin, fill and end a frame. OSP_ENOMEM, from wire_end() only: the queue is full, and nothing of
 * the frame is sent. */
void wire_begin(struct wire *w, enum frame_kind kind);
void wire_put(struct wire *w, const void *data, size_t n_bytes);
CHECKED enum osp_status wire_end(struct wire *w);

bool wire_has_output(const struct wire *w);
/* Sends what the socket accepts. OSP_EIO: the other end is closed. */
CHECKED enum osp_status wire_flush(struct wire *w);

/* A received frame: valid until the next wire_next(). */
struct frame {
    enum frame_kind kind;
    const char *at; /* next byte to take */
    size_t n_left;
    bool is_bad; /* more was taken than the frame has */
};

/* Reads what has arrived. OSP_EIO: the other end is closed; OSP_EFORMAT: a length is invalid. */
CHECKED enum osp_status wire_fill(struct wire *w);
/* The next whole frame; false: there is none yet. *st is OSP_EFORMAT when a frame is invalid. */
bool wire_next(struct wire *w, struct frame *out, enum osp_status *st);

/* Takes the next n bytes; zeros, and is_bad, when the frame has fewer. */
void frame_take(struct frame *f, void *out, size_t n_bytes);
/* The next n bytes in place (not aligned); NULL, and is_bad, when the frame has fewer. */
const void *frame_view(struct frame *f, size_t n_bytes);
/* OSP_EFORMAT unless exactly all bytes were taken. */
CHECKED enum osp_status frame_end(const struct frame *f);

const char *frame_name(enum frame_kind kind);

#endif
