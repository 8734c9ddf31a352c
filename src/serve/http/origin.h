/* Which hosts and web pages may call: against DNS rebinding (a web page whose name comes to
 * point at this machine) and against pages of other sites. */
#ifndef SERVE_HTTP_ORIGIN_H
#define SERVE_HTTP_ORIGIN_H

#include <stdbool.h>

#include "serve/http/http_request.h"

struct origin_rule {
    const char *bind_host;       /* --host */
    const char *allowed_origins; /* NULL, "*" or a list with commas */
    bool checks_host;            /* nothing but the network keeps strangers out: the address is a
                                    loopback address, or there is no API key */
    bool is_page;                /* the chat itself, to which pages of any site may lead */
};

/* NULL = allowed; else why not.
 *
 * Host, where it is checked, must be a name that no stranger can register: localhost and
 * *.localhost, an IP address, a name of one label, *.local, *.internal; or the name given by
 * --host, or a host in the list. Origin must be of a loopback host (localhost, *.localhost,
 * 127.0.0.0/8, ::1), or the same host and port as Host, or in the list. */
const char *origin_refusal(const struct origin_rule *rule, const struct http_request *r);

#endif
