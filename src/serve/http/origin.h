/* Checks the Host and Origin fields, against DNS rebinding (a web page whose name resolves to
 * this machine) and against pages of other sites. */
#ifndef SERVE_HTTP_ORIGIN_H
#define SERVE_HTTP_ORIGIN_H

#include <stdbool.h>

#include "base/status.h"
#include "serve/http/http_request.h"

struct origin_rule {
    const char *bind_host;       /* --host */
    const char *allowed_origins; /* NULL, "*" or a comma-separated list */
    /* check the Host: the address is a loopback address, or there is no API key, so only the
     * network protects the server */
    bool checks_host;
    bool is_page; /* the request is for the chat page, to which any site may link */
};

enum { ORIGIN_WHY_BYTES = 1024 };

/* OSP_EINVAL: an item of the list has a path or no host. `list` may be NULL. */
CHECKED enum osp_status origins_check(const char *list);

/* False: refused, with the error message in why (ORIGIN_WHY_BYTES).
 *
 * Host, if it is checked, must be a name that an attacker cannot register in the public DNS:
 * localhost and *.localhost, an IP address, a name without dots, *.local, *.internal; or the name
 * of --host, or a host in the list. Origin must have a loopback host (localhost, *.localhost,
 * 127.0.0.0/8, ::1), or the host and port of the Host field, or be in the list. */
bool origin_admits(const struct origin_rule *rule, const struct http_request *r, char *why,
                   size_t why_bytes);

#endif
