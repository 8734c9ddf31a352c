/* Routing: from the list in route_list.h to the handlers. */
#ifndef SERVE_CORE_ROUTES_H
#define SERVE_CORE_ROUTES_H

#include "serve/core/route_list.h"
#include "serve/core/server.h"

/* name: the decoded text that stands for * in the path; "" if the path has no *. */
#define ROUTE_DECLARE(method, path, handler, text)                                                 \
    void handler(struct server *s, struct http_exchange *x, const char *name);
ROUTE_LIST(ROUTE_DECLARE)
#undef ROUTE_DECLARE

/* Called when the request head is complete. Checks origin, API key and route. False: the request
 * was refused and answered. */
bool routes_admit(struct server *s, struct http_exchange *x);
/* Calls the handler of a request that routes_admit() has admitted. */
void routes_dispatch(struct server *s, struct http_exchange *x);

#endif
