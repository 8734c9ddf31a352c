/* Who may call: against DNS rebinding (a web page whose name comes to point at this machine) and
 * against other sites' pages. */
#ifndef SERVE_ORIGIN_H
#define SERVE_ORIGIN_H

#include <stdbool.h>

#include "serve/http_request.h"

struct origin_rule {
    const char *bind_host;       /* --host */
    const char *allowed_origins; /* NULL, "*" or a list with commas */
    bool is_page;                /* the chat itself, to which pages of any site may lead */
};

/* NULL = allowed; else why not. A loopback address answers only for hosts that mean this machine:
 * localhost, an IP address or the name given by --host. A page's Origin must be such a host, the
 * request's own host, or in the list. */
const char *origin_refusal(const struct origin_rule *rule, const struct http_request *r);

#endif
