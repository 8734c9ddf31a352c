/* Status codes of osprey: one row per code, used for the enum, its name, its HTTP status and its
 * text. Included by osprey.h and by every layer of the implementation; depends on nothing. */
#ifndef OSPREY_STATUS_H
#define OSPREY_STATUS_H

/* X(code, HTTP status, OpenAI error type, default text) */
#define OSP_STATUS_LIST(X)                                                                         \
    X(OSP_OK, 200, "none", "ok")                                                                   \
    X(OSP_EINVAL, 400, "invalid_request_error", "invalid argument")                                \
    X(OSP_ELIMIT, 400, "invalid_request_error", "a limit is exceeded")                             \
    X(OSP_EFORMAT, 422, "invalid_request_error", "malformed data")                                 \
    X(OSP_ENOTFOUND, 404, "not_found_error", "not found")                                          \
    X(OSP_EBUSY, 429, "rate_limit_error", "too many requests are waiting")                         \
    X(OSP_ECANCELED, 499, "canceled", "canceled")                                                  \
    X(OSP_ETIMEOUT, 504, "timeout_error", "timed out")                                             \
    X(OSP_EIO, 500, "server_error", "input/output error")                                          \
    X(OSP_ENOMEM, 503, "server_error", "out of memory")                                            \
    X(OSP_EUNSUPPORTED, 501, "server_error", "not supported")                                      \
    X(OSP_EDEVICE, 503, "server_error", "device failure")                                          \
    X(OSP_EUNAVAILABLE, 503, "server_error", "shutting down or not ready")                         \
    X(OSP_EINTERNAL, 500, "server_error", "internal error")

enum osp_status {
#define OSP_STATUS_ENUM(code, http, type, text) code,
    OSP_STATUS_LIST(OSP_STATUS_ENUM)
#undef OSP_STATUS_ENUM
};

#endif
