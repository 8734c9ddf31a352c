/* Messages between ranks: a kind, a length and that many bytes over a stream socket. All ranks are
 * the same program on the same kind of machine, so structs of plain numbers are sent as they are in
 * memory. Every call is bounded in time. */
#ifndef DIST_RANK_MESSAGE_H
#define DIST_RANK_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { RANK_MESSAGE_BYTES_MAX = 1 << 30 }; /* a batch of the largest step with its masks */

/* X(kind, sender and content) */
#define RANK_MESSAGE_LIST(X)                                                                       \
    X(RANK_JOIN, "a rank, first on every connection: struct rank_join")                            \
    X(RANK_HELLO, "a rank: struct rank_hello")                                                     \
    X(RANK_WELCOME, "rank 0: struct rank_welcome")                                                 \
    X(RANK_REFUSED, "rank 0: the reason as text")                                                  \
    X(RANK_EXCHANGE_READY, "a rank: nothing")                                                      \
    X(RANK_MODEL, "rank 0: what the model is opened with")                                         \
    X(RANK_READY, "a rank: nothing; its model is open")                                            \
    X(RANK_FAILED, "a rank: the reason as text")                                                   \
    X(RANK_HOST_PAGES, "rank 0: number of host pages by group")                                    \
    X(RANK_MOVE, "rank 0: struct page_move")                                                       \
    X(RANK_STEP, "rank 0: a batch")                                                                \
    X(RANK_BEAT, "both, on the pulse's connection: struct rank_beat")                              \
    X(RANK_QUIT, "rank 0: nothing")

enum rank_message_kind {
#define RANK_MESSAGE_ENUM(kind, text) kind,
    RANK_MESSAGE_LIST(RANK_MESSAGE_ENUM)
#undef RANK_MESSAGE_ENUM
        N_RANK_MESSAGES
};

/* A received message; `data` belongs to the receiver and is reused by the next one. */
struct rank_message {
    enum rank_message_kind kind;
    void *data; /* n_bytes, aligned for any struct */
    size_t n_bytes, capacity_bytes;
};

/* OSP_EIO: the other end is closed. OSP_ETIMEOUT: not the whole message within timeout_ms, which
 * is negative for no limit. OSP_EFORMAT: not a message, or one of more than n_bytes_max.
 * *is_stopped, unless NULL, ends a wait early with OSP_ETIMEOUT. */
CHECKED enum osp_status rank_send(int fd, enum rank_message_kind kind, const void *data,
                                  size_t n_bytes, int timeout_ms, const atomic_bool *is_stopped);
CHECKED enum osp_status rank_receive(int fd, struct rank_message *m, size_t n_bytes_max,
                                     int timeout_ms, const atomic_bool *is_stopped);
/* The same, and OSP_EFORMAT unless it is of this kind and size. RANK_REFUSED and RANK_FAILED,
 * except in place of RANK_JOIN, are OSP_EUNAVAILABLE with their text. */
CHECKED enum osp_status rank_expect(int fd, enum rank_message_kind kind, void *out, size_t n_bytes,
                                    int timeout_ms);
/* Whether rank_receive() of a message of n_bytes would not wait: all of it has arrived, or the
 * other end is closed. */
bool rank_message_has_come(int fd, size_t n_bytes);
void rank_message_release(struct rank_message *m);

#endif
