/* The header lines of the hub's responses that a download needs. Everything here comes from a
 * server and may be wrong: values of another form are treated as absent, and sizes are bounded. */
#ifndef STORE_HUB_HUB_HEADERS_H
#define STORE_HUB_HUB_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/hub/hub_digest.h"
#include "store/hub/hub_name.h"

enum {
    HUB_URL_BYTES_MAX = 8192, /* signed URLs have about 1,500 bytes */
    HUB_WAIT_S_MAX = 86400
};

struct hub_headers {
    int64_t content_length, linked_size;          /* -1: absent */
    bool has_range, bad_range;                    /* Content-Range; bad: it cannot be read */
    int64_t range_first, range_last, range_total; /* total -1: "*" */
    bool is_encoded;                              /* Content-Encoding other than identity */
    int64_t retry_after_s;                        /* -1: absent; at most HUB_WAIT_S_MAX */
    int64_t rate_limit_s;                         /* t of RateLimit, as the hub sends it; or -1 */
    char linked_etag[HUB_ETAG_BYTES_MAX + 1];     /* X-Linked-Etag without quotes; or "" */
    char commit[HUB_COMMIT_BYTES + 1];            /* X-Repo-Commit; or "" */
    char error_code[64], error_message[256];      /* X-Error-Code, X-Error-Message; or "" */
    char next[HUB_URL_BYTES_MAX];                 /* Link with rel="next"; or "" */
};

void hub_headers_init(struct hub_headers *h);
/* One line, with or without its end. `now_s`: seconds since 1970, for dates. */
void hub_headers_add(struct hub_headers *h, const char *line, size_t n_bytes, int64_t now_s);

#endif
