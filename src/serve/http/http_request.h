/* One HTTP request for the handlers, and the limits under which it was read. */
#ifndef SERVE_HTTP_HTTP_REQUEST_H
#define SERVE_HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum {
    HTTP_TARGET_BYTES_MAX = 8 << 10,
    HTTP_HEAD_BYTES_MAX = 16 << 10, /* request line and header fields together */
    HTTP_FIELDS_MAX = 100,
    HTTP_TRAILER_BYTES_MAX = 4 << 10,
    HTTP_CHUNK_EXTENSION_BYTES_MAX = 256, /* of one chunk */
    HTTP_REQUEST_ID_BYTES_MAX = 128,
    /* of each body that the budget of all bodies does not count, so that a chat of usual size is
     * accepted even while large bodies exhaust the budget */
    HTTP_BODY_FREE_BYTES = 64 << 10
};

/* The methods that some route has. */
#define HTTP_METHODS "GET, HEAD, POST, DELETE, OPTIONS"

/* The header fields that are stored. X(member, name, may appear only once) */
#define HTTP_FIELD_LIST(X)                                                                         \
    X(HTTP_HOST, "host", true)                                                                     \
    X(HTTP_CONTENT_LENGTH, "content-length", true)                                                 \
    X(HTTP_TRANSFER_ENCODING, "transfer-encoding", true)                                           \
    X(HTTP_CONTENT_TYPE, "content-type", true)                                                     \
    X(HTTP_CONTENT_ENCODING, "content-encoding", true)                                             \
    X(HTTP_AUTHORIZATION, "authorization", true)                                                   \
    X(HTTP_API_KEY, "x-api-key", true)                                                             \
    X(HTTP_ANTHROPIC_VERSION, "anthropic-version", false)                                          \
    X(HTTP_ORIGIN, "origin", true)                                                                 \
    X(HTTP_SEC_FETCH_SITE, "sec-fetch-site", true)                                                 \
    X(HTTP_ACCEPT, "accept", false)                                                                \
    X(HTTP_CORS_HEADERS, "access-control-request-headers", false)                                  \
    X(HTTP_EXPECT, "expect", false)                                                                \
    X(HTTP_REQUEST_ID, "x-request-id", false)

enum http_field {
#define HTTP_FIELD_ENUM(member, name, once) member,
    HTTP_FIELD_LIST(HTTP_FIELD_ENUM)
#undef HTTP_FIELD_ENUM
        HTTP_FIELD_COUNT,
    HTTP_FIELD_OTHER = HTTP_FIELD_COUNT
};

struct http_request {
    const char *method; /* static text, "GET" */
    char *target;       /* as received */
    char *path;         /* of the target, without the query */
    char *authority;    /* of an absolute target; NULL: use HTTP_HOST */
    /* NULL: absent; the first one if a field appears several times */
    char *fields[HTTP_FIELD_COUNT];
    char id[HTTP_REQUEST_ID_BYTES_MAX +
            1]; /* the client's x-request-id if it is valid, or a new id */
    bool http_1_0, keep_alive;
    int key_index; /* index of the request's API key; -1: no valid key */
    struct buf body;
};

bool http_request_is_json(const struct http_request *r); /* according to the Content-Type */
/* Whether a browser sent it for a web page. */
bool http_request_is_of_page(const struct http_request *r);
/* The token of "Authorization: Bearer", as OpenAI's clients send it; NULL: none. */
const char *http_request_bearer(const struct http_request *r);
/* The bearer token, else x-api-key, as Anthropic's clients send it; NULL: none. */
const char *http_request_token(const struct http_request *r);
void http_request_release(struct http_request *r); /* accepts a zeroed request */

/* "localhost:8080" -> "localhost"; "[::1]:80" -> "::1". False: not a valid host or host:port. */
bool http_host_name(const char *host, char *out, size_t out_bytes);

#endif
