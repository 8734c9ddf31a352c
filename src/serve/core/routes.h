/* From the list of what is answered (route_list.h) to the handlers. */
#ifndef SERVE_CORE_ROUTES_H
#define SERVE_CORE_ROUTES_H

#include "serve/core/route_list.h"
#include "serve/core/server.h"

/* `name` is what stands for * (decoded), else "". */
#define ROUTE_DECLARE(method, path, handler, text)                                                 \
    void handler(struct server *s, struct http_exchange *x, const char *name);
ROUTE_LIST(ROUTE_DECLARE)
#undef ROUTE_DECLARE

/* From the request's head: checks who calls and whether a handler is there. False: it has
 * answered. */
bool routes_admit(struct server *s, struct http_exchange *x);
/* Calls the handler of a request that routes_admit() has admitted. */
void routes_dispatch(struct server *s, struct http_exchange *x);

#endif
