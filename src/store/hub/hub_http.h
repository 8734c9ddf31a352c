/* HTTP GET over libcurl, which is loaded when it is needed. The only file of store that sees its
 * header is hub_http.c. Redirects are reported, not followed: the caller decides where its
 * credentials go. */
#ifndef STORE_HUB_HUB_HTTP_H
#define STORE_HUB_HUB_HTTP_H

#include "store/hub/hub_headers.h"

/* A connection that is kept between requests; of one thread at a time. */
struct hub_http;

/* Loads libcurl on the first call. OSP_EUNAVAILABLE names the package to install. */
CHECKED enum osp_status hub_http_open(struct hub_http **out);
void hub_http_close(struct hub_http *http); /* accepts NULL */

struct hub_response {
    long status; /* 0: none came */
    struct hub_headers headers;
    char redirect[HUB_URL_BYTES_MAX]; /* the absolute URL of a 3xx answer; or "" */
};

/* Bytes of the body of a 200 or 206 answer. False ends the request. */
typedef bool hub_body_fn(void *ctx, const struct hub_response *response, const char *bytes,
                         size_t n_bytes);

struct hub_request {
    const char *url;
    const char *token;   /* NULL: none is sent */
    int64_t first, last; /* the range of bytes; first -1: the whole */
    int stall_s;         /* the request fails after so many seconds without progress */
    bool (*is_stopped)(void *ctx);
    hub_body_fn *on_body; /* both get ctx */
    void *ctx;
};

/* Fills *out also after a failure. OSP_OK: the answer has ended, or on_body() ended it; any status.
 * OSP_EIO: the network, so trying again may help. OSP_EUNAVAILABLE: it does not help.
 * OSP_ECANCELED: is_stopped(). */
CHECKED enum osp_status hub_http_get(struct hub_http *http, const struct hub_request *request,
                                     struct hub_response *out);

/* Whether a URL is http or https, without credentials, and how it relates to another. */
struct hub_origin {
    char text[300]; /* "https://huggingface.co:443" */
    char host[256]; /* for messages */
    bool is_https;
};
CHECKED enum osp_status hub_origin_read(struct hub_origin *out, const char *url);

#endif
