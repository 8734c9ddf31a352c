/* From the list of what is answered (route_list.h) to the handlers. */
#ifndef SERVE_ROUTES_H
#define SERVE_ROUTES_H

#include "serve/route_list.h"
#include "serve/server.h"

/* `name` is what stands for * (decoded), else "". */
#define ROUTE_DECLARE(method, path, handler, text)                                                 \
    void handler(struct server *s, struct http_exchange *x, const char *name);
ROUTE_LIST(ROUTE_DECLARE)
#undef ROUTE_DECLARE

/* Checks who calls, then finds the handler; answers with an error itself when there is none. */
void routes_dispatch(struct server *s, struct http_exchange *x);

#endif
