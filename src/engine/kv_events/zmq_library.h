/* libzmq, loaded when KV events are published: nothing else needs it, so osprey runs without it. */
#ifndef ENGINE_KV_EVENTS_ZMQ_LIBRARY_H
#define ENGINE_KV_EVENTS_ZMQ_LIBRARY_H

#include <zmq.h>

#include "base/status.h"

/* X(name, result, parameters): the functions that are used, as zmq.h declares them. */
#define ZMQ_FUNCTION_LIST(X)                                                                       \
    X(zmq_ctx_new, void *, (void))                                                                 \
    X(zmq_ctx_term, int, (void *context))                                                          \
    X(zmq_errno, int, (void))                                                                      \
    X(zmq_strerror, const char *, (int number))                                                    \
    X(zmq_socket, void *, (void *context, int type))                                               \
    X(zmq_close, int, (void *socket))                                                              \
    X(zmq_setsockopt, int, (void *socket, int option, const void *value, size_t n_bytes))          \
    X(zmq_bind, int, (void *socket, const char *endpoint))                                         \
    X(zmq_connect, int, (void *socket, const char *endpoint))                                      \
    X(zmq_send, int, (void *socket, const void *data, size_t n_bytes, int flags))                  \
    X(zmq_recv, int, (void *socket, void *data, size_t n_bytes, int flags))                        \
    X(zmq_getsockopt, int, (void *socket, int option, void *value, size_t *n_bytes))               \
    X(zmq_poll, int, (zmq_pollitem_t * items, int n, long timeout_ms))                             \
    X(zmq_msg_init, int, (zmq_msg_t * m))                                                          \
    X(zmq_msg_init_size, int, (zmq_msg_t * m, size_t n_bytes))                                     \
    X(zmq_msg_data, void *, (zmq_msg_t * m))                                                       \
    X(zmq_msg_move, int, (zmq_msg_t * to, zmq_msg_t * from))                                       \
    X(zmq_msg_copy, int, (zmq_msg_t * to, zmq_msg_t * from))                                       \
    X(zmq_msg_send, int, (zmq_msg_t * m, void *socket, int flags))                                 \
    X(zmq_msg_close, int, (zmq_msg_t * m))

struct zmq_library {
#define ZMQ_MEMBER(name, result, parameters) result(*name) parameters;
    ZMQ_FUNCTION_LIST(ZMQ_MEMBER)
#undef ZMQ_MEMBER
};

/* The library, loaded by the first call in the process. Any thread may call it. OSP_EUNAVAILABLE:
 * it is not installed, or lacks a function. */
CHECKED enum osp_status zmq_library_find(const struct zmq_library **out);

#endif
